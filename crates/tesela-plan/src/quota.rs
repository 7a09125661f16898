//! Quotas as a closed set: each namespace × each GPU resource name that exists or is planned, granted or 0.
//!
//! Rules of Kubernetes ResourceQuota: extended resources are counted under `requests.<name>` only, each name is
//! a key of its own, and a name that is not listed is an open door. Every pod that has not ended counts, waiting
//! ones too. A DRA device counts under its class (`<class>.deviceclass.resource.k8s.io/devices`) and, where
//! DRAExtendedResource is on, under the implicit name (`requests.deviceclass.resource.kubernetes.io/<class>`)
//! and the class's extended resource, all at once.

use std::collections::{BTreeMap, BTreeSet};

use tesela_model::demand::{Demand, Tenant, Workload};
use tesela_model::finding::{Finding, Severity};
use tesela_model::fleet::{Fleet, MigStrategy, Mode};
use tesela_model::plan::{Assignment, PlannedNode, Quota, Unmet};
use tesela_model::resource::GpuResource;

use crate::today::offered;

/// Device classes of NVIDIA's DRA driver: whole GPUs, MIG devices, pass-through to virtual machines.
const GPU_CLASS: &str = "gpu.nvidia.com";
const MIG_CLASS: &str = "mig.nvidia.com";
const VFIO_CLASS: &str = "vfio.gpu.nvidia.com";
/// Lines that a finding names before it says how many more there are.
const NAMED: usize = 3;

/// Units by tenant-free key: namespace, then resource.
type Units = BTreeMap<(String, GpuResource), u64>;

/// All lines of all quotas, by namespace and resource.
///
/// Granted is what the namespace's assignments request; where a tenant was given a total, the total is divided
/// over its namespaces in proportion to what they request (largest remainder, ties by name; equal parts where
/// nothing is requested). Never less than the assignments request: [`findings`] says where a total is too
/// small. Everything else is 0. The classes of DRA are granted together with the names of the device plugin:
/// whole GPUs under `gpu.nvidia.com`, MIG devices under `mig.nvidia.com`. A share of a device is no DRA device
/// and counts 0 there, since a claim is for a device and its sharers name the same claim.
#[must_use]
pub fn close(
    fleet: &Fleet,
    demand: &Demand,
    assignments: &[Assignment],
    nodes: &[PlannedNode],
) -> Vec<Quota> {
    let names = resource_names(fleet, demand, assignments, nodes);
    let granted = granted(demand, assignments);
    let (gpus, migs) = dra_devices(assignments, &granted);
    let mut quotas = BTreeSet::new();
    for namespace in namespaces(fleet, demand, assignments) {
        for name in &names {
            let hard = granted.get(&(namespace.clone(), name.clone())).copied().unwrap_or(0);
            quotas.insert((namespace.clone(), name.quota_key(), hard));
        }
        let of = |units: &BTreeMap<String, u64>| units.get(&namespace).copied().unwrap_or(0);
        for (class, hard) in [(GPU_CLASS, of(&gpus)), (MIG_CLASS, of(&migs)), (VFIO_CLASS, 0)] {
            quotas.insert((namespace.clone(), format!("{class}.deviceclass.resource.k8s.io/devices"), hard));
            let implicit = format!("requests.deviceclass.resource.kubernetes.io/{class}");
            quotas.insert((namespace.clone(), implicit, hard));
        }
    }
    let line = |(namespace, resource, hard)| Quota { namespace, resource, hard };
    quotas.into_iter().map(line).collect()
}

/// What to know of the quotas: a tenant's total below what its pods request under the plan; waiting pods that would use
/// up what the placed ones need, since a quota counts them too; grants below the quotas in force; no room for the
/// extra pod of a rolling update.
#[must_use]
pub fn findings(
    fleet: &Fleet,
    demand: &Demand,
    assignments: &[Assignment],
    unmet: &[Unmet],
    quotas: &[Quota],
) -> Vec<Finding> {
    let mut found = Vec::new();
    found.extend(below_those_in_force(fleet, quotas));
    found.extend(above_those_in_force(fleet, assignments));
    found.extend(no_room_to_roll(demand, assignments));
    for tenant in &demand.tenants {
        for (resource, total) in &tenant.quota {
            let need =
                needs_of(tenant, resource, assignments).values().fold(0u64, |a, b| a.saturating_add(*b));
            if need > *total {
                found.push(Finding {
                    severity: Severity::Error,
                    rule: "tenant-quota-too-small".into(),
                    subject: format!("Tenant/{}", tenant.name),
                    message: format!(
                        "tenant {} was given {total} of {resource}, its pods request {need} under the plan; the \
                         quotas grant {need}, so that the plan can run",
                        tenant.name
                    ),
                    fix: format!("raise the tenant's total of {resource} to {need}, or take pods away"),
                });
            }
        }
    }
    let workloads: BTreeMap<_, _> =
        demand.workloads.iter().map(|w| ((&*w.key.namespace, &*w.key.kind, &*w.key.name), w)).collect();
    let workload = |u: &Unmet| workloads.get(&(&*u.namespace, &*u.kind, &*u.workload)).copied();
    found.extend(unmet.iter().filter_map(|unmet| waiting(workload(unmet)?, unmet)));
    found.sort();
    found
}

