//! A small plan made by hand, drawn: one node of each kind, everything a plan can say.

use std::collections::{BTreeMap, BTreeSet};

use tesela_model::demand::{Demand, Holding, NodeConstraints, PodRef, Workload, WorkloadKey};
use tesela_model::finding::{Finding, Severity};
use tesela_model::fleet::{Fleet, Gpu, MigStrategy, Mode, Node, Offer};
use tesela_model::layout::Instance;
use tesela_model::origin::Origin;
use tesela_model::plan::{
    Alternative, Alternatives, Assignment, Assumption, Certificate, Change, ChangeKind, Cost, Doubt, Figures,
    Headroom, Plan, PlanStatus, PlannedGpu, PlannedInstance, PlannedNode, PlannedPool, ProductUse, Quota,
    Summary, Today, Unmet, Use, WhatIf,
};
use tesela_model::product::{ProductTable, ProfileName};
use tesela_model::quantity::{Bytes, Micros, MilliCpu};
use tesela_model::resource::GpuResource;

use super::{Sheet, put};
use crate::table::text::Page;

const H100: &str = "h100-sxm-80gb";

fn profile(name: &str) -> ProfileName {
    ProfileName::parse(name).unwrap()
}

fn pod(name: &str) -> PodRef {
    PodRef { namespace: "chat".into(), name: name.into() }
}

fn node(name: &str, offers: Vec<Offer>) -> Node {
    let gpu = |offer| Gpu { uuid: None, product: H100.into(), memory: None, offer };
    Node {
        name: name.into(),
        labels: BTreeMap::new(),
        taints: Vec::new(),
        schedulable: true,
        cpu: None,
        memory: None,
        cpu_taken: MilliCpu(0),
        memory_taken: Bytes(0),
        pods: None,
        pods_taken: 0,
        gpus: offers.into_iter().map(gpu).collect(),
        allocatable: BTreeMap::new(),
        mig_strategy: MigStrategy::Mixed,
        shares_renamed: true,
        held_by_others: Vec::new(),
        operator: true,
        unusable: None,
    }
}

fn fleet() -> Fleet {
    let mig = Offer::Mig {
        instances: vec![
            Instance { profile: profile("1g.10gb"), start: 0, size: 1 },
            Instance { profile: profile("1g.10gb"), start: 1, size: 1 },
            Instance { profile: profile("3g.40gb"), start: 4, size: 4 },
        ],
        replicas: BTreeMap::new(),
        origin: Origin::Estimated,
    };
    let nodes = vec![
        node("gpu-a", vec![Offer::Exclusive; 4]),
        node("gpu-b", vec![mig, Offer::TimeSliced { replicas: 4 }]),
    ];
    Fleet { nodes, has_nodes: true, ..Fleet::default() }
}

fn demand() -> Demand {
    let workload = |name: &str, count, request: GpuResource, node: &str, pods: &[&str]| Workload {
        key: WorkloadKey { namespace: "chat".into(), kind: "Deployment".into(), name: name.into() },
        tenant: "support".into(),
        count,
        gpus: 1,
        same_node: false,
        cpu: MilliCpu(0),
        memory: Bytes(0),
        constraints: NodeConstraints::default(),
        max_per_node: None,
        request: Some(request.clone()),
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
        running: vec![Holding {
            node: node.into(),
            resource: request,
            devices: 1,
            pods: pods.iter().map(|p| pod(p)).collect(),
            place: None,
        }],
    };
    let workloads = vec![
        workload("answer", 3, GpuResource::gpu(), "gpu-a", &["answer-1", "answer-2"]),
        workload("draft", 1, GpuResource::mig(profile("1g.10gb")), "gpu-b", &["draft-1"]),
        workload("play", 3, GpuResource::gpu().renamed(), "gpu-b", &["play-1", "play-2", "play-3"]),
    ];
    Demand { tenants: Vec::new(), workloads }
}

fn used(workload: &str, pods: u64) -> Vec<Use> {
    vec![Use { namespace: "chat".into(), kind: "Deployment".into(), workload: workload.into(), pods }]
}

fn gpu(mode: Mode, replicas: Option<u32>, instances: Vec<PlannedInstance>, used_by: Vec<Use>) -> PlannedGpu {
    PlannedGpu {
        uuid: None,
        product: H100.into(),
        mode,
        replicas,
        instances,
        starts: Origin::Estimated,
        used_by,
        mode_today: Some(Mode::Exclusive),
    }
}

