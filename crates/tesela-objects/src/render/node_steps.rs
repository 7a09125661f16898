//! One step per node that changes.

use std::collections::BTreeMap;

use tesela_model::demand::PodRef;
use tesela_model::fleet::Mode;
use tesela_model::plan::{ChangeKind, PlannedGpu};

use super::config;
use super::journey::{self, Journey};
use super::moves::pods_word;
use super::name::plain;
use super::node::{NodePlan, strategy_word};
use super::script::{Script, amounts};
use super::waves::{At, NodeChange};
use super::{BlastRadius, Context, File, Step, Target, steps};

/// The step that changes a node; `None` where the plan knows no such node.
pub(super) fn step(
    context: &Context<'_>,
    journey: &Journey<'_>,
    change: &NodeChange,
    number: u32,
    canary: bool,
) -> Option<Step> {
    let node = context.nodes.get(change.node)?;
    let at = At::Node(change.node);
    let dir = journey.dir(at).to_owned();
    let depth = dir.matches('/').count() + 1;
    let mut pods = journey.names(&change.evicts);
    pods.extend(journey::strangers(node, &journey::leaving(context.plan)));
    pods.sort();
    let blast = node.blast(pods.clone());
    let mut notes = node.notes.clone();
    if canary {
        notes.push(
            "This is the canary: of the nodes that change, its change restarts the fewest pods. Go on only when \
             ./verify.sh says so and the work on it is well."
                .to_owned(),
        );
    }
    notes.extend(steps::cycle(journey, at, &change.waits));
    notes.extend(steps::not_created_again(context, &change.evicts));
    notes.push(what_stops(context.target, node));
    notes.extend(not_named(context, node));
    notes.extend(unknown_seats(context, node));
    notes.push(undo_note(context.target, node));
    let part = Part { context, node, depth, pods: &pods, keeps: keeps(journey, change) };
    let files = vec![
        part.change().file(&dir, "change.sh"),
        part.verify().file(&dir, "verify.sh"),
        part.undo().file(&dir, "undo.sh"),
        details(node, &blast, &dir),
    ];
    Some(Step {
        number,
        title: format!("{}: {}", node.name, becomes(node)),
        hits: hits(&blast),
        blast: Some(blast),
        restarts: pods,
        notes,
        files,
        ..Step::at(&dir)
    })
}

/// `namespace/workload` and pods that may be on the node and are let be.
fn keeps(journey: &Journey<'_>, change: &NodeChange) -> BTreeMap<String, u64> {
    let mut keeps = BTreeMap::new();
    for (work, pods) in &change.keeps {
        *keeps.entry(journey.work_name(*work)).or_insert(0) += pods;
    }
    keeps
}

/// Pods that the executor hits and that the plan does not restart.
fn not_named(context: &Context<'_>, node: &NodePlan<'_>) -> Option<String> {
    let names: Vec<String> = node.also.iter().map(|a| format!("{}/{}", a.namespace, a.workload)).collect();
    (!names.is_empty()).then(|| {
        format!(
            "The plan lets pods of {} stay, and the executor ({}) hits them or may hit them. change.sh names them and \
             stops; run it again with ALSO_RESTART='NAMESPACE/POD …' when their owners agree, or plan again.",
            names.join(", "),
            context.target
        )
    })
}

/// How a person can tell that a GPU is idle, where only some GPUs change and nobody says who holds which.
fn unknown_seats(context: &Context<'_>, node: &NodePlan<'_>) -> Option<String> {
    let switches = node.changes.iter().any(|c| c.change != ChangeKind::Sharing);
    let here = |a: &&tesela_model::plan::Assignment| a.node.as_deref() == Some(node.name) && a.staying > 0;
    let guessed = context.plan.assignments.iter().filter(here).any(|a| a.gpu.is_none());
    if !switches || !guessed {
        return None;
    }
    let differs = |(_, g): &(usize, &PlannedGpu)| g.mode_today != Some(g.mode) || g.mode == Mode::Mig;
    let indexes: Vec<String> =
        node.node.gpus.iter().enumerate().filter(differs).map(|(i, _)| i.to_string()).collect();
    let smi = format!(
        "nvidia-smi -i {} --query-compute-apps=gpu_uuid,pid,process_name --format=csv,noheader",
        indexes.join(",")
    );
    let mut text = format!(
        "kubectl does not tell which GPU a pod holds. Before you go on, see that GPU {} of this node is idle: `{smi}` \
         on the node itself prints nothing then (in an ordinary container it prints nothing either, because it \
         does not see the processes of others).",
        indexes.join(", ")
    );
    if context.target == Target::GpuOperator {
        let namespace = context.stack_namespace();
        text.push_str(&format!(
            " Where the operator brings the driver: `kubectl -n {namespace} exec $(kubectl -n {namespace} get pods -l \
             app=nvidia-driver-daemonset --field-selector spec.nodeName={} -o name) -- {smi}`.",
            node.name
        ));
    }
    Some(text)
}

