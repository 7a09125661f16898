//! Why pods find no seat: what is short, and where it was looked for.

use tesela_model::demand::Workload;
use tesela_model::fleet::Mode;

use crate::decide::{Decision, InstanceNeed, Shape, need_with_context};
use crate::input::PlanInput;
use crate::planner::Outcome;
use crate::world::{NodeState, Source};

/// One sentence a person can check.
pub(super) fn why(input: &PlanInput<'_>, decision: &Decision, outcome: &Outcome<'_>, w: usize) -> String {
    let workload = &input.demand.workloads[w];
    let what = wanted(decision, workload);
    let world = &outcome.world;
    let there = || world.nodes.iter().filter(|n| n.name().is_some() && !n.gpus.is_empty());
    if there().next().is_none() {
        let why = match input.fleet.buy.is_empty() {
            true => "there is no GPU node",
            false if workload.same_node => "no node that may be bought has room for all its pods",
            false => "no node that may be bought has room for it",
        };
        return format!("wants {what}; {why}");
    }
    let selected =
        there().filter(|n| n.name().is_some_and(|name| workload.constraints.selects(name, n.labels)));
    let selected: Vec<_> = selected.collect();
    if selected.is_empty() {
        return format!("wants {what}; no GPU node satisfies its node selector and affinity");
    }
    let of_product = |n: &&&NodeState<'_>| {
        let named = |kind: usize| workload.products.iter().any(|p| *p == world.kinds[kind].name);
        workload.products.is_empty() || n.gpus.iter().any(|g| named(g.kind))
    };
    let right: Vec<_> = selected.iter().filter(of_product).copied().collect();
    if right.is_empty() {
        let products = workload.products.join(" or ");
        return format!(
            "wants {what} on {products}; none of {} it may go to has that",
            nodes(selected.len())
        );
    }
    let open: Vec<_> = right.iter().filter(|n| n.open).copied().collect();
    let taint = |n: &NodeState<'_>| match n.source {
        Source::Exists(node) => workload.constraints.repelled_by(&node.taints).map(|t| t.key.clone()),
        Source::Bought => None,
    };
    let eligible: Vec<_> = open.iter().filter(|n| taint(n).is_none()).copied().collect();
    if eligible.is_empty() {
        let closed = right.len() - open.len();
        let tainted = open.iter().find_map(|n| taint(n));
        return no_new_pods(&what, right.len(), closed, tainted.as_deref());
    }
    let short = || {
        let need = need_with_context(workload, &input.settings)?;
        let kinds = eligible.iter().flat_map(|n| n.gpus.iter().map(|g| &world.kinds[g.kind]));
        let largest = kinds.map(|k| k.memory).max_by_key(|memory| memory.map_or(u64::MAX, |m| m.0))??;
        (need > largest).then(|| {
            format!(
                "wants {what}; it needs {need} with its context, and the largest GPU of its {} has {largest}",
                nodes(eligible.len())
            )
        })
    };
    short()
        .or_else(|| room(workload, &what, &eligible))
        .unwrap_or_else(|| devices(decision, workload, &what, &eligible))
}

fn no_new_pods(what: &str, nodes: usize, closed: usize, taint: Option<&str>) -> String {
    let open = nodes - closed;
    let closed = match closed {
        0 => String::new(),
        1 => "1 is cordoned, not ready or not to be planned with".to_owned(),
        n => format!("{n} are cordoned, not ready or not to be planned with"),
    };
    let tainted = taint.map_or(String::new(), |t| match open {
        1 => format!("1 has the taint {t}, which it does not tolerate"),
        n => format!("{n} have taints that it does not tolerate, such as {t}"),
    });
    let and = if closed.is_empty() || tainted.is_empty() { "" } else { ", " };
    format!("wants {what}; of {} it may go to, {closed}{and}{tainted}", self::nodes(nodes))
}

/// CPU, memory, and room for all at once.
fn room(workload: &Workload, what: &str, eligible: &[&NodeState<'_>]) -> Option<String> {
    let short = |left: Option<u64>, needs: u64| left.is_some_and(|left| left < needs);
    let none = |of: &dyn Fn(&NodeState<'_>) -> bool| eligible.iter().all(|n| of(n));
    let nodes = nodes(eligible.len());
    if none(&|n| short(n.cpu_left, workload.cpu.0)) {
        return Some(format!(
            "wants {what} and {} CPU; none of its {nodes} has that much CPU left",
            workload.cpu
        ));
    }
    if none(&|n| short(n.memory_left, workload.memory.0)) {
        return Some(format!(
            "wants {what} and {} of memory; none of its {nodes} has that left",
            workload.memory
        ));
    }
    if none(&|n| short(n.pods_left, 1)) {
        return Some(format!("wants {what}; each of its {nodes} has as many pods as kubelet takes"));
    }
    workload
        .same_node
        .then(|| format!("wants {what} for all its pods on one node; none of its {nodes} has room for all"))
}

/// GPUs are short, or those that are free cannot become what is wanted.
fn devices(decision: &Decision, workload: &Workload, what: &str, eligible: &[&NodeState<'_>]) -> String {
    let idle = |n: &&&NodeState<'_>| n.gpus.iter().filter(|g| !g.used() && !g.unwell).count();
    let most = eligible.iter().map(|n| idle(&n)).max().unwrap_or(0);
    let free = eligible.iter().filter(|n| idle(n) > 0).count();
    let nodes = nodes(eligible.len());
    if free == 0 {
        return format!("wants {what}; every GPU of its {nodes} is in use");
    }
    let here = if free == 1 { "1 has free GPUs".to_owned() } else { format!("{free} have free GPUs") };
    let most = format!("of its {nodes}, {here} (at most {most} on one)");
    let why = match decision.shapes.first() {
        Some(Shape::Whole) | None if workload.gpus > 1 => "fewer than it wants, or short of CPU or memory",
        Some(Shape::Whole) | None => {
            "but these are offered in shares or instances, and pods that stay keep it so, or CPU or memory is short"
        }
        _ => {
            "but these cannot be cut or shared so while the node's other pods stay, or CPU or memory is short"
        }
    };
    format!("wants {what}; {most}, {why}")
}

fn nodes(number: usize) -> String {
    if number == 1 { "1 node".to_owned() } else { format!("{number} nodes") }
}

fn wanted(decision: &Decision, workload: &Workload) -> String {
    let by_hand = workload.mode.is_some() || workload.profile.is_some();
    let or = |first: &str, others: &str| if by_hand { first.to_owned() } else { format!("{first}{others}") };
    match decision.shapes.first() {
        Some(Shape::Whole) | None if workload.gpus > 1 => format!("{} whole GPUs on one node", workload.gpus),
        Some(Shape::Whole) | None => "a whole GPU".to_owned(),
        Some(Shape::Instance(InstanceNeed::Profile(profile))) => format!("an instance {profile}"),
        Some(Shape::Instance(InstanceNeed::Least { memory, .. })) => {
            or(&format!("an instance with {memory}"), " or a whole GPU")
        }
        Some(Shape::Share(need)) if need.mode == Mode::Mps => "an MPS share".to_owned(),
        Some(Shape::Share(_)) => or("a share", ", an instance or a whole GPU"),
        Some(Shape::AsRequested) => {
            let request = workload.request.as_ref().map_or(String::new(), ToString::to_string);
            format!("{} × {request}", workload.gpus)
        }
    }
}
