//! Spare GPUs: where workloads wait that would otherwise have to stop.

use tesela_model::layout::Instance;
use tesela_model::product::{Product, ProfileName};

use super::table::fits;

/// Spare GPUs and what is on them.
pub(super) struct Spares<'a> {
    product: &'a Product,
    limit: u64,
    live: Vec<Vec<Instance>>,
    /// Most that were in use at the same time.
    pub(super) peak: u64,
}

impl<'a> Spares<'a> {
    pub(super) fn new(product: &'a Product, limit: u64) -> Self {
        Self { product, limit, live: Vec::new(), peak: 0 }
    }

    /// A new instance on a spare GPU in use, else on a free one; `None` when there is no room.
    pub(super) fn place(&mut self, name: &ProfileName) -> Option<(usize, Instance)> {
        let placements = &self.product.profile(name.as_str()).ok()?.placements;
        let at = |live: &[Instance]| {
            let possible = placements.iter().rev().map(|p| Instance {
                profile: name.clone(),
                start: p.start,
                size: p.size,
            });
            possible.into_iter().find(|instance| fits(self.product, live, instance))
        };
        let found = self.live.iter().enumerate().find_map(|(spare, live)| Some((spare, at(live)?)));
        let found = match found {
            None if (self.live.len() as u64) < self.limit => (self.live.len(), at(&[])?),
            None => return None,
            Some(found) => found,
        };
        if found.0 == self.live.len() {
            self.live.push(Vec::new());
        }
        self.live[found.0].push(found.1.clone());
        self.peak = self.peak.max(self.live.iter().filter(|live| !live.is_empty()).count() as u64);
        Some(found)
    }

    /// Takes an instance away.
    pub(super) fn clear(&mut self, spare: usize, instance: &Instance) {
        self.live[spare].retain(|i| i != instance);
    }
}
