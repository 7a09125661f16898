//! What `kubectl get nodes,pods -A -o json` prints → fleet, demand and findings.
//!
//! [`Observer`] reads inputs as streams: of each object it keeps a few fields and forgets the rest, so that memory
//! grows with the nodes and pods that have GPUs and not with the size of the input. Nothing of a pod's environment
//! or annotations is ever held. The answer does not depend on the order of the objects in a list.
//!
//! | step | module |
//! | --- | --- |
//! | JSON, item by item | `document`, `wire` |
//! | pod → record: owner, request, trouble | `pod` |
//! | node → GPUs and how they are offered | `node`, `cut` |
//! | pods → workloads | `workload` |
//! | several snapshots → a series | `series` |
//! | images and arguments → servers that reserve memory | `server` |
//! | what is wrong today | `finding` and its parts |

mod cut;
mod document;
mod error;
mod finding;
mod node;
mod pod;
mod series;
mod server;
mod wire;
mod workload;

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;

use tesela_model::demand::{Demand, PodRef, WorkloadKey};
use tesela_model::finding::Finding;
use tesela_model::fleet::{Fleet, Node};
use tesela_model::product::ProductTable;
use tesela_model::quantity::{Bytes, MilliCpu, parse_quantity};
use tesela_model::resource::GpuResource;
use tesela_model::server::Server;
use tesela_model::usage::PodLife;

pub use self::error::ObserveError;

use self::cut::Cutter;
use self::document::{Object, Sink, read_input};
use self::finding::Scene;
use self::node::{NodeRecord, Observed};
use self::pod::PodRecord;
use self::series::Series;
use self::wire::QuotaSpec;

/// Namespaces of Kubernetes itself; they get no quotas.
const SYSTEM_NAMESPACES: [&str; 3] = ["kube-system", "kube-public", "kube-node-lease"];

/// Choices of the person who asks.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Label of pods whose value is the tenant; where it is absent or empty the namespace is.
    pub tenant_label: Option<String>,
    /// Whether nodes come from elsewhere (a Fleet document), so that pods alone will do.
    pub nodes_elsewhere: bool,
}

/// What a cluster is now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Observation {
    /// Nodes with GPUs. `buy` and headroom are not the cluster's to say and stay empty.
    pub fleet: Fleet,
    /// What pods ask for and hold.
    pub demand: Demand,
    /// What is wrong or not known, the gravest first.
    pub findings: Vec<Finding>,
    /// Nodes seen, also those without GPUs.
    pub nodes: usize,
    /// Pods seen, also those without GPUs and those that ended.
    pub pods: usize,
    /// Workloads that run a server which reserves GPU memory before it needs it.
    pub servers: BTreeMap<WorkloadKey, Server>,
    /// When pods with GPUs started, and which of them fail.
    pub lives: BTreeMap<PodRef, PodLife>,
    /// Pods of earlier snapshots that held GPUs; some of them may be there still. A name may have had several lives.
    pub earlier: BTreeMap<PodRef, Vec<HeldBefore>>,
}

/// What a pod of an earlier snapshot held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldBefore {
    /// Its workload.
    pub workload: WorkloadKey,
    /// Its node.
    pub node: String,
    /// What it asked for.
    pub resource: GpuResource,
    /// When it started, in milliseconds since 1970 (UTC), as far as that snapshot says.
    pub started_ms: Option<i64>,
}

/// An object's record, and the document it came from last.
#[derive(Debug)]
struct Dated<T> {
    document: u32,
    /// `resourceVersion`, where the input has it.
    version: Option<String>,
    record: T,
}

/// A ResourceQuota that speaks of GPUs.
#[derive(Debug)]
struct QuotaRecord {
    hard: BTreeMap<GpuResource, u64>,
    /// Bound to some pods only, so that it does not cover the namespace.
    scoped: bool,
}

/// Reads one or several inputs of one cluster.
///
/// An object in a later document (a list, or a single object) replaces the same object of an earlier one. A list that
/// repeats pods or nodes is a later snapshot of them: what it covers and no longer has is gone. Lists that repeat
/// nothing are parts of one snapshot. Of several snapshots the last is today, and each workload is demanded with the
/// most pods that it had at once in any of them.
#[derive(Debug)]
pub struct Observer<'t> {
    table: &'t ProductTable,
    options: Options,
    files: Vec<String>,
    state: State,
}

