//! A finished placement as the document that people and `render` read.

mod assumptions;
mod changes;
mod headroom;
mod nodes;
mod reasons;
mod restarts;
mod speed;
mod unmet;
mod uses;
mod what_if;

use std::collections::{BTreeMap, BTreeSet};

use tesela_model::demand::Workload;
use tesela_model::fleet::Mode;
use tesela_model::plan::{
    API_VERSION, Assignment, Figures, Plan, PlanStatus, PlannedNode, PlannedPool, Summary, Unmet, Use,
};
use tesela_model::product::ProfileName;
use tesela_model::resource::GpuResource;

use crate::decide::Decision;
use crate::input::PlanInput;
use crate::planner::Outcome;
use crate::{cost, quota, today};

/// A label's value has at most so many characters (Kubernetes).
const LABEL_LENGTH: usize = 63;

/// One way in which pods of a workload are placed; equal ones are one entry.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Seat {
    workload: usize,
    node: Option<String>,
    /// Tells bought nodes apart.
    index: usize,
    mode: Mode,
    replicas: Option<u32>,
    resource: GpuResource,
    product: String,
    profile: Option<ProfileName>,
    devices: u32,
}

/// What of a seat is taken.
#[derive(Clone, Debug, Default)]
struct Taken {
    units: u64,
    staying: u64,
    gpus: Vec<Option<String>>,
    starts: Vec<Option<u32>>,
}

pub(crate) fn plan(input: &PlanInput<'_>, decisions: &[Decision], outcome: &Outcome<'_>) -> Plan {
    let (nodes, seats) = nodes::nodes(input, &outcome.world);
    let assignments = assignments(input, decisions, outcome, &seats);
    let unmet = unmet(input, decisions, outcome);
    let pools = pools(input, &nodes, &outcome.world);
    let headroom = headroom::headroom(input, outcome, &nodes, &pools);
    let changes = changes::changes(&outcome.world, &nodes);
    let quotas = quota::close(input.fleet, input.demand, &assignments, &nodes);
    let (cost, cost_reason) = cost::cost(input, &nodes, &headroom, &outcome.world.unseen());
    let summary = Summary {
        requests_to_change: requests_to_change(&assignments),
        unknown_gpus: unknown_gpus(input, &assignments),
        ..summary(input, outcome, &nodes, &headroom)
    };
    let sensitivity = what_if::sensitivity(input, decisions, &summary);
    let restarting = restarts::restarting(input, outcome, &assignments, &pools);
    let mut findings = input.findings.to_vec();
    findings.extend(quota::findings(input.fleet, input.demand, &assignments, &unmet, &quotas));
    findings.extend(headroom::findings(input, &headroom));
    findings.extend(reasons::findings(input, decisions, outcome));
    findings.extend(speed::findings(input.demand, &assignments));
    // Within a severity what was found first stays first: observation puts what concerns most GPUs first.
    findings.sort_by_key(|f| f.severity);
    findings.dedup();
    Plan {
        api_version: API_VERSION.to_owned(),
        kind: "Plan".to_owned(),
        status: if unmet.is_empty() { PlanStatus::Complete } else { PlanStatus::Partial },
        gpus: uses::uses(input, &nodes),
        pools,
        assumptions: assumptions::assumptions(input, decisions, &summary, &sensitivity),
        sensitivity,
        assignments,
        unmet,
        findings,
        quotas,
        today: today::today(input.fleet, input.prices),
        changes,
        cost,
        cost_reason,
        nodes,
        summary,
        headroom,
        nodes_today: today::nodes(input.fleet, input.demand),
        restarting,
        burst: Vec::new(),
        operator_namespace: input.fleet.operator_namespace.clone(),
    }
}

/// Nodes and assignments alone.
pub(crate) fn seats(
    input: &PlanInput<'_>,
    decisions: &[Decision],
    outcome: &Outcome<'_>,
) -> (Vec<PlannedNode>, Vec<Assignment>) {
    let (nodes, seats) = nodes::nodes(input, &outcome.world);
    let assignments = assignments(input, decisions, outcome, &seats);
    (nodes, assignments)
}

