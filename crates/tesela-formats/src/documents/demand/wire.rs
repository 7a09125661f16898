//! A Demand document as written.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;
use tesela_model::demand::{Isolation, LabelOperator, TenantClass};
use tesela_model::fleet::Mode;

use crate::documents::fleet::wire::Effect;
use crate::documents::scalar::{
    Cpu, Duration, DutyText, Memory, Percentile, Positive, Signed, Uncertain, Whole,
};
use crate::source::Located;

/// Tenants and what they run. Beside a cluster's JSON it refines what was observed: fields written replace,
/// what is not named stays, new workloads are added.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct DemandSpec {
    /// Tenants: sets of namespaces. A namespace of no tenant is a tenant of its own name.
    #[serde(default)]
    pub(super) tenants: Vec<Located<TenantEntry>>,
    /// Workloads: pods that are alike.
    #[serde(default)]
    pub(super) workloads: Vec<Located<WorkloadEntry>>,
}

/// A set of namespaces with a class and quotas.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct TenantEntry {
    /// Its name.
    pub(super) name: Located<String>,
    /// Its namespaces; one belongs to one tenant at most.
    #[serde(default)]
    pub(super) namespaces: Option<Vec<Located<String>>>,
    /// `regulated`: every workload needs at least its own instance. Default: `standard`.
    #[serde(default)]
    pub(super) class: Option<Located<TenantClass>>,
    /// At most so many devices of each resource in all its namespaces, such as `nvidia.com/gpu: 4`. Default: what
    /// the plan grants.
    #[serde(default)]
    pub(super) quota: Option<BTreeMap<Located<String>, Located<Whole>>>,
}

/// Pods that are alike. Each uncertain value (`gpuMemory`, `isolation`, `duty`, `compute`, `interactive`) may be written plain,
/// or as {value: …, origin: measured}.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct WorkloadEntry {
    /// The owner's name, such as that of the Deployment.
    pub(super) name: Located<String>,
    /// Its namespace.
    pub(super) namespace: Located<String>,
    /// The owner's kind. Default: that of the only observed workload of this name, else `Deployment`.
    #[serde(default)]
    pub(super) kind: Option<Located<String>>,
    /// Whose it is. Default: the tenant that owns the namespace, else the namespace.
    #[serde(default)]
    pub(super) tenant: Option<Located<String>>,
    /// Pods, running and wanted; 0 = it goes away. Default for a new workload: 1.
    #[serde(default)]
    pub(super) count: Option<Located<Whole>>,
    /// GPUs or devices of each pod, 1 to 1,024. Default: 1.
    #[serde(default)]
    pub(super) gpus: Option<Located<Positive>>,
    /// Whether all its pods must be on one node. Default: false.
    #[serde(default)]
    pub(super) same_node: Option<bool>,
    /// CPU of one pod, in cores: `8` or `500m`. Default: 0.
    #[serde(default)]
    pub(super) cpu: Option<Located<Cpu>>,
    /// Main memory of one pod, with its unit: `32Gi`. Default: 0.
    #[serde(default)]
    pub(super) memory: Option<Located<Memory>>,
    /// Labels that the node must have. Default: any node.
    #[serde(default)]
    pub(super) node_selector: Option<BTreeMap<Located<String>, Located<String>>>,
    /// Required node affinity as Kubernetes writes its `nodeSelectorTerms`: any one term must hold. Default: any node.
    #[serde(default)]
    pub(super) affinity: Option<Vec<Located<Term>>>,
    /// Taints that its pods tolerate. Default: none.
    #[serde(default)]
    pub(super) tolerations: Option<Vec<Located<TolerationEntry>>>,
    /// At most so many of its pods on one node. Default: no limit.
    #[serde(default)]
    pub(super) max_pods_per_node: Option<Located<Positive>>,
    /// What its pods ask for now, such as `nvidia.com/gpu`. Default: not known.
    #[serde(default)]
    pub(super) request: Option<Located<String>>,
    /// GPU memory that one pod needs on each of its GPUs, with its unit: `9Gi`. What the model and its cache
    /// need, not what the server reserves. Default: not known.
    #[serde(default)]
    pub(super) gpu_memory: Option<Located<Uncertain<Memory>>>,
    /// What it must not share: `device` (nothing), `instance` (its MIG instance), `tenant` (only with its own
    /// tenant's work), `none`. Default: not said.
    #[serde(default)]
    pub(super) isolation: Option<Located<Uncertain<Isolation>>>,
    /// Latency that it promises its callers. Work with a promise never takes turns. Default: none.
    #[serde(default)]
    pub(super) slo: Option<Located<SloEntry>>,
    /// Share of the time a pod has work on the GPU: `10%` or 0.1. Default: not known.
    #[serde(default)]
    pub(super) duty: Option<Located<Uncertain<DutyText>>>,
    /// Least part of a whole GPU's compute that one pod needs: `60%` or 0.6. An instance with fewer compute slices will
    /// not do. Default: not known, and then memory alone decides.
    #[serde(default)]
    pub(super) compute: Option<Located<Uncertain<DutyText>>>,
    /// A way of sharing that you have chosen; the plan then only checks it. Default: the plan decides.
    #[serde(default)]
    pub(super) mode: Option<Located<Mode>>,
    /// A MIG profile that you have chosen, such as `1g.10gb`. Default: the plan decides.
    #[serde(default)]
    pub(super) profile: Option<Located<String>>,
    /// Products that will do, by table id or exact NVML name. Default: any.
    #[serde(default)]
    pub(super) products: Option<Vec<Located<String>>>,
    /// Higher goes first. Default: 0.
    #[serde(default)]
    pub(super) priority: Option<Located<Signed>>,
    /// Whether running pods may be restarted elsewhere. Default: true.
    #[serde(default)]
    pub(super) movable: Option<bool>,
    /// Whether a person works with it directly (a notebook). Default: not known.
    #[serde(default)]
    pub(super) interactive: Option<Located<Uncertain<bool>>>,
}

