//! A demand refined by documents.

use std::collections::{BTreeMap, BTreeSet};

use tesela_model::demand::{Demand, NodeConstraints, Tenant, TenantClass, Workload, WorkloadKey};
use tesela_model::quantity::{Bytes, MilliCpu};

use super::{DEFAULT_KIND, DemandDocument, TenantEdit, WorkloadEdit};

/// The observed demand, refined by a document.
///
/// - A workload is known by namespace, kind and name. A document that writes no kind means the only observed
///   workload of that namespace and name, else [`DEFAULT_KIND`]. Kind `Deployment` also means the observed
///   ReplicaSet of that name.
/// - Fields that are written replace; the others stay as observed. Lists and mappings (`products`,
///   `nodeSelector`, `affinity`, `tolerations`, a tenant's `namespaces` and `quota`) are replaced whole.
/// - What running pods hold is kept. A `count` below the running pods means that the rest may go.
/// - Workloads that no document names stay as observed; new ones are added with the defaults of the format.
/// - A namespace that the document gives to a tenant leaves the tenant it was of, and its workloads follow unless
///   their own `tenant` is written.
///
/// Tenants and workloads come out sorted by name and key.
#[must_use]
pub fn merge(observed: Demand, document: &DemandDocument) -> Demand {
    let tenants = merge_tenants(observed.tenants, &document.tenants);
    let mut workloads: BTreeMap<WorkloadKey, Workload> =
        observed.workloads.into_iter().map(|w| (w.key.clone(), w)).collect();
    let mut named = BTreeSet::new();
    for edit in &document.workloads {
        let key = key_of(edit, &workloads);
        let workload = workloads.entry(key.clone()).or_insert_with(|| new_workload(key.clone(), &tenants));
        apply(workload, edit);
        if edit.tenant.is_some() {
            named.insert(key);
        }
    }
    let given = document.tenants.iter();
    let owners: BTreeMap<&str, &str> =
        given.flat_map(|t| t.namespaces.iter().flatten().map(|n| (n.as_str(), t.name.as_str()))).collect();
    for (key, workload) in &mut workloads {
        if let Some(owner) = owners.get(key.namespace.as_str())
            && !named.contains(key)
        {
            (*owner).clone_into(&mut workload.tenant);
        }
    }
    Demand { tenants: tenants.into_values().collect(), workloads: workloads.into_values().collect() }
}

/// The same with several documents, one after the other.
#[must_use]
pub fn merge_all<'d>(observed: Demand, documents: impl IntoIterator<Item = &'d DemandDocument>) -> Demand {
    documents.into_iter().fold(observed, merge)
}

fn merge_tenants(observed: Vec<Tenant>, edits: &[TenantEdit]) -> BTreeMap<String, Tenant> {
    let mut tenants: BTreeMap<String, Tenant> = observed.into_iter().map(|t| (t.name.clone(), t)).collect();
    let taken: BTreeSet<&String> = edits.iter().flat_map(|t| t.namespaces.iter().flatten()).collect();
    for tenant in tenants.values_mut() {
        // Those the document gives back to this very tenant are written anew below.
        if edits.iter().any(|edit| edit.name == tenant.name && edit.namespaces.is_some()) {
            continue;
        }
        tenant.namespaces.retain(|namespace| !taken.contains(namespace));
    }
    for edit in edits {
        let tenant = tenants.entry(edit.name.clone()).or_insert_with(|| Tenant {
            name: edit.name.clone(),
            namespaces: Vec::new(),
            class: TenantClass::default(),
            quota: BTreeMap::new(),
        });
        if let Some(namespaces) = &edit.namespaces {
            tenant.namespaces.clone_from(namespaces);
        }
        if let Some(class) = edit.class {
            tenant.class = class;
        }
        if let Some(quota) = &edit.quota {
            tenant.quota.clone_from(quota);
        }
    }
    tenants
}

fn key_of(edit: &WorkloadEdit, known: &BTreeMap<WorkloadKey, Workload>) -> WorkloadKey {
    let key = |kind: &str| WorkloadKey {
        namespace: edit.namespace.clone(),
        kind: kind.to_owned(),
        name: edit.name.clone(),
    };
    if let Some(kind) = &edit.kind {
        // Pods name the ReplicaSet as their owner; people know the Deployment that made it.
        let replica_set = key("ReplicaSet");
        let seen = !known.contains_key(&key(kind)) && known.contains_key(&replica_set);
        return if kind == "Deployment" && seen { replica_set } else { key(kind) };
    }
    // Keys are sorted by namespace first, so only that namespace is looked through.
    let first = WorkloadKey { namespace: edit.namespace.clone(), kind: String::new(), name: String::new() };
    let mut same = known
        .range(first..)
        .map(|(key, _)| key)
        .take_while(|key| key.namespace == edit.namespace)
        .filter(|key| key.name == edit.name);
    match (same.next(), same.next()) {
        (Some(only), None) => only.clone(),
        _ => key(DEFAULT_KIND),
    }
}

fn new_workload(key: WorkloadKey, tenants: &BTreeMap<String, Tenant>) -> Workload {
    let owner = tenants.values().find(|tenant| tenant.namespaces.contains(&key.namespace));
    Workload {
        tenant: owner.map_or_else(|| key.namespace.clone(), |tenant| tenant.name.clone()),
        key,
        count: 1,
        gpus: 1,
        same_node: false,
        cpu: MilliCpu(0),
        memory: Bytes(0),
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

fn apply(workload: &mut Workload, edit: &WorkloadEdit) {
    fn set<T: Clone>(target: &mut T, written: Option<&T>) {
        if let Some(value) = written {
            target.clone_from(value);
        }
    }
    fn set_some<T: Clone>(target: &mut Option<T>, written: Option<&T>) {
        if let Some(value) = written {
            *target = Some(value.clone());
        }
    }
    set(&mut workload.tenant, edit.tenant.as_ref());
    set(&mut workload.count, edit.count.as_ref());
    set(&mut workload.gpus, edit.gpus.as_ref());
    set(&mut workload.same_node, edit.same_node.as_ref());
    set(&mut workload.cpu, edit.cpu.as_ref());
    set(&mut workload.memory, edit.memory.as_ref());
    set(&mut workload.constraints.node_selector, edit.node_selector.as_ref());
    set(&mut workload.constraints.affinity, edit.affinity.as_ref());
    set(&mut workload.constraints.tolerations, edit.tolerations.as_ref());
    set_some(&mut workload.max_per_node, edit.max_per_node.as_ref());
    set_some(&mut workload.request, edit.request.as_ref());
    set_some(&mut workload.gpu_memory, edit.gpu_memory.as_ref());
    set_some(&mut workload.isolation, edit.isolation.as_ref());
    set_some(&mut workload.slo, edit.slo.as_ref());
    set_some(&mut workload.duty, edit.duty.as_ref());
    set_some(&mut workload.compute, edit.compute.as_ref());
    set_some(&mut workload.mode, edit.mode.as_ref());
    set_some(&mut workload.profile, edit.profile.as_ref());
    set(&mut workload.products, edit.products.as_ref());
    set(&mut workload.priority, edit.priority.as_ref());
    set(&mut workload.movable, edit.movable.as_ref());
    set_some(&mut workload.interactive, edit.interactive.as_ref());
}
