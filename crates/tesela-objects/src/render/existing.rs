//! ConfigMaps that the cluster already has. Their entries stay as they are, to the byte; ours are added.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::{Map, Number, Value};
use tesela_formats::diagnostic::{Diagnostic, Diagnostics};
use tesela_formats::tree::{self, Mapping, Node, Resolved, Schema, read_documents};

use super::error::RenderError;

/// ConfigMaps of the cluster that already hold configs of NVIDIA's programs; at most one of each kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Existing {
    mig: Option<ExistingMap>,
    plugin: Option<ExistingMap>,
    operator_namespace: Option<String>,
}

/// One ConfigMap as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ExistingMap {
    /// As in its metadata; absent where the text has none.
    pub(super) namespace: Option<String>,
    /// As in its metadata.
    pub(super) name: String,
    /// All of `data`.
    pub(super) data: BTreeMap<String, String>,
    /// The key that holds the mig-parted document; for the device plugin each key is an entry, and this is `None`.
    pub(super) mig_key: Option<String>,
}

impl Existing {
    /// Nothing is known of the cluster's ConfigMaps.
    #[must_use]
    pub fn none() -> Self {
        Self::default()
    }

    /// Adds the ConfigMaps of a text: what `kubectl get configmap NAME -o yaml` (or `json`) prints, a list, or
    /// several documents. `file` is what messages call the text.
    ///
    /// # Errors
    /// Rules `existing-kind` (no ConfigMap), `existing-data` (data is no text), `existing-content` (neither
    /// mig-parted nor device plugin), `existing-twice` (two ConfigMaps of one kind), and those of
    /// [`read_documents`].
    pub fn read(&mut self, file: &str, bytes: &[u8]) -> Result<(), Diagnostics> {
        for document in read_documents(file, bytes)? {
            let root = &document.root;
            let kind = root.get("kind").and_then(Node::as_text).unwrap_or_default();
            match root.get("items").and_then(Node::as_sequence) {
                Some(items) if matches!(kind, "List" | "ConfigMapList") => {
                    for item in items {
                        self.add(file, item, kind == "ConfigMapList")?;
                    }
                }
                _ => self.add(file, root, false)?,
            }
        }
        Ok(())
    }

    fn add(&mut self, file: &str, node: &Node, typed_list: bool) -> Result<(), Diagnostics> {
        let kind = node.get("kind").and_then(Node::as_text);
        if !(kind == Some("ConfigMap") || typed_list && kind.is_none()) {
            let found = kind.map_or("an object without a kind".to_owned(), |k| format!("a {k}"));
            return Err(Diagnostic::error(
                file,
                "existing-kind",
                format!("expected a ConfigMap, found {found}"),
            )
            .at(node.at)
            .fix("give what `kubectl get configmap NAME -n NAMESPACE -o yaml` prints")
            .into());
        }
        let map = read_map(file, node)?;
        let place = if map.mig_key.is_some() { &mut self.mig } else { &mut self.plugin };
        if let Some(first) = place {
            let what = format!("two ConfigMaps of one kind: `{}` and `{}`", first.name, map.name);
            return Err(Diagnostic::error(file, "existing-twice", what)
                .at(node.at)
                .fix("give only the one that the cluster uses")
                .into());
        }
        *place = Some(map);
        Ok(())
    }

    /// Where the GPU Operator's pods run, where a person says so; goes before what the plan's input showed.
    #[must_use]
    pub fn in_operator_namespace(mut self, namespace: Option<String>) -> Self {
        self.operator_namespace = namespace;
        self
    }

    pub(super) fn operator_namespace(&self) -> Option<&str> {
        self.operator_namespace.as_deref()
    }

    pub(super) fn mig(&self) -> Option<&ExistingMap> {
        self.mig.as_ref()
    }

    pub(super) fn plugin(&self) -> Option<&ExistingMap> {
        self.plugin.as_ref()
    }
}

