//! What must hold of any input.

use proptest::prelude::*;
use serde_json::{Value, json};
use tesela_model::product::ProductTable;
use tesela_objects::observe::{Observer, Options};

use crate::build::{node, observe, owned, pending, pod, with};

/// Nodes and pods of many kinds, small enough to shuffle often.
fn cluster() -> Vec<Value> {
    let mixed = [("gpu.product", "NVIDIA-H100-80GB-HBM3"), ("gpu.count", "2"), ("mig.strategy", "mixed")];
    let single =
        [("gpu.product", "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb"), ("gpu.count", "9"), ("mig.strategy", "single")];
    let slices = [("gpu.product", "NVIDIA-L4"), ("gpu.count", "2"), ("gpu.replicas", "4")];
    let mut items = vec![
        node("a", &mixed, &[("gpu", 0), ("mig-1g.10gb", 5), ("mig-3g.40gb", 2)]),
        node("b", &single, &[("gpu", 9)]),
        node("c", &slices, &[("gpu.shared", 8)]),
        node("d", &[], &[("gpu", 2)]),
        node("e", &[], &[]),
        pod("one", "x", "a", &[("mig-1g.10gb", 1)]),
        pod("one", "y", "a", &[("mig-3g.40gb", 1), ("mig-1g.10gb", 1)]),
        pending(pod("two", "z", "", &[("gpu.shared", 2)]), "no room"),
        with(
            pod("two", "going", "b", &[("gpu", 1)]),
            "/metadata/deletionTimestamp",
            json!("2026-11-30T00:00:00Z"),
        ),
    ];
    for index in 0..4_u64 {
        let name = format!("web-abc-{index}");
        items.push(owned(pod("web", &name, "b", &[("gpu", 1 + index % 2)]), "ReplicaSet", "web-abc"));
    }
    items
}

/// JSON of any shape, with the keys that the reader looks at among them.
fn any_json() -> impl Strategy<Value = Value> {
    let keys = "kind|apiVersion|metadata|name|namespace|labels|items|spec|status|containers|resources|requests|limits|cpu|memory|nvidia.com/gpu|nvidia.com/mig-1g.10gb|allocatable|capacity|nodeName|phase|nvidia.com/gpu.count|nvidia.com/gpu.product";
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "Node|Pod|List|PodList|v1|Running|-1|1|9999999999999|NVIDIA-H100-80GB-HBM3|.{0,6}"
            .prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 48, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::vec((keys, inner), 0..6)
                .prop_map(|pairs| Value::Object(pairs.into_iter().collect())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_order_of_items_does_not_matter(items in Just(cluster()).prop_shuffle()) {
        prop_assert_eq!(observe(&items), observe(&cluster()));
    }

    #[test]
    fn nothing_panics_on_any_json(value in any_json()) {
        let wrapped = json!({"kind": "List", "items": [value.clone(), {"kind": "Node", "metadata": {"name": "n"}, "status": value.clone()}]});
        for text in [value.to_string(), wrapped.to_string()] {
            let mut observer = Observer::new(ProductTable::builtin(), Options::default());
            if observer.read("f", text.as_bytes()).is_ok() {
                let _ = observer.finish();
            }
        }
    }

    #[test]
    fn nothing_panics_on_odd_counts(
        count in prop_oneof![0..40_u64, any::<u64>()],
        whole in prop_oneof![0..40_u64, 0..=1_000_000_u64],
        small in prop_oneof![0..40_u64, 0..=1_000_000_u64],
        large in 0..40_u64,
        replicas in prop_oneof![0..9_u64, any::<u64>()],
        strategy in "single|mixed|none|",
        suffix in "|-SHARED|-MIG-1g.10gb|-MIG-1g.99gb|-MIG-INVALID",
    ) {
        let labels = [
            ("gpu.product", &*format!("NVIDIA-H100-80GB-HBM3{suffix}")),
            ("gpu.count", &*count.to_string()),
            ("gpu.replicas", &*replicas.to_string()),
            ("mig.strategy", &*strategy),
        ];
        let gpus = [("gpu", whole), ("mig-1g.10gb", small), ("mig-3g.40gb.shared", large), ("mig-1g.99gb", whole % 2)];
        for shown in [&gpus[..1], &gpus[..3], &gpus[..]] {
            let read = observe(&[node("n", &labels, shown), pod("ns", "p", "n", &[("gpu", whole)])]);
            for gpu in read.fleet.nodes.iter().flat_map(|n| &n.gpus) {
                prop_assert!(gpu.product == "h100-sxm-80gb" || gpu.product == "unknown");
            }
        }
    }
}
