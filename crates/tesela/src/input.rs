//! Reads everything that a plan is made from: kubectl's JSON and documents of ours, in any order.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Cursor, Read as _};
use std::path::{Path, PathBuf};

use tesela_formats::documents::{
    DEFAULT_HEADROOM_NODES, DemandDocument, Document, FleetDocument, check_joined, join_price_books,
    merge_all, merge_fleet, parse_price_flag, read_document, unlike_observed,
};
use tesela_model::demand::{Demand, Workload, WorkloadKey};
use tesela_model::finding::Finding;
use tesela_model::fleet::Fleet;
use tesela_model::plan::Plan;
use tesela_model::price::PriceBook;
use tesela_model::product::ProductTable;
use tesela_objects::observe::{Observation, Observer, Options};
use tesela_plan::evidence::Evidence;

use crate::cli;
use crate::failure::Failure;
use crate::io::{Input, open, read_all, unreadable};
use crate::printer::Printer;
use crate::sniff::{Reader, reader};
use crate::usage;

/// Bytes looked at to tell what an input is. kubectl writes `apiVersion` first.
const HEAD: u64 = 64 << 10;

/// The finding that counts the needs a cluster does not tell.
const NEED_UNKNOWN: &str = "need-unknown";

/// What the inputs say together.
pub(crate) struct Gathered {
    /// The built-in products with the user's.
    pub(crate) products: ProductTable,
    /// Nodes and GPUs.
    pub(crate) fleet: Fleet,
    /// What is needed.
    pub(crate) demand: Demand,
    /// The demand before any document of ours changed it; `None` when nothing was observed.
    pub(crate) observed: Option<Demand>,
    /// What was measured; already in the demand, where nobody said better.
    pub(crate) evidence: Option<Evidence>,
    /// What is wrong today.
    pub(crate) findings: Vec<Finding>,
    /// Prices, those of later arguments first.
    pub(crate) prices: Option<PriceBook>,
}

/// Documents of ours among the inputs, and kubectl's output still to be read.
#[derive(Default)]
struct Sorted {
    kubectl: Vec<Input>,
    fleets: Vec<FleetDocument>,
    /// With the names of their files.
    demands: Vec<(String, DemandDocument)>,
    books: Vec<PriceBook>,
}

/// Reads the inputs of `plan`, each once. Documents first, since they say whether nodes come from elsewhere and which
/// products there are; then kubectl's output as a stream.
///
/// # Errors
/// What is wrong with an input, with file and place.
pub(crate) fn gather(
    words: &cli::Plan,
    products: &ProductTable,
    printer: &Printer,
) -> Result<Gathered, Failure> {
    let mut products = products.clone();
    let Sorted { kubectl, fleets, demands, mut books } = sort(&words.files, &mut products)?;
    if let Some(path) = &words.price_book {
        books.extend(price_books(path, &products)?);
    }
    let prices = with_flags(books, words, &products)?;
    let mut observation = if kubectl.is_empty() {
        None
    } else {
        let options =
            Options { tenant_label: words.tenant_label.clone(), nodes_elsewhere: !fleets.is_empty() };
        Some(observe(kubectl, options, &products, printer)?)
    };
    if observation.is_none() && fleets.is_empty() && demands.is_empty() {
        return Err(Failure::input("there is nothing to plan: the inputs hold no nodes and no workloads")
            .hint("add what `kubectl get nodes,pods -A -o json` prints, or a Demand"));
    }
    let evidence = usage::measure(words, observation.as_mut(), &fleets, &products, printer)?;
    let observed = observation.as_ref().map(|o| o.demand.clone());
    each_namespace_is_of_one_tenant(observed.as_ref(), &demands)?;
    let (fleet, demand, mut findings) =
        observation.map(|o| (o.fleet, o.demand, o.findings)).unwrap_or_default();
    let merged = merge_all(demand, demands.iter().map(|(_, document)| document));
    if observed.as_ref().is_some_and(|observed| without_need(observed) != without_need(&merged)) {
        // It counts needs that the cluster does not tell. Documents tell some of them, so its number is wrong now;
        // the plan's own summary counts what is left.
        findings.retain(|finding| finding.rule != NEED_UNKNOWN);
    }
    check_joined(&merged).map_err(|error| {
        let hint = error.fix;
        Failure::input(error.to_string()).hint(hint)
    })?;
    findings.extend(observed.iter().flat_map(|observed| unlike_observed(observed, &merged)));
    let start = Fleet { headroom_nodes: DEFAULT_HEADROOM_NODES, ..fleet };
    Ok(Gathered {
        fleet: fleets.into_iter().fold(start, merge_fleet),
        demand: merged,
        products,
        observed,
        evidence,
        findings,
        prices,
    })
}

