//! The demand as observed, ready to be edited and fed back.

use std::collections::BTreeMap;

use tesela_model::demand::{
    Demand, Duty, LabelOperator, LabelRule, Slo, Tenant, TenantClass, Toleration, Workload,
};
use tesela_model::origin::{Known, Origin};
use tesela_model::plan::API_VERSION;
use tesela_model::quantity::Bytes;

use crate::emit::Out;

const HEADER: &str = "\
# The demand as it was observed. Edit what you know better and feed it back beside the same input:
#
#   kubectl get nodes,pods -A -o json | tesela plan - THIS_FILE
#
# Fields written here replace what is observed; a field or workload that is left out stays as observed, and new
# workloads may be added. `count: 0` = the workload goes away.
#
# A request shows what is allocated, never what is needed. These four lines teach the plan most; each stands
# below its workload as a comment where nothing is known. Remove the `# ` and fill it in:
#
#   gpuMemory: 9Gi          what one pod needs on each of its GPUs: weights, cache and buffers, not what the
#                           server reserves
#   isolation: instance     what it must not share: device, instance, tenant (only its own tenant's work), none
#   duty: 10%               share of the time it has work on the GPU
#   slo: {percentile: p99, latency: 200ms}     a promise to its callers; such work never takes turns
#
# `compute: 60%` besides says which part of a whole GPU's compute a pod needs; use that was measured fills it in.
#
# Of these and of `interactive` a plain value counts as given by you; else its origin stands beside it:
# measured (read from the cluster), estimated (computed from other facts) or assumed (a default). All other
# values (count, gpus, request, cpu, memory, where it may run) are what the pods say.
";

/// A demand as a YAML document of kind Demand, with comments that say how to edit it.
///
/// Read back and merged onto the same demand it changes nothing, provided that a namespace that a tenant owns
/// holds that tenant's workloads only. What pods hold now is not written, except as a comment. Deterministic.
#[must_use]
pub fn write_demand(demand: &Demand) -> String {
    let mut out = String::from(HEADER);
    out.push_str(&format!("apiVersion: {API_VERSION}\nkind: Demand\nspec:\n"));
    if !demand.tenants.is_empty() {
        out.push_str("  tenants:\n");
        for tenant in &demand.tenants {
            push(&mut out, tenant_out(tenant));
        }
    }
    if demand.workloads.is_empty() {
        out.push_str("  workloads: []\n");
        return out;
    }
    out.push_str("  workloads:\n");
    let owners: BTreeMap<&str, &str> = demand
        .tenants
        .iter()
        .flat_map(|tenant| tenant.namespaces.iter().map(|n| (n.as_str(), tenant.name.as_str())))
        .collect();
    for workload in &demand.workloads {
        let namespace = workload.key.namespace.as_str();
        let default = owners.get(namespace).copied().unwrap_or(namespace);
        if let Some(line) = running(workload) {
            out.push_str(&format!("    # {line}\n"));
        }
        push(&mut out, workload_out(workload, default));
        for field in unknown(workload) {
            out.push_str(&format!("      # {field}: ?\n"));
        }
    }
    out
}

/// One element of a list that stands two levels deep.
fn push(out: &mut String, item: Out) {
    for line in Out::List(vec![item]).to_yaml().lines() {
        out.push_str("    ");
        out.push_str(line);
        out.push('\n');
    }
}

fn unknown(workload: &Workload) -> impl Iterator<Item = &'static str> {
    [
        ("gpuMemory", workload.gpu_memory.is_none()),
        ("isolation", workload.isolation.is_none()),
        ("duty", workload.duty.is_none()),
        ("slo", workload.slo.is_none()),
    ]
    .into_iter()
    .filter_map(|(field, unknown)| unknown.then_some(field))
}

