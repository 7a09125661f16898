//! Pods → workloads: pods of one owner are one workload.

use std::collections::{BTreeMap, BTreeSet};

use tesela_model::demand::{Demand, Holding, PodRef, Tenant, TenantClass, Workload, WorkloadKey};
use tesela_model::finding::Severity;
use tesela_model::origin::Known;
use tesela_model::resource::GpuResource;
use tesela_model::server::Server;

use super::finding::Draft;
use super::pod::{GpuPod, PodRecord};

/// Pods that ask for GPUs, with their names.
pub(super) type Pods<'a> = Vec<(&'a PodRef, &'a PodRecord, &'a GpuPod)>;

/// Owners whose pods come back elsewhere when they are evicted and lose no work by it.
const MOVABLE: [&str; 4] = ["Deployment", "ReplicaSet", "ReplicationController", "StatefulSet"];

/// Whether a pod is demand: it asks for GPUs, is not of the GPU Operator and not on its way out (DESIGN 9).
pub(super) fn is_demand(record: &PodRecord, pod: &GpuPod) -> bool {
    !record.operator && pod.deleted.is_none()
}

/// The GPU resource that a pod counts by, and how many devices of it: the first by name, whole GPUs before
/// instances. What it asks for beside that is held, but is no demand of its own.
pub(super) fn main_ask(pod: &GpuPod) -> Option<(&GpuResource, u32)> {
    pod.asks.first_key_value().map(|(name, n)| (name, u32::try_from(*n).unwrap_or(u32::MAX)))
}

/// The key of the workload a pod belongs to.
pub(super) fn key(name: &PodRef, pod: &GpuPod) -> WorkloadKey {
    WorkloadKey { namespace: name.namespace.clone(), kind: pod.kind.clone(), name: pod.owner.clone() }
}

/// Groups the demand by owner.
pub(super) fn demand(pods: &Pods<'_>, drafts: &mut Vec<Draft>) -> Demand {
    let mut groups = BTreeMap::<WorkloadKey, Pods<'_>>::new();
    for &(name, record, pod) in pods {
        if is_demand(record, pod) {
            groups.entry(key(name, pod)).or_default().push((name, record, pod));
        }
    }
    let workloads =
        groups.into_iter().filter_map(|(key, pods)| workload(key, &pods, drafts)).collect::<Vec<_>>();
    Demand { tenants: tenants(&workloads), workloads }
}

fn workload(key: WorkloadKey, pods: &Pods<'_>, drafts: &mut Vec<Draft>) -> Option<Workload> {
    let asks = tally(pods.iter().filter_map(|(_, _, pod)| main_ask(pod)));
    let (request, gpus) = most_common(&asks)?;
    if asks.len() > 1 {
        drafts.push(mixed_requests(&key, &asks));
    }
    // Of a roll-out's two kinds of pods, the more common kind speaks for the workload.
    let like = pods.iter().filter(|(_, _, pod)| main_ask(pod) == Some((request, gpus))).collect::<Vec<_>>();
    let tenants = tally(pods.iter().map(|(_, _, p)| p.tenant.as_deref().unwrap_or(&key.namespace)));
    let constraints = tally(like.iter().map(|(_, _, pod)| &pod.constraints));
    let notebook = pods.iter().any(|(_, _, pod)| pod.notebook.is_some());
    Some(Workload {
        tenant: most_common(&tenants)?.to_owned(),
        count: u64::try_from(pods.len()).unwrap_or(u64::MAX),
        gpus,
        same_node: like.iter().any(|(_, _, pod)| pod.same_node),
        cpu: like.iter().map(|(_, record, _)| record.cpu).max()?,
        memory: like.iter().map(|(_, record, _)| record.memory).max()?,
        constraints: most_common(&constraints)?.clone(),
        max_per_node: like.iter().filter_map(|(_, _, pod)| pod.max_per_node).min(),
        request: Some(request.clone()),
        gpu_memory: None,
        isolation: None,
        slo: None,
        duty: None,
        compute: None,
        mode: None,
        profile: None,
        products: Vec::new(),
        priority: pods.iter().map(|(_, _, pod)| pod.priority).max()?,
        movable: MOVABLE.contains(&key.kind.as_str()),
        interactive: notebook.then(|| Known::estimated(true)),
        running: holdings(pods),
        key,
    })
}

fn tally<T: Ord>(values: impl IntoIterator<Item = T>) -> BTreeMap<T, u64> {
    let mut counts = BTreeMap::new();
    for value in values {
        *counts.entry(value).or_insert(0) += 1;
    }
    counts
}