fn planned(name: &str, gpus: Vec<PlannedGpu>) -> PlannedNode {
    PlannedNode {
        name: Some(name.into()),
        mig_strategy: MigStrategy::Mixed,
        mig_strategy_today: Some(MigStrategy::Mixed),
        operator: true,
        plugin_config_today: None,
        mig_config_today: None,
        gpus,
    }
}

fn assignment(workload: &str, mode: Mode, count: u64) -> Assignment {
    Assignment {
        workload: workload.into(),
        kind: "Deployment".into(),
        namespace: "chat".into(),
        tenant: "support".into(),
        mode,
        replicas: None,
        resource: GpuResource::gpu(),
        count,
        gpus: 1,
        node: Some("gpu-b".into()),
        gpu: None,
        product: H100.into(),
        profile: None,
        start: None,
        staying: 0,
        request_today: None,
        reason: "asks for nvidia.com/gpu; its need is not known, so it keeps what that gives".into(),
    }
}

fn assignments() -> Vec<Assignment> {
    vec![
        Assignment {
            profile: Some(profile("3g.40gb")),
            resource: GpuResource::mig(profile("3g.40gb")),
            request_today: Some(GpuResource::gpu()),
            reason: "needs 30Gi of GPU memory and promises p99 within 200 ms, so it takes no turns; 3g.40gb is the \
                     smallest instance with that"
                .into(),
            ..assignment("answer", Mode::Mig, 2)
        },
        Assignment { staying: 1, node: Some("gpu-a".into()), ..assignment("draft", Mode::Exclusive, 1) },
        Assignment {
            replicas: Some(4),
            resource: GpuResource::gpu().renamed(),
            staying: 3,
            ..assignment("play", Mode::TimeSliced, 3)
        },
    ]
}

fn nodes() -> Vec<PlannedNode> {
    let instance = |start, used_by| PlannedInstance {
        profile: profile("3g.40gb"),
        start,
        size: 4,
        replicas: None,
        used_by,
    };
    let whole = |used_by| gpu(Mode::Exclusive, None, Vec::new(), used_by);
    vec![
        planned("gpu-a", vec![whole(used("draft", 1)), whole(vec![]), whole(vec![]), whole(vec![])]),
        planned(
            "gpu-b",
            vec![
                gpu(
                    Mode::Mig,
                    None,
                    vec![instance(0, used("answer", 1)), instance(4, used("answer", 1))],
                    vec![],
                ),
                gpu(Mode::TimeSliced, Some(4), Vec::new(), used("play", 3)),
            ],
        ),
    ]
}

fn findings() -> Vec<Finding> {
    let finding = |severity, rule: &str, subject: &str| Finding {
        severity,
        rule: rule.into(),
        subject: subject.into(),
        message: "asks for 2 shares of a GPU; two shares are no more than one, and the pod is refused".into(),
        fix: "ask for 1 nvidia.com/gpu.shared".into(),
    };
    let mut list = vec![finding(Severity::Error, "several-shares", "Deployment/chat/play")];
    list.extend(
        (1..8).map(|n| finding(Severity::Warning, "whole-gpu-notebook", &format!("Pod/lab/notebook-{n}"))),
    );
    list.push(finding(Severity::Info, "stranded-slices", "Node/gpu-b"));
    list
}

fn summary() -> Summary {
    let figures = |gpus, held, nodes, waiting, money| Figures {
        gpus,
        gpus_held: held,
        nodes,
        nodes_held: nodes,
        pods_served: 7 - waiting,
        pods_waiting: waiting,
        hourly_micros: Some(Micros(money)),
    };
    Summary {
        today: figures(6, 4, 2, 1, 15_000_000),
        plan: figures(6, 3, 2, 1, 7_500_000),
        restarts: 3,
        requests_to_change: 2,
        unknown_pods: 1,
        unknown_gpus: 1,
        nodes_free: vec!["gpu-c".into()],
    }
}