/// Workloads of which nobody says what they need, with their pods.
fn without_need(demand: &Demand) -> Vec<(&WorkloadKey, u64)> {
    let unknown = |w: &&Workload| w.gpu_memory.is_none() && w.mode.is_none() && w.profile.is_none();
    demand.workloads.iter().filter(unknown).map(|w| (&w.key, w.count)).collect()
}

/// Of two documents the later wins, but a namespace that two of them give to different tenants is a contradiction
/// that no order should settle silently. A document that says what was observed, as `--write-demand` writes it,
/// claims nothing new, and a later one may say it better.
fn each_namespace_is_of_one_tenant(
    observed: Option<&Demand>,
    demands: &[(String, DemandDocument)],
) -> Result<(), Failure> {
    let tenants = observed.iter().flat_map(|demand| &demand.tenants);
    let seen = tenants.flat_map(|t| t.namespaces.iter().map(|n| (n.as_str(), t.name.as_str())));
    let seen = seen.collect::<BTreeSet<_>>();
    // Where nobody says whose a namespace is, it is its own tenant.
    let says_nothing_new = |namespace, tenant| seen.contains(&(namespace, tenant)) || namespace == tenant;
    let mut owners = BTreeMap::<&str, (&str, &str)>::new();
    for (file, document) in demands {
        for tenant in &document.tenants {
            for namespace in tenant.namespaces.iter().flatten() {
                let (namespace, name) = (namespace.as_str(), tenant.name.as_str());
                let Some((earlier, other)) = owners.insert(namespace, (file, name)) else { continue };
                if other == name || says_nothing_new(namespace, other) {
                    continue;
                }
                let hint = if says_nothing_new(namespace, name) {
                    format!(
                        "{file} says what was observed: name it before {earlier}, since what stands later wins"
                    )
                } else {
                    "leave the namespace with one of the two".to_owned()
                };
                return Err(Failure::input(format!(
                    "{file}: spec.tenants: gives namespace {namespace} to tenant {name}, and {earlier} gives it to \
                     tenant {other}; a namespace is of one tenant"
                ))
                .hint(hint));
            }
        }
    }
    Ok(())
}

/// Opens each input, reads the documents, and keeps kubectl's output open.
fn sort(files: &[PathBuf], products: &mut ProductTable) -> Result<Sorted, Failure> {
    let mut sorted = Sorted::default();
    for (index, file) in files.iter().enumerate() {
        if files[..index].contains(file) {
            return Err(Failure::input(format!("{}: is named twice", file.display())));
        }
        let (reader, input) = sniffed(file)?;
        match reader {
            Reader::Kubectl => {
                sorted.kubectl.push(input);
                continue;
            }
            Reader::Usage => {
                let refusal =
                    Failure::input(format!("{}: is an answer of Prometheus, not of kubectl", input.name));
                return Err(refusal.hint(format!("say so: --usage {}", input.name)));
            }
            Reader::Documents => {}
        }
        let name = input.name.clone();
        for document in read_document(&name, &read_all(input)?, products)? {
            match document {
                Document::Fleet(fleet) => sorted.fleets.push(fleet),
                Document::Demand(demand) => sorted.demands.push((name.clone(), demand)),
                Document::PriceBook(book) => sorted.books.push(book),
                Document::ProductTable(more) => *products = products.with_user(more),
                Document::Plan(_) => {
                    return Err(Failure::input(format!("{name}: is a Plan, which is a result and no input"))
                        .hint(format!(
                            "write it as manifests with: tesela render {name} --for native --out steps"
                        )));
                }
            }
        }
    }
    Ok(sorted)
}

