//! Steps 40: the requests of workloads, namespace by namespace.

use std::collections::{BTreeMap, BTreeSet};

use tesela_model::plan::{Assignment, PlannedPool};
use tesela_model::resource::GpuResource;

use super::name::file_stem;
use super::script::Script;
use super::template::Edit;
use super::{Context, File, Step};

/// What must happen to the requests of one workload.
pub(super) struct Request<'a> {
    pub(super) namespace: &'a str,
    pub(super) kind: &'a str,
    pub(super) name: &'a str,
    /// What its pods request today, where that must change.
    from: BTreeSet<&'a GpuResource>,
    /// What they shall request.
    to: BTreeSet<&'a GpuResource>,
    /// Devices per pod.
    devices: BTreeSet<u32>,
    /// Pods.
    pods: u64,
    /// The pool they must select, where the resource alone does not tell.
    pool: Option<&'a str>,
    /// The tenant whose taint they must tolerate.
    tenant: Option<&'a str>,
    /// The pools are several, so no selector can be set.
    open: bool,
}

/// The pools that an assignment may be in.
fn pools_of<'a>(context: &Context<'a>, a: &Assignment) -> Vec<&'a PlannedPool> {
    let fits = |p: &&PlannedPool| {
        p.product == a.product
            && p.mode == a.mode
            && (a.node.as_ref().is_none_or(|n| p.nodes.contains(n)))
            && (p.replicas == a.replicas || p.replicas.is_none())
    };
    context.plan.pools.iter().filter(fits).collect()
}

/// Every workload whose object must change, by namespace, kind and name.
pub(super) fn all<'a>(context: &Context<'a>) -> Vec<Request<'a>> {
    let mut groups: BTreeMap<(&str, &str, &str), Vec<&Assignment>> = BTreeMap::new();
    for a in &context.plan.assignments {
        groups.entry((&a.namespace, &a.kind, &a.workload)).or_default().push(a);
    }
    let ambiguous = ambiguous(context);
    let mut out = Vec::new();
    for ((namespace, kind, name), group) in groups {
        let changed = |a: &&Assignment| a.request_today.as_ref().filter(|r| **r != a.resource).cloned();
        let from: BTreeSet<_> =
            group.iter().filter_map(|a| a.request_today.as_ref().filter(|r| **r != a.resource)).collect();
        let to: BTreeSet<_> = group.iter().map(|a| &a.resource).collect();
        let pools: Vec<Vec<_>> = group.iter().map(|a| pools_of(context, a)).collect();
        let single: BTreeSet<_> = pools.iter().flatten().map(|p| p.name.as_str()).collect();
        let tenants: BTreeSet<_> = pools.iter().flatten().filter_map(|p| p.tenant.as_deref()).collect();
        // Work that exists and whose request changes, or that must get into a fenced pool.
        let exists = !from.is_empty() || group.iter().any(|a| a.staying > 0);
        let fenced = exists && !tenants.is_empty();
        if from.is_empty() && !fenced {
            continue;
        }
        let needs_pool = fenced || to.iter().any(|r| ambiguous.contains(*r));
        let labelled = |pool: &&str| {
            context
                .nodes
                .iter()
                .filter(|n| n.pools.iter().any(|p| p.name == **pool))
                .all(|n| n.pools.len() == 1)
        };
        let one_pool = single.iter().next().copied().filter(|_| single.len() == 1).filter(labelled);
        out.push(Request {
            namespace,
            kind,
            name,
            pods: group.iter().filter(|a| fenced || changed(a).is_some()).map(|a| a.count).sum(),
            from,
            to,
            devices: group.iter().map(|a| a.gpus).collect(),
            pool: one_pool.filter(|_| needs_pool),
            tenant: tenants.iter().next().copied().filter(|_| tenants.len() == 1),
            open: needs_pool && one_pool.is_none(),
        });
    }
    out
}

/// Resources that more than one pool offers, so that the resource alone does not say where a pod goes.
fn ambiguous<'a>(context: &Context<'a>) -> BTreeSet<&'a GpuResource> {
    let mut pools: BTreeMap<&GpuResource, BTreeSet<&str>> = BTreeMap::new();
    for a in &context.plan.assignments {
        pools.entry(&a.resource).or_default().extend(pools_of(context, a).iter().map(|p| p.name.as_str()));
    }
    pools.into_iter().filter(|(_, p)| p.len() > 1).map(|(r, _)| r).collect()
}

/// How a kind's pod template is reached: the type for kubectl, where the pod spec is. `None`: not known, or not
/// changeable in place.
fn reach(kind: &str) -> Option<(&'static str, &'static str)> {
    const TEMPLATE: &str = "/spec/template/spec";
    Some(match kind {
        "Deployment" => ("deployments.apps", TEMPLATE),
        "StatefulSet" => ("statefulsets.apps", TEMPLATE),
        "DaemonSet" => ("daemonsets.apps", TEMPLATE),
        "ReplicaSet" => ("replicasets.apps", TEMPLATE),
        "ReplicationController" => ("replicationcontrollers", TEMPLATE),
        "CronJob" => ("cronjobs.batch", "/spec/jobTemplate/spec/template/spec"),
        _ => return None,
    })
}

