//! Our own documents: strict, each value with its file, line and column.
//!
//! Every document has `apiVersion: tesela.dev/v1alpha1` and a `kind`. Fleet, Demand, PriceBook and ProductTable
//! hold their content under `spec`, with keys in camelCase; a Plan is what `tesela plan` prints. A file may hold
//! several documents, in YAML or JSON.
//!
//! ```yaml
//! apiVersion: tesela.dev/v1alpha1
//! kind: Demand
//! spec:
//!   workloads:
//!     - {name: chat, namespace: agents, count: 12, gpuMemory: 9Gi, isolation: instance}
//! ```
//!
//! Nothing is ignored in silence: an unknown field, a value out of its range, without its unit or in contradiction
//! to another is an error that names the value, the rule, and what to write.

pub(crate) mod check;
mod decimal;
pub(crate) mod demand;
pub(crate) mod envelope;
pub(crate) mod fleet;
pub(crate) mod hardware;
mod name;
mod owned;
mod places;
pub(crate) mod price_book;
pub(crate) mod product_table;
pub(crate) mod scalar;

use serde::de::DeserializeOwned;
use tesela_model::plan::Plan;
use tesela_model::price::PriceBook;
use tesela_model::product::{Product, ProductTable};

pub use self::demand::{
    DEFAULT_KIND, DemandDocument, JoinedContradiction, TenantEdit, WorkloadEdit, check_joined, merge,
    merge_all, unlike_observed, write_demand,
};
pub use self::envelope::DocumentKind;
use self::envelope::Envelope;
pub use self::fleet::{DEFAULT_HEADROOM_NODES, FleetDocument, merge_fleet};
pub use self::price_book::{COMMAND_LINE, join_price_books, parse_price_flag};
use crate::de::{self, Options, Place};
use crate::diagnostic::{Diagnostic, Diagnostics};
use crate::sniff::{Kind, sniff};
use crate::tree::{self, Tree};

/// One document, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Document {
    /// Nodes and GPUs, and what may be bought.
    Fleet(FleetDocument),
    /// Tenants and workloads.
    Demand(DemandDocument),
    /// What a GPU hour costs.
    PriceBook(PriceBook),
    /// Products beyond the built-in table, for [`ProductTable::with_user`].
    ProductTable(Vec<Product>),
    /// A plan.
    Plan(Box<Plan>),
}

impl Document {
    /// What it is.
    #[must_use]
    pub fn kind(&self) -> DocumentKind {
        match self {
            Self::Fleet(_) => DocumentKind::Fleet,
            Self::Demand(_) => DocumentKind::Demand,
            Self::PriceBook(_) => DocumentKind::PriceBook,
            Self::ProductTable(_) => DocumentKind::ProductTable,
            Self::Plan(_) => DocumentKind::Plan,
        }
    }
}

/// Reads every document of a text, in the order of the text. `name` is what messages call the text.
///
/// Products are looked up in `products`, joined by the ProductTable documents of this text. Those of other texts
/// must be in `products` already.
///
/// # Errors
/// Everything found wrong. Beside the rules of [`crate::tree`] and [`crate::de`]: `not-a-document`,
/// `kubectl-output`, `contradiction`, `duplicate-name`, `invalid-name`, `missing-unit`, `unknown-unit`,
/// `unknown-product`, `unknown-profile`, `impossible-layout`.
pub fn read_document(
    name: &str,
    bytes: &[u8],
    products: &ProductTable,
) -> Result<Vec<Document>, Diagnostics> {
    kubectl(name, bytes)?;
    let trees = tree::read_documents(name, bytes)?;
    let mut found = Diagnostics::default();
    let mut kinds = Vec::new();
    for tree in &trees {
        match DocumentKind::of(tree) {
            Ok(kind) => kinds.push((kind, tree)),
            Err(one) => found.extend(one.into()),
        }
    }
    let mut tables = Vec::new();
    for (_, tree) in kinds.iter().filter(|(kind, _)| *kind == DocumentKind::ProductTable) {
        let read = spec(tree, places::PRODUCT_TABLE).and_then(|spec| product_table::read(name, &spec));
        tables.push(keep(&mut found, read));
    }
    let products = products.with_user(tables.iter().flatten().flatten().cloned());
    let mut tables = tables.into_iter();
    let mut documents = Vec::new();
    for (kind, tree) in kinds {
        let document = match kind {
            // In the order of the text, as they were read above.
            DocumentKind::ProductTable => tables.next().flatten().map(Document::ProductTable),
            other => keep(&mut found, read_one(name, other, tree, &products)),
        };
        documents.extend(document);
    }
    let mut all: Vec<Diagnostic> = found.into_iter().collect();
    all.sort_by_key(|one| one.at);
    Diagnostics::new(all).into_result(documents)
}

fn read_one(
    name: &str,
    kind: DocumentKind,
    tree: &Tree,
    products: &ProductTable,
) -> Result<Document, Diagnostics> {
    match kind {
        DocumentKind::Fleet => fleet::read(name, &spec(tree, places::FLEET)?, products).map(Document::Fleet),
        DocumentKind::Demand => {
            demand::read(name, &spec(tree, places::DEMAND)?, products).map(Document::Demand)
        }
        DocumentKind::PriceBook => {
            price_book::read(name, &spec(tree, places::PRICE_BOOK)?, products).map(Document::PriceBook)
        }
        DocumentKind::ProductTable => {
            product_table::read(name, &spec(tree, places::PRODUCT_TABLE)?).map(Document::ProductTable)
        }
        DocumentKind::Plan => {
            de::from_tree(tree, Options::default()).map(|plan| Document::Plan(Box::new(plan)))
        }
    }
}

fn spec<S: DeserializeOwned>(tree: &Tree, places: &[Place]) -> Result<S, Diagnostics> {
    let envelope: Envelope<S> = de::from_tree(tree, Options { places, ..Options::default() })?;
    Ok(envelope.spec)
}

fn keep<T>(found: &mut Diagnostics, read: Result<T, Diagnostics>) -> Option<T> {
    match read {
        Ok(value) => Some(value),
        Err(more) => {
            found.extend(more);
            None
        }
    }
}

/// What people pipe in by mistake instead of JSON or a document.
fn kubectl(name: &str, bytes: &[u8]) -> Result<(), Diagnostics> {
    let (message, fix) = match sniff(bytes) {
        Kind::KubectlTable => (
            "this is the table that `kubectl get` prints",
            "add `-o json`: kubectl get nodes,pods -A -o json",
        ),
        Kind::KubectlMessage => (
            "this is a message of kubectl, not its JSON",
            "run the kubectl command alone and see why it failed",
        ),
        _ => return Ok(()),
    };
    Err(Diagnostic::error(name, "kubectl-output", message).fix(fix).into())
}