/// `2 pods run: gpu-1 ×1, gpu-2 ×1`.
fn running(workload: &Workload) -> Option<String> {
    const MOST: usize = 6;
    let mut nodes: BTreeMap<&str, usize> = BTreeMap::new();
    for holding in &workload.running {
        *nodes.entry(&holding.node).or_default() += holding.pods.len();
    }
    let pods: usize = nodes.values().sum();
    if pods == 0 {
        return None;
    }
    let listed: Vec<String> = nodes.iter().take(MOST).map(|(node, pods)| format!("{node} ×{pods}")).collect();
    let more = match nodes.len().saturating_sub(MOST) {
        0 => String::new(),
        more => format!(" and {more} more nodes"),
    };
    let verb = if pods == 1 { "pod runs" } else { "pods run" };
    Some(format!("{pods} {verb}: {}{more}", listed.join(", ")))
}

struct Fields(Vec<(String, Out)>);

impl Fields {
    fn add(&mut self, name: &str, value: Out) {
        self.0.push((name.to_owned(), value));
    }

    fn text(&mut self, name: &str, value: &impl ToString) {
        self.add(name, Out::text(value.to_string()));
    }

    /// Plain when a person gave it, else with its origin.
    fn known<T>(&mut self, name: &str, known: Option<&Known<T>>, value: impl FnOnce(&T) -> Out) {
        let Some(known) = known else { return };
        let value = value(&known.value);
        let marked = |value| {
            let origin = Out::text(known.origin.to_string());
            Out::Map(vec![("value".to_owned(), value), ("origin".to_owned(), origin)])
        };
        self.add(name, if known.origin == Origin::Given { value } else { marked(value) });
    }
}

fn percent(part: Duty) -> Out {
    let permille = part.as_permille();
    let tenth = if permille.is_multiple_of(10) { String::new() } else { format!(".{}", permille % 10) };
    Out::text(format!("{}{tenth}%", permille / 10))
}

fn texts<T: ToString>(items: &[T]) -> Out {
    Out::Flow(items.iter().map(|item| Out::text(item.to_string())).collect())
}

fn labels(labels: &BTreeMap<String, String>) -> Out {
    Out::Map(labels.iter().map(|(key, value)| (key.clone(), Out::text(value))).collect())
}

fn tenant_out(tenant: &Tenant) -> Out {
    let mut fields = Fields(Vec::new());
    fields.text("name", &tenant.name);
    fields.add("namespaces", texts(&tenant.namespaces));
    let class = match tenant.class {
        TenantClass::Standard => "standard",
        TenantClass::Regulated => "regulated",
    };
    fields.text("class", &class);
    if !tenant.quota.is_empty() {
        let lines =
            tenant.quota.iter().map(|(resource, hard)| (resource.to_string(), Out::Int((*hard).into())));
        fields.add("quota", Out::Map(lines.collect()));
    }
    Out::Map(fields.0)
}

fn workload_out(workload: &Workload, default_tenant: &str) -> Out {
    let mut fields = Fields(Vec::new());
    fields.text("name", &workload.key.name);
    fields.text("namespace", &workload.key.namespace);
    fields.text("kind", &workload.key.kind);
    if workload.tenant != default_tenant {
        fields.text("tenant", &workload.tenant);
    }
    fields.add("count", Out::Int(workload.count.into()));
    fields.add("gpus", Out::Int(workload.gpus.into()));
    if let Some(request) = &workload.request {
        fields.text("request", request);
    }
    fields.known("gpuMemory", workload.gpu_memory.as_ref(), |memory| Out::text(memory.to_string()));
    fields.known("isolation", workload.isolation.as_ref(), |isolation| Out::text(isolation.to_string()));
    fields.known("duty", workload.duty.as_ref(), |duty| percent(*duty));
    fields.known("compute", workload.compute.as_ref(), |compute| percent(*compute));
    if let Some(Slo { percentile, latency_ms }) = &workload.slo {
        let tenth =
            if percentile.is_multiple_of(10) { String::new() } else { format!(".{}", percentile % 10) };
        let percentile = Out::text(format!("p{}{tenth}", percentile / 10));
        let latency = Out::text(format!("{latency_ms}ms"));
        fields.add(
            "slo",
            Out::Map(vec![("percentile".to_owned(), percentile), ("latency".to_owned(), latency)]),
        );
    }
    fields.known("interactive", workload.interactive.as_ref(), |yes| Out::Bool(*yes));
    choices(&mut fields, workload);
    needs(&mut fields, workload);
    Out::Map(fields.0)
}

