//! What `write_demand` writes reads back as what it was written from.

use std::collections::BTreeMap;

use insta::assert_snapshot;
use proptest::collection::{btree_map, btree_set, vec};
use proptest::prelude::*;
use proptest::{option, sample};
use tesela_formats::documents::{Document, merge, read_document, write_demand};
use tesela_model::demand::{
    Demand, Duty, Holding, Isolation, LabelOperator, LabelRule, NodeConstraints, PodRef, Slo, Tenant,
    TenantClass, Toleration, Workload, WorkloadKey,
};
use tesela_model::fleet::Mode;
use tesela_model::origin::{Known, Origin};
use tesela_model::product::ProductTable;
use tesela_model::quantity::{Bytes, Mib, MilliCpu};

/// Words that a parser could take for something else are among the names.
fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z0-9]([a-z0-9-]{0,8}[a-z0-9])?",
        sample::select(vec!["null", "true", "on", "1", "0x1f", "1e3", "0640", "2026-11-30", "y", "1.5"])
            .prop_map(|text| text.replace('.', "-")),
    ]
}

fn label_value() -> impl Strategy<Value = String> {
    prop_oneof![
        "",
        "[A-Za-z0-9]([A-Za-z0-9_.-]{0,8}[A-Za-z0-9])?",
        Just("~".replace('~', "no")),
        Just("1.50".into())
    ]
}

fn label_key() -> impl Strategy<Value = String> {
    ("([a-z0-9]{1,4}\\.[a-z]{2}/)?", "[A-Za-z0-9]([A-Za-z0-9_.-]{0,6}[A-Za-z0-9])?").prop_map(|(a, b)| a + &b)
}

fn known<T: std::fmt::Debug>(value: impl Strategy<Value = T>) -> impl Strategy<Value = Option<Known<T>>> {
    let origin = sample::select(vec![Origin::Given, Origin::Measured, Origin::Estimated, Origin::Assumed]);
    option::of((value, origin).prop_map(|(value, origin)| Known { value, origin }))
}

fn label_rule(field: bool) -> impl Strategy<Value = LabelRule> {
    use LabelOperator::{DoesNotExist, Exists, Gt, In, Lt, NotIn};
    let key = if field { Just("metadata.name".to_owned()).boxed() } else { label_key().boxed() };
    let values = |operator| match operator {
        In | NotIn => vec(label_value(), 1..3).boxed(),
        Gt | Lt => any::<i32>().prop_map(|n| vec![n.to_string()]).boxed(),
        Exists | DoesNotExist => Just(Vec::new()).boxed(),
    };
    (key, sample::select(vec![In, NotIn, Exists, DoesNotExist, Gt, Lt])).prop_flat_map(
        move |(key, operator)| {
            values(operator).prop_map(move |values| LabelRule { key: key.clone(), operator, values, field })
        },
    )
}

fn toleration() -> impl Strategy<Value = Toleration> {
    let effect =
        || sample::select(vec!["", "NoSchedule", "PreferNoSchedule", "NoExecute"]).prop_map(str::to_owned);
    prop_oneof![
        effect().prop_map(|effect| Toleration { exists: true, effect, ..Default::default() }),
        (label_key(), effect()).prop_map(|(key, effect)| Toleration {
            key,
            exists: true,
            effect,
            ..Default::default()
        }),
        (label_key(), label_value(), effect()).prop_map(|(key, value, effect)| Toleration {
            key,
            exists: false,
            value,
            effect
        }),
    ]
}

fn constraints() -> impl Strategy<Value = NodeConstraints> {
    let term = (vec(label_rule(false), 0..3), vec(label_rule(true), 0..2)).prop_map(|(a, b)| [a, b].concat());
    (btree_map(label_key(), label_value(), 0..3), vec(term, 0..3), vec(toleration(), 0..3)).prop_map(
        |(node_selector, affinity, tolerations)| NodeConstraints { node_selector, affinity, tolerations },
    )
}

