//! Builders of Kubernetes objects as the API server prints them.

use serde_json::{Value, json};
use tesela_model::product::ProductTable;
use tesela_objects::observe::{Observation, ObserveError, Observer, Options};

/// A node with labels and GPU resources (capacity = allocatable).
pub(crate) fn node(name: &str, labels: &[(&str, &str)], gpus: &[(&str, u64)]) -> Value {
    let mut object = json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}, "annotations": {"a": "b"}},
        "spec": {},
        "status": {
            "capacity": {"cpu": "64", "memory": "512Gi", "ephemeral-storage": "1Ti"},
            "allocatable": {"cpu": "64", "memory": "512Gi"},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    });
    for (key, value) in labels {
        object["metadata"]["labels"][format!("nvidia.com/{key}")] = json!(value);
    }
    for list in ["capacity", "allocatable"] {
        for (resource, amount) in gpus {
            object["status"][list][format!("nvidia.com/{resource}")] = json!(amount.to_string());
        }
    }
    object
}

/// A running pod of one container that asks for GPUs.
pub(crate) fn pod(namespace: &str, name: &str, node: &str, gpus: &[(&str, u64)]) -> Value {
    let mut resources = json!({"cpu": "4", "memory": "16Gi"});
    for (resource, amount) in gpus {
        resources[format!("nvidia.com/{resource}")] = json!(amount.to_string());
    }
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": {}},
        "spec": {
            "nodeName": node,
            "containers": [{
                "name": "main",
                "image": "registry.example.com/app:1",
                "env": [{"name": "SECRET_TOKEN", "value": "do-not-show"}],
                "resources": {"requests": resources, "limits": resources},
            }],
        },
        "status": {"phase": "Running"},
    })
}

/// The same object with one place changed, such as `/status/phase`. Missing parents are made.
pub(crate) fn with(mut object: Value, pointer: &str, value: Value) -> Value {
    let mut place = &mut object;
    for key in pointer.split('/').skip(1) {
        place = match place {
            Value::Array(list) => &mut list[key.parse::<usize>().unwrap()],
            other => &mut other[key],
        };
    }
    *place = value;
    object
}

/// A pod with a controlling owner.
pub(crate) fn owned(object: Value, kind: &str, name: &str) -> Value {
    let owner =
        json!([{"apiVersion": "apps/v1", "kind": kind, "name": name, "controller": true, "uid": "u"}]);
    with(object, "/metadata/ownerReferences", owner)
}

/// A pod that waits for a node.
pub(crate) fn pending(object: Value, message: &str) -> Value {
    let condition =
        json!([{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}]);
    let object = with(object, "/spec/nodeName", Value::Null);
    let object = with(object, "/status/phase", json!("Pending"));
    with(object, "/status/conditions", condition)
}

pub(crate) fn list(items: &[Value]) -> String {
    json!({"apiVersion": "v1", "items": items, "kind": "List", "metadata": {"resourceVersion": ""}})
        .to_string()
}

pub(crate) fn read(texts: &[&str], options: Options) -> Result<Observation, ObserveError> {
    let mut observer = Observer::new(ProductTable::builtin(), options);
    for (index, text) in texts.iter().enumerate() {
        observer.read(&format!("{index}.json"), text.as_bytes())?;
    }
    observer.finish()
}

pub(crate) fn observe(items: &[Value]) -> Observation {
    read(&[&list(items)], Options::default()).unwrap()
}
