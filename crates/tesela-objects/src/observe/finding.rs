//! What is true about today that costs money, breaks work, or is not known.
//!
//! | part | about |
//! | --- | --- |
//! | `nodes` | GPUs that nobody can ask for: closed, unhealthy, not cut |
//! | `waste` | GPUs that nobody holds, and parts of them that nobody can |
//! | `pods` | GPUs that are held: by pods that do not use them, by notebooks, by two shares |
//! | `names` | what a resource name stands for, and requests that nothing can meet |
//! | `quotas` | namespaces without a limit |

mod names;
mod nodes;
mod pods;
mod quotas;
mod waste;

use std::collections::{BTreeMap, BTreeSet};

use tesela_model::demand::{Demand, PodRef, WorkloadKey};
use tesela_model::finding::{Finding, Severity};
use tesela_model::fleet::{MigStrategy, Offer};
use tesela_model::product::ProductTable;
use tesela_model::resource::{GpuDevice, GpuResource};

use super::cut::Cutter;
use super::node::{Observed, UNKNOWN};
use super::workload::{self, Pods};
use super::{Dated, PodRecord, QuotaRecord};

/// Names listed in a message before it says "and N more".
const LISTED: usize = 3;
/// Subject of findings about all that was read.
pub(super) const EVERYTHING: &str = "Demand/observed";

/// A finding with the GPUs it is about, by which findings of one severity are ordered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Draft {
    pub(super) severity: Severity,
    pub(super) rule: &'static str,
    pub(super) subject: String,
    pub(super) message: String,
    pub(super) fix: String,
    pub(super) gpus: u64,
}

/// All that the rules look at.
pub(super) struct Scene<'a> {
    pub(super) table: &'a ProductTable,
    pub(super) nodes: &'a [Observed],
    /// Pods that ask for GPUs and have not ended.
    pub(super) asking: &'a Pods<'a>,
    pub(super) pods: &'a BTreeMap<PodRef, Dated<PodRecord>>,
    pub(super) demand: &'a Demand,
    pub(super) quotas: &'a BTreeMap<PodRef, Dated<QuotaRecord>>,
    pub(super) has_quotas: bool,
    pub(super) namespaces: &'a BTreeSet<String>,
    pub(super) resources: &'a BTreeSet<GpuResource>,
    /// What they hold.
    pub(super) held: Held<'a>,
    /// Nodes and pods of an earlier snapshot that a later one no longer has.
    pub(super) gone: (usize, usize),
}

/// Devices held on each node, by resource name.
pub(super) fn held<'a>(asking: &Pods<'a>) -> Held<'a> {
    let mut held = Held::new();
    for (_, record, pod) in asking {
        let Some(node) = &record.node else { continue };
        for (resource, devices) in &pod.asks {
            let sum = held.entry((node.as_str(), resource)).or_default();
            *sum = sum.saturating_add(*devices);
        }
    }
    held
}

impl<'a> Scene<'a> {
    /// Devices of a name that pods hold on a node.
    fn held_on(&self, observed: &Observed, resource: &GpuResource) -> u64 {
        self.held.get(&(observed.node.name.as_str(), resource)).copied().unwrap_or(0)
    }

    /// Demand pods by workload.
    fn workloads(&self) -> BTreeMap<WorkloadKey, Pods<'a>> {
        let mut all = BTreeMap::<WorkloadKey, Pods<'a>>::new();
        for &(name, record, pod) in self.asking {
            if workload::is_demand(record, pod) {
                all.entry(workload::key(name, pod)).or_default().push((name, record, pod));
            }
        }
        all
    }

    fn node(&self, name: &str) -> Option<&'a Observed> {
        let at = self.nodes.binary_search_by(|o| o.node.name.as_str().cmp(name)).ok()?;
        self.nodes.get(at)
    }
}

