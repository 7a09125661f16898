//! GPUs that are held: by pods that do not use them, by notebooks, by requests that buy nothing.

use std::collections::{BTreeMap, BTreeSet};

use tesela_model::demand::{PodRef, WorkloadKey};
use tesela_model::finding::Severity;
use tesela_model::fleet::{MigStrategy, Offer};
use tesela_model::resource::{GpuDevice, GpuResource};

use super::{Draft, EVERYTHING, Scene, counted, size, some_of, verb};
use crate::observe::node::Observed;
use crate::observe::pod::{GpuPod, PodRecord, Trouble};
use crate::observe::workload::{self, Pods, main_ask};

pub(super) fn find(scene: &Scene<'_>, drafts: &mut Vec<Draft>) {
    held_in_vain(scene, drafts);
    for (key, pods) in scene.workloads() {
        drafts.extend(notebook(scene, &key, &pods));
        drafts.extend(two_shares(scene, &key, &pods));
        drafts.extend(two_instances(&key, &pods));
        drafts.extend(two_names(&key, &pods));
    }
    drafts.extend(need_unknown(scene));
    drafts.extend(rules_not_looked_at(scene));
    refused(scene, drafts);
    not_counted(scene, drafts);
}

/// Devices that pods of one workload hold without using them, for one cause.
struct Vain<'a> {
    pods: Vec<&'a PodRef>,
    nodes: BTreeSet<&'a str>,
    devices: u64,
    resource: &'a GpuResource,
    details: BTreeSet<String>,
}

