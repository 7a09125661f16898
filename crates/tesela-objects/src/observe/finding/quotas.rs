//! Namespaces that no ResourceQuota keeps from taking every GPU.

use std::collections::{BTreeMap, BTreeSet};

use tesela_model::finding::Severity;
use tesela_model::resource::GpuResource;

use super::{Draft, EVERYTHING, Scene, counted, size, some_of};

pub(super) fn find(scene: &Scene<'_>, drafts: &mut Vec<Draft>) {
    if scene.nodes.is_empty() && scene.asking.is_empty() {
        return;
    }
    if !scene.has_quotas {
        drafts.push(Draft {
            severity: Severity::Info,
            rule: "quotas-not-in-input",
            subject: EVERYTHING.to_owned(),
            message:
                "the input has no ResourceQuota objects, so whether namespaces have GPU quotas is not known"
                    .to_owned(),
            fix: "run `kubectl get nodes,pods,resourcequotas -A -o json`".to_owned(),
            gpus: 0,
        });
        return;
    }
    let mut limited = BTreeMap::<&str, BTreeSet<&GpuResource>>::new();
    for (name, quota) in scene.quotas.iter().filter(|(_, quota)| !quota.record.scoped) {
        limited.entry(&name.namespace).or_default().extend(quota.record.hard.keys());
    }
    let mut held = BTreeMap::<(&str, &GpuResource), u64>::new();
    for workload in &scene.demand.workloads {
        if let Some(request) = &workload.request {
            let devices = workload.count.saturating_mul(u64::from(workload.gpus));
            *held.entry((&workload.key.namespace, request)).or_default() += devices;
        }
    }
    let mut idle_gaps = Vec::new();
    for namespace in scene.namespaces {
        let covered = limited.get(namespace.as_str());
        let open = scene.resources.iter().filter(|r| !covered.is_some_and(|c| c.contains(r)));
        let open = open.collect::<Vec<_>>();
        let used = open.iter().filter_map(|r| Some((*r, *held.get(&(namespace.as_str(), *r))?)));
        let used = used.collect::<Vec<_>>();
        if !used.is_empty() {
            drafts.push(gap(namespace, &used, &open));
        } else if !open.is_empty() {
            idle_gaps.push(namespace.as_str());
        }
    }
    if !idle_gaps.is_empty() {
        drafts.push(Draft {
            severity: Severity::Info,
            rule: "quota-gap-unused",
            subject: EVERYTHING.to_owned(),
            message: format!(
                "{} ask for no GPU today, and no quota keeps them from it for every GPU resource name: {}",
                counted(size(idle_gaps.len()), "namespace"),
                some_of(idle_gaps.iter().copied())
            ),
            fix: "set a quota of 0 for each GPU resource name there; the plan's quotas are such a closed set"
                .to_owned(),
            gpus: 0,
        });
    }
}

fn gap(namespace: &str, used: &[(&GpuResource, u64)], open: &[&GpuResource]) -> Draft {
    let asked = used.iter().map(|(resource, n)| format!("{n} {resource}")).collect::<Vec<_>>().join(", ");
    let open = open.iter().map(ToString::to_string).collect::<Vec<_>>();
    Draft {
        severity: Severity::Warning,
        rule: "quota-gap",
        subject: format!("Namespace/{namespace}"),
        message: format!(
            "pods of {namespace} ask for {asked} and no ResourceQuota limits it; without a limit there: {}",
            some_of(open.iter().map(String::as_str))
        ),
        fix: format!("kubectl -n {namespace} create quota gpus --hard=requests.{}={}", used[0].0, used[0].1),
        gpus: used.iter().map(|(_, n)| n).sum(),
    }
}
