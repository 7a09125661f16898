//! From input to plan: which running pods move, the best of several placements, and the plan as a document.

mod search;

use std::collections::BTreeMap;

use tesela_model::demand::{Demand, Holding};
use tesela_model::fleet::{Fleet, NodeOffer};
use tesela_model::plan::Plan;

use crate::assemble;
use crate::decide::decide_all;
use crate::input::PlanInput;

pub(crate) use self::search::{Outcome, search, work};

/// Product taken when neither a fleet nor anything to buy is given.
pub const ASSUMED_PRODUCT: &str = "h100-sxm-80gb";
/// GPUs of a node of that product.
const ASSUMED_GPUS_PER_NODE: u32 = 8;
/// Makes the plan. The same input gives the same plan.
#[must_use]
pub fn plan(input: &PlanInput<'_>) -> Plan {
    let (fleet, demand) = (in_order(input.fleet), sorted_demand(input.demand));
    let input = &PlanInput { fleet: &fleet, demand: &demand, ..*input };
    let decisions = decide_all(input.demand, &input.settings);
    let outcome = search(input, &decisions);
    assemble::plan(input, &decisions, &outcome)
}

/// The fleet in an order of its own, so that the order of the input does not matter, with hardware assumed where
/// nothing is there and nothing may be bought.
fn in_order(fleet: &Fleet) -> Fleet {
    let mut fleet = fleet.clone();
    if fleet.nodes.is_empty() && fleet.buy.is_empty() && !fleet.has_nodes {
        fleet.buy.push(assumed_offer());
    }
    fleet.nodes.sort_by(|a, b| a.name.cmp(&b.name));
    for node in &mut fleet.nodes {
        node.taints.sort();
        sort_holdings(&mut node.held_by_others);
    }
    fleet.buy.sort_by(|a, b| offer_key(a).cmp(&offer_key(b)));
    fleet
}

fn offer_key(offer: &NodeOffer) -> impl Ord + '_ {
    (&offer.product, offer.gpus_per_node, offer.max_nodes, offer.cpu, offer.memory, &offer.labels)
}

fn sorted_demand(demand: &Demand) -> Demand {
    let mut demand = demand.clone();
    demand.workloads.sort_by(|a, b| a.key.cmp(&b.key));
    demand.tenants.sort_by(|a, b| a.name.cmp(&b.name));
    for workload in &mut demand.workloads {
        sort_holdings(&mut workload.running);
    }
    demand
}

fn sort_holdings(holdings: &mut [Holding]) {
    for held in holdings.iter_mut() {
        held.pods.sort();
    }
    holdings.sort_by(|a, b| {
        let key = |h: &Holding| (h.node.clone(), h.resource.clone(), h.devices, h.pods.first().cloned());
        key(a).cmp(&key(b))
    });
}

fn assumed_offer() -> NodeOffer {
    NodeOffer {
        product: ASSUMED_PRODUCT.to_owned(),
        gpus_per_node: ASSUMED_GPUS_PER_NODE,
        max_nodes: None,
        cpu: None,
        memory: None,
        gpu_memory: None,
        labels: BTreeMap::new(),
    }
}
