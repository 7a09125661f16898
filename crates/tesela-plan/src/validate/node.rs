//! Planned nodes against the fleet and the profile table.

use std::collections::{BTreeMap, BTreeSet};

use tesela_model::fleet::{MigStrategy, Mode, Node, Offer};
use tesela_model::label;
use tesela_model::layout::{Layout, LayoutError};
use tesela_model::plan::{PlannedGpu, PlannedNode};

use super::{Facts, Faults, Rule, node_name};

pub(super) fn check(facts: &Facts<'_>, faults: &mut Faults) {
    names(facts, faults);
    for (name, node) in &facts.nodes {
        match facts.planned.get(name) {
            Some(planned) => against_fleet(node, planned, faults),
            None => {
                faults.add(Rule::NodeGpus, format!("Node/{name}"), "is in the fleet, not in the plan".into());
            }
        }
    }
    bought(facts, faults);
    for node in &facts.plan.nodes {
        for (index, gpu) in node.gpus.iter().enumerate() {
            let subject = format!("{}/{index}", node_name(node.name.as_deref()));
            parts(node, gpu, &subject, faults);
            layout(facts, node, index, gpu, &subject, faults);
        }
        one_sharing(facts, node, faults);
    }
}

fn names(facts: &Facts<'_>, faults: &mut Faults) {
    let mut seen = BTreeSet::new();
    for name in facts.plan.nodes.iter().filter_map(|n| n.name.as_deref()) {
        let subject = format!("Node/{name}");
        if !seen.insert(name) {
            faults.add(Rule::NodeGpus, &subject, "is in the plan twice".into());
        }
        if !facts.nodes.contains_key(name) {
            faults.add(Rule::UnknownNode, &subject, "is planned, not in the fleet".into());
        }
    }
    for (a, w) in facts.assigned() {
        let Some(name) = a.node.as_deref() else { continue };
        // A pod that runs on a node nobody described goes on running there.
        let unseen = a.staying == a.count && w.running.iter().any(|h| h.node == name);
        if !facts.planned.contains_key(name) && !unseen {
            faults.add(
                Rule::UnknownNode,
                format!("Node/{name}"),
                format!("has pods of {}, not in the plan", w.key),
            );
        }
    }
}

fn against_fleet(node: &Node, planned: &PlannedNode, faults: &mut Faults) {
    let subject = format!("Node/{}", node.name);
    if node.gpus.len() != planned.gpus.len() {
        let message = format!("{} GPUs are planned, it has {}", planned.gpus.len(), node.gpus.len());
        faults.add(Rule::NodeGpus, &subject, message);
    }
    for (index, (gpu, is)) in planned.gpus.iter().zip(&node.gpus).enumerate() {
        // Which of several GPUs it is may be left to who carries the plan out.
        if gpu.product != is.product || gpu.uuid.is_some() && gpu.uuid != is.uuid {
            let message = format!(
                "GPU {index} is {} {:?}, planned is {} {:?}",
                is.product, is.uuid, gpu.product, gpu.uuid
            );
            faults.add(Rule::NodeGpus, &subject, message);
        }
        if gpu.mode_today != Some(is.offer.mode()) {
            let message =
                format!("GPU {index} is {} today, the plan says {:?}", is.offer.mode(), gpu.mode_today);
            faults.add(Rule::NodeToday, &subject, message);
        }
    }
    let labelled = |key: &str| node.labels.get(key).cloned();
    let today = (
        planned.mig_strategy_today,
        planned.operator,
        &planned.plugin_config_today,
        &planned.mig_config_today,
    );
    let plugin = labelled(label::DEVICE_PLUGIN_CONFIG);
    let config = labelled(label::MIG_CONFIG);
    let is = (Some(node.mig_strategy), node.operator, &plugin, &config);
    if today != is {
        faults.add(Rule::NodeToday, &subject, format!("the plan says {today:?}, it is {is:?}"));
    }
}

/// Hardware that is not there: only where it may be bought, or where no nodes were given at all.
fn bought(facts: &Facts<'_>, faults: &mut Faults) {
    let fleet = facts.input.fleet;
    if facts.bought.is_empty() {
        for (_, w) in facts.assigned().filter(|(a, _)| a.node.is_none()) {
            faults.add(
                Rule::NullNode,
                &w.key,
                "is on a node that is not there yet, and none is planned".into(),
            );
        }
        return;
    }
    if fleet.buy.is_empty() {
        if fleet.has_nodes || !fleet.nodes.is_empty() {
            let message = format!("{} nodes are not there, and nothing may be bought", facts.bought.len());
            faults.add(Rule::NullNode, "Plan", message);
        }
        return;
    }
    let mut counts: BTreeMap<(Vec<&str>, usize), u64> = BTreeMap::new();
    for node in &facts.bought {
        let products = node.gpus.iter().map(|g| g.product.as_str()).collect::<BTreeSet<_>>();
        *counts.entry((products.into_iter().collect(), node.gpus.len())).or_insert(0) += 1;
    }
    for ((products, gpus), count) in counts {
        let fits = |o: &&tesela_model::fleet::NodeOffer| {
            products == [o.product.as_str()] && o.gpus_per_node as usize == gpus
        };
        let limit = fleet.buy.iter().filter(fits).map(|o| o.max_nodes.map(u64::from));
        let limit = limit.reduce(|a, b| a.zip(b).map(|(a, b)| a + b)).unwrap_or(Some(0));
        if let Some(limit) = limit.filter(|limit| count > *limit) {
            let message = format!("{count} nodes with {gpus} GPUs are bought, {limit} are offered");
            faults.add(Rule::BuyLimit, format!("Product/{}", products.join("+")), message);
        }
    }
    if let Some(node) = facts.bought.iter().find(|n| n.mig_strategy_today.is_some()) {
        faults.add(Rule::NodeToday, node_name(node.name.as_deref()), "has a MIG strategy today".into());
    }
}

