//! What the quotas of steps 80 and 90 do once they are in force.

use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::{Value, json};
use tesela_testbed::{Api, Rejection, until};

use super::seed::{is, items, name, path_name};
use super::stage::Stage;

const LIMIT: Duration = Duration::from_secs(60);
const CLOSED: &str = "tesela-gpu-closed";

/// No quota is exceeded; what is closed is refused; what is planned is admitted. Returns how many were refused.
pub(super) fn check(stage: &mut Stage) -> Result<usize> {
    let api = stage.api();
    within(&api)?;
    let mut refused = 0;
    let quotas = api.get("/api/v1/resourcequotas")?;
    for quota in items(&quotas).filter(|quota| name(quota) == CLOSED) {
        for (key, amount) in quota["spec"]["hard"].as_object().into_iter().flatten() {
            ensure!(amount == "0", "{}: {key} is {amount}", path_name(quota));
            let Some(resource) = key.strip_prefix("requests.nvidia.com/") else { continue };
            refuses(&api, quota, &format!("nvidia.com/{resource}"))?;
            refused += 1;
        }
    }
    ensure!(refused > 0 || closes_nothing(&stage.plan), "nothing was closed");
    let planned = planned(&api, &stage.plan)?;
    for pod in &planned {
        admits(&api, pod)?;
    }
    Ok(refused)
}

/// Whether the plan has no quota of 0.
fn closes_nothing(plan: &Value) -> bool {
    plan["quotas"].as_array().into_iter().flatten().all(|quota| quota["hard"] != 0)
}

/// The controller has counted, and nothing that runs is above its quota.
fn within(api: &Api) -> Result<()> {
    until("quotas that are counted", LIMIT, |seen| {
        let quotas = api.get("/api/v1/resourcequotas")?;
        let open = items(&quotas).filter(|quota| quota["status"]["hard"] != quota["spec"]["hard"]);
        *seen = open.map(path_name).collect::<Vec<_>>().join(" ");
        Ok(seen.is_empty().then_some(()))
    })?;
    for quota in items(&api.get("/api/v1/resourcequotas")?) {
        for (key, hard) in quota["status"]["hard"].as_object().into_iter().flatten() {
            let amount = |value: &Value| value.as_str().and_then(|text| text.parse::<u64>().ok());
            let used =
                amount(&quota["status"]["used"][key]).with_context(|| format!("{key} is not counted"))?;
            let hard = amount(hard).with_context(|| format!("{key}: {hard}"))?;
            ensure!(used <= hard, "{}: {used} {key} are used, {hard} are allowed", path_name(quota));
        }
    }
    Ok(())
}

/// A pod that asks for a closed resource is refused, with the quota's message.
fn refuses(api: &Api, quota: &Value, resource: &str) -> Result<()> {
    let namespace = quota["metadata"]["namespace"].as_str().context("a quota without a namespace")?;
    let pod = json!({
        "metadata": {"name": "testbed-asks"},
        "spec": {"containers": [{
            "name": "main", "image": "registry.example.com/any:1", "resources": {"limits": {resource: "1"}},
        }]},
    });
    let told = match api.create(&format!("/api/v1/namespaces/{namespace}/pods"), &pod) {
        Ok(_) => bail!("{namespace}: a pod that asks for {resource} is admitted"),
        Err(error) => error,
    };
    let status = told.downcast_ref::<Rejection>().map(|told| told.status);
    let text = told.to_string();
    let expected = [
        format!("exceeded quota: {CLOSED}"),
        format!("requested: requests.{resource}=1"),
        format!("limited: requests.{resource}=0"),
    ];
    let says = expected.iter().all(|part| text.contains(part.as_str()));
    ensure!(status == Some(403) && says, "{namespace}, {resource}: another refusal: {text}");
    Ok(())
}

/// One running GPU pod with a controller in each namespace that the plan gives something.
fn planned(api: &Api, plan: &Value) -> Result<Vec<Value>> {
    let granted = plan["quotas"].as_array().into_iter().flatten().filter(|quota| quota["hard"] != 0);
    let mut namespaces = granted.filter_map(|quota| quota["namespace"].as_str()).collect::<Vec<_>>();
    namespaces.sort_unstable();
    namespaces.dedup();
    let mut pods = Vec::new();
    for namespace in namespaces {
        let list = api.get(&format!("/api/v1/namespaces/{namespace}/pods"))?;
        let found = items(&list).find(|pod| {
            let asks =
                pod["spec"]["containers"].as_array().into_iter().flatten().any(|container| {
                    super::gpu_stack::gpus(&container["resources"]["limits"]).next().is_some()
                });
            let kind = &pod["metadata"]["ownerReferences"][0]["kind"];
            // A Job counts a deleted pod as a failed one.
            asks && is(pod, "Ready") && (kind == "ReplicaSet" || kind == "StatefulSet")
        });
        pods.extend(found.cloned());
    }
    Ok(pods)
}

/// A planned pod that goes comes back: its controller's new one is admitted, finds a node and runs.
fn admits(api: &Api, pod: &Value) -> Result<()> {
    let namespace = pod["metadata"]["namespace"].as_str().unwrap_or_default().to_owned();
    let owner = &pod["metadata"]["ownerReferences"][0]["uid"];
    let ready = |pods: &Value| {
        let ours = items(pods).filter(|pod| pod["metadata"]["ownerReferences"][0]["uid"] == *owner);
        ours.filter(|pod| is(pod, "Ready")).map(|pod| pod["metadata"]["uid"].clone()).collect::<Vec<_>>()
    };
    let path = format!("/api/v1/namespaces/{namespace}/pods");
    let before = ready(&api.get(&path)?).len();
    api.delete(&format!("{path}/{}", name(pod)), &json!({}))?;
    until(&format!("a new pod in the place of {}", path_name(pod)), LIMIT, |seen| {
        let pods = api.get(&path)?;
        let now = ready(&pods);
        *seen = format!("{} of {before} are ready", now.len());
        Ok((now.len() >= before && !now.contains(&pod["metadata"]["uid"])).then_some(()))
    })
}
