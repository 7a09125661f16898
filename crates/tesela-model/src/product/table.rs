//! The table of products: the built-in one, and a user's on top of it.

use std::sync::LazyLock;

use super::{Product, ProductId, builtin, list, nearest, rows, suggestion};

/// Products by id and by NVML name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProductTable {
    products: Vec<Product>,
}

/// A text that names no product of the table.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "unknown product `{text}`: give a table id or the exact NVML name{}; the table has {}",
    suggestion(.nearest), list(.known)
)]
pub struct UnknownProduct {
    /// The text as given.
    pub text: String,
    /// Nearest ids and names, best first.
    pub nearest: Vec<String>,
    /// All ids of the table.
    pub known: Vec<ProductId>,
}

/// The parts of the label `nvidia.com/gpu.product` as GPU feature discovery writes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LabelledProduct<'a> {
    /// The NVML name with blanks as `-`.
    pub product: &'a str,
    /// What follows `-MIG-`: a profile's label form, or `INVALID`.
    pub mig: Option<&'a str>,
    /// Whether the label ends in `-SHARED`.
    pub shared: bool,
}

impl<'a> LabelledProduct<'a> {
    /// Takes a label value apart.
    pub fn read(value: &'a str) -> Self {
        let (rest, shared) = match value.strip_suffix("-SHARED") {
            Some(rest) => (rest, true),
            None => (value, false),
        };
        match rest.rsplit_once("-MIG-") {
            Some((product, mig)) => Self { product, mig: Some(mig), shared },
            None => Self { product: rest, mig: None, shared },
        }
    }
}

