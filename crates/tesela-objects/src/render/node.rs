//! What happens to each node that exists: its labels, what it offers afterwards, and whom the change hits when
//! a given program carries it out.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};
use tesela_model::demand::PodRef;
use tesela_model::fleet::{MigStrategy, Mode};
use tesela_model::plan::{Assignment, Change, ChangeKind, Plan, PlannedNode, PlannedPool};
use tesela_model::product::ProductTable;

use super::config::{self, Offer};
use super::error::RenderError;
use super::existing::{Existing, plugin_entry};
use super::today;
use super::{BlastRadius, Target, WorkloadPods};

/// What happens to one node.
#[derive(Clone, Debug)]
pub(super) struct NodePlan<'a> {
    pub(super) name: &'a str,
    pub(super) node: &'a PlannedNode,
    /// Its pools, by name.
    pub(super) pools: Vec<&'a PlannedPool>,
    /// Its GPUs' changes; empty = it stays as it is.
    pub(super) changes: Vec<&'a Change>,
    /// What it offers afterwards.
    pub(super) offer: Offer,
    /// Whether `offer` is known.
    pub(super) known: bool,
    /// The label `nvidia.com/mig.config` it gets, and the entry behind it; `None` = stays.
    pub(super) mig: Option<(String, String)>,
    /// The label `nvidia.com/device-plugin.config` it gets, and the entry behind it; `None` = stays.
    pub(super) plugin: Option<(String, String)>,
    /// What the executor does beside the pods that the plan names.
    pub(super) reach: Reach,
    /// Pods that stay by the plan, and that the executor hits or may hit.
    pub(super) also: Vec<&'a Assignment>,
    /// Units that may be held while it changes, by resource before sharing; `None` = the plan does not say.
    pub(super) may_hold: Option<BTreeMap<String, u64>>,
    /// What the reader must know.
    pub(super) notes: Vec<String>,
}

impl NodePlan<'_> {
    /// The one value of `tesela.dev/pool`, where the node has one pool only.
    pub(super) fn pool_label(&self) -> Option<&str> {
        match self.pools.as_slice() {
            [only] => Some(&only.name),
            _ => None,
        }
    }

    /// Whom the change hits, where these pods are evicted by name.
    pub(super) fn blast(&self, pods: Vec<PodRef>) -> BlastRadius {
        let mut workloads: BTreeMap<(&str, &str, &str), u64> = BTreeMap::new();
        for a in &self.also {
            *workloads.entry((&a.namespace, &a.workload, &a.kind)).or_insert(0) += a.staying;
        }
        let workloads: Vec<_> = workloads
            .into_iter()
            .map(|((namespace, workload, kind), pods)| WorkloadPods {
                namespace: namespace.to_owned(),
                workload: workload.to_owned(),
                kind: kind.to_owned(),
                pods,
            })
            .collect();
        let named = u64::try_from(pods.len()).unwrap_or(u64::MAX);
        BlastRadius {
            pods_total: workloads.iter().map(|w| w.pods).fold(named, u64::saturating_add),
            pods,
            workloads,
            plugin_stops: self.reach.plugin_stops,
            cleared_gpus: self.reach.cleared_gpus,
            reset: self.reach.reset,
        }
    }
}

/// What an executor does to a node beside evicting pods.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Reach {
    pub(super) plugin_stops: bool,
    pub(super) cleared_gpus: usize,
    pub(super) reset: bool,
}

/// All nodes that exist, in the order of the plan.
pub(super) fn nodes<'a>(
    plan: &'a Plan,
    target: Target,
    existing: &Existing,
) -> Result<Vec<NodePlan<'a>>, RenderError> {
    let mut changes: BTreeMap<&str, Vec<&Change>> = BTreeMap::new();
    for change in &plan.changes {
        changes.entry(&change.node).or_default().push(change);
    }
    let mut out = Vec::new();
    for node in &plan.nodes {
        let Some(name) = node.name.as_deref() else { continue };
        out.push(node_plan(plan, target, existing, node, name, changes.remove(name).unwrap_or_default())?);
    }
    if let Some(node) = changes.keys().next() {
        let what = format!("`changes` names node {node}, `nodes` does not");
        return Err(RenderError::Contradiction { what });
    }
    Ok(out)
}

