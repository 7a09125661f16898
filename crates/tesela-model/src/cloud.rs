//! Cloud instances with NVIDIA GPUs and their dated list prices, used only where a user asks for them.

mod builtin;

use std::fmt;

use crate::price::PriceBook;
use crate::quantity::{Mib, Micros};

/// Who rents GPUs out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Provider {
    /// Amazon Web Services.
    Aws,
    /// Microsoft Azure.
    Azure,
}

impl fmt::Display for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Aws => "aws",
            Self::Azure => "azure",
        })
    }
}

/// A kind of virtual machine with whole GPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CloudInstance {
    /// As the provider writes it, such as `p5.48xlarge`.
    pub name: &'static str,
    /// Table id, else the name as the node's label shows it.
    pub product: &'static str,
    /// GPUs of one machine, at least 1.
    pub gpus: u32,
    /// Memory of one GPU, where the profile table lacks the product and a source gives it.
    pub gpu_memory: Option<Mib>,
    /// List price of one machine for one hour, above 0.
    pub hourly: Micros,
}

/// The list prices of one region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CloudList {
    /// Who rents out.
    pub provider: Provider,
    /// As the provider writes it, such as `us-east-1`.
    pub region: &'static str,
    /// Currency of the prices.
    pub currency: &'static str,
    /// The day the prices are of, `YYYY-MM-DD`.
    pub as_of: &'static str,
    /// What prices they are, and who says so.
    pub source: &'static str,
    /// Its instances.
    pub instances: &'static [CloudInstance],
}

impl CloudList {
    /// The lists that come with Tesela; the first of a provider is its default region.
    #[must_use]
    pub fn builtin() -> &'static [Self] {
        builtin::LISTS
    }

    /// As it is asked for: `aws/us-east-1`.
    #[must_use]
    pub fn name(&self) -> String {
        format!("{}/{}", self.provider, self.region)
    }

    /// The list of that name; a provider alone means its first.
    #[must_use]
    pub fn find(name: &str) -> Option<&'static Self> {
        Self::builtin().iter().find(|list| list.name() == name || list.provider.to_string() == name)
    }

    /// Per product, the price of a GPU hour in the instance where it is least.
    #[must_use]
    pub fn price_book(&self) -> PriceBook {
        let mut book = PriceBook {
            currency: self.currency.to_owned(),
            source: format!("list prices of {} ({})", self.name(), self.source),
            as_of: Some(self.as_of.to_owned()),
            gpu_hour: Default::default(),
        };
        for instance in self.instances {
            // Rounded up: a price is above 0, and a GPU is not cheaper than its part of the machine.
            let gpus = i64::from(instance.gpus);
            let price = Micros((instance.hourly.0 + gpus - 1) / gpus);
            let entry = book.gpu_hour.entry(instance.product.to_owned()).or_insert(price);
            *entry = (*entry).min(price);
        }
        book
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::product::ProductTable;

    #[test]
    fn the_lists_are_sound() {
        let table = ProductTable::builtin();
        for list in CloudList::builtin() {
            assert_eq!(CloudList::find(&list.name()), Some(list));
            assert_eq!((list.currency.len(), list.as_of.len()), (3, 10), "{}", list.name());
            let mut names = list.instances.iter().map(|i| i.name).collect::<Vec<_>>();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), list.instances.len(), "{}: an instance stands twice", list.name());
            for instance in list.instances {
                assert!(instance.gpus > 0 && instance.hourly.0 > 0, "{}", instance.name);
                // An id that the table lacks is spelt as a label value, which has capitals.
                let known = table.find(instance.product).is_ok();
                let label = instance.product.chars().any(char::is_uppercase);
                assert!(known != label, "{}: {}", instance.name, instance.product);
            }
        }
        assert_eq!(CloudList::find("aws").map(CloudList::name), Some("aws/us-east-1".to_owned()));
        assert_eq!(CloudList::find("gcp"), None);
    }

    #[test]
    fn a_gpu_hour_is_the_least_of_any_instance() {
        let book = CloudList::find("aws/us-east-1").unwrap().price_book();
        // 3.912 / 4 = 0.978 and 0.526.
        assert_eq!(book.gpu_hour["Tesla-T4"], Micros(526_000));
        // 6.88 on both; 21.957642 / 8 = 2.74470525.
        assert_eq!(book.gpu_hour["h100-sxm-80gb"], Micros(6_880_000));
        assert_eq!(book.gpu_hour["a100-40gb"], Micros(2_744_706));
        assert_eq!(book.as_of.as_deref(), Some("2026-07-20"));
    }
}
