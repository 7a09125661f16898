//! Hand-made plans.

use tesela_model::demand::PodRef;
use tesela_model::fleet::{MigStrategy, Mode};
use tesela_model::origin::Origin;
use tesela_model::plan::{
    API_VERSION, Assignment, Change, ChangeKind, GpuToday, NodeToday, Plan, PlanStatus, PlannedGpu,
    PlannedInstance, PlannedNode, PlannedPool, Quota, Restart, RestartCause, Summary, Unmet,
};

/// Read and not built, so that a key with a default needs no line here.
pub(crate) fn empty() -> Plan {
    let mut plan = serde_json::json!({
        "apiVersion": API_VERSION, "kind": "Plan", "status": PlanStatus::Complete,
        "cost_reason": "no prices were given", "summary": Summary::default(),
    });
    for key in [
        "gpus",
        "pools",
        "assignments",
        "unmet",
        "findings",
        "quotas",
        "changes",
        "assumptions",
        "sensitivity",
        "nodes",
        "headroom",
    ] {
        plan[key] = serde_json::json!([]);
    }
    serde_json::from_value(plan).unwrap()
}

pub(crate) fn gpu(uuid: &str, mode: Mode, today: Mode) -> PlannedGpu {
    PlannedGpu {
        uuid: (!uuid.is_empty()).then(|| uuid.to_owned()),
        product: "h100-sxm-80gb".to_owned(),
        mode,
        replicas: None,
        instances: Vec::new(),
        starts: Origin::Given,
        used_by: Vec::new(),
        mode_today: Some(today),
    }
}

pub(crate) fn cut(mut gpu: PlannedGpu, instances: &[(&str, u32, u32)]) -> PlannedGpu {
    gpu.instances = instances
        .iter()
        .map(|(profile, start, size)| PlannedInstance {
            profile: profile.parse().unwrap(),
            start: *start,
            size: *size,
            replicas: None,
            used_by: Vec::new(),
        })
        .collect();
    gpu
}

pub(crate) fn shared(mut gpu: PlannedGpu, replicas: u32) -> PlannedGpu {
    gpu.replicas = Some(replicas);
    gpu
}

pub(crate) fn node(name: &str, strategy: MigStrategy, gpus: Vec<PlannedGpu>) -> PlannedNode {
    PlannedNode {
        name: (!name.is_empty()).then(|| name.to_owned()),
        mig_strategy: strategy,
        mig_strategy_today: (!name.is_empty()).then_some(MigStrategy::None),
        operator: true,
        plugin_config_today: None,
        mig_config_today: Some("all-disabled".to_owned()),
        gpus,
    }
}

pub(crate) fn pool(name: &str, mode: Mode, replicas: Option<u32>, nodes: &[&str], gpus: u64) -> PlannedPool {
    PlannedPool {
        name: name.to_owned(),
        product: "h100-sxm-80gb".to_owned(),
        mode,
        replicas,
        tenant: None,
        nodes: nodes.iter().map(|n| (*n).to_owned()).collect(),
        gpus,
    }
}

/// `workload`: `namespace/Kind/name`. `request`: today's and the plan's resource.
pub(crate) fn assignment(
    workload: &str,
    mode: Mode,
    replicas: Option<u32>,
    request: (Option<&str>, &str),
    node: &str,
    pods: (u64, u64),
) -> Assignment {
    let mut parts = workload.split('/');
    let mut part = || parts.next().unwrap().to_owned();
    let (namespace, kind, workload) = (part(), part(), part());
    Assignment {
        workload,
        kind,
        tenant: namespace.clone(),
        namespace,
        mode,
        replicas,
        resource: request.1.parse().unwrap(),
        count: pods.0,
        gpus: 1,
        node: Some(node.to_owned()),
        gpu: None,
        product: "h100-sxm-80gb".to_owned(),
        profile: request.1.strip_prefix("nvidia.com/mig-").and_then(|p| p.parse().ok()),
        start: None,
        staying: pods.1,
        request_today: request.0.map(|r| r.parse().unwrap()),
        reason: "because".to_owned(),
    }
}

pub(crate) fn change(node: &str, gpu: &str, change: ChangeKind, to: &str, pods: &[&str]) -> Change {
    let pod = |text: &&str| {
        let (namespace, name) = text.split_once('/').unwrap();
        PodRef { namespace: namespace.to_owned(), name: name.to_owned() }
    };
    Change {
        node: node.to_owned(),
        gpu: (!gpu.is_empty()).then(|| gpu.to_owned()),
        change,
        to: to.to_owned(),
        disturbed_pods: pods.iter().map(pod).collect(),
    }
}