fn node_plan<'a>(
    plan: &'a Plan,
    target: Target,
    existing: &Existing,
    node: &'a PlannedNode,
    name: &'a str,
    changes: Vec<&'a Change>,
) -> Result<NodePlan<'a>, RenderError> {
    let here: Vec<_> = plan.assignments.iter().filter(|a| a.node.as_deref() == Some(name)).collect();
    let mut pools: Vec<_> = plan.pools.iter().filter(|p| p.nodes.iter().any(|n| n == name)).collect();
    pools.sort_by(|a, b| a.name.cmp(&b.name));
    let mut notes = Vec::new();
    if pools.len() > 1 {
        let names: Vec<_> = pools.iter().map(|p| p.name.as_str()).collect();
        notes.push(format!(
            "It belongs to {} pools ({}), and the label tesela.dev/pool holds one value, so it gets none.",
            pools.len(),
            names.join(", ")
        ));
    }
    if changes.is_empty() {
        // What stays is not checked against the config formats: nobody writes a config for it.
        let offer = config::offer(node, name, shares_renamed(&here)).ok();
        return Ok(NodePlan {
            name,
            node,
            pools,
            changes,
            known: offer.is_some(),
            offer: offer.unwrap_or_else(|| unknown_offer(node)),
            mig: None,
            plugin: None,
            reach: Reach::default(),
            also: Vec::new(),
            may_hold: None,
            notes,
        });
    }
    let mig = needs_mig_label(&changes).then(|| {
        let text = config::mig_text(&config::mig_devices(node));
        (config::mig_label(node, &text), text)
    });
    let offer = config::offer(node, name, shares_renamed(&here))?;
    let base = node.plugin_config_today.as_deref().and_then(|entry| plugin_entry(existing.plugin(), entry));
    let plugin = if needs_plugin_label(node, &changes) {
        if let (Some(today), None) = (&node.plugin_config_today, &base) {
            notes.push(format!(
                "Its device plugin entry today, `{today}`, is not among the ConfigMaps given: flags that it sets \
                 beside the MIG strategy are not carried over. Give it with --existing."
            ));
        }
        Some(config::plugin_entry(&offer.sharing, base.as_ref().map(|b: &Map<String, Value>| b))?)
    } else {
        None
    };
    let also = hit_workloads(plan, target, node, &changes, &here);
    let reach = reach(target, node, &changes, plugin.is_some());
    let may_hold = today::may_hold(plan, target, node, &changes);
    notes.extend(starts_notes(target, node));
    Ok(NodePlan { name, node, pools, changes, offer, known: true, mig, plugin, reach, also, may_hold, notes })
}

fn unknown_offer(node: &PlannedNode) -> Offer {
    let sharing =
        config::Sharing { strategy: node.mig_strategy, mps: false, renamed: true, replicas: BTreeMap::new() };
    Offer { allocatable: BTreeMap::new(), sharing }
}

fn needs_mig_label(changes: &[&Change]) -> bool {
    changes.iter().any(|c| c.change != ChangeKind::Sharing)
}

/// The plugin's entry changes when the way of sharing does, or how MIG devices are named, or when a GPU that
/// was shared becomes something else. Else the node keeps the entry it has.
fn needs_plugin_label(node: &PlannedNode, changes: &[&Change]) -> bool {
    let shared = |mode| matches!(mode, Mode::TimeSliced | Mode::Mps);
    changes.iter().any(|c| c.change == ChangeKind::Sharing)
        || node.mig_strategy_today != Some(node.mig_strategy)
        || node.gpus.iter().any(|g| g.mode_today.is_some_and(shared) && g.mode_today != Some(g.mode))
        || node.gpus.iter().any(|g| g.mode_today != Some(g.mode) && shared(g.mode))
        || node.gpus.iter().flat_map(|g| &g.instances).any(|i| i.replicas.is_some())
}

/// Shares carry `.shared` unless the plan's own assignments say otherwise.
fn shares_renamed(here: &[&Assignment]) -> bool {
    !here.iter().any(|a| a.replicas.is_some() && !a.resource.shared)
}

