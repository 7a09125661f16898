//! `kind: Fleet`: nodes and GPUs as they are, what may be bought, and the room to keep free.

mod expand;
pub(crate) mod wire;

use std::collections::BTreeMap;

use tesela_model::fleet::{Fleet, Node, Offer};
use tesela_model::resource::GpuResource;

pub(super) use expand::read;

/// Nodes that each pool keeps free when nobody says otherwise (DESIGN 4, room to live).
pub const DEFAULT_HEADROOM_NODES: u32 = 1;

/// What a Fleet document says. What it leaves out stays as observed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FleetDocument {
    /// Nodes, groups written out, in the order of the document; and what may be bought, and namespaces.
    pub fleet: Fleet,
    /// `headroom.nodes`, where written.
    pub headroom_nodes: Option<u32>,
    /// `surviveNodeLoss`, where written.
    pub survive_node_loss: Option<bool>,
}

impl FleetDocument {
    /// The fleet of this document alone.
    #[must_use]
    pub fn into_fleet(self) -> Fleet {
        let start = Fleet { headroom_nodes: DEFAULT_HEADROOM_NODES, ..Fleet::default() };
        merge_fleet(start, self)
    }
}

/// A fleet refined by a document.
///
/// A node that both have is taken from the document, except what pods hold there, which stays as observed;
/// labels are joined (the document's win), and `cpu`, `memory` and `taints` stay as observed where the document
/// leaves them out. Other nodes, offers and namespaces are added. `headroom` and `surviveNodeLoss` replace
/// where written.
#[must_use]
pub fn merge_fleet(observed: Fleet, document: FleetDocument) -> Fleet {
    let FleetDocument { fleet: written, headroom_nodes, survive_node_loss } = document;
    let mut nodes: BTreeMap<String, Node> = observed.nodes.into_iter().map(|n| (n.name.clone(), n)).collect();
    for node in written.nodes {
        let merged = match nodes.remove(&node.name) {
            Some(seen) => refine(seen, node),
            None => node,
        };
        nodes.insert(merged.name.clone(), merged);
    }
    let mut fleet = Fleet {
        nodes: nodes.into_values().collect(),
        buy: observed.buy,
        headroom_nodes: headroom_nodes.unwrap_or(observed.headroom_nodes),
        headroom_given: headroom_nodes.is_some() || observed.headroom_given,
        survive_node_loss: survive_node_loss.unwrap_or(observed.survive_node_loss),
        has_nodes: observed.has_nodes || written.has_nodes,
        operator_namespace: observed.operator_namespace,
        namespaces: observed.namespaces,
        quotas_in_force: observed.quotas_in_force,
        resources: observed.resources,
    };
    fleet.buy.extend(written.buy);
    fleet.namespaces.extend(written.namespaces);
    fleet.resources.extend(written.resources);
    fleet
}

fn refine(seen: Node, written: Node) -> Node {
    let mut labels = seen.labels;
    labels.extend(written.labels);
    let same_offers = written.gpus.iter().map(|g| &g.offer).eq(seen.gpus.iter().map(|g| &g.offer));
    Node {
        labels,
        taints: if written.taints.is_empty() { seen.taints } else { written.taints },
        cpu: written.cpu.or(seen.cpu),
        memory: written.memory.or(seen.memory),
        cpu_taken: seen.cpu_taken,
        memory_taken: seen.memory_taken,
        pods: seen.pods,
        pods_taken: seen.pods_taken,
        held_by_others: seen.held_by_others,
        // What kubelet gives out is known of the GPUs as they were seen.
        allocatable: if same_offers { seen.allocatable } else { written.allocatable },
        ..written
    }
}

/// The names under which a node offers its GPUs.
fn resources_of(node: &Node) -> Vec<GpuResource> {
    let single = node.mig_strategy == tesela_model::fleet::MigStrategy::Single;
    let named = |resource: GpuResource, shared: bool| {
        if shared && node.shares_renamed { resource.renamed() } else { resource }
    };
    let mut names = Vec::new();
    for gpu in &node.gpus {
        match &gpu.offer {
            Offer::Exclusive => names.push(GpuResource::gpu()),
            Offer::TimeSliced { .. } | Offer::Mps { .. } => names.push(named(GpuResource::gpu(), true)),
            Offer::Mig { instances, replicas, .. } => {
                for instance in instances {
                    let shared = replicas.contains_key(&instance.profile);
                    let device =
                        if single { GpuResource::gpu() } else { GpuResource::mig(instance.profile.clone()) };
                    names.push(named(device, shared));
                }
            }
        }
    }
    names
}
