//! Puts an example into a cluster, until every controller has found its pods and does nothing more.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use tesela_testbed::{Api, Hollow, Patch, Rejection, until};

use super::example::{Example, Owner, Pod};

const LIMIT: Duration = Duration::from_secs(120);
/// Looks in a row at which nothing may have changed.
const STILL: usize = 10;

/// Creates all of it and waits until it stands. The kubelets are those of all nodes.
pub(super) fn seed(api: &Api, example: &Example) -> Result<Hollow> {
    for node in &example.nodes {
        api.create("/api/v1/nodes", node)?;
    }
    for namespace in &example.namespaces {
        make_namespace(api, namespace)?;
    }
    for (namespace, name) in &example.accounts {
        let account = json!({"metadata": {"name": name}});
        api.create(&format!("/api/v1/namespaces/{namespace}/serviceaccounts"), &account)?;
    }
    for (name, value) in &example.priorities {
        // In the examples pods wait beside others of less priority: nobody is preempted.
        let class = json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
            "metadata": {"name": name}, "value": value, "preemptionPolicy": "Never"});
        api.create("/apis/scheduling.k8s.io/v1/priorityclasses", &class)?;
    }
    ready_nodes(api)?;
    for namespace in &example.namespaces {
        default_account(api, namespace)?;
    }
    let kubelets = Hollow::start(api.clone());
    for pod in &example.pods {
        make_pod(api, pod)?;
    }
    for owner in &example.owners {
        let made = api.create(&owner.path, &owner.object);
        made.with_context(|| format!("{} {}/{}", owner.kind, owner.namespace, owner.name))?;
    }
    settle(api, example)?;
    for owner in &example.owners {
        match owner.kind {
            "StatefulSet" => let_roll(api, example, owner)?,
            "Deployment" => resume(api, owner)?,
            _ => {}
        }
    }
    settle(api, example)?;
    Ok(kubelets)
}

/// Makes a namespace, unless it is there.
pub(super) fn make_namespace(api: &Api, name: &str) -> Result<()> {
    match api.create("/api/v1/namespaces", &json!({"metadata": {"name": name}})) {
        Err(error) if error.downcast_ref::<Rejection>().is_some_and(|told| told.status == 409) => Ok(()),
        made => made.map(|_| ()),
    }
}

/// Until the taint that every new node gets is gone from those that are Ready.
fn ready_nodes(api: &Api) -> Result<()> {
    until("nodes without the taint of new ones", LIMIT, |seen| {
        let nodes = api.get("/api/v1/nodes")?;
        let taints = |node: &Value| node["spec"]["taints"].as_array().cloned().unwrap_or_default();
        let new = items(&nodes).filter(|node| {
            is(node, "Ready")
                && taints(node).iter().any(|taint| taint["key"] == "node.kubernetes.io/not-ready")
        });
        *seen = new.map(name).collect::<Vec<_>>().join(" ");
        Ok(seen.is_empty().then_some(()))
    })
}

fn default_account(api: &Api, namespace: &str) -> Result<()> {
    until(&format!("the default ServiceAccount of {namespace}"), LIMIT, |_| {
        found(api.get(&format!("/api/v1/namespaces/{namespace}/serviceaccounts/default")))
    })
    .map(|_| ())
}

/// `None` where the API server says that there is no such thing.
fn found(answer: Result<Value>) -> Result<Option<Value>> {
    match answer {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.downcast_ref::<Rejection>().is_some_and(|told| told.status == 404) => Ok(None),
        Err(error) => Err(error),
    }
}

fn make_pod(api: &Api, pod: &Pod) -> Result<()> {
    let path = format!("/api/v1/namespaces/{}/pods", pod.namespace);
    api.create(&path, &pod.object)?;
    let path = format!("{path}/{}", pod.name);
    if let Some(status) = &pod.status {
        api.patch(&format!("{path}/status"), Patch::Merge, &json!({"status": status}))?;
    }
    if pod.ending {
        api.delete(&path, &json!({"gracePeriodSeconds": 3600}))?;
    }
    Ok(())
}

