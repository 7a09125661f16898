//! The requests of workloads, namespace by namespace in each stage.

use std::collections::{BTreeMap, BTreeSet};

use tesela_model::plan::{Assignment, PlannedPool};
use tesela_model::resource::GpuResource;

use super::journey::Journey;
use super::name::file_stem;
use super::script::Script;
use super::template::Edit;
use super::waves::{At, Roll, Stage};
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
    /// Pods that run today.
    today: usize,
    /// Who creates the pods of a ReplicaSet.
    owner: Owner,
    /// Whether some of it goes to hardware that is not there yet.
    new_nodes: bool,
    /// The pool they must select, where the resource alone does not tell.
    pool: Option<&'a str>,
    /// The tenant whose taint they must tolerate.
    tenant: Option<&'a str>,
    /// The pools are several, so no selector can be set.
    open: bool,
}

/// Who creates the pods of a ReplicaSet, going by the names of its pods: `NAME-HASH-SUFFIX` below a Deployment,
/// `NAME-SUFFIX` below a ReplicaSet of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    Deployment,
    ReplicaSet,
    /// No pod of it runs.
    Unknown,
}

fn owner(context: &Context<'_>, namespace: &str, kind: &str, name: &str) -> Owner {
    let mut pods = context.plan.restarting.iter();
    let pod = pods.find(|r| r.namespace == namespace && r.kind == kind && r.workload == name);
    let suffix = pod.and_then(|p| p.name.strip_prefix(name)?.strip_prefix('-'));
    match suffix {
        Some(suffix) if suffix.contains('-') => Owner::Deployment,
        Some(_) => Owner::ReplicaSet,
        None => Owner::Unknown,
    }
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
            today: context
                .plan
                .restarting
                .iter()
                .filter(|r| (&*r.namespace, &*r.kind, &*r.workload) == (namespace, kind, name))
                .count(),
            owner: owner(context, namespace, kind, name),
            new_nodes: group.iter().any(|a| a.node.is_none()),
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

    /// What people call it: a ReplicaSet that a Deployment owns by its Deployment.
    fn subject(&self) -> String {
        let kind = match (self.kind, self.owner) {
            ("ReplicaSet", Owner::Deployment) => "Deployment",
            (kind, _) => kind,
        };
        format!("{kind} {}/{}", self.namespace, self.name)
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
        format!("# {}\n\n{}.\n\n{why}\n", self.subject(), self.words())
    }
}