#[derive(Debug, Default)]
struct State {
    tenant_label: Option<String>,
    document: u32,
    nodes: BTreeMap<String, Dated<Option<NodeRecord>>>,
    pods: BTreeMap<PodRef, Dated<PodRecord>>,
    quotas: BTreeMap<PodRef, Dated<QuotaRecord>>,
    namespaces: BTreeSet<String>,
    /// Whether any ResourceQuota object was in the input.
    has_quotas: bool,
    /// Nodes, and pods by namespace, that the current document repeats.
    repeats: (usize, BTreeMap<String, usize>),
    gone: (usize, usize),
    series: Series,
}

impl<'t> Observer<'t> {
    /// An observer that knows the products of `table`.
    #[must_use]
    pub fn new(table: &'t ProductTable, options: Options) -> Self {
        let state = State { tenant_label: options.tenant_label.clone(), ..State::default() };
        Self { table, options, files: Vec::new(), state }
    }

    /// Reads one input to its end. `name` stands in messages for the file.
    ///
    /// # Errors
    /// [`ObserveError`] with file, line and column when the input is no JSON of Kubernetes objects. The observer is
    /// then of no further use.
    pub fn read(&mut self, name: &str, reader: impl Read) -> Result<(), ObserveError> {
        self.files.push(name.to_owned());
        read_input(name, reader, &mut self.state)
    }

    /// Puts together what was read.
    ///
    /// # Errors
    /// [`ObserveError::NoNodes`] when there are no nodes and none come from elsewhere.
    pub fn finish(self) -> Result<Observation, ObserveError> {
        let state = self.state;
        let (nodes, pods) = (state.nodes.len(), state.pods.len());
        if nodes == 0 && !self.options.nodes_elsewhere {
            return Err(ObserveError::NoNodes { files: self.files.join(", "), pods });
        }
        Ok(assemble(state, self.table))
    }
}

fn assemble(state: State, table: &ProductTable) -> Observation {
    let mut drafts = Vec::new();
    let (nodes, pods) = (state.nodes.len(), state.pods.len());
    let resources = resources(&state);
    let namespaces = namespaces(&state);
    let mut cutter = Cutter::default();
    let mut observed = Vec::<Observed>::new();
    for (name, dated) in state.nodes {
        let Some(record) = dated.record else { continue };
        observed.extend(node::observe(&name, record, table, &mut cutter, &mut drafts));
    }
    let asking = state.pods.iter().filter_map(|(name, d)| Some((name, &d.record, d.record.gpu.as_deref()?)));
    let asking = asking.collect::<workload::Pods<'_>>();
    let demand = workload::demand(&asking, &mut drafts);
    let earlier = state.series.pods.clone();
    let demand = state.series.raise(demand, &mut drafts);
    let servers = workload::servers(&asking);
    let lives = asking.iter().map(|&(name, _, pod)| (name.clone(), pod.life())).collect();
    take_from_nodes(&mut observed, &state.pods, &asking);
    let scene = Scene {
        table,
        nodes: &observed,
        asking: &asking,
        pods: &state.pods,
        demand: &demand,
        quotas: &state.quotas,
        has_quotas: state.has_quotas,
        namespaces: &namespaces,
        resources: &resources,
        held: finding::held(&asking),
        gone: state.gone,
    };
    finding::find(&scene, &mut cutter, &mut drafts);
    let nodes_of_gpus = observed.into_iter().map(|o| o.node).collect();
    let fleet = Fleet {
        nodes: nodes_of_gpus,
        has_nodes: nodes > 0,
        operator_namespace: operator_namespace(&state.pods),
        namespaces,
        quotas_in_force: quotas_in_force(&state.quotas),
        resources,
        ..Fleet::default()
    };
    Observation { fleet, demand, findings: finding::ordered(drafts), nodes, pods, servers, lives, earlier }
}

