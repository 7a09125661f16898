//! What all our documents begin with.

use schemars::JsonSchema;
use serde::Deserialize;
use tesela_model::plan::API_VERSION;

use crate::diagnostic::{Diagnostic, nearest, shown};
use crate::source::Located;
use crate::tree::{Node, Tree};

/// The kinds of documents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DocumentKind {
    /// Nodes and GPUs, and what may be bought.
    Fleet,
    /// Tenants and workloads.
    Demand,
    /// What a GPU hour costs.
    PriceBook,
    /// GPU products and MIG profiles beyond the built-in table.
    ProductTable,
    /// A plan, as `tesela plan --format json` prints it.
    Plan,
}

impl DocumentKind {
    /// Every kind.
    pub const ALL: [Self; 5] = [Self::Fleet, Self::Demand, Self::PriceBook, Self::ProductTable, Self::Plan];

    /// The word in `kind:`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Fleet => "Fleet",
            Self::Demand => "Demand",
            Self::PriceBook => "PriceBook",
            Self::ProductTable => "ProductTable",
            Self::Plan => "Plan",
        }
    }

    /// The kind of a tree, by its `apiVersion` and `kind`.
    pub(super) fn of(tree: &Tree) -> Result<Self, Diagnostic> {
        let error =
            |node: &Node, rule, message: String| Diagnostic::error(&*tree.file, rule, message).at(node.at);
        let root = &tree.root;
        if root.as_mapping().is_none() {
            let message =
                format!("a document begins with `apiVersion` and `kind`; this is {}", root.describe());
            return Err(error(root, "not-a-document", message)
                .fix(format!("begin with `apiVersion: {API_VERSION}` and `kind: Fleet` or `kind: Demand`")));
        }
        let Some(version) = root.get("apiVersion").filter(|node| !node.is_null()) else {
            return Err(error(root, "missing-field", "`apiVersion` is missing".to_owned())
                .fix(format!("begin with `apiVersion: {API_VERSION}`")));
        };
        let text = version.as_text().unwrap_or_default();
        if text != API_VERSION {
            let message = format!("`apiVersion: {}` is none of ours", shown(text));
            let kubernetes = !text.starts_with("tesela") && (text == "v1" || text.contains("/v"));
            let fix = if kubernetes {
                "this looks like a Kubernetes object; for a cluster's state give what `kubectl get nodes,pods -A -o json` prints".to_owned()
            } else {
                format!("write `apiVersion: {API_VERSION}`")
            };
            return Err(error(version, "unknown-value", message).value(shown(text)).fix(fix));
        }
        let names = || Self::ALL.map(Self::as_str);
        let Some(kind) = root.get("kind").filter(|node| !node.is_null()) else {
            return Err(error(root, "missing-field", "`kind` is missing".to_owned())
                .fix(format!("add `kind:` with one of {}", names().join(", "))));
        };
        let text = kind.as_text().unwrap_or_default();
        Self::ALL.into_iter().find(|known| known.as_str() == text).ok_or_else(|| {
            let near =
                nearest(text, names()).map_or_else(String::new, |near| format!("did you mean `{near}`? "));
            error(kind, "unknown-value", format!("`kind: {}` is none of ours", shown(text)))
                .value(shown(text))
                .fix(format!("{near}allowed: {}", names().join(", ")))
        })
    }
}

/// A document of ours.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[expect(dead_code, reason = "read before the envelope is; kept for the field list and the schema")]
pub(crate) struct Envelope<S> {
    /// Always `tesela.dev/v1alpha1`.
    api_version: String,
    /// What the document is.
    kind: String,
    /// For people; nothing depends on it.
    #[serde(default)]
    metadata: Option<Metadata>,
    /// The content.
    pub(super) spec: S,
}

/// For people; nothing depends on it.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "for people")]
pub(crate) struct Metadata {
    /// What people call the document.
    #[serde(default)]
    name: Option<Located<String>>,
}