/// Kubernetes takes the lowest quota, so a smaller grant takes away what somebody once gave.
fn below_those_in_force(fleet: &Fleet, quotas: &[Quota]) -> Option<Finding> {
    let granted: BTreeMap<(&str, &str), u64> =
        quotas.iter().map(|q| ((q.namespace.as_str(), q.resource.as_str()), q.hard)).collect();
    let lower = fleet.quotas_in_force.iter().filter_map(|((namespace, resource), now)| {
        let hard = *granted.get(&(namespace.as_str(), resource.quota_key().as_str()))?;
        (hard < *now).then(|| format!("{namespace} {hard} of {resource} instead of {now}"))
    });
    let lower = lower.collect::<Vec<_>>();
    let shown = lower.iter().take(NAMED).cloned().collect::<Vec<_>>().join(", ");
    let more = lower.len().saturating_sub(NAMED);
    let more = if more == 0 { String::new() } else { format!(" and {more} more") };
    (!lower.is_empty()).then(|| Finding {
        severity: Severity::Warning,
        rule: "quota-below-that-in-force".into(),
        subject: "Plan/quotas".into(),
        message: format!("the plan grants what its pods request, less than quotas in force: {shown}{more}"),
        fix: "where a namespace shall keep what it was given, write it as its tenant's `quota` in a Demand"
            .into(),
    })
}

/// Kubernetes takes the lowest quota, so one that is there already may refuse what the plan places.
fn above_those_in_force(fleet: &Fleet, assignments: &[Assignment]) -> Option<Finding> {
    let mut needs: BTreeMap<(&str, &GpuResource), u64> = BTreeMap::new();
    let mut new: BTreeSet<(&str, &GpuResource)> = BTreeSet::new();
    for a in assignments {
        let key = (a.namespace.as_str(), &a.resource);
        let need = needs.entry(key).or_insert(0);
        *need = need.saturating_add(a.count.saturating_mul(u64::from(a.gpus)));
        if a.staying < a.count {
            new.insert(key);
        }
    }
    let refused = new.into_iter().filter_map(|key| {
        let (namespace, resource) = key;
        let now = *fleet.quotas_in_force.get(&(namespace.to_owned(), resource.clone()))?;
        let need = needs.get(&key).copied().unwrap_or(0);
        (need > now).then(|| format!("{namespace} requests {need} of {resource}, {now} allowed"))
    });
    let refused = refused.collect::<Vec<_>>();
    let shown = refused.iter().take(NAMED).cloned().collect::<Vec<_>>().join(", ");
    let more = refused.len().saturating_sub(NAMED);
    let more = if more == 0 { String::new() } else { format!(" and {more} more") };
    (!refused.is_empty()).then(|| Finding {
        severity: Severity::Error,
        rule: "quota-in-force-refuses".into(),
        subject: "Plan/quotas".into(),
        message: format!("quotas in force would refuse what the plan places: {shown}{more}"),
        fix: "raise these ResourceQuotas before the steps are carried out; those that the steps write do not replace them"
            .into(),
    })
}

/// A rolling update makes a pod more before one goes (maxSurge 25 %, rounded up, unless the Deployment says otherwise),
/// and the quota is what the pods request.
fn no_room_to_roll(demand: &Demand, assignments: &[Assignment]) -> Option<Finding> {
    let rolls = |a: &&Assignment| a.kind == "ReplicaSet" || a.kind == "Deployment";
    let generous = |a: &&Assignment| {
        let of = demand.tenants.iter().find(|t| t.name == a.tenant);
        of.is_some_and(|t| t.quota.contains_key(&a.resource))
    };
    let bound: BTreeSet<_> = assignments
        .iter()
        .filter(|a| rolls(a) && !generous(a))
        .map(|a| (&a.namespace, &a.kind, &a.workload))
        .collect();
    let (namespace, _, workload) = bound.first()?;
    let which = match bound.len() {
        1 => format!("Deployment {namespace}/{workload}"),
        n => format!("{n} Deployments (such as {namespace}/{workload})"),
    };
    Some(Finding {
        severity: Severity::Info,
        rule: "quota-leaves-no-surge".into(),
        subject: "Plan/quotas".into(),
        message: format!(
            "the quotas grant what the planned pods request and no more, so the extra pod of a rolling update of {which} \
             would be refused"
        ),
        fix: "set maxSurge: 0 and maxUnavailable: 1 there (strategy Recreate for one replica), or write a larger \
              `quota` of the tenant in a Demand"
            .into(),
    })
}

