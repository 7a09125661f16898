//! From a Demand document as written to checked edits.

use std::collections::BTreeMap;

use tesela_model::demand::{Duty, LabelRule, Slo, Toleration};
use tesela_model::origin::Known;
use tesela_model::product::{ProductTable, ProfileName};
use tesela_model::quantity::{Bytes, Mib, MilliCpu};

use super::contradiction::contradictions;
use super::tenant::{MOST_PODS, Tenants};
use super::wire::{DemandSpec, Operator, Rule, SloEntry, TolerationEntry, TolerationOperator, WorkloadEntry};
use super::{DEFAULT_KIND, DemandDocument, WorkloadEdit};
use crate::diagnostic::{Diagnostics, shown};
use crate::documents::check::{Check, MOST_GPUS, MOST_MEMORY};
use crate::documents::hardware::{Hardware, lookup};
use crate::documents::name::NameRule;
use crate::documents::scalar::{DutyText, Uncertain};
use crate::source::{Located, Span};

/// Kind, whether it was written, and place of a workload.
type Seen<'a> = (&'a str, bool, Span);

/// Reads the content of a Demand document.
pub(in crate::documents) fn read(
    file: &str,
    spec: &DemandSpec,
    table: &ProductTable,
) -> Result<DemandDocument, Diagnostics> {
    let mut check = Check::new(file);
    let tenants = Tenants::read(&mut check, &spec.tenants);
    let mut keys: BTreeMap<(&str, &str), Vec<Seen<'_>>> = BTreeMap::new();
    let mut workloads = Vec::new();
    for entry in &spec.workloads {
        let entry = &entry.value;
        let kind = entry.kind.as_ref().map_or(DEFAULT_KIND, |kind| &kind.value);
        let known = keys.entry((&entry.namespace.value, &entry.name.value)).or_default();
        let kind_written = entry.kind.is_some();
        let name = || format!("{kind}/{}/{}", entry.namespace.value, entry.name.value);
        match known.iter().find(|(other, written, _)| *other == kind || !written || !kind_written) {
            Some((other, _, first)) if *other == kind => {
                check.duplicate("the workload", &name(), *first, entry.name.at);
            }
            // Without a kind the one that was observed is meant, and that may be either.
            Some((_, _, first)) => {
                let message =
                    format!("`{}` may be the workload of line {first}: one of the two has no `kind`", name());
                check.error(entry.name.at, "duplicate-name", &name(), message, "write `kind` for both");
            }
            None => known.push((kind, kind_written, entry.name.at)),
        }
        let edit = workload(&mut check, entry, table);
        contradictions(&mut check, entry, &edit, &tenants);
        workloads.push(edit);
    }
    check.finish(DemandDocument { tenants: tenants.edits, workloads })
}