/// What the node becomes, in a few words.
fn becomes(node: &NodePlan<'_>) -> String {
    let mut words: Vec<_> = node.changes.iter().map(|c| plain(&c.to)).collect();
    words.sort();
    let mut parts: Vec<String> = Vec::new();
    for group in words.chunk_by(|a, b| a == b) {
        parts.push(match group.len() {
            1 => group[0].clone(),
            n => format!("{n} GPUs {}", group[0]),
        });
    }
    parts.join("; ")
}

/// Whom a change hits, in one sentence.
fn hits(blast: &BlastRadius) -> String {
    let mut text = match blast.pods.len() {
        0 => "No pod restarts".to_owned(),
        1 => "1 pod restarts".to_owned(),
        n => format!("{} restart", pods_word(n)),
    };
    let also = blast.pods_total.saturating_sub(blast.pods.len() as u64);
    if also > 0 {
        text.push_str(&format!(
            "; {} that the plan lets stay only when you name them",
            pods_word(usize::try_from(also).unwrap_or(usize::MAX))
        ));
    }
    if blast.plugin_stops {
        text.push_str("; the node's device plugin stops meanwhile, so new GPU pods wait");
    }
    text
}

/// What the executor does beyond the plan's wish.
fn what_stops(target: Target, node: &NodePlan<'_>) -> String {
    let mig = node.mig.is_some();
    match target {
        Target::Native => "The Tesela agent keeps every instance that stays, and touches the GPUs listed in \
                           gpus.md only. It needs the agent on this node."
            .to_owned(),
        Target::GpuOperator if !mig => {
            "A new device plugin entry restarts the plugin of the node: pods that run go \
                                        on, new GPU pods wait for some seconds."
                .to_owned()
        }
        Target::GpuOperator => {
            let kind = |kind| node.changes.iter().any(|c| c.change == kind);
            let scope = if kind(ChangeKind::MigModeReset) {
                "MIG mode changes and needs a reset: NVIDIA's MIG Manager destroys every instance of the node and \
                 resets all its GPUs, also those that stay as they are."
            } else if kind(ChangeKind::MigMode) {
                "MIG mode changes: NVIDIA's MIG Manager destroys every instance on every MIG GPU of the node, also \
                 those that stay as they are."
            } else {
                "NVIDIA's MIG Manager destroys every instance of each GPU whose counts differ, also instances that \
                 stay as they are."
            };
            format!(
                "{scope} It stops the device plugin, feature discovery and the DCGM exporter of the node meanwhile \
                 (no new GPU pod starts, GPU metrics pause), does not drain by itself and does not go back when it \
                 fails; therefore change.sh evicts first."
            )
        }
    }
}

/// The resources that the changed GPUs offer: who requests one of them on this node must go before undo.
fn holds(target: Target, node: &NodePlan<'_>) -> Vec<String> {
    let kind = |kind| node.changes.iter().any(|c| c.change == kind);
    let operator = target == Target::GpuOperator;
    let by_uuid = node.changes.iter().all(|c| c.gpu.is_some());
    let touched = |gpu: &PlannedGpu| {
        operator && kind(ChangeKind::MigModeReset)
            || operator && kind(ChangeKind::MigMode) && gpu.mode == Mode::Mig
            || by_uuid && node.changes.iter().any(|c| c.gpu == gpu.uuid)
            || !by_uuid && (gpu.mode_today != Some(gpu.mode) || gpu.mode != Mode::Exclusive)
    };
    let mut part = node.node.clone();
    part.gpus.retain(touched);
    let renamed = node.offer.sharing.renamed;
    config::offer(&part, node.name, renamed).map_or_else(
        |_| node.offer.allocatable.keys().cloned().collect(),
        |offer| offer.allocatable.into_keys().collect(),
    )
}