/// Waiting pods exist in the cluster already when the workload names a request.
fn waiting(workload: &Workload, unmet: &Unmet) -> Option<Finding> {
    let resource = workload.request.as_ref()?;
    let running = workload.running.iter().map(|h| h.pods.len() as u64).sum::<u64>();
    let pods = unmet.count.min(workload.count.saturating_sub(running));
    (pods > 0).then(|| Finding {
        severity: Severity::Warning,
        rule: "quota-held-by-waiting-pods".into(),
        subject: workload.key.to_string(),
        message: format!(
            "{pods} waiting pods request {} of {resource} that the plan has no room for; a quota counts waiting \
             pods too, so they use up what namespace {} is granted for the placed ones",
            pods.saturating_mul(u64::from(workload.gpus)),
            unmet.namespace
        ),
        fix: "scale the workload down, or add hardware, before the quotas are applied".into(),
    })
}

fn namespaces(fleet: &Fleet, demand: &Demand, assignments: &[Assignment]) -> BTreeSet<String> {
    let mut all = fleet.namespaces.clone();
    all.extend(demand.workloads.iter().map(|w| w.key.namespace.clone()));
    all.extend(demand.tenants.iter().flat_map(|t| t.namespaces.iter().cloned()));
    all.extend(assignments.iter().map(|a| a.namespace.clone()));
    all
}

/// Every GPU resource name that exists (nodes, pods, quotas) or will (assignments, planned devices, also those
/// nobody uses yet).
fn resource_names(
    fleet: &Fleet,
    demand: &Demand,
    assignments: &[Assignment],
    nodes: &[PlannedNode],
) -> BTreeSet<GpuResource> {
    let mut names = fleet.resources.clone();
    names.insert(GpuResource::gpu());
    for node in &fleet.nodes {
        names.extend(node.gpus.iter().flat_map(|gpu| offered(node, gpu).into_keys()));
        names.extend(node.held_by_others.iter().map(|h| h.resource.clone()));
    }
    for workload in &demand.workloads {
        names.extend(workload.request.clone());
        names.extend(workload.running.iter().map(|h| h.resource.clone()));
    }
    names.extend(demand.tenants.iter().flat_map(|t| t.quota.keys().cloned()));
    names.extend(assignments.iter().map(|a| a.resource.clone()));
    for node in nodes {
        names.extend(planned_names(node));
    }
    names
}

/// Names of a planned node's devices. Whether shares are renamed is not part of the plan of a device that
/// nobody uses yet, so both names are closed.
fn planned_names(node: &PlannedNode) -> BTreeSet<GpuResource> {
    let mut names = BTreeSet::new();
    let mut insert = |name: GpuResource, replicas: Option<u32>| {
        if replicas.is_some() {
            names.insert(name.clone().renamed());
        }
        names.insert(name);
    };
    for gpu in &node.gpus {
        if gpu.mode != Mode::Mig {
            insert(GpuResource::gpu(), gpu.replicas);
        }
        for instance in &gpu.instances {
            match node.mig_strategy {
                MigStrategy::None => {}
                MigStrategy::Single => insert(GpuResource::gpu(), instance.replicas),
                MigStrategy::Mixed => insert(GpuResource::mig(instance.profile.clone()), instance.replicas),
            }
        }
    }
    names
}

fn requested(assignment: &Assignment) -> u64 {
    assignment.count.saturating_mul(u64::from(assignment.gpus))
}

fn granted(demand: &Demand, assignments: &[Assignment]) -> Units {
    let mut units = Units::new();
    let mut add = |namespace: &str, resource: &GpuResource, more: u64| {
        let sum: &mut u64 = units.entry((namespace.to_owned(), resource.clone())).or_insert(0);
        *sum = sum.saturating_add(more);
    };
    for assignment in assignments {
        add(&assignment.namespace, &assignment.resource, requested(assignment));
    }
    // A namespace can hold several tenants' work (tenants by label), so a total adds only what is beyond need.
    for tenant in &demand.tenants {
        for (resource, total) in &tenant.quota {
            let needs = needs_of(tenant, resource, assignments);
            for (namespace, share) in divide(*total, &needs) {
                let need = needs.get(&namespace).copied().unwrap_or(0);
                add(&namespace, resource, share.saturating_sub(need));
            }
        }
    }
    units
}