fn workload(check: &mut Check<'_>, entry: &WorkloadEntry, table: &ProductTable) -> WorkloadEdit {
    check.name("workload name", &entry.name, NameRule::Subdomain);
    check.name("namespace", &entry.namespace, NameRule::Label);
    if let Some(kind) = &entry.kind {
        check.name("kind", kind, NameRule::Kind);
    }
    if let Some(tenant) = &entry.tenant {
        check.name("tenant name", tenant, NameRule::Tenant);
    }
    let text = |written: &Located<String>| written.value.clone();
    let products = entry.products.as_ref().map(|list| check.products(table, list));
    WorkloadEdit {
        name: text(&entry.name),
        namespace: text(&entry.namespace),
        kind: entry.kind.as_ref().map(text),
        tenant: entry.tenant.as_ref().map(text),
        count: check.count("count", entry.count.as_ref(), 0, MOST_PODS),
        gpus: check.count("gpus", entry.gpus.as_ref(), 1, MOST_GPUS.into()),
        same_node: entry.same_node,
        cpu: entry.cpu.as_ref().and_then(|cpu| check.cpu(cpu)).map(MilliCpu),
        memory: entry.memory.as_ref().and_then(|m| check.memory("memory", m, MOST_MEMORY)).map(Bytes),
        node_selector: entry.node_selector.as_ref().map(|labels| selector(check, labels)),
        affinity: entry.affinity.as_ref().map(|terms| {
            let term = |term: &Located<super::wire::Term>| {
                let labels = term.value.match_expressions.iter().map(|rule| (rule, false));
                let fields = term.value.match_fields.iter().map(|rule| (rule, true));
                labels.chain(fields).map(|(rule, field)| label_rule(check, rule, field)).collect()
            };
            terms.iter().map(term).collect()
        }),
        tolerations: entry
            .tolerations
            .as_ref()
            .map(|list| list.iter().map(|one| toleration(check, one)).collect()),
        max_per_node: check.count("maxPodsPerNode", entry.max_pods_per_node.as_ref(), 1, u32::MAX.into()),
        request: entry.request.as_ref().and_then(|request| check.resource(request)),
        gpu_memory: entry.gpu_memory.as_ref().and_then(|memory| {
            let origin = memory.value.origin;
            let written = placed(&memory.value.value, memory.at);
            check.gpu_memory(&written).map(|mib| Known { value: Mib(mib), origin })
        }),
        isolation: entry
            .isolation
            .as_ref()
            .map(|i| Known { value: i.value.value.value, origin: i.value.origin }),
        slo: entry.slo.as_ref().and_then(|slo| slo_of(check, &slo.value)),
        duty: part(check, "duty", entry.duty.as_ref()),
        compute: part(check, "compute", entry.compute.as_ref()),
        mode: entry.mode.as_ref().map(|mode| mode.value),
        profile: entry.profile.as_ref().and_then(|p| profile(check, p, entry, table)),
        products,
        priority: check.count("priority", entry.priority.as_ref(), i32::MIN.into(), i32::MAX.into()),
        movable: entry.movable,
        interactive: entry
            .interactive
            .as_ref()
            .map(|i| Known { value: i.value.value.value, origin: i.value.origin }),
    }
}

/// A share of the time or of a GPU, with its origin.
fn part(
    check: &mut Check<'_>,
    field: &str,
    written: Option<&Located<Uncertain<DutyText>>>,
) -> Option<Known<Duty>> {
    let written = written?;
    let origin = written.value.origin;
    let value = check.part(field, &placed(&written.value.value, written.at)).and_then(Duty::permille)?;
    Some(Known { value, origin })
}

/// A value written plain stands where its field's value stands.
fn placed<T: Clone>(inner: &Located<T>, outer: Span) -> Located<T> {
    Located { value: inner.value.clone(), at: if inner.at.is_known() { inner.at } else { outer } }
}

fn selector(
    check: &mut Check<'_>,
    labels: &BTreeMap<Located<String>, Located<String>>,
) -> BTreeMap<String, String> {
    for (key, value) in labels {
        check.name("label key", key, NameRule::LabelKey);
        check.name("label value", value, NameRule::LabelValue);
    }
    labels.iter().map(|(key, value)| (key.value.clone(), value.value.clone())).collect()
}

fn label_rule(check: &mut Check<'_>, rule: &Located<Rule>, field: bool) -> LabelRule {
    let Rule { key, operator, values } = &rule.value;
    if field {
        if key.value != "metadata.name" {
            let message = format!("`{}` is no field that an affinity can ask for", shown(&key.value));
            check.error(
                key.at,
                "unknown-value",
                &key.value,
                message,
                "only `metadata.name` exists; labels go under matchExpressions",
            );
        }
    } else {
        check.name("label key", key, NameRule::LabelKey);
    }
    let wrong = match operator.value {
        Operator::In | Operator::NotIn if values.is_empty() => Some("needs at least one value in `values`"),
        Operator::Exists | Operator::DoesNotExist if !values.is_empty() => Some("takes no `values`"),
        Operator::Gt | Operator::Lt if values.len() != 1 || values[0].value.parse::<i64>().is_err() => {
            Some("needs exactly one whole number in `values`, in quotes")
        }
        _ => None,
    };
    if let Some(wrong) = wrong {
        let name = format!("{:?}", operator.value);
        let message = format!("operator `{name}` {wrong}");
        check.error(
            operator.at,
            "invalid-value",
            &name,
            message,
            "see NodeSelectorRequirement in the Kubernetes API",
        );
    }
    LabelRule {
        key: key.value.clone(),
        operator: operator.value.into(),
        values: values.iter().map(|v| v.value.clone()).collect(),
        field,
    }
}