fn choices(fields: &mut Fields, workload: &Workload) {
    if let Some(mode) = workload.mode {
        fields.text("mode", &mode);
    }
    if let Some(profile) = &workload.profile {
        fields.text("profile", profile);
    }
    if !workload.products.is_empty() {
        fields.add("products", texts(&workload.products));
    }
    if workload.priority != 0 {
        fields.add("priority", Out::Int(workload.priority.into()));
    }
    fields.add("movable", Out::Bool(workload.movable));
}

/// What its pods need of a node.
fn needs(fields: &mut Fields, workload: &Workload) {
    if workload.same_node {
        fields.add("sameNode", Out::Bool(true));
    }
    if let Some(most) = workload.max_per_node {
        fields.add("maxPodsPerNode", Out::Int(most.into()));
    }
    if workload.cpu.0 > 0 {
        let cpu = workload.cpu;
        let whole = cpu.0.is_multiple_of(1000);
        fields.add("cpu", if whole { Out::Int((cpu.0 / 1000).into()) } else { Out::text(cpu.to_string()) });
    }
    if workload.memory.0 > 0 {
        fields.text("memory", &size(workload.memory));
    }
    let constraints = &workload.constraints;
    if !constraints.node_selector.is_empty() {
        fields.add("nodeSelector", labels(&constraints.node_selector));
    }
    if !constraints.affinity.is_empty() {
        fields.add("affinity", Out::List(constraints.affinity.iter().map(|term| term_out(term)).collect()));
    }
    if !constraints.tolerations.is_empty() {
        fields.add("tolerations", Out::List(constraints.tolerations.iter().map(toleration_out).collect()));
    }
}

/// With a unit always: bytes as `B` where no larger unit divides them.
fn size(bytes: Bytes) -> String {
    let text = bytes.to_string();
    if text.ends_with('i') { text } else { format!("{text}B") }
}

fn term_out(term: &[LabelRule]) -> Out {
    let rules =
        |field: bool| -> Vec<Out> { term.iter().filter(|r| r.field == field).map(rule_out).collect() };
    let mut entries = Vec::new();
    for (name, rules) in [("matchExpressions", rules(false)), ("matchFields", rules(true))] {
        if !rules.is_empty() {
            entries.push((name.to_owned(), Out::List(rules)));
        }
    }
    Out::Map(entries)
}

fn rule_out(rule: &LabelRule) -> Out {
    let operator = match rule.operator {
        LabelOperator::In => "In",
        LabelOperator::NotIn => "NotIn",
        LabelOperator::Exists => "Exists",
        LabelOperator::DoesNotExist => "DoesNotExist",
        LabelOperator::Gt => "Gt",
        LabelOperator::Lt => "Lt",
    };
    let mut fields = Fields(Vec::new());
    fields.text("key", &rule.key);
    fields.text("operator", &operator);
    if !rule.values.is_empty() {
        fields.add("values", texts(&rule.values));
    }
    Out::Map(fields.0)
}

fn toleration_out(toleration: &Toleration) -> Out {
    let mut fields = Fields(Vec::new());
    if !toleration.key.is_empty() {
        fields.text("key", &toleration.key);
    }
    fields.text("operator", &if toleration.exists { "Exists" } else { "Equal" });
    if !toleration.value.is_empty() {
        fields.text("value", &toleration.value);
    }
    if !toleration.effect.is_empty() {
        fields.text("effect", &toleration.effect);
    }
    Out::Map(fields.0)
}
