//! Hollow nodes: the part of a kubelet that the API server sees, with no machine behind it.
//!
//! A pod that is bound to a node becomes Running and Ready, and one that is being deleted is gone. That is enough for
//! everything that decides about pods: schedulers, controllers, budgets, quotas.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use crate::api::{Api, Patch, Rejection};

/// Kubelets for all nodes of a cluster. They work in the background until the cluster ends.
#[derive(Clone, Debug)]
pub struct Hollow {
    faults: Arc<Mutex<Vec<String>>>,
}

impl Hollow {
    /// On a pod: its status stays as whoever made it wrote it; it goes when it is deleted.
    pub const SPOKEN_FOR: &'static str = "testbed.tesela.dev/spoken-for";
    /// On a pod: its kubelet is away, so that it stays as it is, deleted or not.
    pub const AWAY: &'static str = "testbed.tesela.dev/away";

    /// Starts them.
    pub fn start(api: Api) -> Self {
        let hollow = Self { faults: Arc::default() };
        let faults = hollow.faults.clone();
        // Not joined: it ends with the connection, and that with the cluster.
        std::thread::spawn(move || {
            // The API server ends a watch now and then; a watch that cannot begin any more is the cluster's end.
            while api.watch("/api/v1/pods", |event| see(&api, &faults, event)).is_ok() {}
        });
        hollow
    }

    /// What the API server refused them.
    pub fn faults(&self) -> Vec<String> {
        self.faults.lock().map(|faults| faults.clone()).unwrap_or_default()
    }
}

fn see(api: &Api, faults: &Mutex<Vec<String>>, event: &Value) -> bool {
    let pod = &event["object"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (namespace, name) = (text(&pod["metadata"]["namespace"]), text(&pod["metadata"]["name"]));
    let marked = |mark: &str| !pod["metadata"]["annotations"][mark].is_null();
    let bound = !pod["spec"]["nodeName"].is_null();
    if event["type"] == "DELETED" || name.is_empty() || !bound || marked(Hollow::AWAY) {
        return true;
    }
    let path = format!("/api/v1/namespaces/{namespace}/pods/{name}");
    let answer = if !pod["metadata"]["deletionTimestamp"].is_null() {
        let options = json!({"gracePeriodSeconds": 0, "preconditions": {"uid": pod["metadata"]["uid"]}});
        api.delete(&path, &options)
    } else if is_new(pod) && !marked(Hollow::SPOKEN_FOR) {
        api.patch(&format!("{path}/status"), Patch::Strategic, &running(pod))
    } else {
        return true;
    };
    let Err(error) = answer else { return true };
    // Gone, or another of the same name by now.
    let late = error.downcast_ref::<Rejection>().is_some_and(|told| matches!(told.status, 404 | 409));
    if !late && let Ok(mut faults) = faults.lock() {
        faults.push(format!("{error:#}"));
    }
    true
}

/// Whether no kubelet has seen the pod yet.
fn is_new(pod: &Value) -> bool {
    pod["status"]["phase"] == "Pending" && pod["status"]["containerStatuses"].is_null()
}

/// The status of a pod whose containers all run.
fn running(pod: &Value) -> Value {
    let each = |list: &str| pod["spec"][list].as_array().cloned().unwrap_or_default();
    let status = |container: &Value, state: Value| {
        json!({
            "name": container["name"], "image": container["image"], "imageID": container["image"],
            "ready": true, "started": true, "restartCount": 0, "state": state,
        })
    };
    let begun = each("initContainers").into_iter().map(|container| {
        let state = if container["restartPolicy"] == "Always" {
            json!({"running": {}})
        } else {
            json!({"terminated": {"exitCode": 0, "reason": "Completed"}})
        };
        status(&container, state)
    });
    let containers = each("containers");
    let containers = containers.iter().map(|container| status(container, json!({"running": {}})));
    let conditions = ["PodReadyToStartContainers", "Initialized", "ContainersReady", "Ready"];
    json!({"status": {
        "phase": "Running",
        "conditions": conditions.map(|kind| json!({"type": kind, "status": "True"})),
        "initContainerStatuses": begun.collect::<Vec<_>>(),
        "containerStatuses": containers.collect::<Vec<_>>(),
    }})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sidecars_run_and_other_init_containers_have_ended() {
        let pod = json!({"spec": {
            "initContainers": [{"name": "proxy", "restartPolicy": "Always"}, {"name": "fetch"}],
            "containers": [{"name": "server"}],
        }, "status": {"phase": "Pending"}});
        assert!(is_new(&pod));
        let status = &running(&pod)["status"];
        assert!(status["initContainerStatuses"][0]["state"]["running"].is_object());
        assert_eq!(status["initContainerStatuses"][1]["state"]["terminated"]["exitCode"], 0);
        assert_eq!(status["containerStatuses"][0]["ready"], true);
        let seen = json!({"status": {"phase": "Pending", "containerStatuses": [{"name": "server"}]}});
        assert!(!is_new(&seen), "a pod whose image is missing stays as it is");
    }
}