fn assignments(
    input: &PlanInput<'_>,
    decisions: &[Decision],
    outcome: &Outcome<'_>,
    seats: &BTreeMap<Seat, Taken>,
) -> Vec<Assignment> {
    let mut merged: BTreeMap<EntryKey, Assignment> = BTreeMap::new();
    for ((seat, taken), (count, staying)) in seats.iter().zip(whole_pods(seats)) {
        if count == 0 {
            continue;
        }
        let workload = &input.demand.workloads[seat.workload];
        add(
            &mut merged,
            seat.workload,
            Assignment {
                workload: workload.key.name.clone(),
                kind: workload.key.kind.clone(),
                namespace: workload.key.namespace.clone(),
                tenant: workload.tenant.clone(),
                mode: seat.mode,
                replicas: seat.replicas,
                resource: seat.resource.clone(),
                count,
                gpus: seat.devices,
                node: seat.node.clone(),
                gpu: only(&taken.gpus),
                product: seat.product.clone(),
                profile: seat.profile.clone(),
                start: only(&taken.starts),
                staying,
                // Pods that stay keep their request, whatever the others of their owner ask for.
                request_today: workload.request.clone().filter(|r| staying < count && *r != seat.resource),
                reason: reasons::reason(input, &decisions[seat.workload], outcome, seat, taken),
            },
        );
    }
    for lost in &outcome.world.lost {
        add(&mut merged, lost.workload, reasons::kept_unseen(input, lost));
    }
    let mut assignments: Vec<Assignment> = merged.into_values().collect();
    assignments.sort();
    assignments
}

/// What makes an entry of its own: workload, node, mode, shares, resource, product, profile, and devices per pod.
type EntryKey = (usize, Option<String>, (Mode, Option<u32>), GpuResource, (String, Option<ProfileName>), u32);

/// Adds an entry to the one of its key. What differs between the two is said of neither.
fn add(merged: &mut BTreeMap<EntryKey, Assignment>, workload: usize, entry: Assignment) {
    let way = (entry.mode, entry.replicas);
    let what = (entry.product.clone(), entry.profile.clone());
    let key = (workload, entry.node.clone(), way, entry.resource.clone(), what, entry.gpus);
    let Some(known) = merged.get_mut(&key) else {
        merged.insert(key, entry);
        return;
    };
    known.count += entry.count;
    known.staying += entry.staying;
    known.request_today = known.request_today.take().or(entry.request_today);
    known.gpu = known.gpu.take().filter(|g| Some(g) == entry.gpu.as_ref());
    known.start = known.start.filter(|s| Some(*s) == entry.start);
}

/// Pods, and of them those that stay, of each seat. The devices of a pod may be of two kinds (a node with two
/// products); such a pod is counted once, where more of its devices are.
fn whole_pods(seats: &BTreeMap<Seat, Taken>) -> Vec<(u64, u64)> {
    let mut groups: BTreeMap<(usize, &Option<String>, usize, u32), Vec<usize>> = BTreeMap::new();
    for (i, seat) in seats.keys().enumerate() {
        groups.entry((seat.workload, &seat.node, seat.index, seat.devices)).or_default().push(i);
    }
    let taken: Vec<&Taken> = seats.values().collect();
    let mut pods = vec![(0, 0); seats.len()];
    for ((_, _, _, devices), members) in groups {
        let devices = u64::from(devices.max(1));
        let share = |units: &dyn Fn(usize) -> u64| {
            let total: u64 = members.iter().map(|&m| units(m)).sum();
            let floors: u64 = members.iter().map(|&m| units(m) / devices).sum();
            let mut order = members.clone();
            order.sort_by_key(|&m| (std::cmp::Reverse(units(m) % devices), m));
            let extra = usize::try_from(total / devices - floors).unwrap_or(0);
            let rounded_up: Vec<usize> = order.into_iter().take(extra).collect();
            move |m: usize, units: u64| units / devices + u64::from(rounded_up.contains(&m))
        };
        let (count, staying) = (share(&|m| taken[m].units), share(&|m| taken[m].staying));
        for &m in &members {
            pods[m] = (count(m, taken[m].units), staying(m, taken[m].staying));
        }
    }
    pods
}