fn read_map(file: &str, node: &Node) -> Result<ExistingMap, Diagnostics> {
    let metadata = node.get("metadata");
    let text = |key: &str| metadata.and_then(|m| m.get(key)).and_then(Node::as_text).map(str::to_owned);
    let name = text("name").ok_or_else(|| {
        Diagnostic::error(file, "existing-kind", "a ConfigMap without metadata.name").at(node.at)
    })?;
    let mut data = BTreeMap::new();
    let mut mig_key = None;
    for entry in node.get("data").and_then(Node::as_mapping).map_or(&[][..], |m| &m.entries) {
        let key = entry.key.text.to_string();
        let Some(scalar) = entry.value.as_scalar() else {
            let what = format!("data.{key} of ConfigMap `{name}` is {}, not text", entry.value.describe());
            return Err(Diagnostic::error(file, "existing-data", what).at(entry.value.at).into());
        };
        match content(&scalar.text) {
            Content::MigParted => mig_key = Some(key.clone()),
            Content::DevicePlugin => {}
            Content::Other => {
                let what = format!(
                    "data.{key} of ConfigMap `{name}` is no config of mig-parted or of the device plugin"
                );
                return Err(Diagnostic::error(file, "existing-content", what)
                    .at(entry.value.at)
                    .fix("give the ConfigMaps that ClusterPolicy names in migManager.config.name and devicePlugin.config.name")
                    .into());
            }
        }
        data.insert(key, scalar.text.to_string());
    }
    Ok(ExistingMap { namespace: text("namespace"), name, data, mig_key })
}

enum Content {
    MigParted,
    DevicePlugin,
    Other,
}

/// A device plugin entry may be empty (device-plugin config v1: an empty file is version v1).
fn content(text: &str) -> Content {
    if text.trim().is_empty() {
        return Content::DevicePlugin;
    }
    let Some(root) = parsed(text) else { return Content::Other };
    match root.as_mapping() {
        Some(map) if map.get("mig-configs").is_some() => Content::MigParted,
        Some(map)
            if ["version", "flags", "sharing", "resources", "imex"].iter().any(|k| map.get(k).is_some()) =>
        {
            Content::DevicePlugin
        }
        _ => Content::Other,
    }
}

fn parsed(text: &str) -> Option<Node> {
    let mut documents = read_documents("config", text.as_bytes()).ok()?;
    (documents.len() == 1).then(|| documents.remove(0).root)
}

/// A device plugin config by name, as a value; `None` when it is unknown, empty or no mapping.
pub(super) fn plugin_entry(map: Option<&ExistingMap>, name: &str) -> Option<Map<String, Value>> {
    match value(&parsed(map?.data.get(name)?)?) {
        Value::Object(object) => Some(object),
        _ => None,
    }
}

/// A tree as NVIDIA's parser understands it.
fn value(node: &Node) -> Value {
    match &node.value {
        tree::Value::Sequence(items) => items.iter().map(value).collect(),
        tree::Value::Mapping(map) => {
            Value::Object(map.entries.iter().map(|e| (e.key.text.to_string(), value(&e.value))).collect())
        }
        tree::Value::Scalar(scalar) => match scalar.resolve(Schema::Yaml11) {
            Resolved::Null => Value::Null,
            Resolved::Bool(b) => Value::Bool(b),
            Resolved::Int(i) => i64::try_from(i).map_or_else(|_| Value::String(i.to_string()), Value::from),
            Resolved::Float(f) => Number::from_f64(f).map_or(Value::Null, Value::Number),
            Resolved::Text => Value::String(scalar.text.to_string()),
        },
    }
}

impl ExistingMap {
    /// The labels of its mig-parted document.
    pub(super) fn mig_labels(&self) -> Vec<String> {
        let text = self.mig_key.as_ref().and_then(|key| self.data.get(key));
        let root = text.and_then(|text| parsed(text));
        let labels = root.as_ref().and_then(|r| r.get("mig-configs")).and_then(Node::as_mapping);
        labels.map_or_else(Vec::new, |m| m.entries.iter().map(|e| e.key.text.to_string()).collect())
    }

    /// `data` with our device plugin entries added.
    pub(super) fn with_entries(
        &self,
        namespace: &str,
        ours: &BTreeMap<String, String>,
    ) -> Result<BTreeMap<String, String>, RenderError> {
        let mut data = self.data.clone();
        for (entry, text) in ours {
            let clash = data.get(entry).is_some_and(|there| !same(there, text));
            if clash {
                return Err(self.clash(namespace, entry));
            }
            data.entry(entry.clone()).or_insert_with(|| text.clone());
        }
        Ok(data)
    }