/// `workload`: `namespace/Kind/name`. Pods that get another device.
pub(crate) fn leave(plan: &mut Plan, workload: &str, node: &str, pods: &[&str]) {
    let mut parts = workload.split('/');
    let mut part = || parts.next().unwrap().to_owned();
    let (namespace, kind, workload) = (part(), part(), part());
    plan.restarting.extend(pods.iter().map(|name| Restart {
        node: node.to_owned(),
        namespace: namespace.clone(),
        name: (*name).to_owned(),
        kind: kind.clone(),
        workload: workload.clone(),
        cause: RestartCause::Moves,
    }));
    plan.restarting.sort();
    plan.summary.restarts += pods.len() as u64;
}

/// What a node is today, where its GPUs are whole.
pub(crate) fn whole_today(node: &PlannedNode) -> NodeToday {
    let gpu = |gpu: &PlannedGpu| GpuToday {
        uuid: gpu.uuid.clone(),
        product: gpu.product.clone(),
        mode: Mode::Exclusive,
        replicas: None,
        instances: Vec::new(),
        starts: Origin::Given,
        used_by: Vec::new(),
    };
    NodeToday { name: node.name.clone().unwrap(), unusable: None, gpus: node.gpus.iter().map(gpu).collect() }
}

/// A node of eight H100: seven pods of vllm stay, and nobody says on which GPUs; the last GPU is to be cut.
pub(crate) fn one_idle() -> Plan {
    let mut plan = empty();
    let seven: Vec<_> = (0..7).map(|i| ("1g.10gb", i, 1)).collect();
    let mut gpus = vec![gpu("", Mode::Exclusive, Mode::Exclusive); 7];
    gpus.push(cut(gpu("", Mode::Mig, Mode::Exclusive), &seven));
    plan.nodes = vec![node("gpu-h", MigStrategy::Mixed, gpus)];
    plan.nodes_today = vec![whole_today(&plan.nodes[0])];
    let name = "nvidia.com/gpu";
    plan.assignments =
        vec![assignment("chat/Deployment/vllm", Mode::Exclusive, None, (None, name), "gpu-h", (7, 7))];
    plan.changes = vec![change("gpu-h", "", ChangeKind::MigMode, "mig 1g.10gb × 7", &[])];
    plan
}

pub(crate) fn quota(namespace: &str, resource: &str, hard: u64) -> Quota {
    Quota { namespace: namespace.to_owned(), resource: format!("requests.{resource}"), hard }
}

