//! The texts that people read: `00-README.md` and one `STEP.md` per step.

use std::fmt::Write as _;

use tesela_model::plan::PlanStatus;

use super::name::plain;
use super::{Context, File, Step, Target};

/// `STEP.md`: what, why, how to check, how to take back.
pub(super) fn step_file(step: &Step) -> File {
    let mut text = format!("# {} {}\n\n{}.\n\n", step.number, step.title, step.hits);
    for note in &step.notes {
        let _ = writeln!(text, "- {note}");
    }
    let change = if step.number == 15 { "change.sh NODE" } else { "change.sh" };
    let argument = if step.number == 15 { " NODE" } else { "" };
    let _ = write!(
        text,
        "\n| do | how |\n| --- | --- |\n\
         | preview | `DRY_RUN=1 ./{change}` |\n\
         | carry out | `./{change}` |\n\
         | verify | `./verify.sh{argument}` |\n\
         | undo | `./undo.sh{argument}` |\n"
    );
    let others = step.files.iter().filter(|f| !f.executable);
    let names: Vec<_> =
        others.map(|f| f.path.strip_prefix(&format!("{}/", step.dir)).unwrap_or(&f.path)).collect();
    if !names.is_empty() {
        let _ = write!(text, "\nRead before: {}.\n", names.join(", "));
    }
    File { path: format!("{}/STEP.md", step.dir), text, executable: false }
}

/// What a person must know before the first step.
pub(super) fn warnings(context: &Context<'_>) -> Vec<String> {
    let mut out = Vec::new();
    if context.plan.status == PlanStatus::Partial {
        let pods: u64 = context.plan.unmet.iter().map(|u| u.count).sum();
        out.push(format!("The plan is partial: {pods} pods do not fit; these steps do not change that."));
    }
    let changed = context.nodes.iter().filter(|n| !n.changes.is_empty());
    let names = |operator: bool| -> Vec<&str> {
        changed.clone().filter(|n| n.node.operator == operator).map(|n| n.name).collect()
    };
    match context.target {
        Target::Native => {
            out.push(
                "The Tesela agent carries the node steps out. Without it nothing reads the labels, and change.sh \
                 waits until its time is over."
                    .to_owned(),
            );
            let kept = names(true);
            if !kept.is_empty() {
                out.push(format!(
                    "The GPU Operator keeps {}. On a node with NVIDIA's MIG Manager or device plugin the agent only \
                     reads: take the operator off these nodes first (nvidia.com/gpu.deploy.operands=false), or render \
                     for gpu-operator.",
                    kept.join(", ")
                ));
            }
        }
        Target::GpuOperator => {
            let without = names(false);
            if !without.is_empty() {
                out.push(format!(
                    "No GPU Operator was seen on {}: nothing there reads the labels of these steps.",
                    without.join(", ")
                ));
            }
        }
    }
    let mixed = |n: &&super::node::NodePlan<'_>| {
        n.mig.is_some()
            && n.node.gpus.iter().any(|g| g.uuid.is_none())
            && n.node.gpus.windows(2).any(|w| w[0].mode != w[1].mode)
    };
    let unknown: Vec<_> = changed.clone().filter(mixed).map(|n| n.name).collect();
    if !unknown.is_empty() {
        out.push(format!(
            "On {} the GPUs become different things, and kubectl does not tell which index holds what: the order of \
             the plan is taken as the index. Compare with `nvidia-smi -L` before you start.",
            unknown.join(", ")
        ));
    }
    out
}

/// The text of `00-README.md`.
pub(super) fn readme(context: &Context<'_>, steps: &[Step], warnings: &[String]) -> String {
    let mut text = format!("# How this plan is carried out ({})\n\n", context.target);
    let restarts: u64 = context.nodes.iter().map(super::node::NodePlan::restarts).sum();
    let changed = context.nodes.iter().filter(|n| !n.changes.is_empty()).count();
    let _ = writeln!(
        text,
        "{} steps; {changed} of {} nodes change, {} GPUs by the plan; {restarts} pods are evicted on the way, each step \
         names them or their workload. Workloads whose request changes roll out anew in step 40.\n",
        steps.len(),
        context.nodes.len(),
        context.plan.changes.len(),
    );
    if !warnings.is_empty() {
        text.push_str("## Before you start\n\n");
        for warning in warnings {
            let _ = writeln!(text, "- {warning}");
        }
        text.push('\n');
    }
    text.push_str("## The steps, in this order\n\n| step | what | whom it hits | take back |\n| --- | --- | --- | --- |\n");
    for step in steps {
        let _ = writeln!(
            text,
            "| [{0}]({0}/STEP.md) | {1} | {2} | `{0}/undo.sh` |",
            step.dir, step.title, step.hits
        );
    }
    text.push_str(&how(context.target));
    if !context.plan.unmet.is_empty() {
        text.push_str("\n## Not served by this plan\n\n");
        for u in &context.plan.unmet {
            let _ = writeln!(
                text,
                "- {} {}/{}: {} pods. {}",
                u.kind,
                u.namespace,
                u.workload,
                u.count,
                plain(&u.reason)
            );
        }
    }
    text
}

fn how(target: Target) -> String {
    let executor = match target {
        Target::Native => {
            "The Tesela agent of each node carries a change out. It keeps every instance that stays, destroys and \
             creates only what differs, at the starts of the plan, and goes back when it fails. The ConfigMaps are in \
             NVIDIA's formats and hold no GPU Operator parts."
        }
        Target::GpuOperator => {
            "NVIDIA's MIG Manager and device plugin carry a change out, one whole GPU or node at a time: every instance \
             of a GPU whose counts differ is destroyed, with a MIG mode change every instance of the node; the plugin \
             stops meanwhile; starts are the driver's choice; there is no retry and no way back by itself. So the \
             steps fence and evict first, and the pods named are more than the plan's own where that is so."
        }
    };
    format!(
        "\n## How to work with it\n\n\
         Each folder has STEP.md (what and why), change.sh, verify.sh and undo.sh. They need bash and kubectl with a \
         context that may do it. `DRY_RUN=1 ./change.sh` prints what it would run. A script can be run again.\n\n\
         1. Take the steps in order. After the canary wait, look at its work, then go on.\n\
         2. change.sh of a node: stops when its labels or its GPU pods are not those of the plan; cordons it; evicts \
         the named pods through the eviction API, so that PodDisruptionBudgets hold; sets the labels; waits until the \
         node offers exactly what is expected; uncordons what it cordoned.\n\
         3. Pods that were evicted wait until another node can take them or step 40 has changed their request.\n\
         4. Something is wrong: stop, and run undo.sh of the last steps in reverse order. Undo of a node puts back \
         the labels that it has today.\n\n\
         {executor}\n"
    )
}
