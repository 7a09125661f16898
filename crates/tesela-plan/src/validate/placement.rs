//! New pods against the nodes they go to: room, labels, taints, spread.

use std::collections::{BTreeMap, BTreeSet};

use tesela_model::demand::Workload;
use tesela_model::fleet::{Node, NodeOffer};
use tesela_model::label;
use tesela_model::plan::Assignment;

use super::{Facts, Faults, Rule};

pub(super) fn check(facts: &Facts<'_>, faults: &mut Faults) {
    for (name, assigned) in facts.by_node() {
        match name.map(|name| facts.nodes.get(name)) {
            Some(Some(node)) => {
                room(node, &assigned, faults);
                for (a, w) in assigned.iter().filter(|(a, _)| new(a) > 0) {
                    admits(node, a, w, faults);
                }
            }
            Some(None) => {}
            None => {
                for (a, w) in &assigned {
                    bought(facts, a, w, faults);
                }
                bought_room(facts, &assigned, faults);
            }
        }
        spread(name, &assigned, faults);
    }
    same_node(facts, faults);
}

/// Pods that do not run there today.
fn new(a: &Assignment) -> u64 {
    a.count.saturating_sub(a.staying)
}

/// What pods of assignments request, and what the new ones of them do.
fn sums(assigned: &[(&Assignment, &Workload)], of: impl Fn(&Workload) -> u64) -> (u64, u64) {
    let sum = |pods: &dyn Fn(&Assignment) -> u64| {
        assigned.iter().map(|(a, w)| pods(a).saturating_mul(of(w))).fold(0u64, u64::saturating_add)
    };
    (sum(&|a| a.count), sum(&new))
}

/// Pods that run on an overfilled node may stay; new ones may not come. Unknown capacity is no constraint.
fn room(node: &Node, assigned: &[(&Assignment, &Workload)], faults: &mut Faults) {
    let subject = format!("Node/{}", node.name);
    let (cpu, new_cpu) = sums(assigned, |w| w.cpu.0);
    let cpu = cpu.saturating_add(node.cpu_taken.0);
    if let Some(has) = node.cpu.filter(|has| new_cpu > 0 && cpu > has.0) {
        faults.add(
            Rule::Cpu,
            &subject,
            format!("pods request {cpu} thousandths of a core, it has {}", has.0),
        );
    }
    let (pods, new_pods) = sums(assigned, |_| 1);
    let pods = pods.saturating_add(node.pods_taken);
    if let Some(most) = node.pods.filter(|most| new_pods > 0 && pods > *most) {
        faults.add(Rule::Pods, &subject, format!("{pods} pods are here, kubelet takes {most}"));
    }
    let (memory, new_memory) = sums(assigned, |w| w.memory.0);
    let memory = memory.saturating_add(node.memory_taken.0);
    if let Some(has) = node.memory.filter(|has| new_memory > 0 && memory > has.0) {
        faults.add(
            Rule::Memory,
            &subject,
            format!("pods request {memory} bytes of memory, it has {}", has.0),
        );
    }
}

fn admits(node: &Node, a: &Assignment, w: &Workload, faults: &mut Faults) {
    let here = format!("{} new pods on {}", new(a), node.name);
    if !w.constraints.selects(&node.name, &node.labels) {
        faults.add(Rule::Selector, &w.key, format!("{here}, which its selector or affinity does not allow"));
    }
    if let Some(taint) = w.constraints.repelled_by(&node.taints) {
        let message = format!(
            "{here}, whose taint {}={}:{} it does not tolerate",
            taint.key, taint.value, taint.effect
        );
        faults.add(Rule::Taint, &w.key, message);
    }
    if !node.schedulable {
        faults.add(Rule::Unschedulable, &w.key, format!("{here}, which is cordoned or not ready"));
    }
    if let Some(why) = &node.unusable {
        faults.add(
            Rule::Unschedulable,
            &w.key,
            format!("{here}, whose GPUs must not be planned with: {why}"),
        );
    }
}

/// A node that is not there yet carries the labels of its offer and the label of its product.
fn labels(facts: &Facts<'_>, offer: &NodeOffer) -> BTreeMap<String, String> {
    let mut labels = offer.labels.clone();
    if let Some(nvml) = facts.product(&offer.product).and_then(|p| p.nvml_names.first()) {
        labels.entry(label::GPU_PRODUCT.to_owned()).or_insert_with(|| nvml.replace(' ', "-"));
    }
    labels
}