impl Request<'_> {
    /// The edit, where the object can be patched.
    fn edit(&self) -> Option<(&'static str, Edit)> {
        let (kind, pod_spec) = reach(self.kind)?;
        let mut to = self.to.iter();
        let (Some(only), None) = (to.next(), to.next()) else { return None };
        let edit = Edit {
            pod_spec,
            from: self.from.iter().map(ToString::to_string).collect(),
            to: only.to_string(),
            one: self.devices.iter().all(|d| *d == 1),
            pool: self.pool.map(str::to_owned),
            tenant: self.tenant.map(str::to_owned),
        };
        Some((kind, edit))
    }

    fn words(&self) -> String {
        let list = |set: &BTreeSet<&GpuResource>| {
            set.iter().map(|r| format!("`{r}`")).collect::<Vec<_>>().join(" and ")
        };
        let mut words = if self.from.is_empty() {
            format!("keeps {}", list(&self.to))
        } else {
            format!("{} → {}", list(&self.from), list(&self.to))
        };
        if let Some(pool) = self.pool {
            words.push_str(&format!(", selects tesela.dev/pool={pool}"));
        }
        if let Some(tenant) = self.tenant {
            words.push_str(&format!(", tolerates tesela.dev/tenant={tenant}"));
        }
        words
    }

    /// Why a person must do it, and how.
    fn by_hand(&self) -> String {
        let why = if self.to.len() > 1 {
            "The plan gives its pods different resources, and one pod template can ask for one only: split it in one \
             workload per resource, with the counts of the plan's assignments."
        } else {
            match self.kind {
                "Job" => {
                    "A Job's pod template cannot be changed: let it end or delete it, and create it again with the \
                          new request. A CronJob that makes it must be changed at the CronJob."
                }
                "Pod" => {
                    "The resources of a Pod cannot be changed, and nobody creates it again: delete it and create it \
                          again with the new request."
                }
                _ => {
                    "Where the pod template of this kind is, is known to its own controller only: change the request in \
                      the object that a person or a pipeline wrote."
                }
            }
        };
        format!("# {} {}/{}\n\n{}.\n\n{why}\n", self.kind, self.namespace, self.name, self.words())
    }
}

/// The steps: one per namespace.
pub(super) fn requests(context: &Context<'_>) -> Vec<Step> {
    let requests = all(context);
    requests
        .chunk_by(|a, b| a.namespace == b.namespace)
        .filter_map(|group| group.first().map(|first| step(context, first.namespace, group)))
        .collect()
}

fn step(context: &Context<'_>, namespace: &str, group: &[Request<'_>]) -> Step {
    let dir = format!("40-requests/{namespace}");
    let mut change = Script::new(2, context.stack_namespace(), &format!("Changes requests in {namespace}"));
    let mut verify =
        Script::new(2, context.stack_namespace(), &format!("Checks the requests in {namespace}"));
    let mut undo =
        Script::new(2, context.stack_namespace(), &format!("Takes the requests in {namespace} back"));
    let mut files = Vec::new();
    let mut notes = Vec::new();
    for request in group {
        let stem = file_stem(&format!("{}-{}", request.kind.to_lowercase(), request.name));
        let subject = format!("{} {}/{}", request.kind, namespace, request.name);
        match request.edit() {
            Some((kind, edit)) => {
                let (forth, back) = (format!("{stem}.gotmpl"), format!("{stem}.undo.gotmpl"));
                change.call("change_request", [namespace, kind, request.name, &forth]);
                verify.call("check_request", [namespace, kind, request.name, &forth]);
                undo.call("change_request", [namespace, kind, request.name, &back]);
                files.push(text_file(&dir, &forth, edit.forward()));
                files.push(text_file(&dir, &back, edit.back()));
                notes.push(format!("{subject}: {}.", request.words()));
                notes.extend(roll_out(request.kind, &subject));
            }
            None => {
                let file = format!("{stem}.md");
                for script in [&mut change, &mut undo] {
                    script.call("say", [format!("by hand: {subject}, see {file}")]);
                }
                verify.call("say", [format!("look yourself: {subject}, see {file}")]);
                files.push(text_file(&dir, &file, request.by_hand()));
                notes.push(format!("{subject}: {}; by hand, see {file}.", request.words()));
            }
        }
        if request.open {
            notes.push(format!(
                "{subject}: several pools offer what it requests, and it may use more than one of them, so no selector \
                 is set; the scheduler may put its pods elsewhere than the plan."
            ));
        }
    }
    notes.push(
        "The patch is made from the live object and touches only containers that request the former resource \
         (limits and requests). An operator, Helm or GitOps that keeps the object writes its own text back: change \
         it there too."
            .to_owned(),
    );
    files.extend([
        change.file(&dir, "change.sh"),
        verify.file(&dir, "verify.sh"),
        undo.file(&dir, "undo.sh"),
    ]);
    let pods: u64 = group.iter().map(|r| r.pods).sum();
    let (workloads, roll) = match group.len() {
        1 => ("1 workload".to_owned(), "rolls"),
        n => (format!("{n} workloads"), "roll"),
    };
    let pods = if pods == 1 { "1 pod".to_owned() } else { format!("{pods} pods") };
    Step {
        number: 40,
        dir,
        title: format!("Requests of {workloads} in {namespace}"),
        hits: format!("{workloads} {roll} out anew ({pods})"),
        blast: None,
        notes,
        files,
    }
}

fn roll_out(kind: &str, subject: &str) -> Option<String> {
    match kind {
        "ReplicaSet" | "ReplicationController" => Some(format!(
            "{subject}: where no Deployment owns it, its pods take the new request when they are created anew; delete \
             them one by one."
        )),
        "CronJob" => Some(format!("{subject}: from its next run on.")),
        _ => None,
    }
}

fn text_file(dir: &str, name: &str, text: String) -> File {
    File { path: format!("{dir}/{name}"), text, executable: false }
}
