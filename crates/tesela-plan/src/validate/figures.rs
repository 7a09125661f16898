//! Figures that people read: today, cost, alternatives, pools, headroom, summary.

use std::collections::{BTreeMap, BTreeSet};

use tesela_model::demand::Isolation;
use tesela_model::fleet::Mode;
use tesela_model::plan::{Alternative, Cost, PlannedNode, Today};
use tesela_model::quantity::Micros;
use tesela_model::resource::GpuDevice;

use super::{Facts, Faults, Rule};

pub(super) fn check(facts: &Facts<'_>, faults: &mut Faults) {
    today(facts, faults);
    cost(facts, faults);
    pools(facts, faults);
    headroom(facts, faults);
    summary(facts, faults);
}

/// The price of GPUs given by product; `None` without prices, without one of them, or beyond 64 bits.
fn price<'a>(facts: &Facts<'_>, products: impl Iterator<Item = &'a str>) -> Option<Micros> {
    let book = facts.input.prices?;
    let mut sum = Micros(0);
    for product in products {
        sum = sum.plus(*book.gpu_hour.get(product)?)?;
    }
    Some(sum)
}

fn today(facts: &Facts<'_>, faults: &mut Faults) {
    let fleet = facts.input.fleet;
    let expected = fleet.has_nodes.then(|| {
        let mut gpus_by_mode: BTreeMap<Mode, u64> = BTreeMap::new();
        for gpu in fleet.nodes.iter().filter(|n| n.unusable.is_none()).flat_map(|n| &n.gpus) {
            *gpus_by_mode.entry(gpu.offer.mode()).or_default() += 1;
        }
        let nodes = fleet.nodes.iter().filter(|n| n.unusable.is_some() || !n.gpus.is_empty()).count() as u64;
        let products = fleet.nodes.iter().flat_map(|n| &n.gpus).map(|g| g.product.as_str());
        Today { gpus_by_mode, nodes, hourly_micros: price(facts, products) }
    });
    let mut said = facts.plan.today.clone();
    if let Some(today) = &mut said {
        today.gpus_by_mode.retain(|_, gpus| *gpus > 0);
    }
    if said != expected {
        faults.add(
            Rule::Today,
            "Plan",
            format!("today is said to be {said:?}, the fleet shows {expected:?}"),
        );
    }
}

fn works(node: &PlannedNode) -> bool {
    let users =
        node.gpus.iter().flat_map(|g| g.used_by.iter().chain(g.instances.iter().flat_map(|i| &i.used_by)));
    users.map(|u| u.pods).any(|pods| pods > 0)
}

/// Nodes that hold work, nodes kept free on purpose, nodes of which nobody knows what their GPUs are, and nodes with
/// pods that no planned GPU shows.
fn kept<'a>(facts: &Facts<'a>) -> Vec<&'a PlannedNode> {
    let spare = facts.plan.headroom.iter().flat_map(|h| &h.nodes).collect::<BTreeSet<_>>();
    let is_spare = |n: &&PlannedNode| n.name.as_ref().is_some_and(|name| spare.contains(name));
    let unknown = facts.input.fleet.nodes.iter().filter(|n| n.unusable.is_some()).map(|n| &n.name);
    let unknown = unknown.collect::<BTreeSet<_>>();
    let is_unknown = |n: &&PlannedNode| n.name.as_ref().is_some_and(|name| unknown.contains(name));
    let mut hidden = BTreeSet::new();
    for node in facts.input.fleet.nodes.iter().filter(|n| super::device::others_hide(n)) {
        hidden.insert(node.name.as_str());
    }
    hidden.extend(facts.plan.assignments.iter().filter(|a| a.count > 0).filter_map(|a| a.node.as_deref()));
    let has_pods = |n: &&PlannedNode| n.name.as_deref().is_some_and(|name| hidden.contains(name));
    let stays = |n: &&PlannedNode| works(n) || is_spare(n) || is_unknown(n) || has_pods(n);
    facts.plan.nodes.iter().filter(stays).collect()
}

