//! Steps that hold nodes, open them again, and move pods that keep their request.

use super::journey::Journey;
use super::script::Script;
use super::waves::{At, Move};
use super::{Context, Step, steps};

const NOBODY: &str = "No pod restarts";

/// Step 18: nodes that change or that pods leave take no new pods, or a pod might land where the next step evicts.
pub(super) fn hold(context: &Context<'_>, journey: &Journey<'_>) -> Option<Step> {
    let nodes: Vec<&str> = journey.order.hold.iter().map(|n| journey.node(*n)).collect();
    if nodes.is_empty() {
        return None;
    }
    let dir = "18-hold-nodes";
    let namespace = context.stack_namespace();
    let mut change = Script::new(1, namespace, "Cordons the nodes that change or that pods leave");
    let mut verify = Script::new(1, namespace, "Checks that these nodes take no new pods");
    let mut undo = Script::new(1, namespace, "Uncordons what this step cordoned");
    for node in &nodes {
        change.call("fence", [*node]);
        verify.call("check_fenced", [*node]);
        undo.call("unfence", [*node]);
    }
    Some(Step {
        number: 18,
        title: format!("No new pods on nodes that change or that pods leave ({})", nodes.len()),
        hits: NOBODY.to_owned(),
        notes: vec![
            format!("Nodes: {}.", nodes.join(", ")),
            "Pods that run there run on. Each node opens again in its own step, or when the last pod that leaves it is \
             gone. A node that somebody has cordoned already stays so."
                .to_owned(),
        ],
        files: vec![change.file(dir, "change.sh"), verify.file(dir, "verify.sh"), undo.file(dir, "undo.sh")],
        ..Step::at(dir)
    })
}

/// Pods that leave a node with the request they have.
pub(super) fn step(context: &Context<'_>, journey: &Journey<'_>, moved: &Move, number: u32) -> Step {
    let at = At::Move(moved.node);
    let dir = journey.dir(at).to_owned();
    let depth = dir.matches('/').count() + 1;
    let node = journey.node(moved.node);
    let restarts = journey.names(&moved.pods);
    let names = restarts.iter().map(|p| format!("{}/{}", p.namespace, p.name));
    let wait = moved.waits.is_empty();
    let namespace = context.stack_namespace();
    let mut change = Script::new(depth, namespace, &format!("Moves pods off node {node}"));
    change.set("NODE", node).list("PODS", names.clone());
    change.run("fence \"$NODE\"");
    change.run(if wait {
        "move_pods \"$NODE\" \"$PODS\" wait"
    } else {
        "move_pods \"$NODE\" \"$PODS\" go-on"
    });
    if !journey.order.hold.contains(&moved.node) {
        change.run("unfence \"$NODE\"");
    }
    let mut verify = Script::new(depth, namespace, &format!("Checks that these pods have left node {node}"));
    verify.set("NODE", node).list("PODS", names);
    verify.run("check_left \"$NODE\" \"$PODS\"");
    let mut undo = Script::new(depth, namespace, "Takes back what can be taken back");
    undo.set("NODE", node).run(
        "unfence \"$NODE\"\nsay \"pods stay where they are now; the scheduler may use node $NODE again\"",
    );
    let mut notes = vec![
        "Their request stays as it is. change.sh evicts one pod at a time through the eviction API and waits until its \
         workload has as many ready pods as before."
            .to_owned(),
    ];
    notes.extend(steps::cycle(journey, at, &moved.waits));
    notes.extend(no_place(context, moved));
    notes.extend(steps::not_created_again(context, &moved.pods));
    Step {
        number,
        title: format!(
            "{node}: {} move{} elsewhere",
            pods_word(restarts.len()),
            if restarts.len() == 1 { "s" } else { "" }
        ),
        hits: format!("{} restart{}", pods_word(restarts.len()), if restarts.len() == 1 { "s" } else { "" }),
        restarts,
        notes,
        files: vec![
            change.file(&dir, "change.sh"),
            verify.file(&dir, "verify.sh"),
            undo.file(&dir, "undo.sh"),
        ],
        ..Step::at(&dir)
    }
}

/// Pods that the plan takes away from where they are without a place for them.
fn no_place(context: &Context<'_>, moved: &Move) -> Option<String> {
    let unmet = |pod: &usize| {
        let r = context.plan.restarting.get(*pod)?;
        let same = context.plan.unmet.iter().any(|u| u.namespace == r.namespace && u.workload == r.workload);
        same.then(|| format!("{}/{}", r.namespace, r.name))
    };
    let names: Vec<String> = moved.pods.iter().filter_map(unmet).collect();
    (!names.is_empty() && !moved.waits.is_empty()).then(|| {
        format!(
            "The plan does not let {} stay on the device it has, and has no other place for all pods of its workload \
             (see `Not served by this plan` in 00-README.md). Leave this step out if it shall rather run where it is.",
            names.join(", ")
        )
    })
}