impl ProductTable {
    /// The table the program comes with.
    pub fn builtin() -> &'static Self {
        static TABLE: LazyLock<ProductTable> =
            LazyLock::new(|| ProductTable { products: rows::products(builtin::ROWS) });
        &TABLE
    }

    /// This table with a user's products: one with a known id takes that place, others follow at the end.
    #[must_use]
    pub fn with_user(&self, products: impl IntoIterator<Item = Product>) -> Self {
        let mut table = self.clone();
        for product in products {
            match table.products.iter_mut().find(|p| p.id == product.id) {
                Some(place) => *place = product,
                None => table.products.push(product),
            }
        }
        table
    }

    /// All products, the built-in ones first.
    pub fn products(&self) -> &[Product] {
        &self.products
    }

    /// The product with this table id or exact NVML name. A user's product wins over a built-in one whose name
    /// it shares.
    ///
    /// # Errors
    /// When there is none, with the nearest ids and names.
    pub fn find(&self, text: &str) -> Result<&Product, UnknownProduct> {
        self.look_up(text).ok_or_else(|| self.unknown(text))
    }

    /// The same where nobody asks what was meant instead: looking for near names takes much longer than the look-up.
    pub fn look_up(&self, text: &str) -> Option<&Product> {
        let by_id = self.products.iter().find(|p| p.id.as_str() == text);
        let by_name = || self.products.iter().rev().find(|p| p.nvml_names.iter().any(|n| n == text));
        by_id.or_else(by_name)
    }

    /// The product with this id.
    pub fn get(&self, id: &ProductId) -> Option<&Product> {
        self.products.iter().find(|p| p.id == *id)
    }

    /// The product that a value of `nvidia.com/gpu.product` speaks of; `None` when the table lacks it.
    pub fn by_label(&self, value: &str) -> Option<&Product> {
        let label = LabelledProduct::read(value);
        let named = |p: &&Product| p.nvml_names.iter().any(|n| n.replace(' ', "-") == label.product);
        self.products.iter().rev().find(named)
    }

    fn unknown(&self, text: &str) -> UnknownProduct {
        let ids = self.products.iter().map(|p| p.id.as_str());
        let names = self.products.iter().flat_map(|p| p.nvml_names.iter().map(String::as_str));
        UnknownProduct {
            text: text.to_owned(),
            nearest: nearest(text, ids.chain(names)).into_iter().map(str::to_owned).collect(),
            known: self.products.iter().map(|p| p.id.clone()).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::product::{ProductFacts, ProfileName};
    use crate::quantity::Mib;

    #[test]
    fn builtin_table_is_sound() {
        let table = ProductTable::builtin();
        assert_eq!(table.products().len(), 18);
        let mut names = std::collections::BTreeSet::new();
        for product in table.products() {
            assert_eq!(table.find(product.id.as_str()).unwrap().id, product.id);
            for name in &product.nvml_names {
                assert!(names.insert(name.clone()), "{name} names two products");
                assert_eq!(table.find(name).unwrap().id, product.id);
                assert_eq!(table.by_label(&name.replace(' ', "-")).unwrap().id, product.id);
            }
        }
    }

    #[test]
    fn profile_names_follow_the_naming_rule() {
        // The data file's naming_rule, for each profile whose memory is known.
        let mut checked = 0;
        for product in ProductTable::builtin().products() {
            let (Some(Mib(total)), Some(total_gb)) = (product.memory, product.naming_total_gb) else {
                continue;
            };
            for profile in &product.profiles {
                let Some(Mib(memory)) = profile.memory else {
                    continue;
                };
                let eighths = (memory * 8).div_ceil(total);
                let gigabytes = (eighths * u64::from(total_gb) + 4) / 8;
                assert_eq!(u64::from(profile.name.gigabytes()), gigabytes, "{} {}", product.id, profile.name);
                checked += 1;
            }
        }
        assert!(checked > 60, "only {checked} profiles checked");
    }

    #[test]
    fn labels_lose_their_suffixes() {
        let table = ProductTable::builtin();
        let label = LabelledProduct::read("NVIDIA-A100-SXM4-40GB-MIG-1g.5gb.me-SHARED");
        assert_eq!(label.mig, Some("1g.5gb.me"));
        assert!(label.shared);
        let product = table.by_label("NVIDIA-A100-SXM4-40GB-MIG-1g.5gb.me-SHARED").unwrap();
        assert_eq!(product.id.as_str(), "a100-40gb");
        assert_eq!(product.profile_by_label("1g.5gb.me").unwrap().name.as_str(), "1g.5gb+me");
        assert_eq!(table.by_label("NVIDIA-H100-80GB-HBM3-SHARED").unwrap().id.as_str(), "h100-sxm-80gb");
        assert!(table.by_label("NVIDIA-L4").is_none());
    }

    #[test]
    fn wrong_names_get_the_nearest_right_one() {
        let table = ProductTable::builtin();
        let error = table.find("h100-sxm-80g").unwrap_err();
        assert_eq!(error.nearest[0], "h100-sxm-80gb");
        assert!(table.find("NVIDIA L4").unwrap_err().to_string().contains("`NVIDIA L4`"));
        let h100 = table.find("NVIDIA H100 80GB HBM3").unwrap();
        let error = h100.profile("1g.10bg").unwrap_err();
        assert_eq!(error.nearest[0].as_str(), "1g.10gb");
        let text = h100.profile("1g.5gb").unwrap_err().to_string();
        assert!(text.contains("`1g.5gb`") && text.contains("h100-sxm-80gb"), "{text}");
    }

    #[test]
    fn aliases_find_the_profile_of_the_table() {
        let gb200 = ProductTable::builtin().find("gb200-186gb").unwrap();
        assert_eq!(gb200.profile("7g.189gb").unwrap().name.as_str(), "7g.186gb");
    }

    #[test]
    fn a_user_product_extends_or_replaces() {
        let table = ProductTable::builtin();
        let mut facts: ProductFacts = table.find("a30-24gb").unwrap().clone().into_facts();
        facts.title = "mine".to_owned();
        let replaced = table.with_user([Product::new(facts.clone()).unwrap()]);
        assert_eq!(replaced.products().len(), table.products().len());
        assert_eq!(replaced.find("NVIDIA A30").unwrap().title, "mine");
        facts.id = ProductId::parse("a30-of-ours").unwrap();
        let extended = table.with_user([Product::new(facts).unwrap()]);
        assert_eq!(extended.find("NVIDIA A30").unwrap().id.as_str(), "a30-of-ours");
    }

    #[test]
    fn contradicting_facts_are_refused() {
        let facts = ProductTable::builtin().find("a30-24gb").unwrap().clone().into_facts();
        let refused = |change: fn(&mut ProductFacts)| {
            let mut facts = facts.clone();
            change(&mut facts);
            Product::new(facts).unwrap_err().to_string()
        };
        assert!(refused(|f| f.compute_slices = 0).contains("at least 1"));
        assert!(refused(|f| f.memory_units = Some(65)).contains("1 to 64"));
        assert!(refused(|f| f.profiles[0].compute_slices = 5).contains("5 compute slices"));
        assert!(refused(|f| f.profiles[0].placements[0].size = 0).contains("size is 0"));
        assert!(refused(|f| f.profiles[0].placements[0].start = u32::MAX).contains("beyond"));
        assert!(
            refused(|f| f.profiles[0].aliases.push(ProfileName::parse("4g.24gb").unwrap()))
                .contains("4g.24gb")
        );
    }
}
