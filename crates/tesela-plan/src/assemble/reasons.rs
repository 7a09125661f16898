//! One sentence for each assignment and each pod without a seat, that a person can check.

use tesela_model::finding::{Finding, Severity};
use tesela_model::fleet::Mode;
use tesela_model::plan::Assignment;
use tesela_model::resource::{GpuDevice, GpuResource};

use super::{Seat, Taken};
use crate::decide::{Decision, InstanceNeed, Shape};
use crate::input::PlanInput;
use crate::place::{most_replicas, wanted_profile};
use crate::planner::Outcome;
use crate::running;
use crate::world::{Kind, Lost};

pub(super) fn reason(
    input: &PlanInput<'_>,
    decision: &Decision,
    outcome: &Outcome<'_>,
    seat: &Seat,
    taken: &Taken,
) -> String {
    let kind = outcome.world.kinds.iter().find(|k| k.name == seat.product);
    let why = &decision.reason;
    let wanted = decision.shapes.first();
    let workload = &input.demand.workloads[seat.workload];
    let as_asked = workload.request.as_ref() == Some(&seat.resource) && workload.gpus == seat.devices;
    if taken.staying > 0 && wanted == Some(&Shape::AsRequested) && !as_asked {
        let held = format!("{} × {}", seat.devices, seat.resource);
        return format!(
            "holds {held}, which is not what its other pods ask for; its need is not known, so it keeps that"
        );
    }
    if taken.staying > 0 && !is_as_decided(wanted, seat) {
        let stay = if workload.movable {
            "it stays where it runs, since moving it would save no GPU or node"
        } else {
            "it stays where it runs, since it must not be moved"
        };
        return format!("{why}; {stay}");
    }
    match (wanted, seat.mode) {
        (Some(Shape::Instance(InstanceNeed::Memory(need))), Mode::Mig) => {
            let profile = seat.profile.as_ref().map_or(String::new(), ToString::to_string);
            let overhead = input.settings.context_overhead;
            format!(
                "{why}: {profile} is the smallest profile of {} that holds {need} ({overhead} of it for the CUDA context)",
                seat.product
            )
        }
        (Some(Shape::Share(need)), Mode::TimeSliced | Mode::Mps) => {
            let most = most_replicas(kind.and_then(|k| k.memory), need, &input.settings);
            let replicas = seat.replicas.unwrap_or(1);
            format!(
                "{why}: {replicas} such shares fit one {} by memory and load (at most {most})",
                seat.product
            )
        }
        (Some(Shape::Instance(_)), Mode::Exclusive) => {
            format!("{why}; {}, so it gets a whole {}", no_instance(kind, wanted), seat.product)
        }
        (Some(Shape::Share(_)), Mode::Exclusive | Mode::Mig) => {
            let got = if seat.mode == Mode::Mig { "an instance" } else { "a whole GPU" };
            format!("{why}; no share was to be had where it may run, so it gets {got}")
        }
        (Some(Shape::AsRequested), _) if seat.resource == GpuResource::gpu() && seat.mode == Mode::Mig => {
            format!("{why}: an instance on this node, whose MIG strategy is single")
        }
        _ => why.clone(),
    }
}

fn is_as_decided(wanted: Option<&Shape>, seat: &Seat) -> bool {
    match wanted {
        None | Some(Shape::AsRequested) => true,
        Some(Shape::Whole) => seat.mode == Mode::Exclusive,
        Some(Shape::Instance(_)) => seat.mode == Mode::Mig && seat.replicas.is_none(),
        Some(Shape::Share(need)) => seat.mode == need.mode,
    }
}