/// `1 pod`, `2 pods`.
pub(super) fn pods_word(pods: usize) -> String {
    if pods == 1 { "1 pod".to_owned() } else { format!("{pods} pods") }
}

/// Nodes that stay as they are take pods again: nobody leaves them any more, or they have a device to lend.
pub(super) fn open(context: &Context<'_>, journey: &Journey<'_>, stage: usize) -> Option<Step> {
    let (opens, lends) = (&journey.order.stages[stage].opens, &journey.order.stages[stage].lends);
    if opens.is_empty() && lends.is_empty() {
        return None;
    }
    let dir = journey.dir(At::Open(stage)).to_owned();
    let depth = dir.matches('/').count() + 1;
    let namespace = context.stack_namespace();
    let mut change = Script::new(depth, namespace, "Uncordons nodes that stay as they are");
    let mut verify = Script::new(depth, namespace, "Checks that these nodes take pods again");
    let mut undo = Script::new(depth, namespace, "Cordons these nodes again");
    for node in opens.iter().map(|n| journey.node(*n)) {
        change.set("NODE", node).list("PODS", left_names(context, node));
        change.run("check_left \"$NODE\" \"$PODS\"\nunfence \"$NODE\"");
    }
    for node in lends.iter().map(|n| journey.node(*n)) {
        change.call("unfence", [node]);
    }
    for node in opens.iter().chain(lends).map(|n| journey.node(*n)) {
        verify.call("check_open", [node]);
        undo.call("fence", [node]);
    }
    let mut notes = vec!["Only what step 18 cordoned is uncordoned.".to_owned()];
    if !opens.is_empty() {
        notes.push(format!(
            "{}: nobody leaves any more; change.sh stops while a pod that leaves is still there.",
            journey.nodes_of(opens)
        ));
    }
    if !lends.is_empty() {
        notes.push(format!(
            "{}: opens before its last pod has left, because it has a free device for pods that the next step evicts.",
            journey.nodes_of(lends)
        ));
    }
    Some(Step {
        number: Journey::number(&journey.order.stages[stage]),
        title: format!("Nodes that stay as they are take pods again ({})", opens.len() + lends.len()),
        hits: NOBODY.to_owned(),
        notes,
        files: vec![
            change.file(&dir, "change.sh"),
            verify.file(&dir, "verify.sh"),
            undo.file(&dir, "undo.sh"),
        ],
        ..Step::at(&dir)
    })
}

/// Pods that the plan takes off a node.
fn left_names<'a>(context: &Context<'a>, node: &str) -> Vec<String> {
    let leave = context.plan.restarting.iter().filter(|r| r.node == node);
    leave
        .filter(|r| r.cause == tesela_model::plan::RestartCause::Moves)
        .map(|r| format!("{}/{}", r.namespace, r.name))
        .collect()
}

/// Step 60: nodes that hold no GPU work any more. They stay cordoned.
pub(super) fn free(context: &Context<'_>, journey: &Journey<'_>) -> Option<Step> {
    let comes_free = |n: &&usize| {
        let name = journey.node(**n);
        let changes = context.nodes.iter().any(|p| p.name == name && !p.changes.is_empty());
        !changes && context.plan.summary.nodes_free.iter().any(|f| f == name)
    };
    let nodes: Vec<&str> = journey.order.hold.iter().filter(comes_free).map(|n| journey.node(*n)).collect();
    if nodes.is_empty() {
        return None;
    }
    let dir = "60-free-nodes";
    let namespace = context.stack_namespace();
    let mut change = Script::new(1, namespace, "Says which nodes can be given back");
    let mut verify = Script::new(1, namespace, "Checks that these nodes hold no GPU pod");
    let mut undo = Script::new(1, namespace, "Lets these nodes take pods again");
    for node in &nodes {
        change.call("check_empty", [*node]);
        verify.call("check_empty", [*node]);
        undo.call("unfence", [*node]);
    }
    change.call("say", [format!("no GPU pod is left on: {}", nodes.join(", "))]);
    Some(Step {
        number: 60,
        title: format!("Nodes that come free ({})", nodes.len()),
        hits: NOBODY.to_owned(),
        notes: vec![format!(
            "No GPU work is left under the plan on {}. What is here stays cordoned: give it back, or use it otherwise \
             after `kubectl uncordon NODE` (./undo.sh does it for all).",
            nodes.join(", ")
        )],
        files: vec![change.file(dir, "change.sh"), verify.file(dir, "verify.sh"), undo.file(dir, "undo.sh")],
        ..Step::at(dir)
    })
}