fn cost(facts: &Facts<'_>, faults: &mut Faults) {
    let plan = facts.plan;
    let products = kept(facts).into_iter().flat_map(|n| &n.gpus).map(|g| g.product.as_str());
    let expected = price(facts, products);
    let said = plan.cost.as_ref().map(|c| c.hourly_micros);
    if said != expected {
        faults.add(
            Rule::Cost,
            "Plan",
            format!("an hour is said to cost {said:?}, the prices give {expected:?}"),
        );
    }
    match (&plan.cost, &plan.cost_reason) {
        (Some(_), Some(_)) => faults.add(Rule::Cost, "Plan", "has a cost and a reason for none".into()),
        (None, None) => faults.add(Rule::Cost, "Plan", "has neither a cost nor a reason".into()),
        _ => {}
    }
    if let Some(cost) = &plan.cost {
        let book = facts.input.prices.map(|b| (&b.currency, &b.source, &b.as_of));
        if book != Some((&cost.currency, &cost.source, &cost.as_of)) {
            faults.add(Rule::Cost, "Plan", "currency, source or day are not the price book's".into());
        }
        alternatives(facts, cost, faults);
    }
}

fn alternatives(facts: &Facts<'_>, cost: &Cost, faults: &mut Faults) {
    let all = &cost.alternatives;
    let named = [
        ("all_exclusive", &all.all_exclusive),
        ("all_mig", &all.all_mig),
        ("all_time_sliced", &all.all_time_sliced),
    ];
    for (name, answer) in named {
        if answer.is_some() == all.reasons.contains_key(name) {
            let message = "is to have figures or a reason, and not both".to_owned();
            faults.add(Rule::Alternative, name, message);
        }
    }
    if let Some(key) = all.reasons.keys().find(|key| !named.iter().any(|(name, _)| name == key)) {
        faults.add(Rule::Alternative, key, "is a reason for no alternative".into());
    }
    let wanted = || facts.workloads.values().filter(|w| w.count > 0);
    let gpus = wanted().map(|w| w.count.saturating_mul(u64::from(w.gpus))).fold(0u64, u64::saturating_add);
    if let Some(found) = all.all_exclusive.filter(|a| a.gpus != gpus) {
        faults.add(
            Rule::Alternative,
            "all_exclusive",
            format!("takes {} GPUs, the pods ask for {gpus}", found.gpus),
        );
    }
    let mut impossible = |name: &str, answer: &Option<Alternative>, why: Option<String>| {
        if let (Some(_), Some(why)) = (answer, why) {
            faults.add(Rule::Alternative, name, why);
        }
    };
    for w in wanted() {
        let isolation = facts.isolation(w);
        let cut = w.request.as_ref().is_some_and(|r| matches!(r.device, GpuDevice::Mig(_)));
        let no_mig = if w.gpus > 1 {
            Some(format!("{} works over {} GPUs", w.key, w.gpus))
        } else if isolation == Isolation::Device {
            Some(format!("{} needs the whole device", w.key))
        } else if w.gpu_memory.is_none() && w.profile.is_none() && !cut {
            Some(format!("the need of {} is not known", w.key))
        } else {
            None
        };
        impossible("all_mig", &all.all_mig, no_mig);
        let no_turns = if w.gpus > 1 {
            Some(format!("{} works over {} GPUs", w.key, w.gpus))
        } else if isolation >= Isolation::Instance {
            Some(format!("{} needs isolation {isolation}", w.key))
        } else if w.slo.is_some() {
            Some(format!("{} promises a latency", w.key))
        } else if w.gpu_memory.is_none() {
            Some(format!("the need of {} is not known", w.key))
        } else {
            None
        };
        impossible("all_time_sliced", &all.all_time_sliced, no_turns);
    }
}