fn held_in_vain(scene: &Scene<'_>, drafts: &mut Vec<Draft>) {
    let mut found = BTreeMap::<(WorkloadKey, &'static str), Vain<'_>>::new();
    for &(name, record, pod) in scene.asking {
        let (Some(node), Some((resource, _))) = (&record.node, main_ask(pod)) else {
            continue;
        };
        let Some((rule, detail)) = vain(pod).filter(|_| !record.operator) else {
            continue;
        };
        let entry = found.entry((workload::key(name, pod), rule)).or_insert_with(|| Vain {
            pods: Vec::new(),
            nodes: BTreeSet::new(),
            devices: 0,
            resource,
            details: BTreeSet::new(),
        });
        entry.pods.push(name);
        entry.nodes.insert(node);
        entry.devices = pod.asks.values().fold(entry.devices, |sum, n| sum.saturating_add(*n));
        entry.details.insert(detail);
    }
    for ((key, rule), vain) in found {
        let pods = some_of(vain.pods.iter().map(|p| p.name.as_str()));
        let (what, fix) = words(rule, &key, &vain.pods);
        drafts.push(Draft {
            severity: Severity::Warning,
            rule,
            subject: key.to_string(),
            message: format!(
                "{} {what} ({}) and {} {} {} on {}: {pods}",
                counted(size(vain.pods.len()), "pod"),
                some_of(vain.details.iter().map(String::as_str)),
                verb(vain.pods.len(), "holds", "hold"),
                vain.devices,
                vain.resource,
                some_of(vain.nodes.iter().copied()),
            ),
            fix,
            gpus: vain.devices,
        });
    }
}

fn vain(pod: &GpuPod) -> Option<(&'static str, String)> {
    if let Some(since) = &pod.deleted {
        return Some(("gpu-held-by-terminating-pod", format!("since {since}")));
    }
    Some(match pod.trouble.as_ref()? {
        Trouble::Ended { since, others } => {
            let since = since.as_deref().map(|s| format!(", ended {s}")).unwrap_or_default();
            ("gpu-held-by-ended-pod", format!("still running: {}{since}", others.join(", ")))
        }
        Trouble::Stuck { reason } => ("gpu-held-by-pod-that-cannot-start", reason.clone()),
        Trouble::Crashing { restarts } => ("gpu-held-by-crashing-pod", counted(*restarts, "restart")),
    })
}

fn words(rule: &str, key: &WorkloadKey, pods: &[&PodRef]) -> (&'static str, String) {
    let verb = |one, more| verb(pods.len(), one, more);
    let (of, name) = (format!("-n {}", key.namespace), pods.first().map_or("", |p| p.name.as_str()));
    // A pod without an owner cannot be scaled.
    let stop = match key.kind.as_str() {
        "Pod" => format!("kubectl {of} delete pod {name}"),
        _ => format!("scale {} to 0", key.name),
    };
    match rule {
        "gpu-held-by-terminating-pod" => (
            verb("is being deleted", "are being deleted"),
            format!(
                "if it stays: kubectl {of} describe pod {name} shows what holds it (finalizers, a lost node)"
            ),
        ),
        "gpu-held-by-ended-pod" => (
            verb(
                "has ended on the GPU while another container keeps it alive",
                "have ended on the GPU while another container keeps them alive",
            ),
            format!(
                "make the other container a sidecar (init container with restartPolicy Always), then kubectl {of} delete pod {name}"
            ),
        ),
        "gpu-held-by-pod-that-cannot-start" => (
            verb("cannot start", "cannot start"),
            format!("kubectl {of} describe pod {name}; mend it, or {stop}"),
        ),
        _ => (
            verb("crashes again and again", "crash again and again"),
            format!("kubectl {of} logs --previous {name}; mend it, or {stop}"),
        ),
    }
}

fn has_whole_gpus(observed: &Observed) -> bool {
    observed.node.gpus.iter().any(|gpu| gpu.offer == Offer::Exclusive)
}

fn devices(pods: &[(&PodRef, &PodRecord, &GpuPod)]) -> u64 {
    pods.iter().filter_map(|(_, _, pod)| main_ask(pod)).map(|(_, n)| u64::from(n)).sum()
}

/// A notebook works for minutes a day and blocks a whole GPU.
fn notebook(scene: &Scene<'_>, key: &WorkloadKey, pods: &Pods<'_>) -> Option<Draft> {
    let plain = GpuResource::gpu();
    let whole = |(_, record, pod): &&(&PodRef, &PodRecord, &GpuPod)| {
        pod.notebook.is_some()
            && main_ask(pod).is_some_and(|(resource, _)| *resource == plain)
            && record.node.as_deref().and_then(|n| scene.node(n)).is_some_and(has_whole_gpus)
    };
    let pods = pods.iter().filter(whole).copied().collect::<Vec<_>>();
    let (_, _, first) = pods.first()?;
    let nodes = pods.iter().filter_map(|(_, record, _)| record.node.as_deref()).collect::<BTreeSet<_>>();
    let held = devices(&pods);
    Some(Draft {
        severity: Severity::Warning,
        rule: "notebook-holds-whole-gpu",
        subject: key.to_string(),
        message: format!(
            "{} taken for a notebook ({}) {} {} on {}",
            counted(size(pods.len()), "pod"),
            first.notebook.as_deref().unwrap_or_default(),
            verb(pods.len(), "holds", "hold"),
            counted(held, "whole GPU"),
            some_of(nodes),
        ),
        fix: "move it to a time-sliced pool or a small MIG profile: write the demand with --write-demand, set its gpuMemory and duty, plan again".to_owned(),
        gpus: held,
    })
}

/// Two shares of a GPU are not twice the GPU.
fn two_shares(scene: &Scene<'_>, key: &WorkloadKey, pods: &Pods<'_>) -> Option<Draft> {
    let shared = |record: &PodRecord, resource: &GpuResource| {
        resource.shared
            || record.node.as_deref().and_then(|n| scene.node(n)).is_some_and(|o| is_shared(o, resource))
    };
    let mut worst: Option<(u64, &GpuResource)> = None;
    let mut asking = Vec::new();
    for pod in pods {
        let over = pod.2.most.iter().filter(|(resource, n)| **n > 1 && shared(pod.1, resource));
        if let Some((resource, n)) = over.max_by_key(|(_, n)| **n) {
            worst = worst.max(Some((*n, resource)));
            asking.push(*pod);
        }
    }
    let (most, resource) = worst?;
    Some(Draft {
        severity: Severity::Warning,
        rule: "shared-replicas-above-one",
        subject: key.to_string(),
        message: format!(
            "a container of {} asks for {most} {resource}; each is a share of the same or another GPU, and {most} shares give no more time or memory than one",
            counted(size(asking.len()), "pod"),
        ),
        fix: format!("ask for 1 {resource}; for more than a share, ask for a MIG profile or a whole GPU"),
        gpus: devices(&asking),
    })
}

/// Whether a node offers shares under a name that does not say so.
fn is_shared(observed: &Observed, resource: &GpuResource) -> bool {
    observed.node.gpus.iter().any(|gpu| match (&gpu.offer, &resource.device) {
        (Offer::TimeSliced { .. } | Offer::Mps { .. }, GpuDevice::Gpu) => !observed.node.shares_renamed,
        (Offer::Mig { replicas, .. }, GpuDevice::Mig(profile)) => {
            replicas.contains_key(profile) && !resource.shared && !observed.node.shares_renamed
        }
        (Offer::Mig { replicas, .. }, GpuDevice::Gpu) => {
            observed.node.mig_strategy == MigStrategy::Single
                && !replicas.is_empty()
                && !observed.node.shares_renamed
        }
        _ => false,
    })
}

/// A CUDA process uses one MIG device, however many its container has.
fn two_instances(key: &WorkloadKey, pods: &Pods<'_>) -> Option<Draft> {
    let mig = |resource: &GpuResource| !resource.shared && matches!(resource.device, GpuDevice::Mig(_));
    let over = |pod: &&(&PodRef, &PodRecord, &GpuPod)| pod.2.most.iter().any(|(r, n)| *n > 1 && mig(r));
    let over = pods.iter().filter(over).copied().collect::<Vec<_>>();
    let (_, _, first) = over.first()?;
    let (resource, most) = first.most.iter().filter(|(r, _)| mig(r)).max_by_key(|(_, n)| **n)?;
    Some(Draft {
        severity: Severity::Warning,
        rule: "mig-devices-above-one",
        subject: key.to_string(),
        message: format!(
            "a container of {} asks for {most} {resource}; one CUDA process sees only one MIG device, and instances have no peer-to-peer",
            counted(size(over.len()), "pod"),
        ),
        fix: "ask for 1 of a larger profile, unless the container runs one process per device".to_owned(),
        gpus: devices(&over),
    })
}

fn two_names(key: &WorkloadKey, pods: &Pods<'_>) -> Option<Draft> {
    let both = pods.iter().filter(|(_, _, pod)| pod.asks.len() > 1).copied().collect::<Vec<_>>();
    let (_, _, first) = both.first()?;
    let names = first.asks.iter().map(|(name, n)| format!("{n} {name}")).collect::<Vec<_>>();
    Some(Draft {
        severity: Severity::Warning,
        rule: "two-gpu-resources",
        subject: key.to_string(),
        message: format!(
            "{} {} for {} at once; the plan counts {} as the request and keeps the rest as held",
            counted(size(both.len()), "pod"),
            verb(both.len(), "asks", "ask"),
            names.join(" and "),
            main_ask(first)?.0,
        ),
        fix: "give the pod one GPU resource, or two pods one each".to_owned(),
        gpus: devices(&both),
    })
}

/// A request for `nvidia.com/gpu` says what is allocated, never what is needed.
/// Rules of the scheduler that the plan does not keep, so that its seats may be refused.
fn rules_not_looked_at(scene: &Scene<'_>) -> Option<Draft> {
    let bound = scene
        .asking
        .iter()
        .filter(|(_, record, pod)| !pod.not_looked_at.is_empty() && workload::is_demand(record, pod));
    let rules =
        bound.clone().flat_map(|(_, _, pod)| pod.not_looked_at.iter().copied()).collect::<BTreeSet<_>>();
    let keys = bound.map(|(name, _, pod)| workload::key(name, pod).to_string()).collect::<BTreeSet<_>>();
    (!keys.is_empty()).then(|| Draft {
        severity: Severity::Warning,
        rule: "scheduling-rules-not-looked-at",
        subject: EVERYTHING.to_owned(),
        message: format!(
            "pods of {} are bound by {}, which plans do not look at: the scheduler may refuse what the plan gives them ({})",
            counted(size(keys.len()), "workload"),
            some_of(rules),
            some_of(keys.iter().map(String::as_str)),
        ),
        fix: "say the same in a Demand where it can be said: maxPodsPerNode for a spread over nodes, sameNode, nodeSelector"
            .to_owned(),
        gpus: 0,
    })
}

fn need_unknown(scene: &Scene<'_>) -> Option<Draft> {
    let only_gpu =
        |w: &&tesela_model::demand::Workload| w.request.as_ref().is_some_and(|r| r.device == GpuDevice::Gpu);
    let workloads = scene.demand.workloads.iter().filter(only_gpu).collect::<Vec<_>>();
    if workloads.is_empty() {
        return None;
    }
    let pods = workloads.iter().map(|w| w.count).sum::<u64>();
    let gpus = workloads.iter().map(|w| w.count.saturating_mul(u64::from(w.gpus))).sum::<u64>();
    let namespaces = workloads.iter().map(|w| w.key.namespace.as_str()).collect::<BTreeSet<_>>();
    Some(Draft {
        severity: Severity::Info,
        rule: "need-unknown",
        subject: EVERYTHING.to_owned(),
        message: format!(
            "{} of {} in {} ask for a number of devices ({gpus} nvidia.com/gpu in all) and say nothing of the memory they need; each keeps what it holds",
            counted(pods, "pod"),
            counted(size(workloads.len()), "workload"),
            some_of(namespaces),
        ),
        fix: "write the demand with --write-demand, put in the gpuMemory you know or measured (nvidia-smi, DCGM_FI_DEV_FB_USED), and plan again".to_owned(),
        gpus,
    })
}

/// The kubelet's refusals are final: such a pod is never tried again and stays behind.
fn refused(scene: &Scene<'_>, drafts: &mut Vec<Draft>) {
    let mut by_namespace = BTreeMap::<&str, Vec<(&str, &str)>>::new();
    for (name, dated) in scene.pods {
        if let Some(message) = &dated.record.refused {
            by_namespace.entry(&name.namespace).or_default().push((&name.name, message));
        }
    }
    for (namespace, pods) in by_namespace {
        let said = pods.iter().map(|(_, message)| *message).max().unwrap_or_default();
        drafts.push(Draft {
            severity: Severity::Warning,
            rule: "gpu-admission-refused",
            subject: format!("Namespace/{namespace}"),
            message: format!(
                "the kubelet refused {} for good (UnexpectedAdmissionError): {}; it says: {said}",
                counted(size(pods.len()), "pod"),
                some_of(pods.iter().map(|(name, _)| *name)),
            ),
            fix: format!("mend the cause (more than one share in one container is refused), then kubectl -n {namespace} delete pod {}", pods[0].0),
            gpus: size(pods.len()),
        });
    }
}

fn not_counted(scene: &Scene<'_>, drafts: &mut Vec<Draft>) {
    let claims = scene.pods.values().filter(|d| d.record.claims).count();
    if claims > 0 {
        drafts.push(Draft {
            severity: Severity::Info,
            rule: "resource-claims-not-counted",
            subject: EVERYTHING.to_owned(),
            message: format!(
                "{} use resource claims (DRA); which GPUs they hold is not in this input and not counted",
                counted(size(claims), "pod"),
            ),
            fix: "keep GPUs that DRA hands out on nodes of their own and leave those out of the input"
                .to_owned(),
            gpus: 0,
        });
    }
    let (nodes, pods) = scene.gone;
    if nodes + pods > 0 {
        drafts.push(Draft {
            severity: Severity::Info,
            rule: "earlier-snapshot-replaced",
            subject: EVERYTHING.to_owned(),
            message: format!(
                "{} and {} of an earlier snapshot are not in the later one and are taken as gone",
                counted(size(nodes), "node"),
                counted(size(pods), "pod"),
            ),
            fix: "nothing to do if the files are snapshots of one cluster, the latest last".to_owned(),
            gpus: 0,
        });
    }
}
