//! The parts of Kubernetes objects that are read. Everything else, environment and annotations first of all, is
//! skipped while reading and never held.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use serde::de::{Error as _, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use tesela_model::quantity::{Bytes, MilliCpu, QuantityError, parse_quantity, parse_quantity_milli};
use tesela_model::resource::GpuResource;

/// Devices of one name that a node or pod can have at most. Far above every machine, and small enough that the sums
/// over a cluster fit 64 bits.
const MOST_DEVICES: u64 = 1_000_000;

/// Go writes an empty list or map as `null` at times.
fn or_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Option::<T>::deserialize(deserializer).map(Option::unwrap_or_default)
}

/// `ObjectMeta`.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Metadata {
    #[serde(deserialize_with = "or_default")]
    pub(super) name: String,
    #[serde(deserialize_with = "or_default")]
    pub(super) namespace: String,
    #[serde(deserialize_with = "or_default")]
    pub(super) labels: BTreeMap<String, String>,
    #[serde(deserialize_with = "or_default")]
    pub(super) owner_references: Vec<OwnerReference>,
    pub(super) deletion_timestamp: Option<String>,
    pub(super) creation_timestamp: Option<String>,
    pub(super) resource_version: Option<String>,
}

/// `OwnerReference`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct OwnerReference {
    pub(super) kind: String,
    pub(super) name: String,
    pub(super) controller: Option<bool>,
}

/// `NodeSpec`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct NodeSpec {
    #[serde(deserialize_with = "or_default")]
    pub(super) taints: Vec<Taint>,
    #[serde(deserialize_with = "or_default")]
    pub(super) unschedulable: bool,
}

/// `Taint`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Taint {
    pub(super) key: String,
    #[serde(deserialize_with = "or_default")]
    pub(super) value: String,
    pub(super) effect: String,
}

/// `NodeStatus`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct NodeStatus {
    #[serde(deserialize_with = "or_default")]
    pub(super) capacity: ResourceList,
    #[serde(deserialize_with = "or_default")]
    pub(super) allocatable: ResourceList,
    #[serde(deserialize_with = "or_default")]
    pub(super) conditions: Vec<Condition>,
}

/// A condition of a node or a pod.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Condition {
    #[serde(rename = "lastHeartbeatTime")]
    pub(super) last_heartbeat_time: Option<String>,
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) status: String,
    #[serde(deserialize_with = "or_default")]
    pub(super) reason: String,
    #[serde(deserialize_with = "or_default")]
    pub(super) message: String,
}

/// `PodSpec`.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct PodSpec {
    #[serde(deserialize_with = "or_default")]
    pub(super) node_name: String,
    #[serde(deserialize_with = "or_default")]
    pub(super) node_selector: BTreeMap<String, String>,
    #[serde(deserialize_with = "or_default")]
    pub(super) affinity: Affinity,
    #[serde(deserialize_with = "or_default")]
    pub(super) tolerations: Vec<Toleration>,
    #[serde(deserialize_with = "or_default")]
    pub(super) priority: i32,
    #[serde(deserialize_with = "or_default")]
    pub(super) overhead: ResourceList,
    #[serde(deserialize_with = "or_default")]
    pub(super) resources: Resources,
    #[serde(deserialize_with = "or_default")]
    pub(super) containers: Vec<Container>,
    #[serde(deserialize_with = "or_default")]
    pub(super) init_containers: Vec<Container>,
    #[serde(deserialize_with = "or_default")]
    pub(super) restart_policy: String,
    #[serde(deserialize_with = "or_default")]
    pub(super) resource_claims: Vec<IgnoredAny>,
    #[serde(deserialize_with = "or_default")]
    pub(super) topology_spread_constraints: Vec<TopologySpreadConstraint>,
}

/// `TopologySpreadConstraint`.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct TopologySpreadConstraint {
    #[serde(deserialize_with = "or_default")]
    pub(super) when_unsatisfiable: String,
}

