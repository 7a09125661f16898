//! What each GPU of a node looks like today.
//!
//! kubectl tells what a pod holds by resource and node, not on which GPU; so the devices held are drawn on the
//! first GPUs that offer them, after those of which a Fleet said where they are.

use std::collections::BTreeMap;

use tesela_model::demand::{Demand, Holding};
use tesela_model::fleet::{Gpu, MigStrategy, Node, Offer};
use tesela_model::layout::Instance;
use tesela_model::product::ProductTable;
use tesela_model::resource::GpuResource;

use crate::table::tile::{Face, Piece};

/// Who holds what, by node.
pub(super) fn holdings(demand: &Demand) -> BTreeMap<&str, Vec<&Holding>> {
    let mut by_node: BTreeMap<&str, Vec<&Holding>> = BTreeMap::new();
    for holding in demand.workloads.iter().flat_map(|w| &w.running) {
        by_node.entry(&holding.node).or_default().push(holding);
    }
    by_node
}

/// The faces of a node's GPUs, in their order.
pub(super) fn faces(node: &Node, held: &[&Holding], products: &ProductTable) -> Vec<Face> {
    let mut faces = node.gpus.iter().map(|gpu| empty(gpu, products)).collect::<Vec<_>>();
    let all = || held.iter().copied().chain(&node.held_by_others);
    let devices = |h: &Holding| (h.pods.len() as u64).saturating_mul(u64::from(h.devices));
    let mut left = BTreeMap::<&GpuResource, u64>::new();
    for holding in all() {
        let wanted = devices(holding);
        let place = holding.place.as_ref();
        let index = place.and_then(|p| node.gpus.iter().position(|g| g.uuid.as_deref() == Some(&p.gpu)));
        let taken = match index {
            Some(index) => {
                let start = place.and_then(|p| p.start);
                take(node, &node.gpus[index], &mut faces[index], &holding.resource, start, wanted)
            }
            None => 0,
        };
        *left.entry(&holding.resource).or_default() += wanted - taken;
    }
    for (resource, mut wanted) in left {
        for (gpu, face) in node.gpus.iter().zip(&mut faces) {
            wanted -= take(node, gpu, face, resource, None, wanted);
        }
    }
    faces
}

fn empty(gpu: &Gpu, products: &ProductTable) -> Face {
    match &gpu.offer {
        Offer::Exclusive => Face::Whole { held: false },
        Offer::TimeSliced { replicas } => Face::Shared { mps: false, replicas: *replicas, held: 0 },
        Offer::Mps { replicas } => Face::Shared { mps: true, replicas: *replicas, held: 0 },
        Offer::Mig { instances, replicas, .. } => {
            let piece = |i: &Instance| Piece {
                start: i.start,
                size: i.size,
                slices: i.profile.slices(),
                shared: replicas.contains_key(&i.profile),
                held: false,
            };
            let pieces = instances.iter().map(piece).collect::<Vec<_>>();
            Face::Cut { units: units(&gpu.product, &pieces, products), pieces }
        }
    }
}

/// Memory units of a GPU: the table's, else as far as its instances reach.
pub(super) fn units(product: &str, pieces: &[Piece], products: &ProductTable) -> u32 {
    let known = products.find(product).map(tesela_model::product::Product::units).unwrap_or(0);
    let reach = pieces.iter().map(|p| p.start + p.size).max().unwrap_or(0);
    if known.max(reach) == 0 { 8 } else { known.max(reach) }
}

/// Takes up to `wanted` devices of a resource from a GPU; says how many there were.
fn take(
    node: &Node,
    gpu: &Gpu,
    face: &mut Face,
    resource: &GpuResource,
    start: Option<u32>,
    wanted: u64,
) -> u64 {
    if wanted == 0 {
        return 0;
    }
    match face {
        Face::Whole { held } if !*held && *resource == GpuResource::gpu() => {
            *held = true;
            1
        }
        Face::Shared { replicas, held, .. } if *resource == named(node, GpuResource::gpu(), true) => {
            let taken = wanted.min(u64::from(*replicas).saturating_sub(*held));
            *held += taken;
            taken
        }
        Face::Cut { pieces, .. } => {
            let Offer::Mig { instances, replicas, .. } = &gpu.offer else {
                return 0;
            };
            let mut taken = 0;
            for (instance, piece) in instances.iter().zip(pieces) {
                let shares = replicas.get(&instance.profile).copied();
                let base = match node.mig_strategy {
                    MigStrategy::Mixed => GpuResource::mig(instance.profile.clone()),
                    _ => GpuResource::gpu(),
                };
                let fits = named(node, base, shares.is_some()) == *resource
                    && start.is_none_or(|s| s == piece.start);
                if fits && !piece.held && taken < wanted {
                    piece.held = true;
                    taken += u64::from(shares.unwrap_or(1)).min(wanted - taken);
                }
            }
            taken
        }
        _ => 0,
    }
}

fn named(node: &Node, resource: GpuResource, shared: bool) -> GpuResource {
    if shared && node.shares_renamed { resource.renamed() } else { resource }
}
