//! The texts that people read: `00-README.md` and one `STEP.md` per step.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use tesela_model::plan::PlanStatus;

use super::journey::Journey;
use super::name::plain;
use super::{Context, File, Step, Target};

/// `STEP.md`: what, why, how to check, how to take back.
pub(super) fn step_file(target: Target, step: &Step) -> File {
    let mut text = format!("# {} {}\n\n", step.number, step.title);
    let _ = writeln!(text, "Whom it hits ({}): {}.\n", executor(target, step), step.hits);
    if !step.restarts.is_empty() {
        text.push_str("Pods that restart, and no others:\n\n");
        for pod in &step.restarts {
            let _ = writeln!(text, "- {}/{}", pod.namespace, pod.name);
        }
        text.push('\n');
    }
    for outage in &step.outages {
        let _ = writeln!(text, "- **{outage}.**");
    }
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

/// Who carries a step out.
fn executor(target: Target, step: &Step) -> &'static str {
    match target {
        _ if step.blast.is_none() => "Kubernetes and these scripts",
        Target::Native => "executor: native, the Tesela agent",
        Target::GpuOperator => "executor: gpu-operator, NVIDIA's MIG Manager and device plugin",
    }
}

/// What a person must know before the first step.
pub(super) fn warnings(context: &Context<'_>) -> Vec<String> {
    let mut out = Vec::new();
    if context.plan.status == PlanStatus::Partial {
        let pods: u64 = context.plan.unmet.iter().map(|u| u.count).sum();
        out.push(format!("The plan is partial: {pods} pods do not fit; these steps do not change that."));
    }
    out.extend(without_place(context));
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
             the plan is taken as the index. Compare with `nvidia-smi -L` on the node before you start.",
            unknown.join(", ")
        ));
    }
    out
}

/// Workloads that hold GPUs today and that the plan gives no place, not even one to leave.
fn without_place(context: &Context<'_>) -> Option<String> {
    let plan = context.plan;
    let mut known: BTreeSet<(&str, &str)> =
        plan.assignments.iter().map(|a| (&*a.namespace, &*a.workload)).collect();
    known.extend(plan.restarting.iter().map(|r| (&*r.namespace, &*r.workload)));
    known.extend(plan.unmet.iter().map(|u| (&*u.namespace, &*u.workload)));
    let gpus = plan.nodes_today.iter().flat_map(|n| &n.gpus);
    let users = gpus.flat_map(|g| g.used_by.iter().chain(g.instances.iter().flat_map(|i| &i.used_by)));
    let left: BTreeSet<(&str, &str)> = users
        .filter(|u| !u.namespace.is_empty())
        .map(|u| (&*u.namespace, &*u.workload))
        .filter(|u| !known.contains(u))
        .collect();
    let names: Vec<String> =
        left.into_iter().map(|(namespace, name)| format!("{}/{}", plain(namespace), plain(name))).collect();
    (!names.is_empty()).then(|| {
        format!(
            "{} holds GPUs today and has no place in the plan (its count is 0): scale it down or delete it first. Else \
             the step of its node stops, and so does step 90.",
            names.join(", ")
        )
    })
}

/// The text of `00-README.md`.
pub(super) fn readme(
    context: &Context<'_>,
    journey: &Journey<'_>,
    steps: &[Step],
    warnings: &[String],
) -> String {
    let mut text = format!("# How this plan is carried out ({})\n\n", context.target);
    let word = |n: usize, one: &str, many: &str| format!("{n} {}", if n == 1 { one } else { many });
    let changed = context.nodes.iter().filter(|n| !n.changes.is_empty()).count();
    let restarts: usize = steps.iter().map(|s| s.restarts.len()).sum();
    let moves = context.plan.summary.restarts;
    let template = restarts.saturating_sub(usize::try_from(moves).unwrap_or(usize::MAX));
    let _ = writeln!(
        text,
        "{}; of {} {changed} {}, with {} by the plan. {}\n",
        word(steps.len(), "step", "steps"),
        word(context.nodes.len(), "node", "nodes"),
        if changed == 1 { "changes" } else { "change" },
        word(context.plan.changes.len(), "GPU", "GPUs"),
        if restarts == 0 {
            "No running pod restarts.".to_owned()
        } else {
            format!(
                "{}, each named in the one step that restarts it: {moves} for another device (`summary.restarts` of the \
                 plan), {template} only for another pod template or because `changes` of the plan says so.",
                word(restarts, "running pod restarts", "running pods restart")
            )
        },
    );
    text.push_str(&gaps(journey));
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
    text.push_str(&how(context));
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

/// Who has no pod for a while.
fn gaps(journey: &Journey<'_>) -> String {
    let outages = journey.outages();
    if outages.is_empty() {
        return "No workload is without a running pod between two steps.\n\n".to_owned();
    }
    let mut text = "## Who has no pod for a while\n\n".to_owned();
    for (_, _, outage) in outages {
        let _ = writeln!(text, "- {outage}.");
    }
    text.push_str(
        "\nThese wait for each other or for their own node, so no order avoids it without another node; the steps say \
         why.\n\n",
    );
    text
}

fn how(context: &Context<'_>) -> String {
    let target = context.target;
    let (namespace, why) = context.stack();
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
         1. Take the steps in order, and go on when ./verify.sh of the last one agrees. After the canary wait, look at \
         its work, then go on.\n\
         2. Step 18 cordons the nodes that change or that pods leave, so that nothing lands where the next step evicts; \
         each opens again in its own step.\n\
         3. change.sh of a node: stops when its labels are not those of the plan, or its GPU pods are not, by workload and \
         count; evicts the named pods through the eviction API, so that PodDisruptionBudgets hold; stops when more \
         GPUs are in use than may be; sets the labels; waits until the node offers exactly what is expected; uncordons \
         what these steps cordoned.\n\
         4. A wave changes nodes whose pods are gone, then requests whose new places are ready, then moves pods that keep \
         their request. Pods that were evicted before their place was ready wait, and the step says so.\n\
         5. Something is wrong: stop, and run undo.sh of the last steps in reverse order. Undo of a node puts back \
         the labels that it has today.\n\n\
         Namespace of the GPU stack: {namespace} ({why}).\n\n\
         {executor}\n"
    )
}