/// Every finding of the scene, after those that reading the nodes and pods made.
pub(super) fn find(scene: &Scene<'_>, cutter: &mut Cutter, drafts: &mut Vec<Draft>) {
    nodes::find(scene, drafts);
    waste::find(scene, cutter, drafts);
    pods::find(scene, drafts);
    names::find(scene, drafts);
    quotas::find(scene, drafts);
}

/// The gravest first, then those about most GPUs, then by subject.
pub(super) fn ordered(mut drafts: Vec<Draft>) -> Vec<Finding> {
    drafts.sort_by(|a, b| {
        let key = |d: &Draft| (d.severity, u64::MAX - d.gpus);
        (key(a), &a.subject, a.rule, &a.message).cmp(&(key(b), &b.subject, b.rule, &b.message))
    });
    drafts.dedup();
    let finding = |d: Draft| Finding {
        severity: d.severity,
        rule: d.rule.to_owned(),
        subject: d.subject,
        message: d.message,
        fix: d.fix,
    };
    drafts.into_iter().map(finding).collect()
}

/// What one unit of a resource is on a node, in words; `None` where the node does not offer it.
fn unit(observed: &Observed, resource: &GpuResource) -> Option<Unit> {
    observed.offered.get(resource).filter(|o| o.capacity > 0)?;
    let gpu = observed.node.gpus.iter().find(|gpu| match (&resource.device, &gpu.offer) {
        (GpuDevice::Gpu, Offer::Mig { .. }) => observed.node.mig_strategy == MigStrategy::Single,
        (GpuDevice::Gpu, _) => true,
        (GpuDevice::Mig(_), Offer::Mig { .. }) => true,
        (GpuDevice::Mig(_), _) => false,
    })?;
    let size = match (&resource.device, &gpu.offer) {
        (_, Offer::Exclusive) => "a whole GPU".to_owned(),
        (_, Offer::TimeSliced { replicas } | Offer::Mps { replicas }) => {
            format!("a share (1 of {replicas}) of a GPU")
        }
        (GpuDevice::Mig(profile), Offer::Mig { .. }) => format!("a {profile} instance"),
        (GpuDevice::Gpu, Offer::Mig { instances, .. }) => {
            format!("a {} instance", instances.first()?.profile)
        }
    };
    Some(Unit { product: gpu.product.clone(), size })
}

/// What one unit of a resource name is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Unit {
    product: String,
    size: String,
}

/// Devices held, by node and resource name.
pub(super) type Held<'a> = BTreeMap<(&'a str, &'a GpuResource), u64>;

/// Groups nodes by what is told of them, so that a large fleet gets one finding and not hundreds.
#[derive(Default)]
struct Group<'a> {
    nodes: BTreeSet<&'a str>,
    gpus: u64,
}

impl<'a> Group<'a> {
    fn add(&mut self, observed: &'a Observed, gpus: u64) {
        self.nodes.insert(&observed.node.name);
        self.gpus = self.gpus.saturating_add(gpus);
    }

    /// `Node/<name>` for one node, else `Product/<product>`.
    fn subject(&self, product: &str) -> String {
        match (self.nodes.len(), self.nodes.first()) {
            (1, Some(node)) => format!("Node/{node}"),
            _ => format!("Product/{product}"),
        }
    }
}

/// The product of a node's first GPU, which speaks for the node.
fn product(observed: &Observed) -> &str {
    observed.node.gpus.first().map_or(UNKNOWN, |gpu| &gpu.product)
}

/// `a, b, c and 4 more`.
pub(super) fn some_of<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let names = names.into_iter().collect::<Vec<_>>();
    let shown = names.iter().take(LISTED).copied().collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(LISTED) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

/// `1 pod`, `2 pods`.
pub(super) fn counted(count: u64, one: &str) -> String {
    if count == 1 { format!("1 {one}") } else { format!("{count} {one}s") }
}

/// The verb that goes with a count.
fn verb<'a>(count: usize, one: &'a str, more: &'a str) -> &'a str {
    if count == 1 { one } else { more }
}

/// A length as a count.
pub(super) fn size(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}