/// The steps of a stage: one per namespace, its workloads in the order of the stage.
pub(super) fn steps(
    context: &Context<'_>,
    journey: &Journey<'_>,
    stage: &Stage,
    all: &[Request<'_>],
) -> Vec<Step> {
    let by_key: BTreeMap<_, _> = all.iter().map(|r| ((r.namespace, r.kind, r.name), r)).collect();
    let mut groups: BTreeMap<&str, Vec<(&Request<'_>, &Roll)>> = BTreeMap::new();
    for roll in &stage.rolls {
        if let Some(request) = by_key.get(&journey.work(roll.work)) {
            groups.entry(request.namespace).or_default().push((request, roll));
        }
    }
    groups.iter().map(|(namespace, group)| step(context, journey, stage, namespace, group)).collect()
}

/// The scripts of a step and what they need.
struct Parts<'a> {
    dir: &'a str,
    namespace: &'a str,
    change: Script,
    verify: Script,
    undo: Script,
    files: Vec<File>,
    notes: Vec<String>,
}

fn step(
    context: &Context<'_>,
    journey: &Journey<'_>,
    stage: &Stage,
    namespace: &str,
    group: &[(&Request<'_>, &Roll)],
) -> Step {
    let dir = group.first().map_or("", |(_, roll)| journey.dir(At::Roll(roll.work)));
    let depth = dir.matches('/').count() + 1;
    let script = |what: &str| Script::new(depth, context.stack_namespace(), &format!("{what} {namespace}"));
    let mut parts = Parts {
        dir,
        namespace,
        change: script("Changes requests in"),
        verify: script("Checks the requests in"),
        undo: script("Takes back the requests in"),
        files: Vec::new(),
        notes: Vec::new(),
    };
    for (request, roll) in group {
        parts.add(request, &journey.names(&roll.restarts));
        if !roll.waits.is_empty() {
            parts.notes.push(format!(
                "{}: its new places are not all free yet ({}), and no order avoids it; some of its pods wait.",
                request.subject(),
                journey.nodes_of(&roll.waits)
            ));
        }
        let before = request.today.saturating_sub(roll.restarts.len());
        if before > 0 {
            let were =
                if before == 1 { "1 pod of it was".to_owned() } else { format!("{before} pods of it were") };
            parts.notes.push(format!(
                "{}: {were} evicted in an earlier step. What has started in their place since then restarts as well.",
                request.subject()
            ));
        }
    }
    parts.notes.extend(once_per_step(group));
    let rolls: Vec<usize> = group.iter().flat_map(|(_, roll)| roll.restarts.iter().copied()).collect();
    let restarts = journey.names(&rolls);
    let (workloads, roll) = match group.len() {
        1 => ("1 workload".to_owned(), "rolls"),
        n => (format!("{n} workloads"), "roll"),
    };
    let Parts { change, verify, undo, mut files, notes, .. } = parts;
    files.extend([change.file(dir, "change.sh"), verify.file(dir, "verify.sh"), undo.file(dir, "undo.sh")]);
    Step {
        number: Journey::number(stage),
        title: format!("Requests of {workloads} in {namespace}"),
        hits: format!("{workloads} {roll} out anew; running pods that restart: {}", restarts.len()),
        restarts,
        notes,
        files,
        ..Step::at(dir)
    }
}

impl Parts<'_> {
    /// One workload: by a patch, or by hand.
    fn add(&mut self, request: &Request<'_>, restarts: &[tesela_model::demand::PodRef]) {
        let stem = file_stem(&format!("{}-{}", request.kind.to_lowercase(), request.name));
        let subject = request.subject();
        let list =
            |set: &BTreeSet<&GpuResource>| set.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
        let (from, to) = (list(&request.from), list(&request.to));
        let (namespace, name) = (self.namespace, request.name);
        let Some((kind, edit)) = request.edit() else {
            let file = format!("{stem}.md");
            for script in [&mut self.change, &mut self.undo] {
                script.call("say", [format!("by hand: {subject}, see {file}")]);
            }
            self.verify.call("check_former", [namespace, name, &from]);
            self.files.push(text_file(self.dir, &file, request.by_hand()));
            self.notes.push(format!(
                "{subject}: {}; by hand, see {file}. Do it before you go on.",
                request.words()
            ));
            return;
        };
        let (forth, back) = (format!("{stem}.gotmpl"), format!("{stem}.undo.gotmpl"));
        let pods: Vec<_> = restarts.iter().map(|p| format!("{}/{}", p.namespace, p.name)).collect();
        self.change.call("change_request", [namespace, kind, name, &forth, &from, &pods.join("\n")]);
        self.verify.call("check_request", [namespace, kind, name, &forth, &from]);
        self.undo.call("change_request", [namespace, kind, name, &back, &to, ""]);
        self.files.push(text_file(self.dir, &forth, edit.forward()));
        self.files.push(text_file(self.dir, &back, edit.back()));
        self.notes.push(format!("{subject}: {}.", request.words()));
    }
}

/// What holds for several workloads of a step, said once.
fn once_per_step(group: &[(&Request<'_>, &Roll)]) -> Vec<String> {
    let named = |which: &dyn Fn(&Request<'_>, &Roll) -> bool| {
        let names: Vec<&str> = group.iter().filter(|(r, roll)| which(r, roll)).map(|(r, _)| r.name).collect();
        (!names.is_empty()).then(|| names.join(", "))
    };
    let names = |which: &dyn Fn(&Request<'_>) -> bool| named(&|r, _| which(r));
    let mut notes = Vec::new();
    let replica_set = |r: &Request<'_>, owner| r.kind == "ReplicaSet" && r.owner == owner;
    if let Some(names) = names(&|r| replica_set(r, Owner::ReplicaSet) || r.kind == "ReplicationController") {
        notes.push(format!(
            "{names}: no Deployment owns it, and its controller replaces no pod by itself. change.sh evicts the named \
             pods one by one and waits each time until as many pods are ready as before."
        ));
    }
    if let Some(names) = names(&|r| replica_set(r, Owner::Unknown)) {
        notes.push(format!(
            "{names}: no pod runs, so the plan does not tell whether a Deployment owns it; change.sh looks and changes \
             the Deployment if there is one."
        ));
    }
    if let Some(names) = named(&|r, roll| r.kind == "StatefulSet" && r.today == 1 && roll.restarts.len() == 1)
    {
        notes.push(format!(
            "{names}: a StatefulSet of one pod; it stops before the new one starts, so nothing of it runs for that moment."
        ));
    }
    if let Some(names) = names(&|r| r.kind == "CronJob") {
        notes.push(format!("{names}: from the next run on."));
    }
    if let Some(names) = names(&|r| r.new_nodes) {
        notes.push(format!("{names}: pods go to the new nodes of step 15; go on when those have joined."));
    }
    if let Some(names) = names(&|r| r.open) {
        notes.push(format!(
            "{names}: several pools offer what it requests, and it may use more than one of them, so no selector is set; \
             the scheduler may put its pods elsewhere than the plan."
        ));
    }
    notes.push(
        "The patch is made from the live object and touches only containers that request the former resource (limits \
         and requests). An operator, Helm or GitOps that keeps the object writes its own text back: change it there \
         too. A Deployment with the strategy Recreate stops all its pods before the new ones start."
            .to_owned(),
    );
    notes
}

fn text_file(dir: &str, name: &str, text: String) -> File {
    File { path: format!("{dir}/{name}"), text, executable: false }
}