fn toleration(check: &mut Check<'_>, entry: &Located<TolerationEntry>) -> Toleration {
    let TolerationEntry { key, operator, value, effect } = &entry.value;
    let exists = operator.as_ref().is_some_and(|o| o.value == TolerationOperator::Exists);
    let key_text = key.as_ref().map(|k| k.value.clone()).unwrap_or_default();
    if let Some(key) = key.as_ref().filter(|k| !k.value.is_empty()) {
        check.name("taint key", key, NameRule::LabelKey);
    } else if !exists {
        let message = "a toleration without `key` needs `operator: Exists`";
        check.error(
            entry.at,
            "missing-field",
            "",
            message,
            "add `key:`, or `operator: Exists` to tolerate every taint",
        );
    }
    if let Some(value) = value {
        check.name("taint value", value, NameRule::LabelValue);
        if let Some(operator) = operator.as_ref().filter(|_| exists && !value.value.is_empty()) {
            let this = (value.at, format!("value: {}", value.value));
            let other = (operator.at, "operator: Exists");
            check.contradiction(this, other, "with Exists no value is compared", "remove `value`");
        }
    }
    Toleration {
        key: key_text,
        exists,
        value: value.as_ref().map(|v| v.value.clone()).unwrap_or_default(),
        effect: effect.as_ref().map(|e| e.value.as_str().to_owned()).unwrap_or_default(),
    }
}

fn slo_of(check: &mut Check<'_>, slo: &SloEntry) -> Option<Slo> {
    let percentile = check.percentile(&slo.percentile);
    let latency = check.milliseconds("latency", &slo.latency);
    Some(Slo { percentile: percentile?, latency_ms: latency? })
}

/// A profile must exist on one of the products that will do, or on any product where none is named.
fn profile(
    check: &mut Check<'_>,
    written: &Located<String>,
    entry: &WorkloadEntry,
    table: &ProductTable,
) -> Option<ProfileName> {
    let name = match ProfileName::parse(&written.value) {
        Ok(name) => name,
        Err(error) => {
            let names = table.products().iter().flat_map(|p| p.profiles.iter().map(|p| p.name.as_str()));
            let near = crate::diagnostic::nearest(&written.value, names).map_or_else(
                || "profiles read like 1g.10gb".to_owned(),
                |near| format!("did you mean `{near}`?"),
            );
            check.error(written.at, "unknown-profile", &written.value, error.to_string(), near);
            return None;
        }
    };
    let written_products = entry.products.as_deref().unwrap_or_default();
    let mut last = None;
    for product in written_products {
        match lookup(table, &product.value) {
            Some(Hardware::Known(known)) => match known.profile(&written.value) {
                // With one product the table's name is certain; with several each has its own.
                Ok(profile) if written_products.len() == 1 => return Some(profile.name.clone()),
                Ok(_) => return Some(name),
                Err(unknown) => last = Some(unknown),
            },
            Some(Hardware::Foreign(foreign)) => {
                let this = (written.at, format!("profile: {name}"));
                let why = format!("{foreign} has no MIG");
                check.contradiction(this, (product.at, &product.value), &why, "remove one of the two");
                return None;
            }
            None => return None,
        }
    }
    if let Some(unknown) = last {
        check.unknown_profile(written, &unknown);
        return None;
    }
    if table.products().iter().any(|p| p.profile(&written.value).is_ok()) {
        return Some(name);
    }
    let names = table.products().iter().flat_map(|p| p.profiles.iter().map(|p| p.name.as_str()));
    let near = crate::diagnostic::nearest(&written.value, names)
        .map_or_else(String::new, |near| format!("did you mean `{near}`? "));
    let message = format!("no product of the table has the profile `{name}`");
    let fix =
        format!("{near}name the product under `products`, or add it by a document of kind ProductTable");
    check.error(written.at, "unknown-profile", &written.value, message, fix);
    None
}
