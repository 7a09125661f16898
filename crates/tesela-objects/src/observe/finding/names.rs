//! What a resource name stands for, and why pods wait.

use std::collections::{BTreeMap, BTreeSet};

use tesela_model::demand::{NodeConstraints, Workload};
use tesela_model::finding::Severity;
use tesela_model::resource::GpuResource;

use super::{Draft, Scene, Unit, counted, size, some_of, unit, verb};
use crate::observe::node::Observed;
use crate::observe::pod::GpuPod;
use crate::observe::workload::{Pods, main_ask};

pub(super) fn find(scene: &Scene<'_>, drafts: &mut Vec<Draft>) {
    let mut reach = Reach { nodes: scene.nodes, known: BTreeMap::new() };
    for resource in scene.resources {
        drafts.extend(ambiguous(scene, resource, &mut reach));
    }
    let offering = offering(scene);
    let workloads = scene.workloads();
    for workload in &scene.demand.workloads {
        if let Some(pods) = workloads.get(&workload.key) {
            drafts.extend(waiting(scene, workload, pods, &offering, &mut reach));
        }
    }
}

/// Which nodes let pods in, by selector, affinity and taints. Workloads of a fleet have few different constraints.
struct Reach<'a> {
    nodes: &'a [Observed],
    known: BTreeMap<&'a NodeConstraints, Vec<bool>>,
}

impl<'a> Reach<'a> {
    fn of(&mut self, constraints: &'a NodeConstraints) -> &[bool] {
        let nodes = self.nodes;
        let lets_in = |o: &Observed| {
            constraints.selects(&o.node.name, &o.node.labels)
                && constraints.repelled_by(&o.node.taints).is_none()
        };
        self.known.entry(constraints).or_insert_with(|| nodes.iter().map(lets_in).collect())
    }
}

/// Nodes that offer each resource name, by index.
type Offering<'a> = BTreeMap<&'a GpuResource, Vec<usize>>;

fn offering<'a>(scene: &Scene<'a>) -> Offering<'a> {
    let mut offering = Offering::new();
    for (index, observed) in scene.nodes.iter().enumerate() {
        for (resource, _) in observed.offered.iter().filter(|(_, o)| o.allocatable > 0) {
            offering.entry(resource).or_default().push(index);
        }
    }
    offering
}

/// One resource name for units of several products or sizes, where a workload may get either.
fn ambiguous<'a>(scene: &Scene<'a>, resource: &GpuResource, reach: &mut Reach<'a>) -> Option<Draft> {
    let mut units = BTreeMap::<Unit, Vec<usize>>::new();
    for (index, observed) in scene.nodes.iter().enumerate() {
        if let Some(unit) = unit(observed, resource) {
            units.entry(unit).or_default().push(index);
        }
    }
    if units.len() < 2 {
        return None;
    }
    let asking = scene.demand.workloads.iter().filter(|w| w.request.as_ref() == Some(resource));
    let asking = asking.collect::<Vec<_>>();
    let mut may_get_several = |w: &'a Workload| {
        let open = reach.of(&w.constraints);
        units.values().filter(|nodes| nodes.iter().any(|n| open[*n])).count() > 1
    };
    let loose = asking.iter().filter(|w| may_get_several(w)).map(|w| w.key.to_string()).collect::<Vec<_>>();
    // Selectors, taints and affinities keep the units apart for everybody who asks.
    if !asking.is_empty() && loose.is_empty() {
        return None;
    }
    Some(told_ambiguous(scene, resource, &units, &loose, asking.len()))
}

