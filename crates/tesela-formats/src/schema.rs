//! JSON Schemas of our documents, so that editors complete and check them while a person types. Descriptions are the
//! docstrings of the wire structs.

use schemars::{JsonSchema, schema_for};
use serde_json::{Map, Value, json};
use tesela_model::plan::{API_VERSION, Plan};

use crate::documents::DocumentKind;
use crate::documents::demand::wire::DemandSpec;
use crate::documents::envelope::Envelope;
use crate::documents::fleet::wire::FleetSpec;
use crate::documents::price_book::PriceBookSpec;
use crate::documents::product_table::ProductTableSpec;
use crate::machine::wire::MachineSpec;

/// The schema of a kind of document (draft 2020-12).
#[must_use]
pub fn schema(kind: DocumentKind) -> Value {
    match kind {
        DocumentKind::Fleet => finish(kind, enveloped::<FleetSpec>()),
        DocumentKind::Demand => finish(kind, enveloped::<DemandSpec>()),
        DocumentKind::PriceBook => finish(kind, enveloped::<PriceBookSpec>()),
        DocumentKind::ProductTable => finish(kind, enveloped::<ProductTableSpec>()),
        DocumentKind::Plan => finish(kind, plan()),
    }
}

/// The schema of a machine file, which is no document of ours: it has no envelope.
#[must_use]
pub fn machine_schema() -> Value {
    let mut schema = Value::from(schema_for!(MachineSpec));
    if let Some(object) = schema.as_object_mut() {
        object.insert("title".to_owned(), json!("machine file"));
    }
    schema
}

/// The name of the file that holds the schema of machine files.
pub const MACHINE_FILE: &str = "machine.schema.json";

/// The name of the file that holds the schema of a kind, in the folder `schemas`.
#[must_use]
pub fn file_name(kind: DocumentKind) -> String {
    let mut name = String::new();
    for c in kind.as_str().chars() {
        if c.is_ascii_uppercase() && !name.is_empty() {
            name.push('-');
        }
        name.push(c.to_ascii_lowercase());
    }
    name + ".schema.json"
}

fn enveloped<S: JsonSchema>() -> Value {
    let mut schema = Value::from(schema_for!(Envelope<S>));
    // What is told of the content is what is told of the document.
    let spec = schema
        .pointer("/properties/spec/$ref")
        .and_then(Value::as_str)
        .map(|r| r.trim_start_matches('#').to_owned());
    let described = spec.and_then(|pointer| schema.pointer(&pointer)?.get("description").cloned());
    if let (Some(described), Some(object)) = (described, schema.as_object_mut()) {
        object.insert("description".to_owned(), described);
    }
    schema
}

/// The model's types are lenient readers for others; as a document a plan is closed like all our kinds.
fn plan() -> Value {
    let mut schema = Value::from(schema_for!(Plan));
    close(&mut schema);
    schema
}

fn close(value: &mut Value) {
    match value {
        Value::Object(object) => {
            if object.contains_key("properties") && object.get("type") == Some(&json!("object")) {
                object.entry("additionalProperties").or_insert(json!(false));
            }
            object.values_mut().for_each(close);
        }
        Value::Array(items) => items.iter_mut().for_each(close),
        _ => {}
    }
}

fn finish(kind: DocumentKind, mut schema: Value) -> Value {
    if let Some(object) = schema.as_object_mut() {
        object.insert("title".to_owned(), json!(kind.as_str()));
        if let Some(properties) = object.get_mut("properties").and_then(Value::as_object_mut) {
            constant(properties, "apiVersion", API_VERSION);
            constant(properties, "kind", kind.as_str());
        }
    }
    schema
}

fn constant(properties: &mut Map<String, Value>, field: &str, value: &str) {
    if let Some(property) = properties.get_mut(field).and_then(Value::as_object_mut) {
        property.insert("const".to_owned(), json!(value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_named_by_kind() {
        assert_eq!(
            DocumentKind::ALL.map(file_name).concat(),
            "fleet.schema.jsondemand.schema.jsonprice-book.schema.jsonproduct-table.schema.jsonplan.schema.json"
        );
    }

    #[test]
    fn every_field_tells_what_it_is() {
        fn undescribed(value: &Value, path: &str, found: &mut Vec<String>) {
            match value {
                Value::Object(object) => {
                    if let Some(Value::Object(properties)) = object.get("properties") {
                        for (name, property) in properties {
                            // Inside of an uncertain value the two keys are told by the field around them.
                            let told = property.get("description").is_some() || path.contains("anyOf");
                            if !told {
                                found.push(format!("{path}/{name}"));
                            }
                        }
                    }
                    object
                        .iter()
                        .for_each(|(key, inner)| undescribed(inner, &format!("{path}/{key}"), found));
                }
                Value::Array(items) => items.iter().for_each(|inner| undescribed(inner, path, found)),
                _ => {}
            }
        }
        let mut all = DocumentKind::ALL.map(|kind| (kind.as_str(), schema(kind))).to_vec();
        all.push(("machine file", machine_schema()));
        for (name, schema) in all {
            let mut found = Vec::new();
            undescribed(&schema, "", &mut found);
            assert!(found.is_empty(), "{name}: {found:?}");
        }
    }
}
