//! Plans broken on purpose, each in one way, with the rules that must name it.

#![allow(
    dead_code,
    unreachable_pub,
    missing_docs,
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    reason = "a module of a test, which may panic"
)]

use std::collections::BTreeMap;

use tesela_model::demand::{Duty, Isolation, Slo};
use tesela_model::fleet::{MigStrategy, Mode, Offer};
use tesela_model::origin::Known;
use tesela_model::plan::{Alternative, ChangeKind, PlanStatus, PlannedNode};
use tesela_model::quantity::{Bytes, Mib, Micros, MilliCpu};

use crate::builders::*;
use crate::example::Example;

/// What is broken, the rules that name it, and how it is broken.
pub type Broken = (&'static str, &'static [&'static str], fn(&mut Example));

pub const DEMAND: &[Broken] = &[
    ("a pod is lost", &["pods-accounted"], |e| {
        e.workload("agent").count += 1;
        e.settle();
    }),
    ("a pod too many is unmet", &["pods-accounted", "summary"], |e| e.plan.unmet[0].count = 2),
    ("work nobody asked for is assigned", &["unknown-workload", "pods-accounted", "users"], |e| {
        e.of("tune", "a2").workload = "tuna".into();
    }),
    ("the same entry twice", &["duplicate-assignment"], |e| {
        let mut half = e.of("tune", "a2").clone();
        half.count = 1;
        e.of("tune", "a2").count = 1;
        e.plan.assignments.push(half);
    }),
    ("an entry without pods", &["zero-count"], |e| {
        let mut none = e.of("tune", "a2").clone();
        none.count = 0;
        none.node = Some("a3".into());
        e.plan.assignments.push(none);
    }),
    ("partial, and said to be complete", &["status"], |e| e.plan.status = PlanStatus::Complete),
    ("another tenant", &["workload-facts"], |e| e.of("tune", "a2").tenant = "web".into()),
    ("fewer GPUs than a pod asks for", &["workload-facts"], |e| {
        let pair = e.of("pair", "i3");
        (pair.gpus, pair.count) = (1, 4);
        e.workload("pair").count = 4;
        e.plan.summary.plan.pods_served += 2;
    }),
    ("replicas of a whole GPU", &["replicas", "devices", "users"], |e| e.of("tune", "a2").replicas = Some(2)),
    ("one replica", &["replicas", "planned-gpu", "pool"], |e| {
        e.of("teach", "t2").replicas = Some(1);
        e.of("teach", "t2").count = 1;
        e.workload("teach").count = 1;
        for gpu in &mut e.node("t2").gpus {
            gpu.replicas = Some(1);
        }
        e.node("t2").gpus[0].used_by[0].pods = 1;
        e.plan.summary.plan.pods_served -= 2;
        let t2 = e.plan.nodes.iter().position(|n| n.name.as_deref() == Some("t2")).unwrap();
        assert!(e.plan.nodes[t2].gpus.iter().all(|g| g.replicas == Some(1)));
        e.is("t2").gpus.iter_mut().for_each(|g| g.offer = Offer::TimeSliced { replicas: 1 });
    }),
    ("a profile in a mode without", &["profile", "devices", "users"], |e| {
        e.of("tune", "a2").profile = Some(profile("7g.40gb"));
    }),
    ("a profile of another product", &["profile", "placement"], |e| {
        let wrong = profile("1g.10gb+gfx");
        let score = e.of("score", "a4");
        score.profile = Some(wrong.clone());
        score.resource = tesela_model::resource::GpuResource::mig(wrong.clone());
        for i in &mut e.node("a4").gpus[0].instances {
            i.profile = wrong.clone();
        }
        e.settle();
    }),
    ("a request that the node does not offer", &["resource"], |e| {
        let score = e.of("score", "a4");
        score.resource = resource("nvidia.com/mig-2g.10gb");
        e.resettle_quotas();
    }),
    ("a changed request that is not said", &["request-today", "summary"], |e| {
        e.of("batch", "i2").request_today = None;
    }),
    ("a start where no instance is", &["seat"], |e| e.of("score", "a4").start = Some(5)),
    ("a GPU of another node", &["seat"], |e| e.of("batch", "i2").gpu = Some("GPU-h3-0".into())),
    ("more pods stay than run", &["staying"], |e| e.of("embed", "a1").staying = 4),
    ("pods stay where they never ran", &["staying"], |e| e.of("tune", "a2").staying = 1),
    ("a pod that runs is said to be new elsewhere", &["unknown-need"], |e| e.move_pods("old", "h6", "h5", 3)),
    ("a pinned pod moves", &["pinned"], |e| e.of("train", "h1").staying = 0),
    ("another mode than a person chose", &["chosen"], |e| e.workload("tune").mode = Some(Mode::Mig)),
    ("another profile than a person chose", &["chosen"], |e| {
        e.workload("score").profile = Some(profile("2g.10gb"));
    }),
    ("another product than will do", &["chosen"], |e| e.workload("tune").products = vec![H100.into()]),
];

pub const NODES: &[Broken] = &[
    ("a node that is not there", &["unknown-node"], |e| {
        e.of("tune", "a2").node = Some("a9".into());
        for gpu in &mut e.node("a2").gpus {
            gpu.used_by.clear();
        }
        e.settle();
    }),
    ("a node is missing", &["node-gpus"], |e| {
        e.plan.nodes.retain(|n| n.name.as_deref() != Some("a5"));
        e.plan.summary.nodes_free.retain(|n| n != "a5");
    }),
    ("a GPU too many", &["node-gpus"], |e| {
        let more = e.node("a5").gpus[0].clone();
        e.node("a5").gpus.push(more);
    }),
    ("another product", &["node-gpus"], |e| e.node("a5").gpus[0].product = H100.into()),
    ("a wrong mode of today", &["node-today"], |e| e.node("a5").gpus[0].mode_today = Some(Mode::Mps)),
    ("a wrong strategy of today", &["node-today"], |e| {
        e.node("i1").mig_strategy_today = Some(MigStrategy::Mixed);
    }),
    ("hardware that nobody may buy", &["null-node"], |e| e.buy_tune(2)),
    ("more bought than offered", &["buy-limit"], |e| {
        e.fleet.buy = vec![offer(A100, 1, Some(1))];
        e.buy_tune(2);
    }),
    ("an instance where it may not sit", &["placement"], |e| {
        let free = &mut e.node("h3").gpus[1].instances[3];
        (free.start, free.size) = (5, 2);
    }),
    ("an instance of a wrong size", &["placement"], |e| e.node("h3").gpus[1].instances[3].size = 1),
    ("instances that overlap", &["overlap"], |e| e.node("h3").gpus[1].instances[3].start = 2),
    ("too many compute slices", &["compute-slices"], |e| {
        e.change_product(H100, |facts| {
            facts.compute_slices = 6;
            facts.profiles.retain(|p| p.compute_slices <= 6);
        });
    }),
    ("too many instances of a profile", &["max-instances"], |e| {
        e.change_product(H100, |facts| {
            let profile = facts.profiles.iter_mut().find(|p| p.name.as_str() == "1g.10gb").unwrap();
            profile.max_instances = Some(6);
        });
    }),
    ("too many engines", &["engines"], |e| e.add_free("h3", 2, &[("1g.10gb+me", 4), ("1g.10gb+me", 5)])),
    ("instances on a GPU that is not cut", &["planned-gpu"], |e| {
        let free = e.node("h3").gpus[0].instances.clone();
        e.node("a5").gpus[0].instances = free[..1].to_vec();
        e.node("a5").gpus[0].instances[0].profile = profile("1g.5gb");
        e.node("a5").gpus[0].instances[0].used_by.clear();
    }),
    ("two ways of sharing on one node", &["one-sharing"], |e| {
        e.node("t3").gpus[0].mode = Mode::TimeSliced;
        e.node("t3").gpus[0].replicas = Some(4);
        e.move_use("notebook", ("t1", 1), ("t3", 0), 2);
        e.node("t3").gpus[1].used_by = e.node("a2").gpus[0].used_by.clone();
        e.node("a2").gpus[0].used_by.clear();
        e.of("tune", "a2").count = 1;
        let mut other = e.of("tune", "a2").clone();
        (other.node, other.product) = (Some("t3".into()), T4.into());
        e.workload("tune").gpu_memory = needs(Mib(100));
        e.plan.assignments.push(other);
        e.list_change("t3", ChangeKind::Sharing);
        e.settle();
    }),
];

pub const DEVICES: &[Broken] = &[
    ("more whole GPUs than the node has", &["devices", "users"], |e| {
        e.workload("tune").count = 9;
        e.of("tune", "a2").count = 9;
        e.settle();
    }),
    ("more instances than are cut", &["devices", "users"], |e| {
        e.workload("score").count = 4;
        e.of("score", "a4").count = 4;
        e.settle();
    }),
    ("two pods on one whole GPU", &["used-twice"], |e| {
        let users = &mut e.node("a2").gpus;
        let moved = users[1].used_by.remove(0);
        users[0].used_by.push(moved);
        e.settle();
    }),
    ("more pods than shares", &["shares", "shared-memory"], |e| {
        e.node("t1").gpus[1].used_by.clear();
        e.node("t1").gpus[0].used_by[0].pods = 6;
        e.settle();
        e.product(T4).lower_bound = 2;
        e.product(T4).proven_optimal = true;
    }),
    ("users that are nobody's assignment", &["users"], |e| {
        let user = e.node("a2").gpus[0].used_by[0].clone();
        e.node("a2").gpus[2].used_by.push(user);
        e.settle();
    }),
    ("a pod over two nodes", &["crosses-node"], |e| {
        // Two GPUs on each of two nodes are four GPUs and no pod of four.
        e.workload("pair").gpus = 4;
        e.workload("pair").count = 1;
        let pair = e.of("pair", "i3");
        (pair.gpus, pair.count) = (4, 1);
        let half = e.node("i3").gpus[2..].to_vec();
        e.node("i3").gpus[2].used_by.clear();
        e.node("i3").gpus[3].used_by.clear();
        for gpus in [half.clone(), e.node("i3").gpus[..2].to_vec()] {
            e.plan.nodes.push(PlannedNode {
                name: None,
                mig_strategy: MigStrategy::None,
                mig_strategy_today: None,
                operator: false,
                plugin_config_today: None,
                mig_config_today: None,
                gpus: gpus
                    .into_iter()
                    .map(|mut g| {
                        g.mode_today = None;
                        g
                    })
                    .collect(),
            });
        }
        for gpu in &mut e.node("i3").gpus {
            gpu.used_by.clear();
        }
        e.of("pair", "i3").node = None;
        e.workload("pair").same_node = false;
        e.fleet.buy = vec![offer(A30, 2, None)];
        e.settle();
    }),
    ("several GPUs on MIG", &["several-gpus"], |e| {
        e.workload("score").gpus = 3;
        e.workload("score").count = 1;
        let score = e.of("score", "a4");
        (score.gpus, score.count) = (3, 1);
        e.settle();
    }),
    ("more memory than the GPU has", &["device-memory"], |e| e.workload("tune").gpu_memory = needs(gi(40))),
    ("more memory than the instance has", &["device-memory"], |e| {
        e.workload("score").gpu_memory = needs(gi(5));
    }),
    ("more compute than the instance has", &["device-compute"], |e| {
        e.workload("score").compute = Duty::permille(900).map(Known::given);
    }),
    ("sharers that do not fit together", &["shared-memory"], |e| {
        e.workload("teach").gpu_memory = needs(gi(5));
        e.settle();
    }),
];

pub const PLACEMENT: &[Broken] = &[
    ("CPU overfilled", &["cpu"], |e| e.workload("tune").cpu = MilliCpu(65_000)),
    ("CPU that others request", &["cpu"], |e| e.is("a2").cpu_taken = MilliCpu(127_000)),
    ("more pods than kubelet takes", &["pods-per-node"], |e| {
        (e.is("a2").pods, e.is("a2").pods_taken) = (Some(110), 110);
    }),
    ("memory overfilled", &["memory"], |e| e.workload("tune").memory = Bytes(257 << 30)),
    ("a selector broken", &["selector"], |e| {
        e.workload("tune").constraints.node_selector = BTreeMap::from([("zone".into(), "vault".into())]);
    }),
    ("a taint that is not tolerated", &["taint"], |e| e.workload("score").constraints.tolerations.clear()),
    ("a cordoned node", &["unschedulable"], |e| e.is("a2").schedulable = false),
    ("a node that must not be planned with", &["unschedulable", "today"], |e| {
        e.is("a2").unusable = Some("vGPU".into());
    }),
    ("too many pods on one node", &["spread"], |e| e.workload("rank").max_per_node = Some(1)),
    ("pods that must be together apart", &["same-node"], |e| {
        let mut half = e.of("pair", "i3").clone();
        half.count = 1;
        half.node = Some("i4".into());
        e.of("pair", "i3").count = 1;
        e.plan.assignments.push(half);
        for index in 2..4 {
            e.node("i4").gpus[index].used_by = e.node("i3").gpus[index].used_by.clone();
            e.node("i3").gpus[index].used_by.clear();
        }
        e.settle();
    }),
    ("a regulated tenant takes turns", &["regulated"], |e| {
        e.demand.tenants.push(tenant("school", &["school"], tesela_model::demand::TenantClass::Regulated));
        e.settle();
    }),
    ("less isolation than needed", &["isolation"], |e| {
        e.workload("notebook").isolation = isolated(Isolation::Instance);
        e.settle();
    }),
    ("an instance where the device is needed", &["isolation"], |e| {
        e.workload("embed").isolation = isolated(Isolation::Device);
        e.settle();
    }),
    ("another tenant's work beside", &["isolation-tenant"], |e| {
        e.move_use("notebook", ("t1", 1), ("t2", 1), 2);
        e.settle();
    }),
    ("a promise that takes turns", &["slo"], |e| {
        e.workload("teach").slo = Some(Slo { percentile: 950, latency_ms: 50 });
        e.settle();
    }),
];

pub const PROOF: &[Broken] = &[
    ("GPUs in use counted wrong", &["gpu-count", "summary"], |e| e.product(H100).used += 1),
    ("GPUs that exist counted wrong", &["gpu-count"], |e| e.product(H100).exist -= 1),
    ("instances counted wrong", &["gpu-count"], |e| {
        *e.product(A100).mig_demand.get_mut(&profile("1g.5gb")).unwrap() += 1;
    }),
    ("a product in use is not listed", &["gpu-count", "summary"], |e| {
        e.plan.gpus.retain(|g| g.product != T4);
    }),
    ("a bound above what is used", &["lower-bound"], |e| {
        e.product(A30).lower_bound = 7;
    }),
    ("a bound that nothing proves", &["lower-bound"], |e| {
        e.product(A30).lower_bound = 6;
        e.product(A30).proven_optimal = true;
    }),
    ("a proof that is none", &["proven-optimal"], |e| e.product(A30).proven_optimal = true),
    ("a layout dearer than the scale", &["certificate"], |e| {
        *e.product(H100).certificate.as_mut().unwrap().prices.get_mut(&profile("2g.20gb")).unwrap() = 3;
    }),
    ("a scale of nothing", &["certificate", "lower-bound"], |e| {
        e.product(H100).certificate.as_mut().unwrap().scale = 0;
        e.product(H100).lower_bound = 99;
        e.product(H100).proven_optimal = false;
    }),
    ("a price for what nobody uses", &["certificate"], |e| {
        e.product(H100).certificate.as_mut().unwrap().prices.insert(profile("7g.80gb"), 7);
    }),
];

pub const CHANGES: &[Broken] = &[
    ("a change is not listed", &["change-missing"], |e| e.plan.changes.retain(|c| c.node != "a4")),
    ("a change of what stays", &["change-unneeded"], |e| e.list_change("a5", ChangeKind::Sharing)),
    ("a change on no node", &["change-unneeded"], |e| e.list_change("zz", ChangeKind::Sharing)),
    ("a geometry change for a mode change", &["change-kind"], |e| {
        e.change("a4").change = ChangeKind::Geometry;
    }),
    ("no reset on Ampere", &["change-kind"], |e| e.change("a4").change = ChangeKind::MigMode),
    ("a disturbed pod is not named", &["disturbed"], |e| e.change("i2").disturbed_pods.clear()),
    ("a pod that is not there is disturbed", &["disturbed"], |e| {
        e.change("a4").disturbed_pods = pods("bank", "ghost", 1);
    }),
    ("a disturbed pod stays", &["disturbed"], |e| {
        e.change("h3").disturbed_pods = pods("web", "agent-0", 1);
    }),
    ("pods stay where every GPU is cut anew", &["disturbed"], |e| {
        for index in 0..8 {
            e.node("a1").gpus[index].instances.truncate(6);
            e.list_change("a1", ChangeKind::Geometry);
        }
        e.settle();
    }),
    ("a GPU is cut that a pod of unknown place may hold", &["guessed"], |e| {
        e.workload("batch").running[1].place = None;
    }),
    ("a GPU that does not work is used", &["unwell"], |e| {
        e.is("a2").allocatable.insert(resource("nvidia.com/gpu"), 1);
    }),
    ("NVIDIA's manager destroys what stays", &["disturbed"], |e| {
        // One free instance fewer: the agent would keep the rest, the manager destroys all of the GPU.
        e.is("h3").operator = true;
        e.node("h3").operator = true;
        e.node("h3").gpus[0].instances.remove(6);
        e.workload("agent").count = 9;
        e.of("agent", "h3").count = 9;
        let mut change = e.change("h3").clone();
        change.gpu = Some("GPU-h3-0".into());
        e.plan.changes.push(change);
        e.settle();
    }),
];

pub const FIGURES: &[Broken] = &[
    ("a quota is open", &["quota-open"], |e| {
        e.plan.quotas.retain(|q| {
            (q.namespace.as_str(), q.resource.as_str()) != ("idle", "requests.nvidia.com/mig-2g.20gb")
        });
    }),
    ("a DRA name is open", &["quota-open"], |e| {
        e.plan.quotas.retain(|q| !(q.namespace == "idle" && q.resource.starts_with("vfio")));
    }),
    ("less granted than asked for", &["quota-too-small"], |e| {
        e.quota("ml", "requests.nvidia.com/gpu").hard -= 1;
    }),
    ("less granted to DRA than asked for", &["quota-too-small"], |e| {
        e.quota("web", "mig.nvidia.com.deviceclass.resource.k8s.io/devices").hard = 0;
    }),
    ("a line twice", &["quota-twice"], |e| {
        let line = e.plan.quotas[0].clone();
        e.plan.quotas.push(line);
    }),
    ("today counted wrong", &["today"], |e| {
        *e.plan.today.as_mut().unwrap().gpus_by_mode.get_mut(&Mode::Exclusive).unwrap() += 1;
    }),
    ("no today", &["today"], |e| e.plan.today = None),
    ("a wrong price", &["cost"], |e| e.plan.cost.as_mut().unwrap().hourly_micros = Micros(1)),
    ("no cost and no reason", &["cost"], |e| {
        e.plan.cost = None;
        e.prices = None;
        e.plan.today.as_mut().unwrap().hourly_micros = None;
    }),
    ("a price from nowhere", &["cost", "today"], |e| e.prices = None),
    ("all MIG with work over several GPUs", &["alternative"], |e| {
        let all = &mut e.plan.cost.as_mut().unwrap().alternatives;
        all.reasons.remove("all_mig");
        all.all_mig = Some(Alternative { gpus: 1, nodes: 1, hourly_micros: None });
    }),
    ("no reason for no alternative", &["alternative"], |e| {
        e.plan.cost.as_mut().unwrap().alternatives.reasons.remove("all_time_sliced");
    }),
    ("a pool with too many GPUs", &["pool"], |e| e.plan.pools[0].gpus += 1),
    ("a pool that lacks a node", &["pool"], |e| drop(e.plan.pools[0].nodes.pop())),
    ("a pool with a node that is not there", &["unknown-node"], |e| e.plan.pools[0].nodes.push("zz".into())),
    ("headroom that works", &["headroom"], |e| {
        e.plan.headroom[0].nodes = vec!["a2".into()];
        e.settle();
    }),
    ("headroom for no pool", &["headroom"], |e| e.plan.headroom[0].pool = "none".into()),
    ("a free node that works", &["summary"], |e| e.plan.summary.nodes_free.push("a2".into())),
    ("pods served counted wrong", &["summary"], |e| e.plan.summary.plan.pods_served += 1),
];