/// Waits until the cluster holds exactly the example's pods, each with its owner, and for a while nothing comes or goes.
fn settle(api: &Api, example: &Example) -> Result<()> {
    let expected = example.pods.iter().map(Pod::path_name).collect::<BTreeSet<_>>();
    let owned = example.pods.iter().filter(|pod| pod.is_owned()).map(Pod::path_name).collect::<BTreeSet<_>>();
    let mut still = 0;
    until("the example's pods and no others", LIMIT, |seen| {
        let pods = api.get("/api/v1/pods")?;
        let there = items(&pods).map(path_name).collect::<BTreeSet<_>>();
        let adopted = items(&pods).filter(|pod| !pod["metadata"]["ownerReferences"].is_null());
        let adopted = adopted.map(path_name).collect::<BTreeSet<_>>();
        let running = items(&pods).filter(|pod| pod["status"]["phase"] == "Pending" && bound(pod));
        let late = running.filter(|pod| pod["status"]["containerStatuses"].is_null());
        let late = late.map(path_name).collect::<BTreeSet<_>>();
        let (more, fewer) = (there.difference(&expected), expected.difference(&there));
        *seen = format!(
            "too many: {:?}; missing: {:?}; without owner: {:?}; not started: {late:?}",
            more.collect::<Vec<_>>(),
            fewer.collect::<Vec<_>>(),
            owned.difference(&adopted).collect::<Vec<_>>(),
        );
        let quiet = there == expected && owned.is_subset(&adopted) && late.is_empty();
        still = if quiet { still + 1 } else { 0 };
        Ok((still >= STILL).then_some(()))
    })
}

/// Lets a Deployment go on, once its ReplicaSet is its own.
fn resume(api: &Api, owner: &Owner) -> Result<()> {
    until(&format!("the ReplicaSet of {}", owner.name), LIMIT, |_| {
        let sets = api.get(&format!("/apis/apps/v1/namespaces/{}/replicasets", owner.namespace))?;
        let mark = &owner.object["metadata"]["labels"]["testbed.tesela.dev/owner"];
        let ours = items(&sets).find(|set| set["metadata"]["labels"]["testbed.tesela.dev/owner"] == *mark);
        Ok(ours.is_some_and(|set| !set["metadata"]["ownerReferences"].is_null()).then_some(()))
    })?;
    let path = format!("{}/{}", owner.path, owner.name);
    api.patch(&path, Patch::Merge, &json!({"spec": {"paused": false}})).map(|_| ())
}

/// Tells a StatefulSet's pods that they are of its revision, and lets it replace those that are not from now on.
fn let_roll(api: &Api, example: &Example, owner: &Owner) -> Result<()> {
    let path = format!("{}/{}", owner.path, owner.name);
    let revision = until(&format!("the revision of {}", owner.name), LIMIT, |_| {
        let set = api.get(&path)?;
        Ok(set["status"]["updateRevision"].as_str().map(str::to_owned))
    })?;
    let mark = &owner.object["metadata"]["labels"];
    for pod in example.pods.iter().filter(|pod| pod.namespace == owner.namespace) {
        let labels = &pod.object["metadata"]["labels"];
        let ours = mark.as_object().into_iter().flatten().all(|(key, value)| labels[key] == *value);
        if ours {
            let path = format!("/api/v1/namespaces/{}/pods/{}", pod.namespace, pod.name);
            let label = json!({"metadata": {"labels": {"controller-revision-hash": revision}}});
            api.patch(&path, Patch::Merge, &label)?;
        }
    }
    let strategy = json!({"spec": {"updateStrategy": {"type": "RollingUpdate"}}});
    api.patch(&path, Patch::Merge, &strategy)?;
    Ok(())
}

impl Pod {
    /// `namespace/name`.
    fn path_name(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }

    fn is_owned(&self) -> bool {
        !self.object["metadata"]["labels"]["testbed.tesela.dev/owner"].is_null()
    }
}

/// The items of a list.
pub(super) fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list["items"].as_array().into_iter().flatten()
}

/// An object's name.
pub(super) fn name(object: &Value) -> String {
    object["metadata"]["name"].as_str().unwrap_or_default().to_owned()
}

/// `namespace/name`.
pub(super) fn path_name(object: &Value) -> String {
    format!("{}/{}", object["metadata"]["namespace"].as_str().unwrap_or_default(), name(object))
}

/// Whether a condition of a node or pod is True.
pub(super) fn is(object: &Value, condition: &str) -> bool {
    let conditions = object["status"]["conditions"].as_array();
    conditions.into_iter().flatten().any(|found| found["type"] == condition && found["status"] == "True")
}

fn bound(pod: &Value) -> bool {
    !pod["spec"]["nodeName"].is_null()
}

/// What a plan says that must be the same of the example's file and of the cluster it was made into.
pub(super) fn same_plan(file: &Value, live: &Value) -> Result<()> {
    for part in
        ["status", "nodes", "assignments", "restarting", "changes", "unmet", "pools", "operator_namespace"]
    {
        ensure!(
            file[part] == live[part],
            "the plan of the cluster differs from that of the file in `{part}`:\n{}\n{}",
            file[part],
            live[part]
        );
    }
    Ok(())
}