/// Three nodes of H100 and one of A100: one becomes MIG on one GPU, one MIG changes its geometry, one becomes
/// time-sliced, one stays. A new node is bought. Workloads of all kinds.
pub(crate) fn busy() -> Plan {
    let mut plan = empty();
    plan.status = PlanStatus::Partial;
    plan.unmet = vec![Unmet {
        workload: "big".to_owned(),
        kind: "Job".to_owned(),
        namespace: "train".to_owned(),
        count: 2,
        reason: "needs 16 GPUs on one node, the largest has 8".to_owned(),
    }];
    let full = [("1g.10gb", 0, 1), ("1g.10gb", 1, 1), ("2g.20gb", 2, 2), ("3g.40gb", 4, 4)];
    let part = [("1g.10gb", 0, 1), ("3g.40gb", 4, 4)];
    let mut mig_today = node(
        "gpu-b",
        MigStrategy::Mixed,
        vec![
            cut(gpu("GPU-b0", Mode::Mig, Mode::Mig), &full),
            cut(gpu("GPU-b1", Mode::Mig, Mode::Mig), &part),
        ],
    );
    mig_today.mig_strategy_today = Some(MigStrategy::Mixed);
    mig_today.mig_config_today = Some("all-1g.10gb".to_owned());
    let mut slices = node(
        "gpu-c",
        MigStrategy::None,
        vec![
            shared(gpu("", Mode::TimeSliced, Mode::Exclusive), 4),
            shared(gpu("", Mode::TimeSliced, Mode::Exclusive), 4),
        ],
    );
    slices.plugin_config_today = Some("plain".to_owned());
    let mut stays = node("gpu-d", MigStrategy::None, vec![gpu("GPU-d0", Mode::Exclusive, Mode::Exclusive)]);
    stays.operator = false;
    let mut new = node("", MigStrategy::Mixed, vec![cut(gpu("", Mode::Mig, Mode::Mig), &full)]);
    new.gpus[0].mode_today = None;
    new.mig_config_today = None;
    plan.nodes = vec![
        node(
            "gpu-a",
            MigStrategy::Mixed,
            vec![
                cut(gpu("GPU-a0", Mode::Mig, Mode::Exclusive), &full),
                gpu("GPU-a1", Mode::Exclusive, Mode::Exclusive),
            ],
        ),
        mig_today,
        slices,
        stays,
        new.clone(),
        new,
    ];
    plan.pools = vec![
        pool("exclusive-h100", Mode::Exclusive, None, &["gpu-a", "gpu-d"], 2),
        pool("mig-h100", Mode::Mig, None, &["gpu-a", "gpu-b"], 5),
        pool("timesliced-h100", Mode::TimeSliced, Some(4), &["gpu-c"], 2),
    ];
    let gpu_name = "nvidia.com/gpu";
    let (one, three) = ("nvidia.com/mig-1g.10gb", "nvidia.com/mig-3g.40gb");
    let sliced = "nvidia.com/gpu.shared";
    plan.assignments = vec![
        assignment("chat/Deployment/agent", Mode::Mig, None, (Some(gpu_name), one), "gpu-a", (2, 0)),
        assignment("chat/ReplicaSet/router", Mode::Mig, None, (None, one), "gpu-b", (1, 1)),
        assignment("chat/StatefulSet/rank", Mode::Mig, None, (None, three), "gpu-b", (1, 1)),
        assignment("lab/Notebook/ana", Mode::TimeSliced, Some(4), (Some(gpu_name), sliced), "gpu-c", (1, 0)),
        assignment(
            "lab/CronJob/nightly",
            Mode::TimeSliced,
            Some(4),
            (Some(gpu_name), sliced),
            "gpu-c",
            (1, 0),
        ),
        Assignment {
            gpu: Some("GPU-a1".to_owned()),
            ..assignment("train/Job/fit", Mode::Exclusive, None, (None, gpu_name), "gpu-a", (1, 1))
        },
        assignment("train/Pod/tune", Mode::TimeSliced, Some(4), (Some(gpu_name), sliced), "gpu-c", (1, 0)),
    ];
    leave(&mut plan, "chat/Deployment/agent", "gpu-a", &["agent-7f-x1"]);
    leave(&mut plan, "chat/Deployment/agent", "gpu-b", &["agent-7f-x2"]);
    leave(&mut plan, "lab/Notebook/ana", "gpu-c", &["ana-0"]);
    leave(&mut plan, "lab/CronJob/nightly", "gpu-c", &["nightly-1-a"]);
    leave(&mut plan, "train/Pod/tune", "gpu-c", &["tune"]);
    plan.changes = vec![
        change(
            "gpu-a",
            "GPU-a0",
            ChangeKind::MigMode,
            "mig 3g.40gb+2g.20gb+1g.10gb×2",
            &["chat/agent-7f-x1"],
        ),
        change("gpu-b", "GPU-b1", ChangeKind::Geometry, "mig 3g.40gb+1g.10gb", &["chat/agent-7f-x2"]),
        change("gpu-c", "", ChangeKind::Sharing, "timeSliced ×4", &["lab/ana-0", "lab/nightly-1-a"]),
        change("gpu-c", "", ChangeKind::Sharing, "timeSliced ×4", &["train/tune"]),
    ];
    plan.quotas = vec![
        quota("chat", gpu_name, 0),
        quota("chat", sliced, 0),
        quota("chat", one, 3),
        quota("chat", three, 1),
        quota("lab", gpu_name, 0),
        quota("lab", sliced, 2000),
        quota("lab", one, 0),
        quota("lab", three, 0),
        quota("train", gpu_name, 1),
        quota("train", sliced, 1),
        quota("train", one, 0),
        quota("train", three, 0),
    ];
    plan
}

/// One tenant has a node of its own, and shares it only with itself.
pub(crate) fn fenced() -> Plan {
    let mut plan = empty();
    let own = shared(gpu("", Mode::TimeSliced, Mode::Exclusive), 2);
    plan.nodes = vec![node("bank-1", MigStrategy::None, vec![own])];
    let mut own = pool("timesliced-bank", Mode::TimeSliced, Some(2), &["bank-1"], 1);
    own.tenant = Some("bank".to_owned());
    plan.pools = vec![own];
    let shared = "nvidia.com/gpu.shared";
    plan.assignments = vec![assignment(
        "bank/Deployment/score",
        Mode::TimeSliced,
        Some(2),
        (Some("nvidia.com/gpu"), shared),
        "bank-1",
        (2, 0),
    )];
    leave(&mut plan, "bank/Deployment/score", "bank-1", &["score-5d-q"]);
    plan.changes = vec![change("bank-1", "", ChangeKind::Sharing, "timeSliced ×2", &["bank/score-5d-q"])];
    plan.quotas = vec![quota("bank", shared, 2), quota("bank", "nvidia.com/gpu", 0)];
    plan
}
