//! What each GPU looks like now, and who holds it.
//!
//! kubectl tells what a pod holds by resource and node, not on which GPU. So pods are laid onto the first GPUs that
//! offer such a device, after those of which a Fleet said where they are.

use std::collections::{BTreeMap, BTreeSet};

use tesela_model::demand::{Demand, Holding, Workload};
use tesela_model::fleet::{Fleet, Gpu, MigStrategy, Node, Offer};
use tesela_model::layout::Instance;
use tesela_model::origin::Origin;
use tesela_model::plan::{GpuToday, NodeToday, PlannedInstance, Use};
use tesela_model::resource::GpuResource;

use super::has_gpus;

/// Who holds it (`None`: a pod that is no demand), and what.
type Held<'a> = (Option<&'a Workload>, &'a Holding);

/// The key `nodes_today` of a plan, by node.
#[must_use]
pub fn nodes(fleet: &Fleet, demand: &Demand) -> Vec<NodeToday> {
    let mut held: BTreeMap<&str, Vec<Held<'_>>> = BTreeMap::new();
    for workload in &demand.workloads {
        for holding in &workload.running {
            held.entry(&holding.node).or_default().push((Some(workload), holding));
        }
    }
    let today = |node: &Node| {
        let mut all = held.get(node.name.as_str()).cloned().unwrap_or_default();
        all.extend(node.held_by_others.iter().map(|h| (None, h)));
        NodeToday { name: node.name.clone(), unusable: node.unusable.clone(), gpus: gpus(node, &all) }
    };
    let mut nodes: Vec<NodeToday> = fleet.nodes.iter().filter(|n| has_gpus(n)).map(today).collect();
    nodes.sort_by(|a, b| a.name.cmp(&b.name));
    nodes
}

fn gpus(node: &Node, held: &[Held<'_>]) -> Vec<GpuToday> {
    let mut gpus: Vec<GpuToday> = node.gpus.iter().map(empty).collect();
    // Devices that no GPU has left: nothing is looked for twice.
    let mut none_left = BTreeSet::new();
    for placed in [true, false] {
        for (workload, holding) in held.iter().filter(|(_, h)| h.place.is_some() == placed) {
            let user = workload.map_or_else(Use::default, |w| Use {
                pods: 0,
                namespace: w.key.namespace.clone(),
                kind: w.key.kind.clone(),
                workload: w.key.name.clone(),
            });
            let units = (holding.pods.len() as u64).saturating_mul(u64::from(holding.devices));
            for _ in 0..units {
                if none_left.contains(&holding.resource) {
                    break;
                }
                let known = holding.place.as_ref();
                let there =
                    known.is_some_and(|p| seat(node, &mut gpus, holding, Some((&p.gpu, p.start)), &user));
                if !there && !seat(node, &mut gpus, holding, None, &user) {
                    none_left.insert(holding.resource.clone());
                }
            }
        }
    }
    gpus
}

fn empty(gpu: &Gpu) -> GpuToday {
    let mut today = GpuToday {
        uuid: gpu.uuid.clone(),
        product: gpu.product.clone(),
        mode: gpu.offer.mode(),
        replicas: None,
        instances: Vec::new(),
        starts: Origin::Given,
        used_by: Vec::new(),
    };
    match &gpu.offer {
        Offer::Exclusive => {}
        Offer::TimeSliced { replicas } | Offer::Mps { replicas } => today.replicas = Some(*replicas),
        Offer::Mig { instances, replicas, origin } => {
            let cut = |i: &Instance| PlannedInstance {
                profile: i.profile.clone(),
                start: i.start,
                size: i.size,
                replicas: replicas.get(&i.profile).copied(),
                used_by: Vec::new(),
            };
            today.instances = instances.iter().map(cut).collect();
            today.instances.sort_by(|a, b| (a.start, &a.profile).cmp(&(b.start, &b.profile)));
            today.starts = *origin;
        }
    }
    today
}

/// Lays one device of a pod onto a GPU; `false` when none is left.
fn seat(
    node: &Node,
    gpus: &mut [GpuToday],
    holding: &Holding,
    place: Option<(&str, Option<u32>)>,
    user: &Use,
) -> bool {
    let resource = &holding.resource;
    let named =
        |base: GpuResource, shared: bool| if shared && node.shares_renamed { base.renamed() } else { base };
    let here = |gpu: &&mut GpuToday| place.is_none_or(|(uuid, _)| gpu.uuid.as_deref() == Some(uuid));
    for gpu in gpus.iter_mut().filter(here) {
        if gpu.mode != tesela_model::fleet::Mode::Mig {
            let room = u64::from(gpu.replicas.unwrap_or(1));
            if named(GpuResource::gpu(), gpu.replicas.is_some()) == *resource && pods(&gpu.used_by) < room {
                join(&mut gpu.used_by, user);
                return true;
            }
            continue;
        }
        let start = place.and_then(|(_, start)| start);
        let fits = |i: &&mut PlannedInstance| {
            let base = match node.mig_strategy {
                MigStrategy::Mixed => GpuResource::mig(i.profile.clone()),
                MigStrategy::None | MigStrategy::Single => GpuResource::gpu(),
            };
            named(base, i.replicas.is_some()) == *resource
                && start.is_none_or(|s| s == i.start)
                && pods(&i.used_by) < u64::from(i.replicas.unwrap_or(1))
        };
        if let Some(instance) = gpu.instances.iter_mut().find(fits) {
            join(&mut instance.used_by, user);
            return true;
        }
    }
    false
}

fn pods(users: &[Use]) -> u64 {
    users.iter().map(|u| u.pods).sum()
}

fn join(users: &mut Vec<Use>, user: &Use) {
    match users.iter_mut().find(|u| u.namespace == user.namespace && u.workload == user.workload) {
        Some(known) => known.pods += 1,
        None => users.push(Use { pods: 1, ..user.clone() }),
    }
}