/// Workloads whose pods stay by the plan, and are hit or may be hit by the program that carries the change out.
///
/// The native agent touches only what the plan says, and refuses a GPU that is busy. NVIDIA's MIG Manager
/// (mig-parted, apply) looks at no pod: with a MIG mode change on any GPU it clears every MIG GPU of the node, and
/// resets every GPU where the mode needs a reset; with a geometry change it clears each GPU whose counts differ. A
/// pod whose GPU is not known may sit on any GPU that is today what the pod holds.
fn hit_workloads<'a>(
    plan: &Plan,
    target: Target,
    node: &PlannedNode,
    changes: &[&Change],
    here: &[&'a Assignment],
) -> Vec<&'a Assignment> {
    if target == Target::Native {
        return Vec::new();
    }
    let any = |kind| changes.iter().any(|c| c.change == kind);
    let (resets, mode) = (any(ChangeKind::MigModeReset), any(ChangeKind::MigMode));
    let cleared: Vec<_> = changes.iter().filter(|c| c.change != ChangeKind::Sharing).collect();
    let touched = touched_modes(plan, node, changes);
    let may_sit_there = |a: &Assignment| match &a.gpu {
        Some(uuid) => cleared.iter().any(|c| c.gpu.as_ref().is_none_or(|g| g == uuid)),
        None => !cleared.is_empty() && touched.contains(&a.mode),
    };
    here.iter()
        .copied()
        .filter(|a| a.staying > 0)
        .filter(|a| resets || a.mode == Mode::Mig && mode || may_sit_there(a))
        .collect()
}

/// How the GPUs that change are shared today.
fn touched_modes(plan: &Plan, node: &PlannedNode, changes: &[&Change]) -> BTreeSet<Mode> {
    let today = plan.nodes_today.iter().find(|n| Some(&n.name) == node.name.as_ref());
    let mut modes = BTreeSet::new();
    for (index, gpu) in node.gpus.iter().enumerate() {
        let now = today.and_then(|t| t.gpus.get(index));
        let differs = now.map_or(gpu.mode_today != Some(gpu.mode) || gpu.mode == Mode::Mig, |now| {
            today::differs(now, gpu)
        });
        let named = changes.iter().any(|c| c.gpu.is_some() && c.gpu == gpu.uuid);
        if differs || named {
            modes.extend(gpu.mode_today);
        }
    }
    modes
}

fn reach(target: Target, node: &PlannedNode, changes: &[&Change], plugin_changes: bool) -> Reach {
    let plugin_stops = target == Target::GpuOperator && (needs_mig_label(changes) || plugin_changes);
    let reset = changes.iter().any(|c| c.change == ChangeKind::MigModeReset);
    let cleared_gpus = match target {
        Target::Native => changes.len(),
        Target::GpuOperator if reset => node.gpus.len(),
        Target::GpuOperator if changes.iter().any(|c| c.change == ChangeKind::MigMode) => {
            let mig =
                |g: &&tesela_model::plan::PlannedGpu| g.mode == Mode::Mig || g.mode_today == Some(Mode::Mig);
            node.gpus.iter().filter(mig).count()
        }
        Target::GpuOperator => changes.len(),
    };
    Reach { plugin_stops, cleared_gpus, reset }
}

/// mig-parted knows counts and no starts: the driver picks them. Says where that can differ from the plan.
fn starts_notes(target: Target, node: &PlannedNode) -> Option<String> {
    if target == Target::Native {
        return None;
    }
    let mut open = Vec::new();
    for (index, gpu) in node.gpus.iter().enumerate() {
        if gpu.mode == Mode::Mig && !super::starts::forced(ProductTable::builtin(), gpu) {
            open.push(index.to_string());
        }
    }
    (!open.is_empty()).then(|| {
        format!(
            "GPU {}: mig-parted takes counts only, and these counts can sit at other starts than planned. Pods \
             get the same resources; room that the plan keeps for later may be cut up.",
            open.join(", ")
        )
    })
}

/// How MIG devices are named, in words.
pub(super) fn strategy_word(strategy: MigStrategy) -> &'static str {
    match strategy {
        MigStrategy::None => "none",
        MigStrategy::Single => "single",
        MigStrategy::Mixed => "mixed",
    }
}
