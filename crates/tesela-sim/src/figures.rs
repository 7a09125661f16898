//! Watts and megahertz of products, which the profile table does not hold.
//!
//! A100, H100 SXM and B200: limits, idle power and clocks of NVIDIA's mock profiles
//! (NVIDIA/k8s-test-infra:deployments/nvml-mock/helm/nvml-mock/profiles). Others: assumed from their generation, with the
//! power limit that the product is sold with. Nothing but counters depends on them.

/// What a product draws and how fast it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Figures {
    /// Power limit in W.
    pub limit_watts: u32,
    /// Power without work in W.
    pub idle_watts: u32,
    /// Highest clock of the multiprocessors in MHz.
    pub sm_mhz: u32,
    /// Their clock without work.
    pub sm_idle_mhz: u32,
    /// Clock of the memory in MHz.
    pub memory_mhz: u32,
}

const fn row(limit_watts: u32, idle_watts: u32, sm_mhz: u32, sm_idle_mhz: u32, memory_mhz: u32) -> Figures {
    Figures { limit_watts, idle_watts, sm_mhz, sm_idle_mhz, memory_mhz }
}

/// Products by the begin of their table id; the first that fits holds.
const ROWS: [(&str, Figures); 13] = [
    ("a30-", row(165, 30, 1440, 210, 1215)),
    ("a100-", row(400, 72, 1410, 210, 1215)),
    ("h100-pcie-", row(350, 60, 1755, 345, 1593)),
    ("h100-nvl-", row(400, 70, 1785, 345, 2619)),
    ("h100-96gb-gh200", row(900, 110, 1980, 345, 2619)),
    ("h100-", row(700, 95, 1980, 345, 1593)),
    ("h20-", row(500, 70, 1980, 345, 2619)),
    ("h200-", row(700, 95, 1980, 345, 3201)),
    ("gh200-", row(900, 110, 1980, 345, 2619)),
    ("b200-", row(1000, 130, 1965, 345, 2500)),
    ("gb200-", row(1200, 130, 1965, 345, 2500)),
    ("rtx-pro-", row(600, 40, 2430, 180, 12481)),
    ("", row(1400, 140, 1920, 345, 2500)),
];

impl Figures {
    /// Those of a product, by its table id.
    #[must_use]
    pub fn of(product: &str) -> Self {
        let found = ROWS.iter().find(|(begin, _)| product.starts_with(begin));
        found.map_or(row(700, 95, 1980, 345, 1593), |(_, figures)| *figures)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tesela_model::product::ProductTable;

    #[test]
    fn every_product_idles_below_its_limit() {
        for product in ProductTable::builtin().products() {
            let figures = Figures::of(product.id.as_str());
            assert!(figures.idle_watts * 4 < figures.limit_watts, "{}", product.id);
            assert!(figures.sm_idle_mhz < figures.sm_mhz, "{}", product.id);
        }
        assert_eq!(Figures::of("h100-sxm-80gb").limit_watts, 700);
        assert_eq!(Figures::of("h100-pcie-80gb").limit_watts, 350);
        assert_eq!(Figures::of("b300-269gb").limit_watts, 1400);
    }
}