/// Latency that a workload promises its callers.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct SloEntry {
    /// Which of the calls: `p99` = 99 of 100.
    pub(super) percentile: Located<Percentile>,
    /// Within this time: `200ms` or `1.5s`.
    pub(super) latency: Located<Duration>,
}

/// A term of a node affinity: all its rules must hold.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Term {
    /// Rules about labels.
    #[serde(default)]
    pub(super) match_expressions: Vec<Located<Rule>>,
    /// Rules about fields; only `metadata.name` exists.
    #[serde(default)]
    pub(super) match_fields: Vec<Located<Rule>>,
}

/// A rule about one label or field.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Rule {
    /// The label.
    pub(super) key: Located<String>,
    /// What must hold.
    pub(super) operator: Located<Operator>,
    /// `In`, `NotIn`: at least one; `Gt`, `Lt`: one whole number; else none.
    #[serde(default)]
    pub(super) values: Vec<Located<String>>,
}

/// Operators of node affinity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
pub(crate) enum Operator {
    /// One of the values.
    In,
    /// None of the values, or absent.
    NotIn,
    /// Present.
    Exists,
    /// Absent.
    DoesNotExist,
    /// A whole number above the value.
    Gt,
    /// A whole number below the value.
    Lt,
}

impl From<Operator> for LabelOperator {
    fn from(operator: Operator) -> Self {
        match operator {
            Operator::In => Self::In,
            Operator::NotIn => Self::NotIn,
            Operator::Exists => Self::Exists,
            Operator::DoesNotExist => Self::DoesNotExist,
            Operator::Gt => Self::Gt,
            Operator::Lt => Self::Lt,
        }
    }
}

/// A toleration, as Kubernetes writes it.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct TolerationEntry {
    /// The taint's key. Empty only with `Exists`: every taint.
    #[serde(default)]
    pub(super) key: Option<Located<String>>,
    /// Default: `Equal`.
    #[serde(default)]
    pub(super) operator: Option<Located<TolerationOperator>>,
    /// The taint's value, for `Equal`. Default: empty.
    #[serde(default)]
    pub(super) value: Option<Located<String>>,
    /// Default: every effect.
    #[serde(default)]
    pub(super) effect: Option<Located<Effect>>,
}

/// How a toleration compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
pub(crate) enum TolerationOperator {
    /// Key and value are equal.
    Equal,
    /// The key is there.
    Exists,
}