/// Opens an input and says who reads it; nothing of it is lost.
fn sniffed(file: &Path) -> Result<(Reader, Input), Failure> {
    let Input { name, reader: mut bytes } = open(file)?;
    let mut head = Vec::new();
    bytes.by_ref().take(HEAD).read_to_end(&mut head).map_err(|error| unreadable(&name, &error))?;
    let who = reader(&head);
    Ok((who, Input { name, reader: Box::new(Cursor::new(head).chain(bytes)) }))
}

fn observe(
    inputs: Vec<Input>,
    options: Options,
    products: &ProductTable,
    printer: &Printer,
) -> Result<Observation, Failure> {
    let mut observer = Observer::new(products, options);
    for Input { name, reader } in inputs {
        printer.progress(&format!("reading {}", if name == "-" { "standard input" } else { &name }));
        observer.read(&name, reader).map_err(|error| Failure::input(error.to_string()))?;
    }
    observer.finish().map_err(|error| Failure::input(error.to_string()))
}

/// The built-in products with those of a user's file on top.
///
/// # Errors
/// When the file cannot be read or holds something else than a ProductTable.
pub(crate) fn products(file: Option<&Path>) -> Result<ProductTable, Failure> {
    let mut table = ProductTable::builtin().clone();
    let Some(file) = file else { return Ok(table) };
    for document in documents(file, &table)? {
        match document {
            Document::ProductTable(more) => table = table.with_user(more),
            other => return Err(wrong_kind(file, &other, "a ProductTable")),
        }
    }
    Ok(table)
}

/// A plan as `tesela plan` printed it.
///
/// # Errors
/// When the file cannot be read or holds anything but one Plan.
pub(crate) fn plan(file: &Path, products: &ProductTable) -> Result<Plan, Failure> {
    let mut found = None;
    for document in documents(file, products)? {
        match document {
            Document::Plan(plan) if found.is_none() => found = Some(*plan),
            Document::Plan(_) => {
                return Err(Failure::input(format!("{}: holds more than one Plan", file.display())));
            }
            other => {
                return Err(wrong_kind(file, &other, "a Plan, as `tesela plan --format json` prints it"));
            }
        }
    }
    found.ok_or_else(|| Failure::input(format!("{}: holds no Plan", file.display())))
}

fn price_books(file: &Path, products: &ProductTable) -> Result<Vec<PriceBook>, Failure> {
    let mut books = Vec::new();
    for document in documents(file, products)? {
        match document {
            Document::PriceBook(book) => books.push(book),
            other => return Err(wrong_kind(file, &other, "a PriceBook")),
        }
    }
    Ok(books)
}

fn documents(file: &Path, products: &ProductTable) -> Result<Vec<Document>, Failure> {
    let input = open(file)?;
    let name = input.name.clone();
    Ok(read_document(&name, &read_all(input)?, products)?)
}

fn wrong_kind(file: &Path, found: &Document, wanted: &str) -> Failure {
    Failure::input(format!("{}: is a {}, not {wanted}", file.display(), found.kind().as_str()))
}

/// The prices of all books, with those of `--price` in front.
fn with_flags(
    mut books: Vec<PriceBook>,
    words: &cli::Plan,
    products: &ProductTable,
) -> Result<Option<PriceBook>, Failure> {
    // First, so that every price that a user gives replaces it.
    if let Some(list) = words.cloud_prices {
        books.insert(0, list.price_book());
    }
    let of_book = books.first().map(|book| book.currency.clone());
    let currency = words.currency.clone().or(of_book).unwrap_or_else(|| "EUR".to_owned());
    for flag in &words.prices {
        books.push(parse_price_flag(flag, &currency, products)?);
    }
    let joined = join_price_books(books)
        .map_err(|one| Failure::from(tesela_formats::diagnostic::Diagnostics::from(one)))?;
    match (&joined, &words.currency) {
        (Some(book), Some(wanted)) if book.currency != *wanted => Err(Failure::input(format!(
            "--currency is {wanted}, the prices of {} are in {}",
            book.source, book.currency
        ))),
        _ => Ok(joined),
    }
}
