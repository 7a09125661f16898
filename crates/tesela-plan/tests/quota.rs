//! Quotas are a closed set, divided fairly, and DRA names go with the plugin's.

mod builders;

use std::collections::BTreeMap;

use builders::*;
use tesela_model::demand::{Demand, Tenant, TenantClass, Workload};
use tesela_model::fleet::{Fleet, MigStrategy, Mode, Offer};
use tesela_model::origin::Origin;
use tesela_model::plan::{Assignment, PlannedGpu, PlannedInstance, PlannedNode, Quota, Unmet};
use tesela_plan::quota::{close, findings};

fn assignment(
    workload: &Workload,
    mode: Mode,
    replicas: Option<u32>,
    resource_name: &str,
    count: u64,
) -> Assignment {
    Assignment {
        workload: workload.key.name.clone(),
        kind: workload.key.kind.clone(),
        namespace: workload.key.namespace.clone(),
        tenant: workload.tenant.clone(),
        mode,
        replicas,
        resource: resource(resource_name),
        count,
        gpus: workload.gpus,
        node: Some("a".into()),
        gpu: None,
        product: H100.into(),
        profile: None,
        start: None,
        staying: 0,
        request_today: None,
        reason: String::new(),
    }
}

fn hard(quotas: &[Quota], namespace: &str) -> BTreeMap<String, u64> {
    let own = quotas.iter().filter(|q| q.namespace == namespace);
    own.map(|q| (q.resource.clone(), q.hard)).collect()
}

const GPU: &str = "requests.nvidia.com/gpu";
const DRA_GPU: [&str; 2] = [
    "gpu.nvidia.com.deviceclass.resource.k8s.io/devices",
    "requests.deviceclass.resource.kubernetes.io/gpu.nvidia.com",
];
const DRA_MIG: [&str; 2] = [
    "mig.nvidia.com.deviceclass.resource.k8s.io/devices",
    "requests.deviceclass.resource.kubernetes.io/mig.nvidia.com",
];
const DRA_VFIO: [&str; 2] = [
    "vfio.gpu.nvidia.com.deviceclass.resource.k8s.io/devices",
    "requests.deviceclass.resource.kubernetes.io/vfio.gpu.nvidia.com",
];

#[test]
fn every_namespace_has_every_name() {
    let fleet = fleet(vec![
        node("a", A100, 1, &mig_offer(A100, &[("1g.5gb", 0)])),
        node("s", T4, 1, &Offer::TimeSliced { replicas: 4 }).with(|n| n.shares_renamed = true),
    ])
    .with(|f| f.namespaces = ["idle".to_owned()].into())
    .with(|f| f.resources = [mig("4g.20gb")].into());
    let train = workload("ml", "train", 2).with(|w| w.gpus = 4);
    let serve = workload("web", "serve", 3);
    let assignments = vec![
        assignment(&train, Mode::Exclusive, None, "nvidia.com/gpu", 2),
        assignment(&serve, Mode::Mig, None, "nvidia.com/mig-2g.10gb", 3),
        assignment(&serve, Mode::TimeSliced, Some(4), "nvidia.com/gpu.shared", 5),
    ];
    let free =
        PlannedInstance { profile: profile("3g.20gb"), start: 4, size: 4, replicas: None, used_by: vec![] };
    let planned = PlannedNode {
        name: Some("a".into()),
        mig_strategy: MigStrategy::Mixed,
        mig_strategy_today: Some(MigStrategy::Mixed),
        operator: true,
        plugin_config_today: None,
        mig_config_today: None,
        gpus: vec![PlannedGpu {
            uuid: None,
            product: A100.into(),
            mode: Mode::Mig,
            replicas: None,
            instances: vec![free],
            starts: Origin::Estimated,
            used_by: vec![],
            mode_today: Some(Mode::Mig),
        }],
    };
    let demand = Demand {
        tenants: vec![tenant("lab", &["lab-a", "lab-b"], TenantClass::Standard)],
        workloads: vec![train, serve],
    };
    let quotas = close(&fleet, &demand, &assignments, &[planned]);
    assert!(quotas.windows(2).all(|w| (&w[0].namespace, &w[0].resource) < (&w[1].namespace, &w[1].resource)));
    let names = [
        GPU,
        "requests.nvidia.com/gpu.shared",
        "requests.nvidia.com/mig-1g.5gb",
        "requests.nvidia.com/mig-2g.10gb",
        "requests.nvidia.com/mig-3g.20gb",
        "requests.nvidia.com/mig-4g.20gb",
    ];
    for namespace in ["idle", "lab-a", "lab-b", "ml", "web"] {
        let own = hard(&quotas, namespace);
        for name in names.iter().chain(&DRA_GPU).chain(&DRA_MIG).chain(&DRA_VFIO) {
            assert!(own.contains_key(*name), "{namespace} lacks {name}");
        }
        assert_eq!(own.len(), names.len() + 6);
    }
    let (ml, web, idle) = (hard(&quotas, "ml"), hard(&quotas, "web"), hard(&quotas, "idle"));
    assert_eq!((ml[GPU], ml[DRA_GPU[0]], ml[DRA_GPU[1]], ml[DRA_MIG[0]]), (8, 8, 8, 0));
    assert_eq!(
        (web[GPU], web["requests.nvidia.com/gpu.shared"], web["requests.nvidia.com/mig-2g.10gb"]),
        (0, 5, 3)
    );
    assert_eq!((web[DRA_GPU[0]], web[DRA_MIG[0]], web[DRA_MIG[1]], web[DRA_VFIO[0]]), (0, 3, 3, 0));
    assert!(idle.values().all(|hard| *hard == 0));
}