fn plan() -> Plan {
    Plan {
        api_version: tesela_model::plan::API_VERSION.into(),
        kind: "Plan".into(),
        status: PlanStatus::Partial,
        gpus: vec![ProductUse {
            product: H100.into(),
            exist: 6,
            used: 3,
            lower_bound: 3,
            proven_optimal: true,
            exclusive: 1,
            shared: 1,
            mig: 1,
            mig_demand: BTreeMap::from([(profile("3g.40gb"), 2)]),
            certificate: Some(Certificate { scale: 2, prices: BTreeMap::from([(profile("3g.40gb"), 1)]) }),
        }],
        pools: vec![PlannedPool {
            name: "mig-h100-sxm-80gb".into(),
            product: H100.into(),
            mode: Mode::Mig,
            replicas: None,
            tenant: None,
            nodes: vec!["gpu-b".into()],
            gpus: 1,
        }],
        assignments: assignments(),
        unmet: vec![Unmet {
            workload: "answer".into(),
            kind: "Deployment".into(),
            namespace: "chat".into(),
            count: 1,
            reason: "needs 3g.40gb; no node with that product has CPU left".into(),
        }],
        findings: findings(),
        quotas: vec![
            Quota { namespace: "chat".into(), resource: "requests.nvidia.com/mig-3g.40gb".into(), hard: 2 },
            Quota { namespace: "chat".into(), resource: "requests.nvidia.com/gpu".into(), hard: 0 },
            Quota { namespace: "lab".into(), resource: "requests.nvidia.com/gpu".into(), hard: 0 },
        ],
        today: Some(Today {
            gpus_by_mode: BTreeMap::from([(Mode::Exclusive, 4), (Mode::Mig, 1), (Mode::TimeSliced, 1)]),
            nodes: 2,
            hourly_micros: Some(Micros(15_000_000)),
        }),
        changes: vec![Change {
            node: "gpu-b".into(),
            gpu: None,
            change: ChangeKind::Geometry,
            to: "mig 3g.40gb×2".into(),
            disturbed_pods: vec![pod("draft-1")],
        }],
        assumptions: vec![Assumption {
            subject: "duty".into(),
            value: "25 % where nobody said".into(),
            origin: Origin::Assumed,
            if_wrong: "with 50 % the time-sliced pool needs 2 GPUs instead of 1".into(),
        }],
        sensitivity: vec![WhatIf {
            subject: Doubt::Duty,
            change: "twice as much".into(),
            gpus: 4,
            gpus_held: 4,
            nodes_held: 2,
            nodes: 2,
            pods_waiting: 1,
            restarts: 1,
            hourly_micros: Some(Micros(7_500_000)),
        }],
        cost: Some(Cost {
            currency: "EUR".into(),
            hourly_micros: Micros(7_500_000),
            source: "command line".into(),
            as_of: None,
            gpu_hour: BTreeMap::from([("h100-sxm-80gb".into(), Micros(2_500_000))]),
            alternatives: Alternatives {
                all_exclusive: Some(Alternative {
                    gpus: 7,
                    nodes: 2,
                    hourly_micros: Some(Micros(17_500_000)),
                }),
                all_mig: None,
                all_time_sliced: None,
                reasons: BTreeMap::from([(
                    "all_mig".into(),
                    "play needs 90Gi, more than any instance has".into(),
                )]),
            },
        }),
        cost_reason: None,
        nodes: nodes(),
        summary: summary(),
        headroom: vec![Headroom {
            pool: "mig-h100-sxm-80gb".into(),
            wanted_nodes: 1,
            nodes: Vec::new(),
            survives_node_loss: false,
            message: "no node is left over; losing gpu-b stops 2 pods".into(),
        }],
        nodes_today: Vec::new(),
        restarting: Vec::new(),
        burst: Vec::new(),
        operator_namespace: None,
    }
}

fn drawn(width: usize, findings: usize) -> String {
    page(&plan(), &fleet(), width, findings)
}

/// A plan on a page so wide that no sentence breaks.
fn unbroken(plan: &Plan, fleet: &Fleet) -> String {
    page(plan, fleet, 1000, 8)
}

fn page(plan: &Plan, fleet: &Fleet, width: usize, findings: usize) -> String {
    let demand = demand();
    let sheet = Sheet {
        plan,
        fleet,
        demand: &demand,
        products: ProductTable::builtin(),
        findings,
        rows: 30,
        demand_file: None,
        inputs: vec!["-".into()],
        options: Vec::new(),
    };
    let mut page = Page::new(width);
    put(&mut page, &sheet);
    page.text()
}