/// The value counted most; of equal ones the largest.
fn most_common<T: Ord + Copy>(counts: &BTreeMap<T, u64>) -> Option<T> {
    counts.iter().max_by_key(|(value, count)| (**count, **value)).map(|(value, _)| *value)
}

fn mixed_requests(key: &WorkloadKey, asks: &BTreeMap<(&GpuResource, u32), u64>) -> Draft {
    let list = asks.iter().map(|((name, gpus), pods)| format!("{pods} of its pods ask for {gpus} {name}"));
    Draft {
        severity: Severity::Info,
        rule: "pods-ask-differently",
        subject: key.to_string(),
        message: format!(
            "{}; running pods count with what they hold, pods to come with what most ask for",
            list.collect::<Vec<_>>().join(", ")
        ),
        fix: "wait until the roll-out is done and look again, or give each kind of pod an owner of its own"
            .to_owned(),
        gpus: asks.iter().map(|((_, gpus), pods)| u64::from(*gpus) * pods).sum(),
    }
}

/// What bound pods hold, by node, resource and devices.
fn holdings(pods: &Pods<'_>) -> Vec<Holding> {
    let mut held = BTreeMap::<(String, GpuResource, u32), Vec<PodRef>>::new();
    for &(name, record, pod) in pods {
        if let (Some(node), Some((resource, devices))) = (&record.node, main_ask(pod)) {
            held.entry((node.clone(), resource.clone(), devices)).or_default().push(name.clone());
        }
    }
    let holding = |((node, resource, devices), mut pods): ((String, GpuResource, u32), Vec<PodRef>)| {
        pods.sort();
        Holding { node, resource, devices, pods, place: None }
    };
    held.into_iter().map(holding).collect()
}

/// Devices on each node that no workload of the demand accounts for: of pods on their way out, of the GPU
/// Operator, and second resource names of any pod.
pub(super) fn held_by_others(pods: &Pods<'_>) -> BTreeMap<String, Vec<Holding>> {
    let mut held = BTreeMap::<String, BTreeMap<(GpuResource, u32), Vec<PodRef>>>::new();
    for &(name, record, pod) in pods {
        let Some(node) = &record.node else { continue };
        let counted = usize::from(is_demand(record, pod));
        for (resource, devices) in pod.asks.iter().skip(counted) {
            let devices = u32::try_from(*devices).unwrap_or(u32::MAX);
            let of_node = held.entry(node.clone()).or_default();
            of_node.entry((resource.clone(), devices)).or_default().push(name.clone());
        }
    }
    let holding = |node: &str, ((resource, devices), mut pods): ((GpuResource, u32), Vec<PodRef>)| {
        pods.sort();
        Holding { node: node.to_owned(), resource, devices, pods, place: None }
    };
    let all = |(node, held): (String, BTreeMap<_, _>)| {
        let list = held.into_iter().map(|h| holding(&node, h)).collect();
        (node, list)
    };
    held.into_iter().map(all).collect()
}

/// Servers that reserve memory, by workload. Of a roll-out's several the first by pod name speaks.
pub(super) fn servers(pods: &Pods<'_>) -> BTreeMap<WorkloadKey, Server> {
    let mut servers = BTreeMap::new();
    for &(name, record, pod) in pods {
        if let Some(server) = pod.server.as_ref().filter(|_| is_demand(record, pod)) {
            servers.entry(key(name, pod)).or_insert_with(|| server.clone());
        }
    }
    servers
}

/// Tenants with the namespaces that are theirs alone. Class and quota are nothing the cluster shows.
pub(super) fn tenants(workloads: &[Workload]) -> Vec<Tenant> {
    let mut owners = BTreeMap::<&str, BTreeSet<&str>>::new();
    for workload in workloads {
        owners.entry(&workload.key.namespace).or_default().insert(&workload.tenant);
    }
    let mut tenants = BTreeMap::<&str, Vec<String>>::new();
    for (namespace, tenants_there) in owners {
        for tenant in &tenants_there {
            let namespaces = tenants.entry(tenant).or_default();
            if tenants_there.len() == 1 {
                namespaces.push(namespace.to_owned());
            }
        }
    }
    let tenant = |(name, namespaces): (&str, Vec<String>)| Tenant {
        name: name.to_owned(),
        namespaces,
        class: TenantClass::Standard,
        quota: BTreeMap::new(),
    };
    tenants.into_iter().map(tenant).collect()
}
