//! The MIG GPUs of a fleet as they are: what they hold, and which pods hold it.
//!
//! kubectl shows how many instances of each profile a node has and how many pods hold one, not where. Starts are then
//! those that observation assumed ([`tesela_model::origin::Origin`]), pods are laid onto instances in a fixed order,
//! and both are marked as assumed.

use std::collections::{BTreeMap, BTreeSet};

use tesela_model::demand::{Demand, Holding, PodRef};
use tesela_model::fleet::{Fleet, MigStrategy, Node, Offer};
use tesela_model::layout::Layout;
use tesela_model::origin::Origin;
use tesela_model::product::{Product, ProfileName};
use tesela_model::resource::GpuDevice;

use super::{Executor, Gpu, Held, Usage};

/// A GPU with MIG on that can be changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InForce {
    /// Its node.
    pub node: String,
    /// Its place among the node's GPUs, from 0.
    pub index: usize,
    /// Its UUID, where known.
    pub uuid: Option<String>,
    /// What it holds; its name is `NODE GPU INDEX`.
    pub gpu: Gpu,
    /// The pods on each of its instances, in the order of `gpu.instances`.
    pub pods: Vec<Vec<PodRef>>,
    /// Whether the starts of its instances are assumed.
    pub starts_assumed: bool,
    /// Whether it is assumed which of its instances are held, and by whom.
    pub seats_assumed: bool,
}

/// GPUs of the product that are left as they are.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Aside {
    /// Their node.
    pub node: String,
    /// How many.
    pub gpus: u64,
    /// Why.
    pub reason: String,
}

/// What a fleet has of one product.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Force {
    /// GPUs that can be changed, by node and place.
    pub gpus: Vec<InForce>,
    /// GPUs that are left alone, by node.
    pub aside: Vec<Aside>,
    /// Pods for which no instance was found on their node.
    pub unseated: Vec<PodRef>,
}

/// Table ids of the products of which some GPU has MIG on.
#[must_use]
pub fn cut_products(fleet: &Fleet) -> BTreeSet<&str> {
    let gpus = fleet.nodes.iter().flat_map(|node| &node.gpus);
    gpus.filter(|gpu| matches!(gpu.offer, Offer::Mig { .. })).map(|gpu| gpu.product.as_str()).collect()
}

/// Reads what a product's GPUs hold. A pod weighs 1, and 1 more for each lower priority among the running workloads.
/// Pinned are pods of workloads that are not movable, pods that hold several devices, and pods that are no demand.
#[must_use]
pub fn in_force(product: &Product, fleet: &Fleet, demand: &Demand) -> Force {
    let mut force = Force::default();
    let holders = holders(demand);
    for node in &fleet.nodes {
        let from = force.gpus.len();
        take_node(product, node, &mut force);
        let mut seats = Seats { product, gpus: &mut force.gpus[from..], unseated: Vec::new() };
        if seats.gpus.is_empty() {
            continue;
        }
        let mut here = holders.get(node.name.as_str()).cloned().unwrap_or_default();
        here.extend(node.held_by_others.iter().map(|holding| Holder { holding, weight: 1, movable: false }));
        for known in [true, false] {
            for holder in here.iter().filter(|h| h.holding.place.is_some() == known) {
                seats.seat(holder);
            }
        }
        force.unseated.extend(seats.unseated);
    }
    force
}

/// Pods that hold the same devices, and what it costs to disturb one.
#[derive(Clone, Copy)]
struct Holder<'a> {
    holding: &'a Holding,
    weight: u64,
    movable: bool,
}

/// Everybody who holds something, by node.
fn holders(demand: &Demand) -> BTreeMap<&str, Vec<Holder<'_>>> {
    let running = demand.workloads.iter().filter(|w| !w.running.is_empty());
    let priorities = running.clone().map(|w| w.priority).collect::<BTreeSet<_>>();
    let mut holders: BTreeMap<&str, Vec<Holder<'_>>> = BTreeMap::new();
    for workload in running {
        let lower = priorities.iter().filter(|p| **p < workload.priority).count() as u64;
        for holding in &workload.running {
            let movable = workload.movable && holding.devices == 1;
            let holder = Holder { holding, weight: 1 + lower, movable };
            holders.entry(holding.node.as_str()).or_default().push(holder);
        }
    }
    holders
}

