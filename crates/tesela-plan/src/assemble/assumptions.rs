//! What the plan rests on, and what it would be otherwise: found by planning again with the other value.

use tesela_model::origin::Origin;
use tesela_model::plan::Assumption;
use tesela_model::quantity::Mib;

use crate::decide::{Decision, Shape, decide_all, percent};
use crate::input::{PlanInput, Settings};
use crate::planner::{ASSUMED_PRODUCT, Outcome, search};
use crate::world::GpuState;

/// Beyond this many pods a second plan for each assumption takes too long; then only the direction is said.
const REPLAN_PODS: u64 = 4_000;

pub(super) fn assumptions(
    input: &PlanInput<'_>,
    decisions: &[Decision],
    outcome: &Outcome<'_>,
) -> Vec<Assumption> {
    let mut list = Vec::new();
    unknown_needs(input, decisions, &mut list);
    let workloads = || input.demand.workloads.iter().zip(decisions);
    if workloads().any(|(w, d)| w.gpu_memory.is_some() && d.shapes.first() != Some(&Shape::Whole)) {
        let overhead = input.settings.context_overhead;
        let doubled = Settings { context_overhead: Mib(overhead.0.saturating_mul(2)), ..input.settings };
        list.push(Assumption {
            subject: "GPU memory of a CUDA context".into(),
            value: format!("{overhead} for each pod, beside what it needs"),
            origin: Origin::Assumed,
            if_wrong: otherwise(input, outcome, doubled, &format!("with {}", doubled.context_overhead)),
        });
    }
    if workloads().any(|(w, d)| w.duty.is_none() && matches!(d.shapes.first(), Some(Shape::Share(_)))) {
        let duty = input.settings.assumed_duty_permille;
        let doubled = Settings { assumed_duty_permille: duty.saturating_mul(2).min(1000), ..input.settings };
        list.push(Assumption {
            subject: "how much of the time shared work is busy".into(),
            value: format!("{} where no duty is given", percent(duty)),
            origin: Origin::Assumed,
            if_wrong: otherwise(
                input,
                outcome,
                doubled,
                &format!("with {}", percent(doubled.assumed_duty_permille)),
            ),
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
            origin: Origin::Assumed,
            if_wrong:
                "each node more that shall stay free is one node less to give back; set headroom in a Fleet"
                    .into(),
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

/// What planning again with other settings gives, in one sentence.
fn otherwise(input: &PlanInput<'_>, outcome: &Outcome<'_>, settings: Settings, with: &str) -> String {
    let pods: u64 = input.demand.workloads.iter().map(|w| w.count).sum();
    if pods > REPLAN_PODS {
        return format!("{with}, more GPUs may be needed");
    }
    let other = PlanInput { settings, ..*input };
    let again = search(&other, &decide_all(other.demand, &settings));
    let (now, then) = (figures(outcome), figures(&again));
    if now == then {
        return format!("{with}, the plan uses as many GPUs and leaves as many pods waiting");
    }
    let waiting = if now.1 == then.1 {
        String::new()
    } else {
        format!(" and {} instead of {} pods wait", then.1, now.1)
    };
    format!("{with}, it uses {} GPUs instead of {}{waiting}", then.0, now.0)
}

fn figures(outcome: &Outcome<'_>) -> (usize, u64) {
    let gpus = outcome.world.nodes.iter().flat_map(|n| &n.gpus).filter(|g: &&GpuState<'_>| g.used()).count();
    (gpus, outcome.unseated.iter().map(|u| u.count).sum())
}
