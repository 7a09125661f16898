//! Quotas: a closed set, and enough for what the plan assigns.

use std::collections::{BTreeMap, BTreeSet};

use tesela_model::fleet::{MigStrategy, Mode};
use tesela_model::resource::GpuResource;

use super::device::units_today;
use super::{Facts, Faults, Rule, devices};

/// Names of the device classes of NVIDIA's DRA driver.
const CLASSES: [&str; 3] = ["gpu.nvidia.com", "mig.nvidia.com", "vfio.gpu.nvidia.com"];

pub(super) fn check(facts: &Facts<'_>, faults: &mut Faults) {
    let mut hard: BTreeMap<(&str, &str), u64> = BTreeMap::new();
    for quota in &facts.plan.quotas {
        if hard.insert((&quota.namespace, &quota.resource), quota.hard).is_some() {
            let message = format!("{} has two lines", quota.resource);
            faults.add(Rule::QuotaTwice, format!("Namespace/{}", quota.namespace), message);
        }
    }
    let names = names(facts);
    for namespace in namespaces(facts) {
        let subject = format!("Namespace/{namespace}");
        for name in &names {
            if !hard.contains_key(&(namespace, name.as_str())) {
                faults.add(Rule::QuotaOpen, &subject, format!("has no line for {name}"));
            }
        }
    }
    for ((namespace, name), wanted) in asked(facts) {
        if let Some(granted) = hard.get(&(namespace, name.as_str())).filter(|granted| **granted < wanted) {
            let message = format!("{name} is granted {granted}, its pods ask for {wanted}");
            faults.add(Rule::QuotaTooSmall, format!("Namespace/{namespace}"), message);
        }
    }
}

fn namespaces<'a>(facts: &Facts<'a>) -> BTreeSet<&'a str> {
    let of_tenants = facts.input.demand.tenants.iter().flat_map(|t| &t.namespaces);
    let of_fleet = facts.input.fleet.namespaces.iter().chain(of_tenants).map(String::as_str);
    of_fleet.chain(facts.workloads.keys().map(|(namespace, ..)| *namespace)).collect()
}

/// Every name that is there, is asked for, or will be there.
fn names(facts: &Facts<'_>) -> BTreeSet<String> {
    let mut names = facts.input.fleet.resources.clone();
    for node in facts.nodes.values() {
        names.extend(node.gpus.iter().flat_map(|gpu| units_today(node, gpu)).map(|(name, _)| name));
    }
    for workload in facts.workloads.values() {
        names.extend(workload.request.clone());
        names.extend(workload.running.iter().map(|h| h.resource.clone()));
    }
    names.extend(facts.plan.assignments.iter().map(|a| a.resource.clone()));
    for node in &facts.plan.nodes {
        // Free devices are an open door too. Of shares that nobody uses only the plain name is sure.
        for gpu in &node.gpus {
            if gpu.mode == Mode::Exclusive {
                names.insert(GpuResource::gpu());
            }
            for instance in gpu.instances.iter().filter(|i| i.replicas.is_none()) {
                match node.mig_strategy {
                    MigStrategy::None => {}
                    MigStrategy::Single => drop(names.insert(GpuResource::gpu())),
                    MigStrategy::Mixed => drop(names.insert(GpuResource::mig(instance.profile.clone()))),
                }
            }
        }
    }
    let mut keys = names.iter().map(GpuResource::quota_key).collect::<BTreeSet<_>>();
    keys.extend(CLASSES.iter().flat_map(|class| dra(class)));
    keys
}

/// A class is counted under its own name and, as an extended resource, under an implicit one.
fn dra(class: &str) -> [String; 2] {
    [
        format!("{class}.deviceclass.resource.k8s.io/devices"),
        format!("requests.deviceclass.resource.kubernetes.io/{class}"),
    ]
}

/// What the assignments of each namespace ask for, under the plugin's names and under those of DRA.
fn asked<'a>(facts: &Facts<'a>) -> BTreeMap<(&'a str, String), u64> {
    let mut asked: BTreeMap<(&str, String), u64> = BTreeMap::new();
    for a in &facts.plan.assignments {
        let mut names = vec![a.resource.quota_key()];
        match (a.mode, a.replicas) {
            (Mode::Exclusive, _) => names.extend(dra(CLASSES[0])),
            (Mode::Mig, None) => names.extend(dra(CLASSES[1])),
            _ => {}
        }
        for name in names {
            let sum = asked.entry((&a.namespace, name)).or_insert(0);
            *sum = sum.saturating_add(devices(a));
        }
    }
    asked
}
