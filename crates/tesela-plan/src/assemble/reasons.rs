//! One sentence for each assignment and each pod without a seat, that a person can check.

use tesela_model::finding::{Finding, Severity};
use tesela_model::fleet::Mode;
use tesela_model::plan::Assignment;
use tesela_model::resource::{GpuDevice, GpuResource};

use super::{Seat, Taken};
use crate::decide::{Decision, InstanceNeed, Shape, percent};
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
    if taken.staying > 0 && !is_as_decided(kind, wanted, seat) {
        let by_hand = workload.mode.is_some() || workload.profile.is_some();
        let stay = if workload.movable && by_hand {
            "no seat of that kind was to be had, so it keeps what it holds"
        } else if workload.movable {
            "it stays where it runs, since moving it would save no GPU or node"
        } else {
            "it stays where it runs, since it must not be moved"
        };
        return format!("{why}; {stay}");
    }
    match (wanted, seat.mode) {
        (Some(Shape::Instance(InstanceNeed::Least { memory, compute })), Mode::Mig) => {
            let profile = seat.profile.as_ref().map_or(String::new(), ToString::to_string);
            let overhead = input.settings.context_overhead;
            let reason = format!(
                "{why}: {profile} is the smallest profile of {} that holds {memory} ({overhead} of it for the CUDA context)",
                seat.product
            );
            if *compute == 0 {
                reason
            } else {
                format!("{reason} and has {} of the compute", percent(*compute))
            }
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

fn is_as_decided(kind: Option<&Kind<'_>>, wanted: Option<&Shape>, seat: &Seat) -> bool {
    match wanted {
        Some(Shape::Instance(InstanceNeed::Profile(profile))) => {
            let rules = kind.and_then(|k| k.rules.as_ref());
            let named = rules.and_then(|r| Some(&r.profiles.get(r.find(profile)?)?.name));
            seat.mode == Mode::Mig && seat.replicas.is_none() && seat.profile.as_ref() == named.copied()
        }
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
        Some(rules) if wanted_profile(rules, need).is_none() => match need {
            InstanceNeed::Least { memory, compute }
                if *compute > 0 && rules.smallest(*memory, 0).is_some() =>
            {
                "no smaller instance of this product has the compute that it keeps busy"
            }
            _ => "no profile of this product is large enough",
        },
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

/// Promises of isolation that today's seats break and that the plan could not mend.
pub(super) fn findings(input: &PlanInput<'_>, decisions: &[Decision], outcome: &Outcome<'_>) -> Vec<Finding> {
    let mut found = Vec::new();
    for (w, workload) in input.demand.workloads.iter().enumerate() {
        let decision = &decisions[w];
        if workload.running.iter().all(|h| running::isolates(input, &outcome.sharers, decision, w, h)) {
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