/// CPU, memory and devices on GPU nodes that belong to no workload of the demand.
fn take_from_nodes(
    observed: &mut [Observed],
    pods: &BTreeMap<PodRef, Dated<PodRecord>>,
    asking: &workload::Pods<'_>,
) {
    let mut others = workload::held_by_others(asking);
    let mut nodes =
        observed.iter_mut().map(|o| (o.node.name.clone(), &mut o.node)).collect::<BTreeMap<_, &mut Node>>();
    for (name, node) in &mut nodes {
        node.held_by_others = others.remove(name).unwrap_or_default();
    }
    for dated in pods.values() {
        let record = &dated.record;
        if record.gpu.as_deref().is_some_and(|pod| workload::is_demand(record, pod)) {
            continue;
        }
        if let Some(node) = record.node.as_ref().and_then(|name| nodes.get_mut(name)) {
            node.cpu_taken = MilliCpu(node.cpu_taken.0.saturating_add(record.cpu.0));
            node.memory_taken = Bytes(node.memory_taken.0.saturating_add(record.memory.0));
            node.pods_taken += 1;
        }
    }
}

/// What a pod's request must stay below: quotas of one namespace all count, those with a scope bind only some pods.
fn quotas_in_force(quotas: &BTreeMap<PodRef, Dated<QuotaRecord>>) -> BTreeMap<(String, GpuResource), u64> {
    let mut lowest = BTreeMap::new();
    for (name, quota) in quotas.iter().filter(|(_, quota)| !quota.record.scoped) {
        for (resource, hard) in &quota.record.hard {
            let entry = lowest.entry((name.namespace.clone(), resource.clone())).or_insert(*hard);
            *entry = (*entry).min(*hard);
        }
    }
    lowest
}

/// Every GPU resource name that a node, a pod or a quota knows.
fn resources(state: &State) -> BTreeSet<GpuResource> {
    let of_nodes = state.nodes.values().filter_map(|d| d.record.as_ref()).flat_map(NodeRecord::names);
    let of_pods = state.pods.values().flat_map(|d| &d.record.names);
    let of_quotas = state.quotas.values().flat_map(|d| d.record.hard.keys());
    of_nodes.chain(of_pods).chain(of_quotas).cloned().collect()
}

/// The namespace in which most of the GPU Operator's pods are.
fn operator_namespace(pods: &BTreeMap<PodRef, Dated<PodRecord>>) -> Option<String> {
    let mut count: BTreeMap<&str, usize> = BTreeMap::new();
    for (name, _) in pods.iter().filter(|(_, dated)| dated.record.operator) {
        *count.entry(&name.namespace).or_default() += 1;
    }
    let most = count.into_iter().max_by(|a, b| (a.1, b.0).cmp(&(b.1, a.0)));
    most.map(|(namespace, _)| namespace.to_owned())
}

/// Namespaces that teams use: not of Kubernetes, and not of the GPU Operator alone.
fn namespaces(state: &State) -> BTreeSet<String> {
    let mut all = state.namespaces.clone();
    let mut operators = BTreeSet::new();
    for (name, dated) in &state.pods {
        if dated.record.operator {
            operators.insert(name.namespace.clone());
        } else {
            all.insert(name.namespace.clone());
        }
    }
    // A namespace of which only the operator's pods are known is the operator's, also where it is listed by name.
    let teams = state.pods.iter().filter(|(_, d)| !d.record.operator).map(|(n, _)| n.namespace.as_str());
    let teams = teams.collect::<BTreeSet<_>>();
    all.retain(|n| {
        !SYSTEM_NAMESPACES.contains(&n.as_str())
            && !pod::OPERATOR_NAMESPACES.contains(&n.as_str())
            && (teams.contains(n.as_str()) || !operators.contains(n))
    });
    all
}

impl Sink for State {
    fn begin(&mut self) {
        self.document += 1;
        self.repeats = (0, BTreeMap::new());
        self.series.begin();
    }

    fn list(&mut self) {
        self.series.list = true;
    }