    /// `data` with our labels added to the mig-parted document. `ours`: the entry of each label, as block YAML
    /// without indent.
    pub(super) fn with_labels(
        &self,
        namespace: &str,
        ours: &BTreeMap<String, String>,
    ) -> Result<BTreeMap<String, String>, RenderError> {
        let Some(key) = &self.mig_key else { return Ok(self.data.clone()) };
        let unmergeable = |what: &str| RenderError::Unmergeable {
            namespace: namespace.to_owned(),
            name: self.name.clone(),
            key: key.clone(),
            what: what.to_owned(),
        };
        let text = self.data.get(key).map(String::as_str).unwrap_or_default();
        let root = parsed(text).ok_or_else(|| unmergeable("it cannot be read"))?;
        let there = root.get("mig-configs").and_then(Node::as_mapping);
        let there = there.ok_or_else(|| unmergeable("`mig-configs` is no mapping"))?;
        let mut missing = BTreeMap::new();
        for (label, entry) in ours {
            match there.get(label) {
                Some(found) if Some(value(found)) == parsed(entry).as_ref().map(value) => {}
                Some(_) => return Err(self.clash(namespace, label)),
                None => {
                    missing.insert(label, entry);
                }
            }
        }
        if missing.is_empty() {
            return Ok(self.data.clone());
        }
        let merged = insert(text, there, &missing).ok_or_else(|| unmergeable("it is not in block style"))?;
        if !kept(&merged, there, ours) {
            return Err(unmergeable("entries cannot be added without changing its meaning"));
        }
        let mut data = self.data.clone();
        data.insert(key.clone(), merged);
        Ok(data)
    }

    fn clash(&self, namespace: &str, entry: &str) -> RenderError {
        RenderError::Clash {
            namespace: namespace.to_owned(),
            name: self.name.clone(),
            entry: entry.to_owned(),
        }
    }
}

/// Whether two texts say the same.
fn same(a: &str, b: &str) -> bool {
    a == b || matches!((parsed(a), parsed(b)), (Some(a), Some(b)) if value(&a) == value(&b))
}

/// Writes the missing labels just before the first one that is there, with its indent and line ends.
fn insert(text: &str, there: &Mapping, missing: &BTreeMap<&String, &String>) -> Option<String> {
    let first = there.entries.first()?.key.at;
    let line = usize::try_from(first.line).ok()?.checked_sub(1)?;
    let offset: usize = text.split_inclusive('\n').take(line).map(str::len).sum();
    let rest = text.get(offset..)?;
    let indent: String = rest.chars().take(usize::try_from(first.column).ok()?.checked_sub(1)?).collect();
    if !indent.chars().all(|c| c == ' ') {
        return None;
    }
    let end = if text.contains("\r\n") { "\r\n" } else { "\n" };
    let mut added = String::new();
    for (label, entry) in missing {
        let _ = write!(added, "{indent}{label}:{end}");
        for line in entry.lines() {
            let _ = write!(added, "{indent}{line}{end}");
        }
    }
    Some(format!("{}{added}{rest}", &text[..offset]))
}

