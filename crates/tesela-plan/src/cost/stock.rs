//! The hardware that alternatives may use: nodes that are there, and nodes that may be bought.

use std::collections::BTreeMap;

use tesela_model::demand::Workload;
use tesela_model::fleet::{Gpu, NodeOffer};
use tesela_model::plan::Alternative;
use tesela_model::quantity::{Mib, Micros};

use crate::input::PlanInput;

/// Nodes with the same product and number of GPUs, of one origin.
#[derive(Clone, Debug)]
pub(super) struct Batch {
    pub(super) product: String,
    /// GPUs of one node, at least 1.
    pub(super) gpus: u64,
    /// Nodes; `None` = as many as wanted.
    pub(super) nodes: Option<u64>,
    /// Whether they must be bought; what is there is used first.
    pub(super) bought: bool,
}

/// What is there and what may be bought, with memory and price by product.
#[derive(Clone, Debug, Default)]
pub(super) struct Stock {
    /// Existing first, larger nodes first, then by product.
    pub(super) batches: Vec<Batch>,
    /// Smallest memory seen of a GPU, by product.
    pub(super) memory: BTreeMap<String, Mib>,
    /// Price of one GPU hour, by product.
    pub(super) price: BTreeMap<String, Micros>,
}

impl Stock {
    /// Nodes that must not be planned with are left out. A node with several products counts as one node of
    /// each.
    pub(super) fn of(input: &PlanInput<'_>) -> Self {
        let mut stock = Self::default();
        let mut existing: BTreeMap<(String, u64), u64> = BTreeMap::new();
        for node in input.fleet.nodes.iter().filter(|node| node.unusable.is_none()) {
            let mut products: BTreeMap<&str, u64> = BTreeMap::new();
            for gpu in &node.gpus {
                *products.entry(&gpu.product).or_insert(0) += 1;
                stock.note_memory(&gpu.product, gpu_memory(input, gpu));
            }
            for (product, gpus) in products {
                *existing.entry((product.to_owned(), gpus)).or_insert(0) += 1;
            }
        }
        for ((product, gpus), nodes) in existing {
            stock.batches.push(Batch { product, gpus, nodes: Some(nodes), bought: false });
        }
        for offer in input.fleet.buy.iter().filter(|offer| offer.gpus_per_node > 0) {
            stock.note_memory(&offer.product, offer_memory(input, offer));
            stock.batches.push(Batch {
                product: offer.product.clone(),
                gpus: u64::from(offer.gpus_per_node),
                nodes: offer.max_nodes.map(u64::from),
                bought: true,
            });
        }
        stock.batches.sort_by(|a, b| {
            (a.bought, std::cmp::Reverse(a.gpus), &a.product).cmp(&(
                b.bought,
                std::cmp::Reverse(b.gpus),
                &b.product,
            ))
        });
        if let Some(prices) = input.prices {
            stock.price = prices.gpu_hour.clone();
        }
        stock
    }

    fn note_memory(&mut self, product: &str, memory: Option<Mib>) {
        if let Some(memory) = memory {
            self.memory.entry(product.to_owned()).and_modify(|m| *m = memory.min(*m)).or_insert(memory);
        }
    }

    /// Products of the stock, the cheapest GPU first, those without a price last.
    pub(super) fn products(&self) -> Vec<&str> {
        let mut products = self.batches.iter().map(|b| b.product.as_str()).collect::<Vec<_>>();
        products.sort_by_key(|p| (!self.price.contains_key(*p), self.price.get(*p), *p));
        products.dedup();
        products
    }

    /// GPUs of a product; `None` = as many as wanted.
    pub(super) fn gpus(&self, product: &str) -> Option<u64> {
        let of_product = self.batches.iter().filter(|b| b.product == product);
        of_product.map(|b| b.nodes?.checked_mul(b.gpus)).try_fold(0u64, |sum, gpus| sum.checked_add(gpus?))
    }

    /// The fewest nodes that have so many GPUs of each product, existing ones first, and their price.
    ///
    /// # Errors
    /// A sentence when the stock lacks GPUs.
    pub(super) fn nodes_for(&self, wanted: &BTreeMap<String, u64>) -> Result<Alternative, String> {
        let mut total = Alternative { gpus: 0, nodes: 0, hourly_micros: Some(Micros(0)) };
        for (product, gpus) in wanted {
            let mut left = *gpus;
            for batch in self.batches.iter().filter(|b| b.product == *product) {
                let nodes = left.div_ceil(batch.gpus).min(batch.nodes.unwrap_or(u64::MAX));
                left = left.saturating_sub(nodes.saturating_mul(batch.gpus));
                self.add(&mut total, product, nodes, batch.gpus);
            }
            if left > 0 {
                return Err(format!(
                    "{gpus} GPUs of {product} are needed, {} are there or may be bought",
                    gpus - left
                ));
            }
            total.gpus = total.gpus.saturating_add(*gpus);
        }
        Ok(total)
    }

    /// Counts nodes and the price of all their GPUs, used or not.
    pub(super) fn add(&self, total: &mut Alternative, product: &str, nodes: u64, gpus_each: u64) {
        total.nodes = total.nodes.saturating_add(nodes);
        if nodes > 0 {
            let price =
                |sum: Micros| sum.plus(self.price.get(product)?.times(nodes.checked_mul(gpus_each)?)?);
            total.hourly_micros = total.hourly_micros.and_then(price);
        }
    }
}

fn gpu_memory(input: &PlanInput<'_>, gpu: &Gpu) -> Option<Mib> {
    gpu.memory.or_else(|| table_memory(input, &gpu.product))
}

fn offer_memory(input: &PlanInput<'_>, offer: &NodeOffer) -> Option<Mib> {
    table_memory(input, &offer.product).or(offer.gpu_memory)
}

fn table_memory(input: &PlanInput<'_>, product: &str) -> Option<Mib> {
    input.products.look_up(product).and_then(|p| p.memory)
}

/// Whether a workload may run on a product at all.
pub(super) fn allows(workload: &Workload, product: &str) -> bool {
    workload.products.is_empty() || workload.products.iter().any(|p| p == product)
}

/// GPU memory that one pod takes of each of its GPUs, the context's overhead included; `None` = not known.
pub(super) fn need(input: &PlanInput<'_>, workload: &Workload) -> Option<Mib> {
    workload.gpu_memory.map(|known| Mib(known.value.0.saturating_add(input.settings.context_overhead.0)))
}