fn told_ambiguous(
    scene: &Scene<'_>,
    resource: &GpuResource,
    units: &BTreeMap<Unit, Vec<usize>>,
    loose: &[String],
    asking: usize,
) -> Draft {
    let list = units.iter().map(|(unit, nodes)| {
        let names = some_of(nodes.iter().map(|n| scene.nodes[*n].node.name.as_str()));
        format!("{} of {} on {} ({names})", unit.size, unit.product, counted(size(nodes.len()), "node"))
    });
    let list = list.collect::<Vec<_>>().join(", ");
    let who = match loose.len() {
        0 => "no workload asks for it now".to_owned(),
        n => format!(
            "{n} of {} that {} for it may get any of these: {}",
            counted(size(asking), "workload"),
            verb(asking, "asks", "ask"),
            some_of(loose.iter().map(String::as_str)),
        ),
    };
    let products = units.keys().map(|u| &u.product).collect::<BTreeSet<_>>();
    let (rule, fix) = if products.len() > 1 {
        (
            "resource-name-two-products",
            "put nvidia.com/gpu.product in the nodeSelector of each workload, or give each product a pool with its own label and taint",
        )
    } else {
        (
            "resource-name-two-sizes",
            "let shared replicas be renamed (renameByDefault: true) and use MIG strategy mixed, so that each size has a name of its own",
        )
    };
    Draft {
        severity: Severity::Warning,
        rule,
        subject: format!("Resource/{resource}"),
        message: format!("{resource} is {list}; {who}"),
        fix: fix.to_owned(),
        gpus: units.values().flatten().map(|n| size(scene.nodes[*n].node.gpus.len())).sum(),
    }
}

/// Why pods of a workload wait, the reason nearest to the root first.
fn waiting<'a>(
    scene: &Scene<'a>,
    workload: &'a Workload,
    pods: &Pods<'_>,
    offering: &Offering<'_>,
    reach: &mut Reach<'a>,
) -> Option<Draft> {
    let waiting = pods.iter().filter(|(_, record, _)| record.node.is_none()).collect::<Vec<_>>();
    let (_, _, first) = waiting.first()?;
    let (resource, devices) = main_ask(first)?;
    let why = match waiting.iter().find_map(|(_, _, pod)| gated(pod)) {
        Some(gate) => gate,
        None => why(scene, workload, (resource, devices), offering, reach),
    };
    let said = waiting.iter().filter_map(|(_, _, pod)| pod.unscheduled.as_deref()).max();
    let said = said.map(|text| format!("; the scheduler says: {text}")).unwrap_or_default();
    Some(Draft {
        severity: why.severity,
        rule: why.rule,
        subject: workload.key.to_string(),
        message: format!(
            "{} {} for {devices} {resource}{}: {}{said}",
            counted(size(waiting.len()), "pod"),
            verb(waiting.len(), "waits", "wait"),
            if waiting.len() == 1 { "" } else { " each" },
            why.reason,
        ),
        fix: why.fix,
        gpus: u64::from(devices).saturating_mul(size(waiting.len())),
    })
}

/// A scheduling gate holds the pod back; whether it would fit is nobody's question yet.
fn gated(pod: &GpuPod) -> Option<Why> {
    let said = pod.unscheduled.as_deref()?;
    said.starts_with("SchedulingGated").then(|| Why {
        rule: "gpu-pods-gated",
        severity: Severity::Info,
        reason: "a scheduling gate holds it back, which Kueue and others lift when they admit the work".to_owned(),
        fix: "ask what set the gate (`kubectl get workloads -A` for Kueue); room for it is planned all the same"
            .to_owned(),
    })
}

struct Why {
    rule: &'static str,
    severity: Severity,
    reason: String,
    fix: String,
}

