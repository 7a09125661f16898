//! One step per node that changes: the canary first, then the others by pool.

use std::collections::BTreeSet;

use tesela_model::fleet::Mode;
use tesela_model::plan::{ChangeKind, PlannedGpu};

use super::config;
use super::name::plain;
use super::node::{NodePlan, by_blast, strategy_word};
use super::script::{Script, amounts};
use super::{BlastRadius, Context, File, Step, Target};

/// All steps that change nodes.
pub(super) fn nodes(context: &Context<'_>) -> Vec<Step> {
    let mut changed: Vec<_> = context.nodes.iter().filter(|n| !n.changes.is_empty()).collect();
    by_blast(&mut changed);
    let Some((canary, rest)) = changed.split_first() else { return Vec::new() };
    let mut steps = vec![step(context, canary, 20, format!("20-canary-{}", short(canary.name)), true)];
    let pools: BTreeSet<_> = rest.iter().map(|n| first_pool(n)).collect();
    for (pool_index, pool) in pools.into_iter().enumerate() {
        let members = rest.iter().filter(|n| first_pool(n) == pool);
        for (index, node) in members.enumerate() {
            let dir = format!("30-{:02}-{pool}/{:04}-{}", pool_index + 1, index + 1, short(node.name));
            steps.push(step(context, node, 30, dir, false));
        }
    }
    steps
}

fn first_pool<'a>(node: &NodePlan<'a>) -> &'a str {
    node.pools.first().map_or("no-pool", |p| p.name.as_str())
}

/// A folder's name from a node's; a node's name may be 253 long, a file's 255.
fn short(node: &str) -> String {
    super::name::file_stem(node)
}

fn step(context: &Context<'_>, node: &NodePlan<'_>, number: u32, dir: String, canary: bool) -> Step {
    let depth = dir.matches('/').count() + 1;
    let title = format!("{}: {}", node.name, becomes(node));
    let mut notes = node.notes.clone();
    if canary {
        notes.push(
            "This is the canary: of the nodes that change it has the fewest pods to restart. Go on only when \
             ./verify.sh says so and the work on it is well."
                .to_owned(),
        );
    }
    notes.push(what_stops(context.target, node));
    notes.push(undo_note(context.target, node));
    let files = vec![
        change_script(context, node, depth).file(&dir, "change.sh"),
        verify_script(context, node, depth).file(&dir, "verify.sh"),
        undo_script(context, node, depth).file(&dir, "undo.sh"),
        details(node, &dir),
    ];
    Step { number, dir, title, hits: hits(&node.blast), blast: Some(node.blast.clone()), notes, files }
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
pub(super) fn hits(blast: &BlastRadius) -> String {
    let pods = match blast.pods_total {
        0 => "No pod restarts".to_owned(),
        1 => "1 pod restarts".to_owned(),
        n => format!("{n} pods restart"),
    };
    if blast.plugin_stops {
        format!("{pods}; the node's device plugin stops meanwhile, so new GPU pods wait")
    } else {
        pods
    }
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

fn node_script(context: &Context<'_>, node: &NodePlan<'_>, depth: usize, what: &str) -> Script {
    let mut script = Script::new(depth, context.stack_namespace(), &format!("{what} node {}", node.name));
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

const PLUGIN_UP: &str = "set_label \"$NODE\" nvidia.com/device-plugin.config \"$PLUGIN\"";
const MIG_UP: &str = "set_label \"$NODE\" nvidia.com/mig.config \"$MIG\"";

fn change_script(context: &Context<'_>, node: &NodePlan<'_>, depth: usize) -> Script {
    let mut script = node_script(context, node, depth, "Changes");
    script.list("PODS", node.blast.pods.iter().map(|p| format!("{}/{}", p.namespace, p.name)));
    script.list("WORKLOADS", node.blast.workloads.iter().map(|w| format!("{}/{}", w.namespace, w.workload)));
    script.list("KEEPS", node.keeps.iter().map(|(namespace, workload)| format!("{namespace}/{workload}")));
    if node.mig.is_some() {
        script.run("expect_label \"$NODE\" nvidia.com/mig.config \"$MIG_TODAY\" \"$MIG\"");
    }
    if node.plugin.is_some() {
        script.run("expect_label \"$NODE\" nvidia.com/device-plugin.config \"$PLUGIN_TODAY\" \"$PLUGIN\"");
    }
    script.run(
        "check_pods \"$NODE\" \"$PODS\" \"$WORKLOADS\" \"$KEEPS\"\n\
         fence \"$NODE\"\n\
         evict_from \"$NODE\" \"$PODS\" \"$WORKLOADS\"",
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

/// The plugin must be able to start before and after: with strategy `mixed` it takes any geometry, so it goes
/// first; with `single` or `none` the former geometry would stop it, so the geometry goes first.
fn plugin_first(node: &NodePlan<'_>) -> bool {
    strategy_word(node.offer.sharing.strategy) == "mixed"
}

fn verify_script(context: &Context<'_>, node: &NodePlan<'_>, depth: usize) -> Script {
    let mut script = node_script(context, node, depth, "Checks");
    script.run("check_node \"$NODE\" \"$EXPECTED\" \"$MIG\" \"$PLUGIN\"\nsay \"node $NODE is as planned\"");
    script
}

fn undo_script(context: &Context<'_>, node: &NodePlan<'_>, depth: usize) -> Script {
    let mut script = node_script(context, node, depth, "Takes back the change of");
    script.list("HOLDS", holds(context.target, node));
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

/// The GPUs of the node, one per line, for people.
fn details(node: &NodePlan<'_>, dir: &str) -> File {
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
    let blast = &node.blast;
    if blast.pods.is_empty() && blast.workloads.is_empty() {
        text.push_str("\nNo pod is evicted.\n");
    } else {
        text.push_str("\nEvicted, and no others:\n\n");
        for pod in &blast.pods {
            text.push_str(&format!("- pod {}/{}\n", pod.namespace, pod.name));
        }
        for w in &blast.workloads {
            text.push_str(&format!(
                "- the pods of {} {}/{} on this node ({} by the plan): they stay by the plan, and the executor hits them\n",
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
