//! Short ways to write fleets and demands in tests.

#![allow(
    dead_code,
    unreachable_pub,
    missing_docs,
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    reason = "each test file uses a part of these, and a test may panic"
)]

use std::collections::BTreeMap;

use tesela_model::demand::{
    Demand, DevicePlace, Holding, Isolation, NodeConstraints, PodRef, Tenant, TenantClass, Workload,
    WorkloadKey,
};
use tesela_model::fleet::{Fleet, Gpu, MigStrategy, Node, NodeOffer, Offer, Taint};
use tesela_model::layout::Instance;
use tesela_model::origin::{Known, Origin};
use tesela_model::price::PriceBook;
use tesela_model::product::{ProductTable, ProfileName};
use tesela_model::quantity::{Bytes, Mib, Micros, MilliCpu};
use tesela_model::resource::GpuResource;

pub const H100: &str = "h100-sxm-80gb";
pub const A100: &str = "a100-40gb";
pub const A30: &str = "a30-24gb";
pub const T4: &str = "Tesla-T4";
/// A product that the table lacks and that comes with more than one memory.
pub const ODD: &str = "NVIDIA-X";

pub fn gi(n: u64) -> Mib {
    Mib(n * 1024)
}

pub fn profile(name: &str) -> ProfileName {
    ProfileName::parse(name).unwrap()
}

pub fn resource(name: &str) -> GpuResource {
    name.parse().unwrap()
}

pub fn mig(profile_name: &str) -> GpuResource {
    GpuResource::mig(profile(profile_name))
}

/// Memory of a product, also of the ones the table lacks.
pub fn memory(product: &str) -> Option<Mib> {
    ProductTable::builtin().find(product).ok().and_then(|p| p.memory).or(match product {
        T4 => Some(Mib(15_360)),
        _ => None,
    })
}

pub fn instance(product: &str, name: &str, start: u32) -> Instance {
    let product = ProductTable::builtin().find(product).unwrap();
    let profile = product.profile(name).unwrap();
    let size = profile.placement_at(start).unwrap_or_else(|| panic!("{name} cannot start at {start}")).size;
    Instance { profile: profile.name.clone(), start, size }
}

pub fn mig_offer(product: &str, instances: &[(&str, u32)]) -> Offer {
    Offer::Mig {
        instances: instances.iter().map(|(name, start)| instance(product, name, *start)).collect(),
        replicas: BTreeMap::new(),
        origin: Origin::Estimated,
    }
}

pub fn gpu(product: &str, offer: Offer) -> Gpu {
    Gpu { uuid: None, product: product.into(), memory: memory(product), offer }
}

/// A node of equal GPUs with 16 CPUs and 64 GiB for each of them.
pub fn node(name: &str, product: &str, gpus: usize, offer: &Offer) -> Node {
    Node {
        name: name.into(),
        labels: BTreeMap::from([
            ("kubernetes.io/hostname".into(), name.into()),
            ("nvidia.com/gpu.product".into(), product.into()),
        ]),
        taints: Vec::new(),
        schedulable: true,
        cpu: Some(MilliCpu(16_000 * gpus as u64)),
        memory: Some(Bytes((64 << 30) * gpus as u64)),
        cpu_taken: MilliCpu(0),
        memory_taken: Bytes(0),
        pods: None,
        pods_taken: 0,
        gpus: vec![gpu(product, offer.clone()); gpus],
        allocatable: BTreeMap::new(),
        mig_strategy: match offer {
            Offer::Mig { .. } => MigStrategy::Mixed,
            _ => MigStrategy::None,
        },
        shares_renamed: false,
        held_by_others: Vec::new(),
        operator: true,
        unusable: None,
    }
}

pub fn taint(key: &str, value: &str, effect: &str) -> Taint {
    Taint { key: key.into(), value: value.into(), effect: effect.into() }
}

pub fn fleet(nodes: Vec<Node>) -> Fleet {
    Fleet { has_nodes: true, nodes, ..Fleet::default() }
}

pub fn offer(product: &str, gpus_per_node: u32, max_nodes: Option<u32>) -> NodeOffer {
    NodeOffer {
        product: product.into(),
        gpus_per_node,
        max_nodes,
        cpu: None,
        memory: None,
        gpu_memory: memory(product),
        labels: BTreeMap::new(),
    }
}

/// A pending Deployment in the namespace that its tenant is called after.
pub fn workload(namespace: &str, name: &str, count: u64) -> Workload {
    Workload {
        key: WorkloadKey { namespace: namespace.into(), kind: "Deployment".into(), name: name.into() },
        tenant: namespace.into(),
        count,
        gpus: 1,
        same_node: false,
        cpu: MilliCpu(1_000),
        memory: Bytes(4 << 30),
        constraints: NodeConstraints::default(),
        max_per_node: None,
        request: None,
        gpu_memory: None,
        isolation: None,
        slo: None,
        duty: None,
        compute: None,
        mode: None,
        profile: None,
        products: Vec::new(),
        priority: 0,
        movable: true,
        interactive: None,
        running: Vec::new(),
    }
}

/// Changes a workload on the way.
pub trait With: Sized {
    #[must_use]
    fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }
}

impl With for Workload {}
impl With for Node {}
impl With for Fleet {}
impl With for Gpu {}

pub fn needs(memory: Mib) -> Option<Known<Mib>> {
    Some(Known::given(memory))
}

pub fn isolated(isolation: Isolation) -> Option<Known<Isolation>> {
    Some(Known::given(isolation))
}

pub fn pods(namespace: &str, prefix: &str, count: usize) -> Vec<PodRef> {
    (0..count).map(|i| PodRef { namespace: namespace.into(), name: format!("{prefix}-{i}") }).collect()
}

pub fn holding(workload: &Workload, node: &str, resource_name: &str, count: usize) -> Holding {
    Holding {
        node: node.into(),
        resource: resource(resource_name),
        devices: workload.gpus,
        pods: pods(&workload.key.namespace, &format!("{}-{node}", workload.key.name), count),
        place: None,
    }
}

/// The workload with so many more of its pods running on a node.
pub fn running(mut workload: Workload, node: &str, resource_name: &str, count: usize) -> Workload {
    let held = holding(&workload, node, resource_name, count);
    workload.request = Some(held.resource.clone());
    workload.running.push(held);
    workload
}

pub fn place(uuid: &str, start: Option<u32>) -> Option<DevicePlace> {
    Some(DevicePlace { gpu: uuid.into(), start })
}

pub fn demand(workloads: Vec<Workload>) -> Demand {
    Demand { tenants: Vec::new(), workloads }
}

pub fn tenant(name: &str, namespaces: &[&str], class: TenantClass) -> Tenant {
    Tenant {
        name: name.into(),
        namespaces: namespaces.iter().map(ToString::to_string).collect(),
        class,
        quota: BTreeMap::new(),
    }
}

/// Prices per GPU hour in cents.
pub fn prices(cents: &[(&str, i64)]) -> PriceBook {
    PriceBook {
        currency: "EUR".into(),
        source: "prices.yaml".into(),
        as_of: None,
        gpu_hour: cents.iter().map(|(product, cents)| ((*product).into(), Micros(cents * 10_000))).collect(),
    }
}