#[test]
fn a_tenants_total_is_divided_and_never_below_need() {
    let mut lab = tenant("lab", &["a", "b"], TenantClass::Standard);
    lab.quota = BTreeMap::from([(resource("nvidia.com/gpu"), 10)]);
    let of_lab = |namespace: &str| workload(namespace, "w", 4).with(|w| w.tenant = "lab".into());
    let demand = Demand { tenants: vec![lab], workloads: vec![of_lab("a"), of_lab("b")] };
    let assigned = |a: u64, b: u64| {
        vec![
            assignment(&demand.workloads[0], Mode::Exclusive, None, "nvidia.com/gpu", a),
            assignment(&demand.workloads[1], Mode::Exclusive, None, "nvidia.com/gpu", b),
        ]
    };
    let granted = |a, b| {
        let quotas = close(&Fleet::default(), &demand, &assigned(a, b), &[]);
        (hard(&quotas, "a"), hard(&quotas, "b"))
    };
    let (a, b) = granted(2, 1);
    assert_eq!((a[GPU], b[GPU]), (7, 3));
    assert_eq!((a[DRA_GPU[0]], b[DRA_GPU[1]]), (7, 3));
    assert!(findings(&Fleet::default(), &demand, &assigned(2, 1), &[], &[]).is_empty());
    let (a, b) = granted(8, 4);
    assert_eq!((a[GPU], b[GPU]), (8, 4));
    let found = findings(&Fleet::default(), &demand, &assigned(8, 4), &[], &[]);
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].rule.as_str(), found[0].subject.as_str()), ("tenant-quota-too-small", "Tenant/lab"));
    assert!(found[0].message.contains("10") && found[0].message.contains("12"), "{}", found[0].message);
}

#[test]
fn waiting_pods_use_up_quota() {
    let pending = running(workload("x", "w", 3), "a", "nvidia.com/gpu", 1);
    let unmet = |count| Unmet {
        workload: "w".into(),
        kind: "Deployment".into(),
        namespace: "x".into(),
        count,
        reason: String::new(),
    };
    let found = findings(&Fleet::default(), &demand(vec![pending]), &[], &[unmet(2)], &[]);
    assert_eq!(found[0].rule, "quota-held-by-waiting-pods");
    assert!(
        found[0].message.starts_with("2 waiting pods request 2 of nvidia.com/gpu"),
        "{}",
        found[0].message
    );
    // Pods that were only written into a demand do not exist yet.
    assert!(
        findings(&Fleet::default(), &demand(vec![workload("x", "w", 3)]), &[], &[unmet(3)], &[]).is_empty()
    );
}

/// A rolling update makes one pod more before one goes.
#[test]
fn quotas_that_leave_no_room_to_roll_are_told() {
    let rolls = workload("x", "web", 2);
    let stays = workload("x", "set", 2).with(|w| w.key.kind = "StatefulSet".into());
    let of = |w: &Workload| assignment(w, Mode::Exclusive, None, "nvidia.com/gpu", 2);
    let demand = demand(vec![rolls.clone(), stays.clone()]);
    let rules = |demand: &Demand, assignments: &[Assignment]| {
        let found = findings(&Fleet::default(), demand, assignments, &[], &[]);
        found.into_iter().map(|f| f.rule).collect::<Vec<_>>()
    };
    assert_eq!(rules(&demand, &[of(&rolls), of(&stays)]), ["quota-leaves-no-surge"]);
    assert!(rules(&demand, &[of(&stays)]).is_empty());
    // A tenant with a total of its own has the room that its owner chose.
    let own = tenant("x", &["x"], TenantClass::Standard);
    let own = Tenant { quota: BTreeMap::from([(resource("nvidia.com/gpu"), 8)]), ..own };
    assert!(rules(&Demand { tenants: vec![own], ..demand }, &[of(&rolls)]).is_empty());
}

/// Kubernetes takes the lowest of several quotas.
#[test]
fn grants_below_the_quota_in_force_are_told() {
    let mut fleet = Fleet::default();
    fleet.quotas_in_force.insert(("x".into(), resource("nvidia.com/gpu")), 8);
    let grant = |hard| [Quota { namespace: "x".into(), resource: GPU.into(), hard }];
    let found = findings(&fleet, &Demand::default(), &[], &[], &grant(5));
    assert_eq!(found.len(), 1);
    assert!(found[0].message.contains("x 5 of nvidia.com/gpu instead of 8"), "{}", found[0].message);
    assert!(findings(&fleet, &Demand::default(), &[], &[], &grant(8)).is_empty());
}
