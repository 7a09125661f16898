//! A page stays small and readable however large the fleet is.

use tesela_model::fleet::{MigStrategy, Mode};
use tesela_model::origin::Origin;
use tesela_model::plan::{
    Assignment, GpuToday, NodeToday, PlannedGpu, PlannedInstance, PlannedNode, Quota, Restart, RestartCause,
    Use,
};
use tesela_model::resource::GpuResource;

use super::document::observed;
use super::*;

const NODES: u64 = 1_000;
const GPUS: u64 = 8;
const H100: &str = "h100-sxm-80gb";

/// Instances of a GPU, of which the number's bits say who is held, so that no two nodes look alike.
fn instances(bits: u64) -> Vec<PlannedInstance> {
    let user = || Use { namespace: "team".into(), workload: "work".into(), pods: 1, ..Use::default() };
    (0..7u32)
        .map(|start| PlannedInstance {
            profile: "1g.10gb".parse().unwrap(),
            start,
            size: 1,
            replicas: None,
            used_by: if bits >> start & 1 == 1 { vec![user()] } else { Vec::new() },
        })
        .collect()
}

fn assignment(n: u64) -> Assignment {
    Assignment {
        workload: format!("workload-with-a-long-name-{n}"),
        kind: "Deployment".into(),
        namespace: format!("namespace-{}", n % 400),
        tenant: format!("tenant-{}", n % 50),
        mode: Mode::Mig,
        replicas: None,
        resource: GpuResource::gpu(),
        count: 2,
        gpus: 1,
        node: Some(format!("node-{}", n % NODES)),
        gpu: None,
        product: H100.into(),
        profile: Some("1g.10gb".parse().unwrap()),
        start: None,
        staying: 1,
        request_today: None,
        reason: format!("needs {n}Mi of GPU memory and isolation `instance`"),
    }
}

/// A plan of 1,000 nodes, all different, in which everything is long.
fn large() -> Plan {
    let mut plan = observed("examples/regulated/cluster.json");
    let name = |n: u64| format!("node-{n}");
    plan.nodes_today.clear();
    plan.nodes.clear();
    for n in 0..NODES {
        let gpu = |g: u64| GpuToday {
            uuid: None,
            product: H100.into(),
            mode: Mode::Mig,
            replicas: None,
            instances: instances(n * GPUS + g),
            starts: Origin::Estimated,
            used_by: Vec::new(),
        };
        let planned = |g: u64| PlannedGpu {
            uuid: None,
            product: H100.into(),
            mode: Mode::Mig,
            replicas: None,
            instances: instances(n * GPUS + g + 3),
            starts: Origin::Estimated,
            used_by: Vec::new(),
            mode_today: Some(Mode::Mig),
        };
        plan.nodes_today.push(NodeToday {
            name: name(n),
            unusable: None,
            gpus: (0..GPUS).map(gpu).collect(),
        });
        plan.nodes.push(PlannedNode {
            name: Some(name(n)),
            mig_strategy: MigStrategy::Mixed,
            mig_strategy_today: Some(MigStrategy::Mixed),
            operator: true,
            plugin_config_today: None,
            mig_config_today: None,
            gpus: (0..GPUS).map(planned).collect(),
        });
    }
    plan.assignments = (0..20_000).map(assignment).collect();
    plan.restarting = (0..5_000)
        .map(|n| Restart {
            node: name(n % NODES),
            namespace: format!("namespace-{}", n % 400),
            name: format!("workload-with-a-long-name-{n}-7c9d8f6b5d-x2k4q"),
            kind: "Deployment".into(),
            workload: format!("workload-with-a-long-name-{n}"),
            cause: RestartCause::Moves,
        })
        .collect();
    plan.quotas = (0..40_000)
        .map(|n| Quota {
            namespace: format!("namespace-{}", n % 4_000),
            resource: "requests.nvidia.com/gpu".into(),
            hard: n,
        })
        .collect();
    let finding = plan.findings[0].clone();
    plan.findings = vec![finding; 5_000];
    let unmet = plan.unmet.first().cloned();
    plan.unmet = unmet.into_iter().cycle().take(5_000).collect();
    plan
}

#[test]
fn a_page_of_a_thousand_nodes_is_below_two_megabytes() {
    let plan = large();
    for language in BOTH {
        let bytes = html(&plan, language).len();
        assert!(bytes < 2_000_000, "{bytes} bytes");
    }
}

#[test]
fn equal_nodes_are_told_once_with_their_number() {
    let mut plan = large();
    let (today, planned) = (plan.nodes_today[0].gpus.clone(), plan.nodes[0].gpus.clone());
    plan.nodes_today.iter_mut().for_each(|n| n.gpus.clone_from(&today));
    plan.nodes.iter_mut().for_each(|n| n.gpus.clone_from(&planned));
    plan.restarting.clear();
    assert!(html(&plan, Language::English).contains("1,000 nodes like node-0"));
    assert!(html(&plan, Language::Spanish).contains("1.000 nodos como node-0"));
}