/// Each pool names its nodes, and the pools of nodes with work have their GPUs.
fn pools(facts: &Facts<'_>, faults: &mut Faults) {
    type Way<'a> = (&'a str, Mode, Option<u32>);
    let mut there: BTreeMap<Way<'_>, (u64, BTreeSet<&str>)> = BTreeMap::new();
    for node in facts.plan.nodes.iter().filter(|n| works(n)) {
        for gpu in &node.gpus {
            let first = gpu.instances.first().and_then(|i| i.replicas);
            let alike = first.filter(|_| gpu.instances.iter().all(|i| i.replicas == first));
            let entry = there.entry((&gpu.product, gpu.mode, gpu.replicas.or(alike))).or_default();
            entry.0 += 1;
            entry.1.extend(node.name.as_deref());
        }
    }
    let mut said: BTreeMap<Way<'_>, (u64, BTreeSet<&str>)> = BTreeMap::new();
    let mut names = BTreeSet::new();
    for pool in &facts.plan.pools {
        let subject = format!("Pool/{}", pool.name);
        if !names.insert(&pool.name) {
            faults.add(Rule::Pool, &subject, "is listed twice".into());
        }
        for node in pool.nodes.iter().filter(|node| !facts.planned.contains_key(node.as_str())) {
            faults.add(
                Rule::UnknownNode,
                format!("Node/{node}"),
                format!("is in pool {}, not in the plan", pool.name),
            );
        }
        let entry = said.entry((&pool.product, pool.mode, pool.replicas)).or_default();
        entry.0 = entry.0.saturating_add(pool.gpus);
        entry.1.extend(pool.nodes.iter().map(String::as_str).filter(|node| facts.planned.contains_key(node)));
    }
    let ways = there.keys().chain(said.keys()).copied().collect::<BTreeSet<_>>();
    for way in ways {
        let (is, pools) = (there.get(&way), said.get(&way));
        if is != pools {
            let (product, mode, replicas) = way;
            let message =
                format!("{mode} {replicas:?}: the pools have {pools:?}, the nodes with work have {is:?}");
            faults.add(Rule::Pool, format!("Product/{product}"), message);
        }
    }
}

fn headroom(facts: &Facts<'_>, faults: &mut Faults) {
    let mut given = BTreeSet::new();
    for headroom in &facts.plan.headroom {
        let subject = format!("Pool/{}", headroom.pool);
        if !facts.plan.pools.iter().any(|p| p.name == headroom.pool) {
            faults.add(Rule::Headroom, &subject, "is no pool of the plan".into());
        }
        for name in &headroom.nodes {
            match facts.planned.get(name.as_str()) {
                None => faults.add(
                    Rule::UnknownNode,
                    format!("Node/{name}"),
                    "is headroom, not in the plan".into(),
                ),
                Some(node) if works(node) => {
                    faults.add(Rule::Headroom, &subject, format!("{name} holds work"));
                }
                Some(_) if !given.insert(name) => {
                    faults.add(Rule::Headroom, &subject, format!("{name} is kept free for two pools"));
                }
                Some(_) => {}
            }
        }
    }
}

fn summary(facts: &Facts<'_>, faults: &mut Faults) {
    let (plan, summary) = (facts.plan, &facts.plan.summary);
    let mut agree = |what: &str, said: u64, is: u64| {
        if said != is {
            faults.add(Rule::Summary, "Plan", format!("{what} is said to be {said}, it is {is}"));
        }
    };
    let sum = |values: &mut dyn Iterator<Item = u64>| values.fold(0u64, u64::saturating_add);
    agree("plan.pods_served", summary.plan.pods_served, sum(&mut plan.assignments.iter().map(|a| a.count)));
    agree("plan.pods_waiting", summary.plan.pods_waiting, sum(&mut plan.unmet.iter().map(|u| u.count)));
    let kept = kept(facts);
    agree("plan.gpus", summary.plan.gpus, sum(&mut kept.iter().map(|n| n.gpus.len() as u64)));
    agree("plan.nodes", summary.plan.nodes, kept.len() as u64);
    let used = plan.nodes.iter().filter(|n| works(n)).count() as u64;
    agree("plan.nodes_held", summary.plan.nodes_held, used);
    agree("plan.gpus_held", summary.plan.gpus_held, sum(&mut plan.gpus.iter().map(|g| g.used)));
    let fleet = facts.input.fleet;
    agree("today.gpus", summary.today.gpus, sum(&mut fleet.nodes.iter().map(|n| n.gpus.len() as u64)));
    let running = facts.workloads.values().flat_map(|w| &w.running).map(|h| h.pods.len() as u64);
    agree("today.pods_served", summary.today.pods_served, sum(&mut running.into_iter()));
    let change = plan
        .assignments
        .iter()
        .filter(|a| a.request_today.is_some())
        .map(|a| a.count.saturating_sub(a.staying));
    agree("requests_to_change", summary.requests_to_change, sum(&mut change.into_iter()));
    for name in &summary.nodes_free {
        if !facts.planned.contains_key(name.as_str()) {
            faults.add(Rule::UnknownNode, format!("Node/{name}"), "is free, not in the plan".into());
        } else if kept.iter().any(|n| n.name.as_ref() == Some(name)) {
            faults.add(
                Rule::Summary,
                format!("Node/{name}"),
                "is said to be free and holds work or headroom".into(),
            );
        }
    }
}