fn undo_note(target: Target, node: &NodePlan<'_>) -> String {
    let mut parts = Vec::new();
    if node.mig.is_some() {
        parts.push(match node.node.mig_config_today.as_deref() {
            Some(label) if !label.is_empty() => format!("nvidia.com/mig.config={label}"),
            _ => "nvidia.com/mig.config removed (the GPU Operator then sets its default, all-disabled)"
                .to_owned(),
        });
    }
    if node.plugin.is_some() {
        parts.push(match node.node.plugin_config_today.as_deref() {
            Some(label) if !label.is_empty() => format!("nvidia.com/device-plugin.config={label}"),
            _ => "nvidia.com/device-plugin.config removed".to_owned(),
        });
    }
    if node.pool_label().is_some() {
        parts.push("tesela.dev/pool as it was".to_owned());
    }
    let holds = holds(target, node);
    let first = if holds.is_empty() {
        String::new()
    } else {
        format!(" It first evicts every pod of this node that requests {}.", holds.join(" or "))
    };
    format!("Undo puts the labels of today back: {}.{first}", parts.join(", "))
}

fn today(value: Option<&String>) -> &str {
    value.map_or("", String::as_str)
}

const PLUGIN_UP: &str = "set_label \"$NODE\" nvidia.com/device-plugin.config \"$PLUGIN\"";
const MIG_UP: &str = "set_label \"$NODE\" nvidia.com/mig.config \"$MIG\"";

/// What the scripts of one node need.
struct Part<'a> {
    context: &'a Context<'a>,
    node: &'a NodePlan<'a>,
    depth: usize,
    /// Pods that are evicted.
    pods: &'a [PodRef],
    /// Pods that may be there and are let be.
    keeps: BTreeMap<String, u64>,
}

impl Part<'_> {
    fn script(&self, what: &str) -> Script {
        let node = self.node;
        let what = format!("{what} node {}", node.name);
        let mut script = Script::new(self.depth, self.context.stack_namespace(), &what);
        script
            .set("NODE", node.name)
            .set("EXPECTED", &amounts(&node.offer.allocatable, false))
            .set("MIG_TODAY", today(node.node.mig_config_today.as_ref()))
            .set("MIG", node.mig.as_ref().map_or("", |(label, _)| label))
            .set("PLUGIN_TODAY", today(node.node.plugin_config_today.as_ref()))
            .set("PLUGIN", node.plugin.as_ref().map_or("", |(label, _)| label))
            .set("POOL", node.pool_label().unwrap_or_default());
        script
    }

    fn change(&self) -> Script {
        let node = self.node;
        let mut script = self.script("Changes");
        script.list("PODS", self.pods.iter().map(|p| format!("{}/{}", p.namespace, p.name)));
        script.list("ALSO", node.also.iter().map(|a| format!("{}/{}", a.namespace, a.workload)));
        script.list("KEEPS", self.keeps.iter().map(|(name, pods)| format!("{name}={pods}")));
        let may_hold = node.may_hold.iter().flatten();
        script.list("MAY_HOLD", may_hold.map(|(resource, units)| format!("{resource}={units}")));
        if node.mig.is_some() {
            script.run("expect_label \"$NODE\" nvidia.com/mig.config \"$MIG_TODAY\" \"$MIG\"");
        }
        if node.plugin.is_some() {
            script
                .run("expect_label \"$NODE\" nvidia.com/device-plugin.config \"$PLUGIN_TODAY\" \"$PLUGIN\"");
        }
        // What the plan saw is compared with what is there until the node has its new labels; a second run only
        // finishes.
        script.run(
            "if ! is_labelled \"$NODE\" \"$MIG\" \"$PLUGIN\"; then\n  \
               check_pods \"$NODE\" \"$PODS\" \"$ALSO\" \"$KEEPS\" \"$MAY_HOLD\"\n  \
               fence \"$NODE\"\n  \
               evict_from \"$NODE\" \"$PODS\"\n  \
               check_idle \"$NODE\" \"$PODS\" \"$MAY_HOLD\"\n\
             fi",
        );
        if node.pool_label().is_some() {
            script.run("join_pool \"$NODE\" \"$POOL\"");
        }
        match (&node.mig, &node.plugin) {
            (Some(_), Some(_)) if plugin_first(node) => script.run(PLUGIN_UP).run(MIG_UP),
            (Some(_), Some(_)) => script.run(MIG_UP).run("wait_mig \"$NODE\" \"$MIG\"").run(PLUGIN_UP),
            (Some(_), None) => script.run(MIG_UP),
            (None, Some(_)) => script.run(PLUGIN_UP),
            (None, None) => &mut script,
        };
        script.run("wait_node \"$NODE\" \"$EXPECTED\" \"$MIG\" \"$PLUGIN\"\nunfence \"$NODE\"");
        script
    }

    fn verify(&self) -> Script {
        let mut script = self.script("Checks");
        script
            .run("check_node \"$NODE\" \"$EXPECTED\" \"$MIG\" \"$PLUGIN\"\nsay \"node $NODE is as planned\"");
        script
    }

    fn undo(&self) -> Script {
        let node = self.node;
        let mut script = self.script("Takes back the change of");
        script.list("HOLDS", holds(self.context.target, node));
        script.run("fence \"$NODE\"\nevict_holders \"$NODE\" \"$HOLDS\"");
        let plugin = "set_label \"$NODE\" nvidia.com/device-plugin.config \"$PLUGIN_TODAY\"";
        let mig = "set_label \"$NODE\" nvidia.com/mig.config \"$MIG_TODAY\"";
        match (&node.mig, &node.plugin) {
            (Some(_), Some(_)) if plugin_first(node) => script.run(mig).run(plugin),
            (Some(_), Some(_)) => script.run(plugin).run(mig),
            (Some(_), None) => script.run(mig),
            (None, Some(_)) => script.run(plugin),
            (None, None) => &mut script,
        };
        if node.pool_label().is_some() {
            script.run("leave_pool \"$NODE\"");
        }
        script.run(
            "say \"node $NODE has today's labels again; look at it before you run: kubectl uncordon $NODE\"\n\
             if [ \"$(annotation \"$NODE\" tesela.dev/cordoned)\" = yes ]; then change kubectl annotate node \"$NODE\" tesela.dev/cordoned-; fi",
        );
        script
    }
}

