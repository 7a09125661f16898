//! Whether the counts of a GPU's profiles leave the driver any choice of starts.

use tesela_model::plan::PlannedGpu;
use tesela_model::product::{Product, ProductTable, ProfileName};

/// Whether the instances of a GPU can only sit where the plan puts them (equal profiles may change places).
/// `false` where the product or a profile is not known to the table.
pub(super) fn forced(table: &ProductTable, gpu: &PlannedGpu) -> bool {
    let Some(product) = table.look_up(&gpu.product) else { return false };
    let mut names: Vec<&ProfileName> = gpu.instances.iter().map(|i| &i.profile).collect();
    names.sort();
    let mut search = Search { product, names: &names, found: 0 };
    search.place(0, 0, 0);
    search.found == 1
}

/// Counts the ways to place a list of profiles without overlap of memory units, and stops at two. Slices and
/// engines do not depend on the starts, so they need no look here.
struct Search<'a> {
    product: &'a Product,
    names: &'a [&'a ProfileName],
    found: u32,
}

impl Search<'_> {
    fn place(&mut self, index: usize, taken: u64, least: u32) {
        if self.found > 1 {
            return;
        }
        let Some(name) = self.names.get(index) else {
            self.found += 1;
            return;
        };
        let Ok(profile) = self.product.profile(name.as_str()) else { return };
        // Equal profiles in rising order of start, so that a swap is no second way.
        let least = if index > 0 && self.names[index - 1] == *name { least } else { 0 };
        for placement in profile.placements.iter().filter(|p| p.start >= least) {
            if taken & placement.mask() == 0 {
                self.place(index + 1, taken | placement.mask(), placement.start + 1);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tesela_model::fleet::Mode;
    use tesela_model::origin::Origin;
    use tesela_model::plan::PlannedInstance;

    use super::*;

    fn gpu(product: &str, instances: &[(&str, u32, u32)]) -> PlannedGpu {
        let instance = |(profile, start, size): &(&str, u32, u32)| PlannedInstance {
            profile: profile.parse().unwrap(),
            start: *start,
            size: *size,
            replicas: None,
            used_by: Vec::new(),
        };
        PlannedGpu {
            uuid: None,
            product: product.to_owned(),
            mode: Mode::Mig,
            replicas: None,
            instances: instances.iter().map(instance).collect(),
            starts: Origin::Given,
            used_by: Vec::new(),
            mode_today: None,
        }
    }

    #[test]
    fn full_layouts_force_their_starts_and_partial_ones_do_not() {
        let table = ProductTable::builtin();
        let seven: Vec<_> = (0..7).map(|i| ("1g.10gb", i, 1)).collect();
        assert!(forced(table, &gpu("h100-sxm-80gb", &seven)));
        assert!(forced(table, &gpu("h100-sxm-80gb", &[("7g.80gb", 0, 8)])));
        assert!(forced(table, &gpu("h100-sxm-80gb", &[])));
        assert!(!forced(table, &gpu("h100-sxm-80gb", &[("1g.10gb", 0, 1)])));
        assert!(!forced(table, &gpu("h100-sxm-80gb", &[("3g.40gb", 4, 4)])));
        assert!(forced(table, &gpu("h100-sxm-80gb", &[("3g.40gb", 4, 4), ("4g.40gb", 0, 4)])));
        assert!(!forced(table, &gpu("no such", &[])));
    }
}