fn why<'a>(
    scene: &Scene<'a>,
    workload: &'a Workload,
    (resource, devices): (&GpuResource, u32),
    offering: &Offering<'_>,
    reach: &mut Reach<'a>,
) -> Why {
    let severity = Severity::Error;
    let nodes = offering.get(resource).map_or(&[][..], Vec::as_slice);
    if nodes.is_empty() {
        let names = offering.keys().map(ToString::to_string).collect::<Vec<_>>();
        let names = if names.is_empty() { "nothing".to_owned() } else { names.join(", ") };
        let reason = format!("no node offers {resource} (offered: {names})");
        let fix = "ask for a resource that is offered, or let `tesela plan` cut what is asked for".to_owned();
        return Why { rule: "resource-nobody-offers", severity, reason, fix };
    }
    let most = nodes.iter().map(|n| allocatable(&scene.nodes[*n], resource)).max().unwrap_or(0);
    if u64::from(devices) > most {
        let reason = format!("no node has more than {most}");
        let fix = format!("ask for at most {most} per pod; more needs several pods");
        return Why { rule: "request-above-any-node", severity, reason, fix };
    }
    let large = |n: &usize| {
        let node = &scene.nodes[*n].node;
        node.cpu.is_none_or(|cpu| workload.cpu <= cpu)
            && node.memory.is_none_or(|memory| workload.memory <= memory)
    };
    if !nodes.iter().any(large) {
        let reason =
            format!("no node that offers it has {} CPU and {} of memory", workload.cpu, workload.memory);
        let fix = "lower the pod's CPU and memory requests to what such a node has".to_owned();
        return Why { rule: "request-above-any-node", severity, reason, fix };
    }
    let open = reach.of(&workload.constraints);
    let matching = nodes.iter().copied().filter(|n| open[*n]).collect::<Vec<_>>();
    if matching.is_empty() {
        return no_match(scene, workload, nodes);
    }
    let most = matching.iter().map(|n| allocatable(&scene.nodes[*n], resource)).max().unwrap_or(0);
    if u64::from(devices) > most {
        let reason = format!("no node that its selector and taints allow has more than {most}");
        let fix = format!("ask for at most {most} per pod, or let the pod run on nodes that have more");
        return Why { rule: "request-above-any-node", severity, reason, fix };
    }
    no_room(scene, resource, &matching)
}

fn allocatable(observed: &Observed, resource: &GpuResource) -> u64 {
    observed.offered.get(resource).map_or(0, |o| o.allocatable)
}

/// Selector, affinity or taints keep the pod from every node that offers what it asks for.
fn no_match(scene: &Scene<'_>, workload: &Workload, nodes: &[usize]) -> Why {
    let constraints = &workload.constraints;
    let selected =
        nodes.iter().map(|n| &scene.nodes[*n].node).filter(|n| constraints.selects(&n.name, &n.labels));
    let taint = selected.filter_map(|n| constraints.repelled_by(&n.taints)).next();
    let (reason, fix) = match taint {
        Some(taint) => (
            format!("taint {}:{} keeps it from every node that its selector allows", taint.key, taint.effect),
            format!("tolerate {} in the pod, if it may run there", taint.key),
        ),
        None => (
            format!(
                "its node selector and affinity match none of {} that offer it",
                counted(size(nodes.len()), "node")
            ),
            "compare the pod's nodeSelector and affinity with `kubectl get nodes --show-labels`".to_owned(),
        ),
    };
    Why { rule: "no-node-matches", severity: Severity::Error, reason, fix }
}

/// Nodes would do, but have no room now.
fn no_room(scene: &Scene<'_>, resource: &GpuResource, matching: &[usize]) -> Why {
    let open = matching.iter().map(|n| &scene.nodes[*n]).filter(|o| o.node.schedulable).collect::<Vec<_>>();
    let free = |o: &&Observed| allocatable(o, resource).saturating_sub(scene.held_on(o, resource));
    let total = open.iter().map(free).sum::<u64>();
    let reason = if open.is_empty() {
        let nodes = counted(size(matching.len()), "node");
        format!("{nodes} would do, but all are closed (cordoned, not ready, or nothing healthy)")
    } else {
        let most = open.iter().map(free).max().unwrap_or(0);
        let nodes = counted(size(open.len()), "node");
        format!("{nodes} would do, {total} {resource} are free there, at most {most} on one node")
    };
    Why {
        rule: "gpu-pods-pending",
        severity: Severity::Warning,
        reason,
        fix: "see what `tesela plan` makes room for; `kubectl describe pod` shows the scheduler's view"
            .to_owned(),
    }
}
