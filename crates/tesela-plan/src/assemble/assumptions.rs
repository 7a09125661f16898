//! What the plan rests on, and what it would be otherwise.

use tesela_model::origin::Origin;
use tesela_model::plan::{Assumption, Doubt, Summary, WhatIf};

use crate::decide::{Decision, Shape, percent};
use crate::input::PlanInput;
use crate::planner::ASSUMED_PRODUCT;

pub(super) fn assumptions(
    input: &PlanInput<'_>,
    decisions: &[Decision],
    plan: &Summary,
    sensitivity: &[WhatIf],
) -> Vec<Assumption> {
    let otherwise = |doubt: Doubt, untold: &str| otherwise(doubt, plan, sensitivity, untold);
    let mut list = Vec::new();
    unknown_needs(input, decisions, &mut list);
    let workloads = || input.demand.workloads.iter().zip(decisions);
    if workloads().any(|(w, d)| w.gpu_memory.is_some() && d.shapes.first() != Some(&Shape::Whole)) {
        let overhead = input.settings.context_overhead;
        list.push(Assumption {
            subject: "GPU memory of a CUDA context".into(),
            value: format!("{overhead} for each pod, beside what it needs"),
            origin: Origin::Assumed,
            if_wrong: otherwise(Doubt::ContextOverhead, "with more of it, more GPUs may be needed"),
        });
    }
    let fitted =
        workloads().filter(|(_, d)| matches!(d.shapes.first(), Some(Shape::Instance(_) | Shape::Share(_))));
    let needs = fitted.filter_map(|(w, _)| w.gpu_memory).map(|m| m.origin).collect::<Vec<_>>();
    if let Some(&origin) = needs.iter().max() {
        list.push(Assumption {
            subject: "GPU memory that workloads need".into(),
            value: match needs.len() {
                1 => format!("as known for 1 workload ({})", origins(&needs)),
                n => format!("as known for {n} workloads ({})", origins(&needs)),
            },
            origin,
            if_wrong: otherwise(Doubt::GpuMemory, "with more of it, more GPUs may be needed"),
        });
    }
    if workloads().any(|(w, d)| w.duty.is_none() && matches!(d.shapes.first(), Some(Shape::Share(_)))) {
        let duty = input.settings.assumed_duty_permille;
        list.push(Assumption {
            subject: "how much of the time shared work is busy".into(),
            value: format!("{} where no duty is given", percent(duty)),
            origin: Origin::Assumed,
            if_wrong: otherwise(Doubt::Duty, "if it is busier, more GPUs may be needed"),
        });
    }
    if input.fleet.nodes.iter().any(|n| n.cpu.is_none() || n.memory.is_none()) {
        list.push(Assumption {
            subject: "CPU and memory of nodes".into(),
            value: "enough, where the input does not say".into(),
            origin: Origin::Assumed,
            if_wrong: "pods may stay Pending for CPU or memory: give cpu and memory of each node".into(),
        });
    }
    if input.fleet.nodes.is_empty()
        && input.fleet.buy.len() == 1
        && input.fleet.buy[0].product == ASSUMED_PRODUCT
    {
        list.push(Assumption {
            subject: "hardware".into(),
            value: format!("nodes of 8 {ASSUMED_PRODUCT}"),
            origin: Origin::Assumed,
            if_wrong: "give a Fleet, or pipe in `kubectl get nodes,pods -A -o json`".into(),
        });
    }
    if input.fleet.has_nodes {
        list.push(Assumption {
            subject: "headroom".into(),
            value: match input.fleet.headroom_nodes {
                1 => "1 free node for each pool".into(),
                nodes => format!("{nodes} free nodes for each pool"),
            },
            origin: if input.fleet.headroom_given { Origin::Given } else { Origin::Assumed },
            if_wrong: format!(
                "{}; set headroom in a Fleet",
                otherwise(
                    Doubt::Headroom,
                    "each node more that shall stay free is one node less to give back"
                ),
            ),
        });
    }
    if let Some(prices) = input.prices {
        let date = prices.as_of.as_ref().map(|day| format!(", as of {day}")).unwrap_or_default();
        list.push(Assumption {
            subject: "prices".into(),
            value: format!("those of {}{date}", prices.source),
            origin: Origin::Given,
            if_wrong: otherwise(Doubt::Price, "the money changes with them"),
        });
    }
    list
}

fn unknown_needs(input: &PlanInput<'_>, decisions: &[Decision], list: &mut Vec<Assumption>) {
    let unknown = input
        .demand
        .workloads
        .iter()
        .zip(decisions)
        .filter(|(_, d)| d.shapes.first() == Some(&Shape::AsRequested));
    let (workloads, pods) = unknown.fold((0u64, 0u64), |(n, pods), (w, _)| (n + 1, pods + w.count));
    let (need, hold) = match (pods, workloads) {
        (1, _) => ("1 pod needs".to_owned(), "it holds"),
        (_, 1) => (format!("{pods} pods of 1 workload need"), "they hold"),
        _ => (format!("{pods} pods of {workloads} workloads need"), "they hold"),
    };
    if pods > 0 {
        list.push(Assumption {
            subject: "need of work that states only a request".into(),
            value: format!("{need} all that {hold}: a GPU, an instance or a share"),
            origin: Origin::Assumed,
            if_wrong: "what needs less could go to an instance or a share: write gpuMemory into the demand and plan again".into(),
        });
    }
}

/// How many of each origin, the most trusted first: `10 given, 3 measured`.
fn origins(all: &[Origin]) -> String {
    let of = |origin: Origin| (all.iter().filter(|o| **o == origin).count(), origin);
    let counts = [Origin::Given, Origin::Measured, Origin::Estimated, Origin::Assumed].map(of);
    let told = counts.iter().filter(|(n, _)| *n > 0).map(|(n, origin)| match origin {
        Origin::Given => format!("{n} given"),
        Origin::Measured => format!("{n} measured"),
        Origin::Estimated => format!("{n} estimated"),
        Origin::Assumed => format!("{n} assumed"),
    });
    told.collect::<Vec<_>>().join(", ")
}

/// What planning again gave, in one sentence; what is said where it was not tried, or changes less than what is told.
fn otherwise(doubt: Doubt, plan: &Summary, sensitivity: &[WhatIf], untold: &str) -> String {
    let Some(then) = sensitivity.iter().find(|w| w.subject == doubt) else {
        return untold.to_owned();
    };
    let now = &plan.plan;
    let figures = [
        (then.gpus_held, now.gpus_held, "GPU holds work", "GPUs hold work"),
        (then.nodes_held, now.nodes_held, "node holds work", "nodes hold work"),
        (then.pods_waiting, now.pods_waiting, "pod waits", "pods wait"),
    ];
    let differs = figures.iter().filter(|(then, now, ..)| then != now);
    let say = |(then, now, one, several): &(u64, u64, &str, &str)| {
        format!("{then} {} instead of {now}", if *then == 1 { one } else { several })
    };
    let told = differs.map(say).collect::<Vec<_>>();
    if told.is_empty() {
        return format!("{}: as many GPUs, nodes and waiting pods", then.change);
    }
    format!("{}: {}", then.change, told.join(", "))
}