/// Mode, replicas, instances and users of one GPU go together.
fn parts(node: &PlannedNode, gpu: &PlannedGpu, subject: &str, faults: &mut Faults) {
    let mut wrong = |message: String| faults.add(Rule::PlannedGpu, subject, message);
    match (gpu.mode, gpu.replicas) {
        (_, Some(0 | 1)) => wrong(format!("replicas {:?} below 2", gpu.replicas)),
        (Mode::Exclusive | Mode::Mig, Some(_)) => {
            wrong(format!("replicas {:?} in mode {}", gpu.replicas, gpu.mode));
        }
        (Mode::TimeSliced | Mode::Mps, None) => wrong(format!("mode {} without replicas", gpu.mode)),
        _ => {}
    }
    if gpu.mode == Mode::Mig {
        if !gpu.used_by.is_empty() {
            wrong("is cut and used as a whole".into());
        }
        if gpu.instances.iter().any(|i| matches!(i.replicas, Some(0 | 1))) {
            wrong("an instance has fewer than 2 replicas".into());
        }
        let used = gpu.instances.iter().any(|i| !i.used_by.is_empty());
        if used && node.mig_strategy == MigStrategy::None {
            wrong("has pods on instances, and the node's MIG strategy is none".into());
        }
    } else if !gpu.instances.is_empty() {
        wrong(format!("has {} instances in mode {}", gpu.instances.len(), gpu.mode));
    }
}

fn layout(
    facts: &Facts<'_>,
    node: &PlannedNode,
    index: usize,
    gpu: &PlannedGpu,
    subject: &str,
    faults: &mut Faults,
) {
    if gpu.instances.is_empty() {
        return;
    }
    let Some(product) = facts.product(&gpu.product) else {
        // The table lacks the product: only what is cut today can be there.
        let today = node.name.as_deref().and_then(|n| facts.nodes.get(n)?.gpus.get(index)).map(|g| &g.offer);
        let cut = |i: &tesela_model::plan::PlannedInstance| match today {
            Some(Offer::Mig { instances, .. }) => {
                instances.iter().any(|t| (&t.profile, t.start, t.size) == (&i.profile, i.start, i.size))
            }
            _ => false,
        };
        if let Some(instance) = gpu.instances.iter().find(|i| !cut(i)) {
            let message =
                format!("{} has no known placements, {} cannot be planned", gpu.product, instance.profile);
            faults.add(Rule::Placement, subject, message);
        }
        return;
    };
    match Layout::new(product, gpu.instances.iter().map(|i| (i.profile.clone(), i.start))) {
        Ok(layout) => {
            let size = |i: &tesela_model::plan::PlannedInstance| {
                layout.instances().iter().find(|l| l.start == i.start).map(|l| l.size)
            };
            for i in gpu.instances.iter().filter(|i| size(i) != Some(i.size)) {
                let message =
                    format!("{}@{} takes {:?} units, planned are {}", i.profile, i.start, size(i), i.size);
                faults.add(Rule::Placement, subject, message);
            }
        }
        Err(error) => {
            let rule = match &error {
                LayoutError::UnknownProfile(_)
                | LayoutError::NoPlacements { .. }
                | LayoutError::Start { .. } => Rule::Placement,
                LayoutError::Overlap { .. } => Rule::Overlap,
                LayoutError::ComputeSlices { .. } => Rule::ComputeSlices,
                LayoutError::Engine { .. } => Rule::Engines,
                LayoutError::MaxInstances { .. } => Rule::MaxInstances,
            };
            faults.add(rule, subject, error.to_string());
        }
    }
}

/// NVIDIA's device plugin shares all GPUs of a node that are not cut alike; what is otherwise today may stay.
fn one_sharing(facts: &Facts<'_>, node: &PlannedNode, faults: &mut Faults) {
    let is = node.name.as_deref().and_then(|name| facts.nodes.get(name));
    let kept = |index: usize, gpu: &PlannedGpu| match is.and_then(|n| n.gpus.get(index)).map(|g| &g.offer) {
        Some(Offer::Exclusive) => gpu.mode == Mode::Exclusive,
        Some(Offer::TimeSliced { replicas }) => {
            gpu.mode == Mode::TimeSliced && gpu.replicas == Some(*replicas)
        }
        Some(Offer::Mps { replicas }) => gpu.mode == Mode::Mps && gpu.replicas == Some(*replicas),
        Some(Offer::Mig { .. }) | None => false,
    };
    let whole =
        node.gpus.iter().enumerate().filter(|(_, gpu)| gpu.mode != Mode::Mig && !gpu.used_by.is_empty());
    let ways = whole.clone().map(|(_, gpu)| (gpu.mode, gpu.replicas)).collect::<BTreeSet<_>>();
    if ways.len() > 1 && whole.clone().any(|(index, gpu)| !kept(index, gpu)) {
        let message = format!("its GPUs in use are shared in {} ways: {ways:?}", ways.len());
        faults.add(Rule::OneSharing, node_name(node.name.as_deref()), message);
    }
}