/// Whether a merged text has all that was there, and all of ours.
fn kept(merged: &str, there: &Mapping, ours: &BTreeMap<String, String>) -> bool {
    let Some(root) = parsed(merged) else { return false };
    let Some(now) = root.get("mig-configs").and_then(Node::as_mapping) else { return false };
    there.entries.iter().all(|e| now.get(&e.key.text).map(value) == Some(value(&e.value)))
        && ours.iter().all(|(label, entry)| now.get(label).map(value) == parsed(entry).as_ref().map(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Existing, Diagnostics> {
        let mut existing = Existing::none();
        existing.read("cm.yaml", text.as_bytes()).map(|()| existing)
    }

    fn mig(document: &str) -> ExistingMap {
        ExistingMap {
            namespace: None,
            name: "m".into(),
            data: BTreeMap::from([("config.yaml".into(), document.to_owned())]),
            mig_key: Some("config.yaml".into()),
        }
    }

    const OURS: &str = "- devices: [0]\n  mig-enabled: true\n  mig-devices:\n    1g.10gb: 7\n";

    fn ours() -> BTreeMap<String, String> {
        BTreeMap::from([("tesela-x".to_owned(), OURS.to_owned())])
    }

    #[test]
    fn what_was_there_keeps_its_bytes() {
        let before = "# by hand\nversion: v1\nmig-configs:\n\n    # the default\n    all-disabled:   # off\n      - {devices: all, mig-enabled: no}\n    b:\n      - devices: [1]\n        mig-enabled: false\n";
        let data = mig(before).with_labels("n", &ours()).unwrap();
        let merged = &data["config.yaml"];
        let at = merged.find("    tesela-x:").unwrap();
        let added = "    tesela-x:\n    - devices: [0]\n      mig-enabled: true\n      mig-devices:\n        1g.10gb: 7\n";
        assert_eq!(merged.replacen(added, "", 1), before);
        assert!(at < merged.find("all-disabled").unwrap());
        // A second time nothing is added.
        assert_eq!(mig(merged).with_labels("n", &ours()).unwrap()["config.yaml"], *merged);
    }

    #[test]
    fn another_content_under_our_name_is_a_clash() {
        let there = "version: v1\nmig-configs:\n  tesela-x:\n  - devices: all\n    mig-enabled: false\n";
        let error = mig(there).with_labels("n", &ours()).unwrap_err();
        assert!(matches!(error, RenderError::Clash { ref entry, .. } if entry == "tesela-x"), "{error}");
        let flow = "{version: v1, mig-configs: {a: [{devices: all, mig-enabled: false}]}}";
        assert!(matches!(mig(flow).with_labels("n", &ours()), Err(RenderError::Unmergeable { .. })));
    }

    #[test]
    fn the_two_kinds_are_told_apart() {
        let existing = read(
            "apiVersion: v1\nkind: List\nitems:\n- kind: ConfigMap\n  metadata: {name: p, namespace: g}\n  data:\n    any: |\n      version: v1\n    none: \"\"\n- kind: ConfigMap\n  metadata: {name: m}\n  data:\n    config.yaml: |\n      version: v1\n      mig-configs:\n        all-disabled:\n        - devices: all\n          mig-enabled: false\n",
        )
        .unwrap();
        assert_eq!(existing.plugin().unwrap().namespace.as_deref(), Some("g"));
        assert_eq!(existing.mig().unwrap().mig_labels(), ["all-disabled"]);
    }

    #[test]
    fn what_is_no_config_is_refused_with_its_place() {
        let fault = |text| read(text).unwrap_err().to_string();
        assert!(
            fault("kind: Secret\nmetadata: {name: s}\n").starts_with("cm.yaml:1:1: expected a ConfigMap")
        );
        assert!(
            fault("kind: ConfigMap\nmetadata: {name: s}\ndata:\n  a: 'hello'\n").starts_with("cm.yaml:4:6: ")
        );
        let twice = "kind: ConfigMap\nmetadata: {name: p}\ndata: {a: 'version: v1'}\n---\nkind: ConfigMap\nmetadata: {name: q}\ndata: {a: 'version: v1'}\n";
        assert!(fault(twice).contains("two ConfigMaps of one kind"));
        assert!(
            fault("kind: ConfigMap\nmetadata: {name: s}\ndata: {a: [1]}\n").contains("is a list, not text")
        );
    }

    #[test]
    fn entries_of_the_plugin_are_kept() {
        let map = ExistingMap {
            namespace: None,
            name: "p".into(),
            data: BTreeMap::from([("any".into(), "version: v1   # mine\n".to_owned())]),
            mig_key: None,
        };
        let ours = BTreeMap::from([("tesela-a".to_owned(), "version: v1\n".to_owned())]);
        let data = map.with_entries("n", &ours).unwrap();
        assert_eq!(data["any"], "version: v1   # mine\n");
        assert_eq!(data["tesela-a"], "version: v1\n");
        let clash = BTreeMap::from([("any".to_owned(), "version: v1\nflags: {}\n".to_owned())]);
        assert!(map.with_entries("n", &clash).is_err());
    }
}