    fn take(&mut self, object: Object) -> Result<(), String> {
        match object {
            Object::Node(metadata, spec, status) => {
                let name = metadata.name.clone();
                self.series.time(metadata.creation_timestamp.as_deref());
                for condition in &status.conditions {
                    self.series.time(condition.last_heartbeat_time.as_deref());
                }
                let version = metadata.resource_version.clone();
                let record = node::record(metadata, spec, status);
                let dated = Dated { document: self.document, version, record };
                if let Some(before) = self.nodes.get(&name) {
                    self.series.node(same(before, &dated));
                }
                match self.nodes.insert(name.clone(), dated) {
                    Some(before) if before.document == self.document => Err(twice("Node", &name)),
                    before => {
                        self.repeats.0 += usize::from(before.is_some());
                        Ok(())
                    }
                }
            }
            Object::Pod(parts) => {
                let (metadata, spec, status) = *parts;
                let name = PodRef { namespace: metadata.namespace.clone(), name: metadata.name.clone() };
                let record = pod::record(&metadata, spec, &status, self.tenant_label.as_deref());
                self.series.time(metadata.creation_timestamp.as_deref());
                let dated = Dated { document: self.document, version: metadata.resource_version, record };
                let before = self.pods.get(&name);
                self.series.pod(&name.namespace, before.map(|before| same(before, &dated)));
                if before.is_some() && self.series.wants_census() {
                    self.series.census(&self.pods, self.document);
                }
                match self.pods.insert(name.clone(), dated) {
                    Some(before) if before.document == self.document => {
                        Err(twice("Pod", &format!("{}/{}", name.namespace, name.name)))
                    }
                    Some(_) => {
                        *self.repeats.1.entry(name.namespace).or_default() += 1;
                        Ok(())
                    }
                    None => Ok(()),
                }
            }
            Object::Quota(metadata, spec) => self.take_quota(metadata.namespace, metadata.name, spec),
            Object::Namespace(metadata) => {
                if metadata.deletion_timestamp.is_none() {
                    self.namespaces.insert(metadata.name);
                }
                Ok(())
            }
        }
    }

    fn end(&mut self, list: bool) {
        let (nodes, pods) = std::mem::take(&mut self.repeats);
        if !list {
            self.series.end(false);
            return;
        }
        let now = self.document;
        let before = (self.nodes.len(), self.pods.len());
        if nodes > 0 {
            self.nodes.retain(|_, d| d.document == now);
        }
        if !pods.is_empty() {
            // A list with pods of one namespace only may be a snapshot of that namespace; of several, of all.
            let all = self.series.namespaces() > 1;
            self.pods.retain(|name, d| d.document == now || !(all || pods.contains_key(&name.namespace)));
        }
        self.gone.0 += before.0 - self.nodes.len();
        self.gone.1 += before.1 - self.pods.len();
        self.series.end(before != (self.nodes.len(), self.pods.len()));
    }
}

/// Whether two records of one object are of one time: by the API server's version of it, else by what is kept.
fn same<T: PartialEq>(before: &Dated<T>, now: &Dated<T>) -> bool {
    match (&before.version, &now.version) {
        (Some(before), Some(now)) => before == now,
        _ => before.record == now.record,
    }
}

fn twice(kind: &str, name: &str) -> String {
    format!("{kind} `{name}` is in this list twice; names must be unique")
}

impl State {
    fn take_quota(&mut self, namespace: String, name: String, spec: QuotaSpec) -> Result<(), String> {
        self.has_quotas = true;
        let scoped = !spec.scopes.is_empty() || spec.scope_selector.is_some();
        let mut hard = BTreeMap::new();
        for (key, amount) in spec.hard {
            let resource =
                key.strip_prefix("requests.").or_else(|| key.strip_prefix("limits.")).unwrap_or(&key);
            let Ok(resource) = resource.parse::<GpuResource>() else {
                continue;
            };
            let told = |e| format!("ResourceQuota `{namespace}/{name}`, {key}: {e}");
            hard.insert(resource, parse_quantity(&amount.0).map_err(told)?);
        }
        let record = QuotaRecord { hard, scoped };
        let dated = Dated { document: self.document, version: None, record };
        self.quotas.insert(PodRef { namespace, name }, dated);
        Ok(())
    }
}