/// What each namespace of a tenant requests of a resource under the plan.
fn needs_of(tenant: &Tenant, resource: &GpuResource, assignments: &[Assignment]) -> BTreeMap<String, u64> {
    let mut needs: BTreeMap<String, u64> = tenant.namespaces.iter().map(|n| (n.clone(), 0)).collect();
    for assignment in assignments.iter().filter(|a| a.tenant == tenant.name && a.resource == *resource) {
        let need = needs.entry(assignment.namespace.clone()).or_insert(0);
        *need = need.saturating_add(requested(assignment));
    }
    needs
}

/// Divides a total in proportion to the weights by largest remainder, ties by name; in equal parts when all
/// weights are 0. The parts sum to the total, and no part is below its weight when the total is not below
/// their sum.
fn divide(total: u64, weights: &BTreeMap<String, u64>) -> BTreeMap<String, u64> {
    let equal = weights.values().all(|w| *w == 0);
    let weight = |w: u64| if equal { 1 } else { u128::from(w) };
    let sum = weights.values().map(|w| weight(*w)).sum::<u128>();
    if sum == 0 {
        return BTreeMap::new();
    }
    let mut parts = BTreeMap::new();
    let mut remainders = Vec::new();
    let mut left = total;
    for (name, w) in weights {
        // total < 2^64 and weight < 2^64, so the product fits 128 bits; the quotient is at most the total.
        let product = u128::from(total) * weight(*w);
        let part = u64::try_from(product / sum).unwrap_or(u64::MAX);
        left = left.saturating_sub(part);
        parts.insert(name.clone(), part);
        remainders.push((std::cmp::Reverse(product % sum), name));
    }
    remainders.sort();
    for (_, name) in remainders {
        if left == 0 {
            break;
        }
        if let Some(part) = parts.get_mut(name) {
            *part += 1;
            left -= 1;
        }
    }
    parts
}

/// Whole GPUs and MIG devices of each namespace, what a tenant's total grants beyond need included.
fn dra_devices(
    assignments: &[Assignment],
    granted: &Units,
) -> (BTreeMap<String, u64>, BTreeMap<String, u64>) {
    let mut gpus: BTreeMap<String, u64> = BTreeMap::new();
    let mut migs: BTreeMap<String, u64> = BTreeMap::new();
    let mut beyond = granted.clone();
    let add = |to: &mut BTreeMap<String, u64>, namespace: &str, more: u64| {
        let sum = to.entry(namespace.to_owned()).or_insert(0);
        *sum = sum.saturating_add(more);
    };
    for assignment in assignments {
        let units = requested(assignment);
        if let Some(left) = beyond.get_mut(&(assignment.namespace.clone(), assignment.resource.clone())) {
            *left = left.saturating_sub(units);
        }
        match (assignment.mode, assignment.replicas) {
            (Mode::Exclusive, None) => add(&mut gpus, &assignment.namespace, units),
            (Mode::Mig, None) => add(&mut migs, &assignment.namespace, units),
            _ => {}
        }
    }
    for ((namespace, resource), units) in beyond.iter().filter(|((_, r), _)| !r.shared) {
        let to = if *resource == GpuResource::gpu() { &mut gpus } else { &mut migs };
        add(to, namespace, *units);
    }
    (gpus, migs)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn weights(parts: &[u64]) -> BTreeMap<String, u64> {
        parts.iter().enumerate().map(|(i, w)| (format!("n{i}"), *w)).collect()
    }

    #[test]
    fn a_total_is_divided_by_largest_remainder() {
        for (total, need, parts) in [
            (10, vec![1, 1, 1], vec![4, 3, 3]),
            (7, vec![2, 1], vec![5, 2]),
            (5, vec![0, 0], vec![3, 2]),
            (5, vec![0, 3], vec![0, 5]),
            (0, vec![0, 0], vec![0, 0]),
            (3, vec![1, 1], vec![2, 1]),
            (u64::MAX, vec![u64::MAX, 0], vec![u64::MAX, 0]),
        ] {
            let divided = divide(total, &weights(&need)).into_values().collect::<Vec<_>>();
            assert_eq!(divided, parts, "{total} over {need:?}");
        }
        assert!(divide(3, &BTreeMap::new()).is_empty());
    }

    #[test]
    fn no_part_is_below_its_need_when_the_total_is_enough() {
        for (total, need) in
            [(9, vec![4, 3, 1]), (8, vec![4, 3, 1]), (100, vec![1, 98, 1]), (101, vec![33, 33, 33])]
        {
            let need = weights(&need);
            let divided = divide(total, &need);
            assert_eq!(divided.values().sum::<u64>(), total);
            assert!(need.iter().all(|(name, w)| divided[name] >= *w), "{total} over {need:?}: {divided:?}");
        }
    }
}