fn take_node(product: &Product, node: &Node, force: &mut Force) {
    let mut aside: BTreeMap<String, u64> = BTreeMap::new();
    for (index, gpu) in node.gpus.iter().enumerate() {
        if gpu.product != product.id.as_str() {
            continue;
        }
        match taken(product, node, &gpu.offer) {
            Ok((instances, assumed)) => force.gpus.push(InForce {
                node: node.name.clone(),
                index,
                uuid: gpu.uuid.clone(),
                pods: vec![Vec::new(); instances.len()],
                gpu: Gpu {
                    name: format!("{} GPU {index}", node.name),
                    instances,
                    executor: if node.operator { Executor::GpuOperator } else { Executor::Native },
                },
                starts_assumed: assumed,
                seats_assumed: false,
            }),
            Err(reason) => *aside.entry(reason).or_insert(0) += 1,
        }
    }
    let node = &node.name;
    force.aside.extend(aside.into_iter().map(|(reason, gpus)| Aside { node: node.clone(), gpus, reason }));
}

/// The instances of a GPU and whether their starts are assumed, or why it is left alone.
fn taken(product: &Product, node: &Node, offer: &Offer) -> Result<(Vec<Held>, bool), String> {
    let Offer::Mig { instances, replicas, origin } = offer else {
        return Err("MIG is off".to_owned());
    };
    if let Some(why) = &node.unusable {
        return Err(why.clone());
    }
    if !node.schedulable {
        return Err("the node is cordoned or not ready, so no pod can move there".to_owned());
    }
    match node.mig_strategy {
        MigStrategy::Mixed => {}
        MigStrategy::Single => {
            return Err("the node offers instances of one profile only (MIG strategy single)".to_owned());
        }
        MigStrategy::None => {
            return Err("the node does not offer its instances (MIG strategy none)".to_owned());
        }
    }
    if !replicas.is_empty() {
        return Err("its instances are shared by replicas".to_owned());
    }
    let placed = instances.iter().map(|i| (i.profile.clone(), i.start));
    let layout = Layout::new(product, placed).map_err(|fault| fault.to_string())?;
    let held = |i: &tesela_model::layout::Instance| Held {
        profile: i.profile.clone(),
        start: i.start,
        usage: Usage::Idle,
    };
    let assumed = *origin > Origin::Measured && !instances.is_empty();
    Ok((layout.instances().iter().map(held).collect(), assumed))
}

/// The instances of one node while its pods are laid onto them.
struct Seats<'a> {
    product: &'a Product,
    gpus: &'a mut [InForce],
    unseated: Vec<PodRef>,
}

impl Seats<'_> {
    fn seat(&mut self, holder: &Holder<'_>) {
        let GpuDevice::Mig(name) = &holder.holding.resource.device else { return };
        // Another product's profile is held on another GPU of the node.
        let Ok(profile) = self.product.profile(name.as_str()) else { return };
        let name = profile.name.clone();
        for pod in &holder.holding.pods {
            for _ in 0..holder.holding.devices {
                if !self.seat_device(holder, &name, pod) {
                    self.unseated.push(pod.clone());
                }
            }
        }
    }

    fn seat_device(&mut self, holder: &Holder<'_>, name: &ProfileName, pod: &PodRef) -> bool {
        let place = holder.holding.place.as_ref();
        let here = |gpu: &InForce| place.is_none_or(|p| gpu.uuid.as_ref().is_none_or(|uuid| *uuid == p.gpu));
        let start = place.and_then(|p| p.start);
        let fits = |held: &Held| {
            held.profile == *name && held.usage == Usage::Idle && start.is_none_or(|s| s == held.start)
        };
        let found = self
            .gpus
            .iter()
            .enumerate()
            .filter(|(_, gpu)| here(gpu))
            .find_map(|(at, gpu)| Some((at, gpu.gpu.instances.iter().position(fits)?)));
        let Some((at, instance)) = found else { return false };
        let same = self.gpus.iter().flat_map(|gpu| &gpu.gpu.instances).filter(|held| held.profile == *name);
        let only = same.count() == 1;
        if !only && (start.is_none() || self.gpus[at].uuid.is_none()) {
            let like = |gpu: &&mut InForce| gpu.gpu.instances.iter().any(|held| held.profile == *name);
            self.gpus.iter_mut().filter(like).for_each(|gpu| gpu.seats_assumed = true);
        }
        let gpu = &mut self.gpus[at];
        gpu.gpu.instances[instance].usage = Usage::Busy { weight: holder.weight, pinned: !holder.movable };
        gpu.pods[instance].push(pod.clone());
        true
    }
}