/// The plugin must be able to start before and after: with strategy `mixed` it takes any geometry, so it goes
/// first; with `single` or `none` the former geometry would stop it, so the geometry goes first.
fn plugin_first(node: &NodePlan<'_>) -> bool {
    strategy_word(node.offer.sharing.strategy) == "mixed"
}

/// The GPUs of the node, one per line, for people.
fn details(node: &NodePlan<'_>, blast: &BlastRadius, dir: &str) -> File {
    let mut text =
        format!("# {}\n\n| GPU | UUID | product | becomes |\n| --- | --- | --- | --- |\n", node.name);
    for (index, gpu) in node.node.gpus.iter().enumerate() {
        let instances: Vec<_> = gpu
            .instances
            .iter()
            .map(|i| {
                let shares = i.replicas.map(|r| format!(" ×{r}")).unwrap_or_default();
                format!("{}@{}{shares}", i.profile, i.start)
            })
            .collect();
        let shares = gpu.replicas.map(|r| format!(" ×{r}")).unwrap_or_default();
        let what = if instances.is_empty() { String::new() } else { format!(": {}", instances.join(", ")) };
        text.push_str(&format!(
            "| {index} | {} | {} | {}{shares}{what} |\n",
            gpu.uuid.as_deref().map_or("not known".to_owned(), plain),
            plain(&gpu.product),
            gpu.mode,
        ));
    }
    if blast.pods.is_empty() && blast.workloads.is_empty() {
        text.push_str("\nNo pod is evicted.\n");
    } else {
        text.push_str("\nEvicted, and no others:\n\n");
        for pod in &blast.pods {
            text.push_str(&format!("- pod {}/{}\n", pod.namespace, pod.name));
        }
        for w in &blast.workloads {
            text.push_str(&format!(
                "- only when ALSO_RESTART names them: the pods of {} {}/{} on this node ({} by the plan); they stay by the \
                 plan, and the executor hits them or may hit them\n",
                w.kind, w.namespace, w.workload, w.pods
            ));
        }
    }
    text.push_str("\nExpected afterwards:\n\n```\n");
    for (resource, amount) in node.offer.allocatable.iter().filter(|(_, n)| **n > 0) {
        text.push_str(&format!(
            "kubectl get node {} -o jsonpath='{{.status.allocatable.{}}}'    # {amount}\n",
            node.name,
            resource.replace('.', r"\."),
        ));
    }
    text.push_str("```\n");
    File { path: format!("{dir}/gpus.md"), text, executable: false }
}
