//! Where each field belongs, so that one at the wrong place is sent to the right one. A test holds the lists to the
//! schemas.

use crate::de::Place;

const fn at(field: &'static str, belongs: &'static str) -> Place {
    Place { field, belongs }
}

pub(super) const FLEET: &[Place] = &[
    at("buy", "spec"),
    at("count", "spec.nodes[]"),
    at("count", "spec.nodes[].gpus[]"),
    at("cpu", "spec.buy[]"),
    at("cpu", "spec.nodes[]"),
    at("effect", "spec.nodes[].taints[]"),
    at("gpuMemory", "spec.buy[]"),
    at("gpuMemory", "spec.nodes[].gpus[]"),
    at("gpus", "spec.nodes[]"),
    at("gpusPerNode", "spec.buy[]"),
    at("headroom", "spec"),
    at("key", "spec.nodes[].taints[]"),
    at("labels", "spec.buy[]"),
    at("labels", "spec.nodes[]"),
    at("maxNodes", "spec.buy[]"),
    at("memory", "spec.buy[]"),
    at("memory", "spec.nodes[]"),
    at("mig", "spec.nodes[].gpus[]"),
    at("migStrategy", "spec.nodes[]"),
    at("mode", "spec.nodes[].gpus[]"),
    at("name", "spec.nodes[]"),
    at("namePrefix", "spec.nodes[]"),
    at("namespaces", "spec"),
    at("nodes", "spec"),
    at("operator", "spec.nodes[]"),
    at("product", "spec.buy[]"),
    at("product", "spec.nodes[].gpus[]"),
    at("profile", "spec.nodes[].gpus[].mig[]"),
    at("replicas", "spec.nodes[].gpus[]"),
    at("schedulable", "spec.nodes[]"),
    at("sharesRenamed", "spec.nodes[]"),
    at("start", "spec.nodes[].gpus[].mig[]"),
    at("surviveNodeLoss", "spec"),
    at("taints", "spec.nodes[]"),
    at("uuid", "spec.nodes[].gpus[]"),
    at("value", "spec.nodes[].taints[]"),
];
pub(super) const DEMAND: &[Place] = &[
    at("affinity", "spec.workloads[]"),
    at("class", "spec.tenants[]"),
    at("count", "spec.workloads[]"),
    at("cpu", "spec.workloads[]"),
    at("duty", "spec.workloads[]"),
    at("compute", "spec.workloads[]"),
    at("effect", "spec.workloads[].tolerations[]"),
    at("gpuMemory", "spec.workloads[]"),
    at("gpus", "spec.workloads[]"),
    at("interactive", "spec.workloads[]"),
    at("isolation", "spec.workloads[]"),
    at("key", "spec.workloads[].affinity[].matchExpressions[]"),
    at("key", "spec.workloads[].affinity[].matchFields[]"),
    at("key", "spec.workloads[].tolerations[]"),
    at("kind", "spec.workloads[]"),
    at("latency", "spec.workloads[].slo"),
    at("matchExpressions", "spec.workloads[].affinity[]"),
    at("matchFields", "spec.workloads[].affinity[]"),
    at("maxPodsPerNode", "spec.workloads[]"),
    at("memory", "spec.workloads[]"),
    at("mode", "spec.workloads[]"),
    at("movable", "spec.workloads[]"),
    at("name", "spec.tenants[]"),
    at("name", "spec.workloads[]"),
    at("namespace", "spec.workloads[]"),
    at("namespaces", "spec.tenants[]"),
    at("nodeSelector", "spec.workloads[]"),
    at("operator", "spec.workloads[].affinity[].matchExpressions[]"),
    at("operator", "spec.workloads[].affinity[].matchFields[]"),
    at("operator", "spec.workloads[].tolerations[]"),
    at("percentile", "spec.workloads[].slo"),
    at("priority", "spec.workloads[]"),
    at("products", "spec.workloads[]"),
    at("profile", "spec.workloads[]"),
    at("quota", "spec.tenants[]"),
    at("request", "spec.workloads[]"),
    at("sameNode", "spec.workloads[]"),
    at("slo", "spec.workloads[]"),
    at("tenant", "spec.workloads[]"),
    at("tenants", "spec"),
    at("tolerations", "spec.workloads[]"),
    at("value", "spec.workloads[].tolerations[]"),
    at("values", "spec.workloads[].affinity[].matchExpressions[]"),
    at("values", "spec.workloads[].affinity[].matchFields[]"),
    at("workloads", "spec"),
];
pub(super) const PRICE_BOOK: &[Place] = &[
    at("asOf", "spec"),
    at("currency", "spec"),
    at("gpuHour", "spec.prices[]"),
    at("kilowattHour", "spec.prices[].owned"),
    at("owned", "spec.prices[]"),
    at("prices", "spec"),
    at("product", "spec.prices[]"),
    at("pue", "spec.prices[].owned"),
    at("purchase", "spec.prices[].owned"),
    at("watts", "spec.prices[].owned"),
    at("years", "spec.prices[].owned"),
];
pub(super) const PRODUCT_TABLE: &[Place] = &[
    at("aliases", "spec.models[].profiles[]"),
    at("architecture", "spec.models[]"),
    at("computeCapability", "spec.models[]"),
    at("computeSlices", "spec.models[]"),
    at("copy", "spec.models[].profiles[].engines"),
    at("decoder", "spec.models[].profiles[].engines"),
    at("encoder", "spec.models[].profiles[].engines"),
    at("engines", "spec.models[].profiles[]"),
    at("giProfileEnum", "spec.models[].profiles[]"),
    at("gpuSlices", "spec.models[].profiles[]"),
    at("graphics", "spec.models[].profiles[]"),
    at("id", "spec.models[]"),
    at("jpeg", "spec.models[].profiles[].engines"),
    at("maxInstances", "spec.models[].profiles[]"),
    at("memoryMib", "spec.models[]"),
    at("memoryMib", "spec.models[].profiles[]"),
    at("memorySlices", "spec.models[]"),
    at("memorySlices", "spec.models[].profiles[]"),
    at("minDriver", "spec.models[]"),
    at("modeChangeNeedsReset", "spec.models[]"),
    at("modeSurvivesReboot", "spec.models[]"),
    at("models", "spec"),
    at("name", "spec.models[].profiles[]"),
    at("nvmlProductNames", "spec.models[]"),
    at("ofa", "spec.models[].profiles[].engines"),
    at("p2p", "spec.models[].profiles[]"),
    at("placements", "spec.models[].profiles[]"),
    at("profileId", "spec.models[].profiles[]"),
    at("profiles", "spec.models[]"),
    at("sms", "spec.models[].profiles[]"),
    at("smsFullGpu", "spec.models[]"),
    at("title", "spec.models[]"),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::Value;

    use super::*;
    use crate::documents::DocumentKind;
    use crate::schema::schema;

    /// Every field of a schema with the path it belongs under. Fields of the envelope are told by the envelope.
    fn walk(root: &Value, value: &Value, path: &str, found: &mut BTreeSet<(String, String)>) {
        let Some(object) = value.as_object() else { return };
        if let Some(reference) = object.get("$ref").and_then(Value::as_str) {
            walk(root, root.pointer(reference.trim_start_matches('#')).unwrap(), path, found);
        }
        for inner in ["anyOf", "oneOf"].iter().filter_map(|k| object.get(*k)?.as_array()).flatten() {
            walk(root, inner, path, found);
        }
        if let Some(items) = object.get("items") {
            walk(root, items, &format!("{path}[]"), found);
        }
        for (name, property) in object.get("properties").and_then(Value::as_object).into_iter().flatten() {
            let uncertain = matches!(name.as_str(), "value" | "origin") && object.get("title").is_none();
            let uncertain = uncertain && object["properties"].as_object().is_some_and(|all| all.len() == 2);
            if !path.is_empty() && !uncertain {
                found.insert((name.clone(), path.to_owned()));
            }
            let inner = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
            walk(root, property, &inner, found);
        }
    }

    #[test]
    fn every_field_has_its_place() {
        let lists = [
            ("FLEET", DocumentKind::Fleet, FLEET),
            ("DEMAND", DocumentKind::Demand, DEMAND),
            ("PRICE_BOOK", DocumentKind::PriceBook, PRICE_BOOK),
            ("PRODUCT_TABLE", DocumentKind::ProductTable, PRODUCT_TABLE),
        ];
        let mut missing = String::new();
        for (name, kind, list) in lists {
            let root = schema(kind);
            let mut wanted = BTreeSet::new();
            walk(&root, &root, "", &mut wanted);
            // A field of `spec` itself is meant by that name wherever it stands.
            let top: BTreeSet<String> =
                wanted.iter().filter(|(_, path)| path == "spec").map(|(field, _)| field.clone()).collect();
            wanted.retain(|(field, path)| path == "spec" || path.starts_with("spec") && !top.contains(field));
            let had: BTreeSet<_> = list.iter().map(|p| (p.field.to_owned(), p.belongs.to_owned())).collect();
            if had == wanted {
                continue;
            }
            missing.push_str(&format!("pub(super) const {name}: &[Place] = &[\n"));
            for (field, belongs) in &wanted {
                missing.push_str(&format!("    at(\"{field}\", \"{belongs}\"),\n"));
            }
            missing.push_str("];\n");
        }
        assert!(missing.is_empty(), "write in this file:\n{missing}");
    }
}