/// Mode, isolation, SLO, GPUs and profile that do not contradict each other.
type Need = (Option<Mode>, Option<Known<Isolation>>, Option<Slo>, u32, Option<&'static str>);

fn need() -> impl Strategy<Value = Need> {
    let isolation =
        sample::select(vec![Isolation::None, Isolation::Tenant, Isolation::Instance, Isolation::Device]);
    let slo =
        (1u16..1000, 1u64..86_400_000).prop_map(|(percentile, latency_ms)| Slo { percentile, latency_ms });
    let mode = option::of(sample::select(vec![Mode::Exclusive, Mode::Mig, Mode::TimeSliced, Mode::Mps]));
    let profile = option::of(sample::select(vec!["1g.10gb", "1g.10gb+me", "7g.80gb"]));
    (mode, known(isolation), option::of(slo), 1u32..1024, profile).prop_map(
        |(mode, isolation, slo, gpus, profile)| {
            let profile = profile.filter(|_| matches!(mode, None | Some(Mode::Mig)));
            let instance = mode == Some(Mode::Mig) || profile.is_some();
            let shared = matches!(mode, Some(Mode::TimeSliced | Mode::Mps));
            let most = if shared {
                Isolation::Tenant
            } else if instance {
                Isolation::Instance
            } else {
                Isolation::Device
            };
            let isolation = isolation.map(|i| Known { value: i.value.min(most), ..i });
            (mode, isolation, slo.filter(|_| !shared), if instance || shared { 1 } else { gpus }, profile)
        },
    )
}

fn running() -> impl Strategy<Value = Vec<Holding>> {
    let pod = (name(), name()).prop_map(|(namespace, name)| PodRef { namespace, name });
    let holding = (name(), vec(pod, 1..3)).prop_map(|(node, pods)| Holding {
        node,
        resource: "nvidia.com/gpu".parse().unwrap(),
        devices: 1,
        pods,
        place: None,
    });
    vec(holding, 0..3)
}

fn workload() -> impl Strategy<Value = Workload> {
    let kind = sample::select(vec!["Deployment", "Job", "Pod", "RayCluster"]).prop_map(str::to_owned);
    let key = (name(), kind, name());
    let resource =
        sample::select(vec!["nvidia.com/gpu", "nvidia.com/mig-1g.10gb.me", "nvidia.com/gpu.shared"]);
    let memory = prop_oneof![Just(0), 1u64..1 << 50, (1u64..1 << 20).prop_map(|gi| gi << 30)];
    let facts =
        (known((1u64..1 << 24).prop_map(Mib)), known((0u16..=1000).prop_map(|p| Duty::permille(p).unwrap())));
    let numbers = (0u64..1_000_000_000, any::<i32>(), 0u64..1_000_000_000, memory, option::of(1u32..));
    let flags = (any::<bool>(), any::<bool>(), known(any::<bool>()));
    let products = btree_set(sample::select(vec!["h100-sxm-80gb", "NVIDIA-L4", "h100-pcie-80gb"]), 0..3);
    (key, need(), facts, numbers, flags, (constraints(), option::of(resource), products), running()).prop_map(
        |(key, need, facts, numbers, flags, (constraints, request, products), running)| {
            let (mode, isolation, slo, gpus, profile) = need;
            let (namespace, kind, name) = key;
            // The profile must be one of a product that will do.
            let profile = profile.filter(|_| !products.contains("NVIDIA-L4"));
            Workload {
                tenant: namespace.clone(),
                key: WorkloadKey { namespace, kind, name },
                count: numbers.0,
                gpus,
                same_node: flags.0,
                cpu: MilliCpu(numbers.2),
                memory: Bytes(numbers.3),
                constraints,
                max_per_node: numbers.4,
                request: request.map(|text| text.parse().unwrap()),
                gpu_memory: facts.0,
                isolation,
                slo,
                duty: facts.1,
                compute: facts.1,
                mode,
                profile: profile.map(|text| text.parse().unwrap()),
                products: products.into_iter().map(str::to_owned).collect(),
                priority: numbers.1,
                movable: flags.1,
                interactive: flags.2,
                running,
            }
        },
    )
}

/// A demand as `observe` makes it: sorted, each key once, and a namespace that a tenant owns holds its work only.
fn demand() -> impl Strategy<Value = Demand> {
    let quota =
        btree_map(sample::select(vec!["nvidia.com/gpu", "nvidia.com/mig-1g.5gb"]), 0u64..1_000_000_000, 0..2);
    let tenants = btree_map("[a-z]{1,6}", quota, 0..4);
    (tenants, vec(workload(), 0..6), vec(any::<u8>(), 6), any::<bool>()).prop_map(
        |(tenants, list, owners, free)| {
            let mut tenants: Vec<Tenant> = tenants
                .into_iter()
                .map(|(name, quota)| Tenant {
                    name,
                    namespaces: Vec::new(),
                    class: TenantClass::Standard,
                    quota: quota
                        .into_iter()
                        .map(|(resource, hard)| (resource.parse().unwrap(), hard))
                        .collect(),
                })
                .collect();
            let mut owned: BTreeMap<String, String> = BTreeMap::new();
            let mut workloads: BTreeMap<WorkloadKey, Workload> = BTreeMap::new();
            for (mut workload, owner) in list.into_iter().zip(owners) {
                let namespace = workload.key.namespace.clone();
                if !tenants.is_empty() && !owned.contains_key(&namespace) {
                    let index = usize::from(owner) % tenants.len();
                    let tenant = &mut tenants[index];
                    // A namespace with the work of several tenants belongs to none.
                    if free && owner > 127 {
                        workload.tenant.clone_from(&tenant.name);
                        owned.insert(namespace.clone(), String::new());
                    } else {
                        tenant.namespaces.push(namespace.clone());
                        owned.insert(namespace.clone(), tenant.name.clone());
                    }
                }
                if let Some(owner) = owned.get(&namespace).filter(|owner| !owner.is_empty()) {
                    workload.tenant.clone_from(owner);
                }
                workloads.insert(workload.key.clone(), workload);
            }
            Demand { tenants, workloads: workloads.into_values().collect() }
        },
    )
}

fn read_back(observed: Demand, text: &str) -> Demand {
    let documents = read_document("d.yaml", text.as_bytes(), ProductTable::builtin())
        .unwrap_or_else(|found| panic!("{found}\n{text}"));
    let [Document::Demand(document)] = &documents[..] else { panic!("{text}") };
    merge(observed, document)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn what_is_written_changes_nothing(demand in demand()) {
        let text = write_demand(&demand);
        prop_assert_eq!(&text, &write_demand(&demand));
        prop_assert_eq!(read_back(demand.clone(), &text), demand, "{}", text);
    }

    #[test]
    fn what_is_written_says_everything_but_what_runs(demand in demand()) {
        let mut without = demand.clone();
        without.workloads.iter_mut().for_each(|w| w.running.clear());
        prop_assert_eq!(read_back(Demand::default(), &write_demand(&demand)), without);
    }

    #[test]
    fn reading_any_text_ends(text in "[ -~\n]{0,200}") {
        let table = ProductTable::builtin();
        for kind in ["Fleet", "Demand", "PriceBook", "ProductTable", "Plan"] {
            let text = format!("apiVersion: tesela.dev/v1alpha1\nkind: {kind}\n{text}");
            let _ = read_document("any", text.as_bytes(), table);
        }
    }
}

#[test]
fn a_written_demand_reads_well() {
    let text = "apiVersion: tesela.dev/v1alpha1
kind: Demand
spec:
  tenants:
    - {name: agents, namespaces: [agents, agents-test], class: regulated, quota: {nvidia.com/gpu: 4}}
  workloads:
    - {name: chat, namespace: agents, count: 3, request: nvidia.com/gpu, cpu: 4, memory: 32Gi,
       gpuMemory: {value: 9Gi, origin: measured}, isolation: instance, slo: {percentile: p99, latency: 200ms},
       affinity: [{matchExpressions: [{key: zone, operator: In, values: [a, b]}]}],
       tolerations: [{key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}]}
    - {name: notebook, namespace: lab, kind: StatefulSet, tenant: research,
       interactive: {value: true, origin: estimated}, duty: {value: 2.5%, origin: measured}}
";
    let mut demand = read_back(Demand::default(), text);
    let pod = |name: &str| PodRef { namespace: "agents".into(), name: name.into() };
    let holding = |node: &str, pods: Vec<PodRef>| Holding {
        node: node.into(),
        resource: "nvidia.com/gpu".parse().unwrap(),
        devices: 1,
        pods,
        place: None,
    };
    demand.workloads[0].running =
        vec![holding("gpu-1", vec![pod("a"), pod("b")]), holding("gpu-2", vec![pod("c")])];
    assert_snapshot!(write_demand(&demand));
    assert_snapshot!(write_demand(&Demand::default()));
}