/// The value, where all are the same and known.
fn only<T: Clone + PartialEq>(values: &[Option<T>]) -> Option<T> {
    let first = values.first()?.clone()?;
    values.iter().all(|v| v.as_ref() == Some(&first)).then_some(first)
}

fn unmet(input: &PlanInput<'_>, decisions: &[Decision], outcome: &Outcome<'_>) -> Vec<Unmet> {
    let mut unmet: Vec<Unmet> = outcome
        .unseated
        .iter()
        .map(|left| {
            let key = &input.demand.workloads[left.workload].key;
            Unmet {
                workload: key.name.clone(),
                kind: key.kind.clone(),
                namespace: key.namespace.clone(),
                count: left.count,
                reason: unmet::why(input, &decisions[left.workload], outcome, left.workload),
            }
        })
        .collect();
    unmet.sort();
    unmet
}

/// Pools of the nodes that hold work, by name.
fn pools(input: &PlanInput<'_>, nodes: &[PlannedNode], world: &crate::world::World<'_>) -> Vec<PlannedPool> {
    let mut pools: BTreeMap<PoolKey<'_>, PlannedPool> = BTreeMap::new();
    for (node, state) in nodes.iter().zip(&world.nodes) {
        if !state.used() {
            continue;
        }
        for gpu in &node.gpus {
            let tenant = match &state.full {
                Some(crate::world::Full::Shared(s)) if gpu.mode != Mode::Mig => {
                    s.tenant.clone().filter(|tenant| is_of(input, node, tenant))
                }
                _ => None,
            };
            let replicas = gpu.replicas.or_else(|| shared_instances(gpu));
            let key = (gpu.mode, gpu.product.as_str(), replicas, tenant);
            let pool = pools.entry(key).or_insert_with_key(|(mode, product, replicas, tenant)| PlannedPool {
                name: pool_name(*mode, product, *replicas, tenant.as_deref()),
                product: (*product).to_owned(),
                mode: *mode,
                replicas: *replicas,
                tenant: tenant.clone(),
                nodes: Vec::new(),
                gpus: 0,
            });
            pool.gpus += 1;
            if let Some(name) = &node.name
                && pool.nodes.last() != Some(name)
            {
                pool.nodes.push(name.clone());
            }
        }
    }
    let mut pools: Vec<PlannedPool> = pools.into_values().collect();
    for pool in &mut pools {
        pool.nodes.sort();
        pool.nodes.dedup();
    }
    tell_apart(&mut pools);
    pools.sort_by(|a, b| a.name.cmp(&b.name));
    pools
}

/// Whether nobody but this tenant is on the node's shared GPUs. Where pods of others stay, a fence would be around them
/// too; that the promise is broken is a finding.
fn is_of(input: &PlanInput<'_>, node: &PlannedNode, tenant: &str) -> bool {
    // The planner sorts workloads by key.
    let tenant_of = |u: &Use| {
        let wanted = (&u.namespace, &u.kind, &u.workload);
        let order = |w: &Workload| (&w.key.namespace, &w.key.kind, &w.key.name).cmp(&wanted);
        let at = input.demand.workloads.binary_search_by(order).ok()?;
        Some(input.demand.workloads[at].tenant.as_str())
    };
    node.gpus.iter().flat_map(|g| &g.used_by).all(|u| tenant_of(u) == Some(tenant))
}

/// Mode, product, replicas and tenant.
type PoolKey<'a> = (Mode, &'a str, Option<u32>, Option<String>);

/// Names that came out alike, since a label's value holds less than a product's or tenant's name, get a number.
fn tell_apart(pools: &mut [PlannedPool]) {
    let mut taken: BTreeSet<String> = BTreeSet::new();
    for pool in pools {
        let name = pool.name.clone();
        let mut number = 1;
        while !taken.insert(pool.name.clone()) {
            number += 1;
            let end = format!("-{number}");
            let room = LABEL_LENGTH - end.len();
            pool.name = format!("{}{end}", name.chars().take(room).collect::<String>());
        }
    }
}

fn shared_instances(gpu: &tesela_model::plan::PlannedGpu) -> Option<u32> {
    let first = gpu.instances.first()?.replicas?;
    gpu.instances.iter().all(|i| i.replicas == Some(first)).then_some(first)
}