fn no_instance(kind: Option<&Kind<'_>>, wanted: Option<&Shape>) -> &'static str {
    let (Some(kind), Some(Shape::Instance(need))) = (kind, wanted) else {
        return "no instance was to be had";
    };
    match &kind.rules {
        None => "this product has no MIG",
        Some(rules) if wanted_profile(rules, need).is_none() => "no profile of this product is large enough",
        Some(_) => "no instance was to be had where it may run",
    }
}

/// The entry of running pods whose device cannot be seen: they keep what they hold.
pub(super) fn kept_unseen(input: &PlanInput<'_>, lost: &Lost) -> Assignment {
    let workload = &input.demand.workloads[lost.workload];
    let resource = lost.resource.clone();
    let (mode, profile) = match &resource.device {
        GpuDevice::Mig(profile) => (Mode::Mig, Some(profile.clone())),
        GpuDevice::Gpu if resource.shared => (Mode::TimeSliced, None),
        GpuDevice::Gpu => (Mode::Exclusive, None),
    };
    let product = input.fleet.nodes.iter().find(|n| n.name == lost.node).and_then(|n| n.gpus.first());
    Assignment {
        workload: workload.key.name.clone(),
        kind: workload.key.kind.clone(),
        namespace: workload.key.namespace.clone(),
        tenant: workload.tenant.clone(),
        mode,
        replicas: None,
        resource,
        count: lost.pods,
        gpus: lost.devices,
        node: Some(lost.node.clone()),
        gpu: None,
        product: product.map_or_else(|| "unknown".to_owned(), |g| g.product.clone()),
        profile,
        start: None,
        staying: lost.pods,
        request_today: None,
        reason: format!("{}; it keeps that, and nothing is planned around it", lost.reason),
    }
}

/// What is short, and where it was looked for.
pub(super) fn why_unmet(
    input: &PlanInput<'_>,
    decision: &Decision,
    outcome: &Outcome<'_>,
    w: usize,
) -> String {
    let workload = &input.demand.workloads[w];
    let world = &outcome.world;
    let mut selected = 0u64;
    let mut eligible = Vec::new();
    let (mut closed, mut tainted, mut no_cpu, mut no_memory, mut right_product) =
        (0u64, None, 0u64, 0u64, 0u64);
    for node in &world.nodes {
        let Some(name) = node.name() else { continue };
        if node.gpus.is_empty() || !workload.constraints.selects(name, node.labels) {
            continue;
        }
        selected += 1;
        if !node.open {
            closed += 1;
            continue;
        }
        if let crate::world::Source::Exists(n) = node.source
            && let Some(taint) = workload.constraints.repelled_by(&n.taints)
        {
            tainted = Some(taint.key.clone());
            continue;
        }
        right_product += 1;
        eligible.push(node);
        no_cpu += u64::from(node.cpu_left.is_some_and(|left| left < workload.cpu.0));
        no_memory += u64::from(node.memory_left.is_some_and(|left| left < workload.memory.0));
    }
    let what = wanted_words(decision, workload);
    if selected == 0 {
        return format!("wants {what}; no GPU node satisfies its node selector and affinity");
    }
    if right_product == 0 {
        let taint =
            tainted.map_or(String::new(), |t| format!(" or have the taint {t}, which it does not tolerate"));
        return format!(
            "wants {what}; all {selected} nodes it may go to take no new pods ({closed} closed){taint}"
        );
    }
    if no_cpu == right_product {
        return format!(
            "wants {what} and {} CPU; none of its {right_product} nodes has that much CPU left",
            workload.cpu
        );
    }
    if no_memory == right_product {
        return format!(
            "wants {what} and {} of memory; none of its {right_product} nodes has that left",
            workload.memory
        );
    }
    if workload.same_node {
        return format!(
            "wants {what} for all its pods on one node; none of its {right_product} nodes has room for all"
        );
    }
    let most = eligible.iter().map(|n| n.gpus.iter().filter(|g| !g.used()).count()).max().unwrap_or(0);
    let free = eligible.iter().filter(|n| n.gpus.iter().any(|g| !g.used())).count();
    if free == 0 {
        return format!("wants {what}; every GPU of its {right_product} nodes is in use");
    }
    format!(
        "wants {what}; {free} of its {right_product} nodes have free GPUs, at most {most} on one, and none can give that"
    )
}

fn wanted_words(decision: &Decision, workload: &tesela_model::demand::Workload) -> String {
    match decision.shapes.first() {
        Some(Shape::Whole) | None if workload.gpus > 1 => format!("{} whole GPUs on one node", workload.gpus),
        Some(Shape::Whole) | None => "a whole GPU".to_owned(),
        Some(Shape::Instance(InstanceNeed::Profile(profile))) => format!("an instance {profile}"),
        Some(Shape::Instance(InstanceNeed::Memory(need))) => {
            format!("an instance with {need} or a whole GPU")
        }
        Some(Shape::Share(_)) => "a share, an instance or a whole GPU".to_owned(),
        Some(Shape::AsRequested) => {
            let request = workload.request.as_ref().map_or(String::new(), ToString::to_string);
            format!("{} × {request}", workload.gpus)
        }
    }
}

/// Promises of isolation that today's seats break and that the plan could not mend.
pub(super) fn findings(input: &PlanInput<'_>, decisions: &[Decision], outcome: &Outcome<'_>) -> Vec<Finding> {
    let mut found = Vec::new();
    for (w, workload) in input.demand.workloads.iter().enumerate() {
        let decision = &decisions[w];
        if workload.running.iter().all(|h| running::isolates(input, decision, w, h)) {
            continue;
        }
        let moved = outcome.moving.contains(&w);
        let unseated = outcome.unseated.iter().any(|u| u.workload == w);
        found.push(Finding {
            severity: Severity::Error,
            rule: if unseated { "isolation-broken-no-room" } else { "isolation-broken" }.into(),
            subject: workload.key.to_string(),
            message: format!(
                "shares a device with others today, though tenant {} needs isolation `{}` for it",
                workload.tenant, decision.isolation
            ),
            fix: if moved && unseated {
                "no device of its own is free for all its pods (see unmet): add a GPU, or free one".into()
            } else if moved {
                "carry out this plan: it moves the pods to a device of their own".into()
            } else {
                "set movable: true for it, so that the plan may move it".into()
            },
        });
    }
    found
}