/// `Container`.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Container {
    #[serde(deserialize_with = "or_default")]
    pub(super) name: String,
    #[serde(deserialize_with = "or_default")]
    pub(super) image: String,
    #[serde(deserialize_with = "or_default")]
    pub(super) command: Vec<String>,
    #[serde(deserialize_with = "or_default")]
    pub(super) args: Vec<String>,
    #[serde(deserialize_with = "or_default")]
    pub(super) restart_policy: String,
    #[serde(deserialize_with = "or_default")]
    pub(super) resources: Resources,
    #[serde(deserialize_with = "or_default")]
    pub(super) ports: Vec<ContainerPort>,
}

/// `ContainerPort`.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ContainerPort {
    #[serde(deserialize_with = "or_default")]
    pub(super) host_port: u32,
}

/// `ResourceRequirements`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Resources {
    #[serde(deserialize_with = "or_default")]
    pub(super) requests: ResourceList,
    #[serde(deserialize_with = "or_default")]
    pub(super) limits: ResourceList,
}

/// `Toleration`.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Toleration {
    #[serde(deserialize_with = "or_default")]
    pub(super) key: String,
    #[serde(deserialize_with = "or_default")]
    pub(super) operator: String,
    #[serde(deserialize_with = "or_default")]
    pub(super) value: String,
    #[serde(deserialize_with = "or_default")]
    pub(super) effect: String,
}

/// `Affinity`; preferred terms are wishes and not read.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Affinity {
    #[serde(deserialize_with = "or_default")]
    pub(super) node_affinity: NodeAffinity,
    #[serde(deserialize_with = "or_default")]
    pub(super) pod_affinity: PodAffinity,
    #[serde(deserialize_with = "or_default")]
    pub(super) pod_anti_affinity: PodAffinity,
}

/// `NodeAffinity`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct NodeAffinity {
    #[serde(rename = "requiredDuringSchedulingIgnoredDuringExecution")]
    pub(super) required: Option<NodeSelector>,
}

/// `NodeSelector`.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct NodeSelector {
    #[serde(deserialize_with = "or_default")]
    pub(super) node_selector_terms: Vec<NodeSelectorTerm>,
}

/// `NodeSelectorTerm`.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct NodeSelectorTerm {
    #[serde(deserialize_with = "or_default")]
    pub(super) match_expressions: Vec<Requirement>,
    #[serde(deserialize_with = "or_default")]
    pub(super) match_fields: Vec<Requirement>,
}

/// `NodeSelectorRequirement` and `LabelSelectorRequirement`.
#[derive(Debug, Deserialize)]
pub(super) struct Requirement {
    pub(super) key: String,
    pub(super) operator: Operator,
    #[serde(default, deserialize_with = "or_default")]
    pub(super) values: Vec<String>,
}

/// Operators of both kinds of requirement.
#[derive(Clone, Copy, Debug, Deserialize)]
pub(super) enum Operator {
    In,
    NotIn,
    Exists,
    DoesNotExist,
    Gt,
    Lt,
}

/// `PodAffinity` and `PodAntiAffinity`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct PodAffinity {
    #[serde(rename = "requiredDuringSchedulingIgnoredDuringExecution", deserialize_with = "or_default")]
    pub(super) required: Vec<PodAffinityTerm>,
}

/// `PodAffinityTerm`.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct PodAffinityTerm {
    pub(super) label_selector: Option<LabelSelector>,
    #[serde(deserialize_with = "or_default")]
    pub(super) topology_key: String,
    #[serde(deserialize_with = "or_default")]
    pub(super) namespaces: Vec<String>,
}

/// `LabelSelector`.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct LabelSelector {
    #[serde(deserialize_with = "or_default")]
    pub(super) match_labels: BTreeMap<String, String>,
    #[serde(deserialize_with = "or_default")]
    pub(super) match_expressions: Vec<Requirement>,
}

/// `PodStatus`.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct PodStatus {
    #[serde(deserialize_with = "or_default")]
    pub(super) phase: String,
    #[serde(deserialize_with = "or_default")]
    pub(super) reason: String,
    #[serde(deserialize_with = "or_default")]
    pub(super) message: String,
    #[serde(deserialize_with = "or_default")]
    pub(super) conditions: Vec<Condition>,
    pub(super) start_time: Option<String>,
    #[serde(deserialize_with = "or_default")]
    pub(super) container_statuses: Vec<ContainerStatus>,
    #[serde(deserialize_with = "or_default")]
    pub(super) init_container_statuses: Vec<ContainerStatus>,
}