#[test]
fn a_plan_on_a_wide_page() {
    insta::assert_snapshot!(drawn(140, usize::MAX));
}

#[test]
fn a_plan_on_a_narrow_page() {
    let text = drawn(80, 8);
    let longest = text.lines().map(|l| l.chars().count()).max();
    assert!(longest <= Some(80), "{longest:?}");
    insta::assert_snapshot!(text);
}

#[test]
fn every_workload_of_the_plan_is_on_the_page() {
    let text = drawn(80, 8);
    let names = assignments().into_iter().map(|a| a.workload).collect::<BTreeSet<_>>();
    assert!(names.iter().all(|n| text.contains(&format!("chat/{n}"))));
}

#[test]
fn shares_too_many_to_draw_are_explained() {
    let mut plan = plan();
    plan.nodes[1].gpus[1].replicas = Some(16);
    let text = unbroken(&plan, &fleet());
    assert!(text.contains("÷16    3 taken in turns by 16, 3 shares held"), "{text}");
    // Today's four can be drawn.
    assert!(text.contains("÷4 ■■□□ taken in turns by 4, 2 shares held"), "{text}");
}

#[test]
fn several_instances_are_told_with_their_number() {
    let mut plan = plan();
    plan.assignments[0].gpus = 2;
    let text = unbroken(&plan, &fleet());
    assert!(text.contains("2 × 3g.40gb"), "{text}");
}

#[test]
fn nodes_that_cannot_be_planned_with_are_no_gain() {
    let mut fleet = fleet();
    let broken =
        Node { unusable: Some("MIG is half done".into()), ..node("gpu-x", vec![Offer::Exclusive; 4]) };
    fleet.nodes.push(broken);
    let mut plan = plan();
    plan.summary.today.nodes = 3;
    plan.summary.today.gpus = 10;
    plan.summary.plan.nodes += 1;
    plan.summary.plan.gpus += 4;
    plan.summary.nodes_free = vec!["gpu-x".into()];
    let text = unbroken(&plan, &fleet);
    assert!(text.contains("Today    6 GPUs on 2 nodes"), "{text}");
    assert!(text.contains("1 more node (gpu-x) cannot be planned with: MIG is half done."), "{text}");
    assert!(!text.contains("comes free"), "{text}");
    let figures = |name: &str| {
        let line = text.lines().find(|l| l.starts_with(name));
        line.unwrap_or_default().trim_start_matches(name).split_whitespace().collect::<Vec<_>>()
    };
    assert_eq!(figures("nodes kept, with headroom"), ["3", "3", "0"]);
    assert_eq!(figures("GPUs of the nodes kept"), ["10", "10", "0"]);
    assert!(
        text.contains("Counted on both sides, since they cannot be planned with and stay: gpu-x."),
        "{text}"
    );
}

#[test]
fn no_gain_in_money_is_called_the_same() {
    let mut plan = plan();
    let cost = plan.cost.as_mut().unwrap();
    cost.hourly_micros = Micros(15_000_000);
    plan.summary.plan.nodes += 1;
    let text = unbroken(&plan, &fleet());
    let said = "15.00 EUR an hour, the same as today. The node kept as headroom is paid too. Whole GPUs for everything \
                would be 7 GPUs, at 17.50 EUR an hour.";
    assert!(text.contains(said), "{text}");
    let cost = plan.cost.as_mut().unwrap();
    cost.hourly_micros = Micros(14_990_000);
    let text = unbroken(&plan, &fleet());
    assert!(text.contains("less than 1 % less"), "{text}");
}

#[test]
fn pools_with_the_same_words_are_told_together() {
    let mut plan = plan();
    let room =
        |pool: &str, message: String| Headroom { pool: pool.into(), message, ..plan.headroom[0].clone() };
    let without = |pool: &str| room(pool, format!("no free node could stand in for a node of pool {pool}"));
    let rooms = vec![
        without("mig-a"),
        room("mig-b", "gpu-c stays free and can stand in for any node of pool mig-b".into()),
        without("mig-a-team"),
    ];
    plan.headroom = rooms;
    let text = unbroken(&plan, &fleet());
    assert!(
        text.contains("- no free node could stand in for a node of pools mig-a and mig-a-team\n"),
        "{text}"
    );
    assert!(text.contains("- gpu-c stays free and can stand in for any node of pool mig-b\n"), "{text}");
}
