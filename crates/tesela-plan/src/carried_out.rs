//! The cluster as it is after a plan has been carried out: the next plan's input.

use std::collections::BTreeMap;

use tesela_model::demand::{Demand, DevicePlace, Holding, PodRef};
use tesela_model::fleet::{Fleet, Gpu, Mode, Node, Offer};
use tesela_model::layout::Instance;
use tesela_model::origin::Origin;
use tesela_model::plan::{Assignment, PlannedGpu, PlannedNode};

/// Fleet and demand after the plan. Hardware that the plan buys is left out with the work on it.
#[must_use]
pub fn carried_out(
    fleet: &Fleet,
    demand: &Demand,
    nodes: &[PlannedNode],
    assignments: &[Assignment],
) -> (Fleet, Demand) {
    let mut after = fleet.clone();
    for node in &mut after.nodes {
        let planned = nodes.iter().find(|n| n.name.as_deref() == Some(&node.name));
        if let Some(planned) = planned {
            apply(node, planned);
        }
    }
    let mut wanted = demand.clone();
    for workload in &mut wanted.workloads {
        let mine = |a: &&Assignment| {
            a.workload == workload.key.name
                && a.namespace == workload.key.namespace
                && a.kind == workload.key.kind
        };
        let here: Vec<&Assignment> = assignments.iter().filter(mine).collect();
        workload.running = here.iter().filter_map(|a| holding(a)).collect();
        workload.count -= here.iter().filter(|a| a.node.is_none()).map(|a| a.count).sum::<u64>();
        // Pods of one workload have one template.
        if let Some(first) = here.first() {
            workload.request = workload.request.take().map(|_| first.resource.clone());
        }
    }
    (after, wanted)
}

fn holding(a: &Assignment) -> Option<Holding> {
    let node = a.node.clone()?;
    let pods = (0..a.count)
        .map(|i| PodRef { namespace: a.namespace.clone(), name: format!("{}-{node}-{i}", a.workload) })
        .collect();
    let place = a.gpu.clone().map(|gpu| DevicePlace { gpu, start: a.start });
    Some(Holding { node, resource: a.resource.clone(), devices: a.gpus, pods, place })
}

fn apply(node: &mut Node, planned: &PlannedNode) {
    node.mig_strategy = planned.mig_strategy;
    let used = planned
        .gpus
        .iter()
        .any(|g| g.used_by.iter().chain(g.instances.iter().flat_map(|i| &i.used_by)).any(|u| u.pods > 0));
    if !used {
        return;
    }
    // Shares that were not offered so before are renamed, so that nobody who wants a whole GPU gets one.
    let offered = |to: &PlannedGpu| {
        node.gpus.iter().any(|is| match is.offer {
            Offer::TimeSliced { replicas } => (to.mode, to.replicas) == (Mode::TimeSliced, Some(replicas)),
            Offer::Mps { replicas } => (to.mode, to.replicas) == (Mode::Mps, Some(replicas)),
            Offer::Exclusive | Offer::Mig { .. } => false,
        })
    };
    let changed = planned.gpus.iter().any(|g| g.replicas.is_some() && !offered(g));
    for (gpu, to) in node.gpus.iter_mut().zip(&planned.gpus) {
        set(gpu, to);
    }
    node.shares_renamed = node.shares_renamed || changed;
}

fn set(gpu: &mut Gpu, to: &PlannedGpu) {
    gpu.offer = match (to.mode, to.replicas) {
        (Mode::Mig, _) => {
            let instances: Vec<Instance> = to
                .instances
                .iter()
                .map(|i| Instance { profile: i.profile.clone(), start: i.start, size: i.size })
                .collect();
            let replicas: BTreeMap<_, _> =
                to.instances.iter().filter_map(|i| Some((i.profile.clone(), i.replicas?))).collect();
            Offer::Mig {
                instances,
                replicas,
                origin: if to.starts == Origin::Estimated { Origin::Estimated } else { Origin::Measured },
            }
        }
        (Mode::TimeSliced, Some(replicas)) => Offer::TimeSliced { replicas },
        (Mode::Mps, Some(replicas)) => Offer::Mps { replicas },
        _ => Offer::Exclusive,
    };
}