/// `ContainerStatus`.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ContainerStatus {
    #[serde(deserialize_with = "or_default")]
    pub(super) name: String,
    #[serde(deserialize_with = "or_default")]
    pub(super) state: ContainerState,
    #[serde(deserialize_with = "or_default")]
    pub(super) restart_count: u64,
}

/// `ContainerState`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ContainerState {
    pub(super) waiting: Option<Reason>,
    pub(super) terminated: Option<Reason>,
}

/// Why a container waits or ended.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Reason {
    #[serde(deserialize_with = "or_default")]
    pub(super) reason: String,
    pub(super) finished_at: Option<String>,
}

/// `ResourceQuotaSpec`.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct QuotaSpec {
    #[serde(deserialize_with = "or_default")]
    pub(super) hard: BTreeMap<String, Quantity>,
    #[serde(deserialize_with = "or_default")]
    pub(super) scopes: Vec<String>,
    pub(super) scope_selector: Option<IgnoredAny>,
}

/// CPU, memory and GPUs of a resource list; `None` where the list does not name them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ResourceList {
    pub(super) cpu: Option<MilliCpu>,
    pub(super) memory: Option<Bytes>,
    /// Pods that a node takes.
    pub(super) pods: Option<u64>,
    pub(super) gpus: BTreeMap<GpuResource, u64>,
    /// Whether it names devices that are no GPUs.
    pub(super) other_devices: bool,
}

impl<'de> Deserialize<'de> for ResourceList {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct List;
        impl<'de> Visitor<'de> for List {
            type Value = ResourceList;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("resource names with their quantities")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<ResourceList, A::Error> {
                let mut list = ResourceList::default();
                while let Some(name) = map.next_key::<Cow<'de, str>>()? {
                    let told = |e: QuantityError| A::Error::custom(format!("{name}: {e}"));
                    match &*name {
                        "cpu" => {
                            let text = map.next_value::<Quantity>()?;
                            list.cpu = Some(MilliCpu(parse_quantity_milli(&text.0).map_err(told)?));
                        }
                        "memory" => {
                            let text = map.next_value::<Quantity>()?;
                            list.memory = Some(Bytes(parse_quantity(&text.0).map_err(told)?));
                        }
                        "pods" => {
                            let text = map.next_value::<Quantity>()?;
                            list.pods = Some(parse_quantity(&text.0).map_err(told)?);
                        }
                        other => match other.parse::<GpuResource>() {
                            Ok(resource) => {
                                let text = map.next_value::<Quantity>()?;
                                let amount = parse_quantity(&text.0).map_err(told)?;
                                if amount > MOST_DEVICES {
                                    return Err(A::Error::custom(format!(
                                        "{name}: `{}` is more than any node has; it must be at most {MOST_DEVICES}",
                                        text.0
                                    )));
                                }
                                list.gpus.insert(resource, amount);
                            }
                            Err(_) => {
                                list.other_devices |= name.contains('/');
                                map.next_value::<IgnoredAny>()?;
                            }
                        },
                    }
                }
                Ok(list)
            }
        }
        deserializer.deserialize_map(List)
    }
}

/// A quantity, still as text. The API server prints strings; people's files may hold numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Quantity(pub(super) String);

impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;
        impl Visitor<'_> for Text {
            type Value = Quantity;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a quantity such as \"500m\" or \"16Gi\"")
            }

            fn visit_str<E>(self, text: &str) -> Result<Quantity, E> {
                Ok(Quantity(text.to_owned()))
            }

            fn visit_u64<E>(self, number: u64) -> Result<Quantity, E> {
                Ok(Quantity(number.to_string()))
            }

            fn visit_i64<E>(self, number: i64) -> Result<Quantity, E> {
                Ok(Quantity(number.to_string()))
            }

            fn visit_f64<E>(self, number: f64) -> Result<Quantity, E> {
                Ok(Quantity(number.to_string()))
            }
        }
        deserializer.deserialize_any(Text)
    }
}