/// Such as `mig-h100-sxm-80gb` or `time-sliced-4-l4-team-a`; made of what a label's value may hold.
fn pool_name(mode: Mode, product: &str, replicas: Option<u32>, tenant: Option<&str>) -> String {
    let mode = match mode {
        Mode::Exclusive => "exclusive",
        Mode::Mig => "mig",
        Mode::TimeSliced => "time-sliced",
        Mode::Mps => "mps",
    };
    let replicas = replicas.map_or(String::new(), |r| format!("-{r}"));
    let tenant = tenant.map_or(String::new(), |t| format!("-{t}"));
    let name: String = format!("{mode}{replicas}-{product}{tenant}")
        .to_lowercase()
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || c == '-' { c } else { '-' })
        .collect();
    let cut: String = name.chars().take(LABEL_LENGTH).collect();
    cut.trim_end_matches('-').to_owned()
}

/// Pods whose request must be changed.
fn requests_to_change(assignments: &[Assignment]) -> u64 {
    assignments.iter().filter(|a| a.request_today.is_some()).map(|a| a.count - a.staying).sum()
}

/// Workloads of which only a request of whole GPUs is known.
fn unknown<'a>(input: &PlanInput<'a>) -> impl Iterator<Item = &'a Workload> {
    let workloads = input.demand.workloads.iter();
    workloads
        .filter(|w| w.gpu_memory.is_none() && w.profile.is_none() && w.mode.is_none() && w.gpus == 1)
        .filter(|w| w.request.as_ref().is_none_or(|r| *r == GpuResource::gpu()))
}

fn unknown_gpus(input: &PlanInput<'_>, assignments: &[Assignment]) -> u64 {
    let unknown: BTreeSet<(&str, &str, &str)> =
        unknown(input).map(|w| (&*w.key.namespace, &*w.key.kind, &*w.key.name)).collect();
    let whole = assignments.iter().filter(|a| a.mode == Mode::Exclusive);
    whole
        .filter(|a| unknown.contains(&(&*a.namespace, &*a.kind, &*a.workload)))
        .map(|a| a.count * u64::from(a.gpus))
        .sum()
}

/// Today and the plan in figures. What is counted over assignments is left 0.
fn summary(
    input: &PlanInput<'_>,
    outcome: &Outcome<'_>,
    nodes: &[PlannedNode],
    headroom: &[tesela_model::plan::Headroom],
) -> Summary {
    let kept = cost::kept(input.fleet, nodes, headroom, &outcome.world.unseen());
    let names: BTreeSet<&str> = kept.iter().filter_map(|n| n.name.as_deref()).collect();
    let used = |n: &&crate::world::NodeState<'_>| n.used();
    let held =
        outcome.world.nodes.iter().filter(used).map(|n| n.gpus.iter().filter(|g| g.used()).count() as u64);
    let products = kept.iter().flat_map(|n| n.gpus.iter().map(|g| g.product.as_str()));
    let wanted: u64 = input.demand.workloads.iter().map(|w| w.count).sum();
    let waiting: u64 = outcome.unseated.iter().map(|u| u.count).sum();
    Summary {
        today: today::figures(input.fleet, input.demand, input.prices),
        plan: Figures {
            gpus: kept.iter().map(|n| n.gpus.len() as u64).sum(),
            gpus_held: held.sum(),
            nodes: kept.len() as u64,
            nodes_held: outcome.world.nodes.iter().filter(used).count() as u64,
            pods_served: wanted - waiting,
            pods_waiting: waiting,
            hourly_micros: input.prices.and_then(|p| cost::hourly(p, products).ok()),
        },
        restarts: outcome.restarts,
        requests_to_change: 0,
        unknown_pods: unknown(input).map(|w| w.count).sum(),
        unknown_gpus: 0,
        nodes_free: nodes
            .iter()
            .zip(&outcome.world.nodes)
            .filter(|(_, state)| !state.gpus.is_empty() && state.may_be_planned())
            .filter_map(|(n, _)| n.name.clone())
            .filter(|n| !names.contains(n.as_str()))
            .collect(),
    }
}
