//! Kubernetes objects as they are written: each complete (apiVersion, kind, metadata), keys in one order.

use std::collections::BTreeMap;

use serde::Serialize;

use super::error::RenderError;

/// Says who made an object, by the convention of Kubernetes.
fn made_by() -> BTreeMap<String, String> {
    BTreeMap::from([("app.kubernetes.io/managed-by".to_owned(), "tesela".to_owned())])
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ConfigMap {
    api_version: &'static str,
    kind: &'static str,
    metadata: Metadata,
    data: BTreeMap<String, String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ResourceQuota {
    api_version: &'static str,
    kind: &'static str,
    metadata: Metadata,
    spec: QuotaSpec,
}

#[derive(Serialize)]
struct QuotaSpec {
    /// Quantities are strings in the API.
    hard: BTreeMap<String, String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Namespace {
    api_version: &'static str,
    kind: &'static str,
    metadata: Metadata,
}

#[derive(Serialize)]
struct Metadata {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    namespace: Option<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    labels: BTreeMap<String, String>,
}

impl ConfigMap {
    /// `ours`: whether Tesela made it. One that was there keeps the labels it has.
    pub(super) fn new(namespace: &str, name: &str, data: BTreeMap<String, String>, ours: bool) -> Self {
        let metadata = Metadata {
            name: name.to_owned(),
            namespace: Some(namespace.to_owned()),
            labels: if ours { made_by() } else { BTreeMap::new() },
        };
        Self { api_version: "v1", kind: "ConfigMap", metadata, data }
    }
}

impl ResourceQuota {
    pub(super) fn new(namespace: &str, name: &str, hard: &BTreeMap<String, u64>) -> Self {
        let metadata =
            Metadata { name: name.to_owned(), namespace: Some(namespace.to_owned()), labels: made_by() };
        let hard = hard.iter().map(|(key, amount)| (key.clone(), amount.to_string())).collect();
        Self { api_version: "v1", kind: "ResourceQuota", metadata, spec: QuotaSpec { hard } }
    }
}

impl Namespace {
    /// Only the name: on a namespace that exists, applying it changes nothing.
    pub(super) fn new(name: &str) -> Self {
        let metadata = Metadata { name: name.to_owned(), namespace: None, labels: BTreeMap::new() };
        Self { api_version: "v1", kind: "Namespace", metadata }
    }
}

/// One document as YAML, ending in a line break. `what` names it in the error.
pub(super) fn yaml<T: Serialize>(what: &str, value: &T) -> Result<String, RenderError> {
    let mut options = serde_saphyr::SerializerOptions::default();
    // A long line stays one line: folding it would be right YAML and hard to read in a diff.
    options.folded_wrap_chars = usize::MAX;
    let mut text = serde_saphyr::to_string_with_options(value, options)
        .map_err(|cause| RenderError::Yaml { what: what.to_owned(), cause: cause.to_string() })?;
    if !text.ends_with('\n') {
        text.push('\n');
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tesela_formats::tree::read_documents;

    use super::*;

    #[test]
    fn numbers_of_a_quota_are_strings() {
        let quota = ResourceQuota::new("a", "q", &BTreeMap::from([("requests.nvidia.com/gpu".into(), 0)]));
        let text = yaml("q", &quota).unwrap();
        assert!(
            text.contains("requests.nvidia.com/gpu: \"0\"") || text.contains("requests.nvidia.com/gpu: '0'"),
            "{text}"
        );
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]
        /// What stood in a ConfigMap stands there again, to the byte, for another YAML parser than the writer's.
        #[test]
        fn data_survives_writing(value in "([ -~]|\n|\t|é|: |# |- ){0,60}", key in "[a-z][a-z0-9.-]{0,20}") {
            let map = ConfigMap::new("n", "m", BTreeMap::from([(key.clone(), value.clone())]), false);
            let text = yaml("m", &map).unwrap();
            let trees = read_documents("m", text.as_bytes()).unwrap();
            let found = trees[0].root.get("data").and_then(|d| d.get(&key)).and_then(|v| v.as_scalar());
            prop_assert_eq!(found.map(|s| s.text.to_string()), Some(value), "{}", text);
        }
    }
}
