//! What a workload must not share, and whether it does.

use std::collections::{BTreeMap, BTreeSet};

use tesela_model::demand::Isolation;
use tesela_model::fleet::Mode;
use tesela_model::plan::Assignment;

use super::device::used_by;
use super::{Facts, Faults, Rule, node_name, subject, takes_turns};

pub(super) fn check(facts: &Facts<'_>, faults: &mut Faults) {
    for (a, w) in facts.assigned() {
        let gets = match (a.mode, a.replicas) {
            (Mode::Exclusive, _) => Isolation::Device,
            // The instance that takes all slices leaves nothing on the device to others.
            (Mode::Mig, None) if takes_all(facts, a) => Isolation::Device,
            (Mode::Mig, None) => Isolation::Instance,
            _ => Isolation::None,
        };
        let needs = facts.isolation(w);
        // `tenant` depends on who else is there and is looked at below.
        // Pods that must not be moved stay where they are; that their promise is broken is a finding, not a choice.
        let pinned = a.staying == a.count && !w.movable;
        if needs >= Isolation::Instance && gets < needs && !pinned {
            let regulated = facts.regulated.contains(w.tenant.as_str()) && gets < Isolation::Instance;
            let rule = if regulated { Rule::Regulated } else { Rule::Isolation };
            faults.add(
                rule,
                subject(a),
                format!("gets isolation `{gets}` in mode {}, needs `{needs}`", a.mode),
            );
        }
        if w.slo.is_some() && takes_turns(a.mode, a.replicas) && a.staying < a.count {
            faults.add(
                Rule::Slo,
                subject(a),
                format!("promises a latency and takes turns in mode {}", a.mode),
            );
        }
    }
    tenants(facts, faults);
}

fn takes_all(facts: &Facts<'_>, a: &Assignment) -> bool {
    let product = facts.product(&a.product);
    let profile = product.zip(a.profile.as_ref()).and_then(|(p, name)| p.profile(name.as_str()).ok());
    product.zip(profile).is_some_and(|(product, profile)| profile.compute_slices == product.compute_slices)
}

/// Who asks for a share on a node may get any share of that name there, so the name decides who shares.
fn tenants(facts: &Facts<'_>, faults: &mut Faults) {
    let mut pools: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for (a, w) in facts.assigned().filter(|(a, _)| takes_turns(a.mode, a.replicas)) {
        // New nodes have no names, so only what the devices' users say tells them apart; see below.
        if let Some(node) = a.node.as_deref() {
            pools.entry((node, &a.resource)).or_default().push((a, w));
        }
    }
    for ((node, resource), sharers) in pools {
        let tenants = sharers.iter().map(|(_, w)| w.tenant.as_str()).collect::<BTreeSet<_>>();
        for (a, w) in sharers.iter().filter(|(_, w)| facts.isolation(w) == Isolation::Tenant) {
            let pinned = !w.movable && sharers.iter().all(|(a, _)| a.staying == a.count);
            if tenants.len() > 1 && !pinned {
                let others =
                    tenants.iter().filter(|t| **t != w.tenant).copied().collect::<Vec<_>>().join(", ");
                let message = format!(
                    "shares {resource} on {node} with {others}, and only its own tenant may be there"
                );
                faults.add(Rule::IsolationTenant, subject(a), message);
            }
        }
    }
    for node in &facts.bought {
        let shared = node.gpus.iter().filter(|g| g.replicas.is_some()).flat_map(|g| &g.used_by);
        let instances = node.gpus.iter().flat_map(|g| &g.instances).filter(|i| i.replicas.is_some());
        let users = shared.chain(instances.flat_map(|i| &i.used_by));
        let users = users.filter_map(|u| facts.workloads.get(&used_by(u))).collect::<Vec<_>>();
        let tenants = users.iter().map(|w| w.tenant.as_str()).collect::<BTreeSet<_>>();
        if tenants.len() > 1 && users.iter().any(|w| facts.isolation(w) == Isolation::Tenant) {
            let message = format!("tenants {tenants:?} share its GPUs, and work of one of them must not");
            faults.add(Rule::IsolationTenant, node_name(None), message);
        }
    }
}
