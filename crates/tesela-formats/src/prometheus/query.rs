//! What to ask Prometheus: PromQL for the exporter's usual names, in both vintages of its labels.

use serde::Serialize;
use tesela_model::usage::Metric;

/// Where the pod's labels are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Vintage {
    /// `pod`, `namespace`, `container`: Prometheus honours the exporter's labels.
    Plain,
    /// `exported_pod`, `exported_namespace`, `exported_container`: Prometheus keeps those words for its target.
    Exported,
}

/// One query.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct UsageQuery {
    /// Name of the metric.
    pub metric: &'static str,
    /// Where the pod's labels are.
    pub labels: Vintage,
    /// PromQL, for `/api/v1/query_range`.
    pub query: String,
}

/// Window of each query and step between its answers.
pub const STEP: &str = "5m";
/// Metrics that are worth asking for: memory, and the two that tell time with work. Profiling counters may be off.
const ASKED: [Metric; 3] = [Metric::MemoryUsed, Metric::EngineActive, Metric::GpuUtil];

/// The queries of a vintage. Each looks over all samples of its window, so that no peak between two steps is lost;
/// since such a function drops `__name__`, the name is put into the label `metric`. A label that a server lacks
/// (`cluster`, `node`, one of the two spellings of the host) changes nothing: Prometheus takes it as empty.
#[must_use]
pub fn usage_queries(labels: Vintage) -> Vec<UsageQuery> {
    let (pod, by) = match labels {
        Vintage::Plain => ("pod", "namespace, pod, container"),
        Vintage::Exported => ("exported_pod", "exported_namespace, exported_pod, exported_container"),
    };
    let query = |metric: Metric| {
        let name = metric.name();
        let over = if metric.is_memory() { "max_over_time" } else { "avg_over_time" };
        let query = format!(
            "label_replace(max by ({by}, cluster, node, Hostname, hostname, UUID, GPU_I_ID) ({over}({name}{{{pod}!=\"\"}}[{STEP}])), \
             \"metric\", \"{name}\", \"\", \"\")"
        );
        UsageQuery { metric: name, labels, query }
    };
    ASKED.map(query).into()
}