fn bought(facts: &Facts<'_>, a: &Assignment, w: &Workload, faults: &mut Faults) {
    let mut offers = facts.input.fleet.buy.iter().filter(|o| o.product == a.product).peekable();
    if offers.peek().is_some() && !offers.any(|o| w.constraints.selects("", &labels(facts, o))) {
        let message =
            format!("goes to new nodes with {}, which its selector or affinity does not allow", a.product);
        faults.add(Rule::Selector, &w.key, message);
    }
}

/// New nodes of a product have room for their pods together, as far as every offer says what it has.
fn bought_room(facts: &Facts<'_>, assigned: &[(&Assignment, &Workload)], faults: &mut Faults) {
    let products = assigned.iter().map(|(a, _)| a.product.as_str()).collect::<BTreeSet<_>>();
    for product in products {
        let nodes =
            facts.bought.iter().filter(|n| n.gpus.first().is_some_and(|g| g.product == product)).count()
                as u64;
        let offers = facts.input.fleet.buy.iter().filter(|o| o.product == product);
        let here = assigned.iter().filter(|(a, _)| a.product == product).copied().collect::<Vec<_>>();
        let most = |of: &dyn Fn(&NodeOffer) -> Option<u64>| {
            let each = offers.clone().map(of).reduce(|a, b| Some(a?.max(b?))).flatten();
            each.map(|each| each.saturating_mul(nodes))
        };
        let (cpu, _) = sums(&here, |w| w.cpu.0);
        if let Some(has) = most(&|o| o.cpu.map(|c| c.0)).filter(|has| cpu > *has) {
            let message = format!("pods on new nodes request {cpu} thousandths of a core, they have {has}");
            faults.add(Rule::Cpu, format!("Product/{product}"), message);
        }
        let (memory, _) = sums(&here, |w| w.memory.0);
        if let Some(has) = most(&|o| o.memory.map(|m| m.0)).filter(|has| memory > *has) {
            let message = format!("pods on new nodes request {memory} bytes of memory, they have {has}");
            faults.add(Rule::Memory, format!("Product/{product}"), message);
        }
    }
}

fn spread(node: Option<&str>, assigned: &[(&Assignment, &Workload)], faults: &mut Faults) {
    let Some(node) = node else { return };
    let mut pods: BTreeMap<_, (u64, u64, &Workload)> = BTreeMap::new();
    for (a, w) in assigned {
        let sums = pods.entry(&w.key).or_insert((0, 0, w));
        sums.0 = sums.0.saturating_add(a.count);
        sums.1 = sums.1.saturating_add(new(a));
    }
    for (count, fresh, w) in pods.into_values() {
        if let Some(most) = w.max_per_node.filter(|most| count > u64::from(*most) && fresh > 0) {
            faults.add(Rule::Spread, &w.key, format!("{count} pods on {node}, at most {most} may be there"));
        }
    }
}

fn same_node(facts: &Facts<'_>, faults: &mut Faults) {
    let mut nodes: BTreeMap<_, (BTreeSet<Option<&str>>, u64, u64)> = BTreeMap::new();
    for (a, w) in facts.assigned().filter(|(_, w)| w.same_node) {
        let entry = nodes.entry(&w.key).or_default();
        entry.0.insert(a.node.as_deref());
        entry.1 = entry.1.saturating_add(new(a));
        if a.node.is_none() {
            entry.2 = entry.2.saturating_add(super::devices(a));
        }
    }
    let largest = facts.bought.iter().map(|n| units(n)).max().unwrap_or(0);
    for (key, (nodes, fresh, bought)) in nodes {
        if nodes.len() > 1 && fresh > 0 {
            let message = format!("its pods are on {} nodes and must be on one", nodes.len());
            faults.add(Rule::SameNode, key, message);
        } else if bought > largest {
            let message =
                format!("its pods take {bought} devices of new nodes, no such node has more than {largest}");
            faults.add(Rule::SameNode, key, message);
        }
    }
}

/// Devices and shares of a planned node.
fn units(node: &tesela_model::plan::PlannedNode) -> u64 {
    let whole = |g: &tesela_model::plan::PlannedGpu| match g.mode {
        tesela_model::fleet::Mode::Mig => g.instances.iter().map(|i| i.replicas.map_or(1, u64::from)).sum(),
        _ => g.replicas.map_or(1, u64::from),
    };
    node.gpus.iter().map(whole).sum()
}
