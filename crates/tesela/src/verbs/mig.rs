//! `tesela mig`: the MIG layouts of the node this program runs on.

mod answer;
mod export;
mod work;

use std::path::Path;

use tesela_executor::checkpoint::Checkpoint;
use tesela_executor::observe::{GpuState, Seen, observe};
use tesela_executor::plan::{Change, GpuPlan, plan};
use tesela_executor::wish::Wish;
use tesela_formats::mig_parted::{Config, Label, NodeGpu, generated, read};
use tesela_formats::reading::Effect;
use tesela_formats::tree::read_documents;
use tesela_model::driver::{GpuDriver, GpuUuid};
use tesela_model::product::{ProductTable, nearest};

pub(crate) use self::answer::{Answer, Gpu, Holder};
use crate::cli::mig as cli;
use crate::cli::mig::MigVerb;
use crate::driver;
use crate::failure::{Failure, Outcome};
use crate::io::{self, Existing, open, read_all};
use crate::node;
use crate::printer::Printer;
use crate::table;

/// A GPU that does not answer.
pub(crate) struct Silent {
    /// UUID, else its place in the list.
    pub(crate) name: String,
    /// What the driver said.
    pub(crate) reason: String,
}

/// Plans of the GPUs that a wish is about, and those that cannot be planned.
pub(crate) struct Planned {
    pub(crate) plans: Vec<GpuPlan>,
    pub(crate) silent: Vec<Silent>,
}

/// Runs one of the verbs.
///
/// # Errors
/// What the user has to be told; nothing is on standard output then.
pub(crate) fn run(verb: &MigVerb, products: &ProductTable, printer: &Printer) -> Result<Outcome, Failure> {
    match verb {
        MigVerb::Plan(words) => {
            let planned = planned(words, products, printer)?;
            let blocked = !planned.silent.is_empty() || planned.plans.iter().any(|p| p.blocked.is_some());
            put(planned, words, printer, table::mig::Told::Plan)?;
            Ok(if blocked { Outcome::Partly } else { Outcome::Done })
        }
        MigVerb::Assert(words) => {
            let planned = planned(words, products, printer)?;
            let same = |p: &GpuPlan| p.change == Change::None && p.blocked.is_none();
            let same = planned.silent.is_empty() && planned.plans.iter().all(same);
            put(planned, words, printer, table::mig::Told::Assert)?;
            Ok(if same { Outcome::Done } else { Outcome::NotSo })
        }
        MigVerb::Apply(words) => {
            refuse_hooks(&words.wanted)?;
            let config = words.wanted.file.as_deref().map(config).transpose()?;
            let wish = |driver: &dyn GpuDriver| by_label(driver, config.as_ref(), &words.wanted, products);
            work::run(&words.work, &words.node, &wish, printer)
        }
        MigVerb::Restore(words) => {
            let saved = checkpoint(&words.file)?;
            let wish = |driver: &dyn GpuDriver| by_checkpoint(driver, &saved, &words.file, products);
            work::run(&words.work, &words.node, &wish, printer)
        }
        MigVerb::Export(words) => export::run(words, products, printer),
        MigVerb::Checkpoint(words) => write_checkpoint(words, products, printer),
    }
}

fn planned(words: &cli::MigPlan, products: &ProductTable, printer: &Printer) -> Result<Planned, Failure> {
    refuse_hooks(&words.wanted)?;
    let config = words.wanted.file.as_deref().map(config).transpose()?;
    let session = driver::open(&words.node.driver)?;
    for manager in node::managers(&words.node.host_root) {
        printer.note(&format!(
            "note: {} serves this node ({}); `tesela mig apply` would refuse to change anything",
            manager.name, manager.evidence
        ));
    }
    by_label(&session, config.as_ref(), &words.wanted, products)
}

fn put(
    planned: Planned,
    words: &cli::MigPlan,
    printer: &Printer,
    told: table::mig::Told,
) -> Result<(), Failure> {
    let answer = Answer::new(planned, None, &words.node.host_root);
    printer.result(&answer, |page| table::mig::put(page, &answer, told))
}

fn refuse_hooks(wanted: &cli::Wanted) -> Result<(), Failure> {
    match &wanted.hooks_file {
        None => Ok(()),
        Some(file) => Err(no_hooks(&file.display().to_string())),
    }
}

fn no_hooks(name: &str) -> Failure {
    Failure::input(format!(
        "{name}: hooks are not run: they stop services because NVIDIA's tool takes every instance of a GPU away, and \
         Tesela takes only those that nobody uses"
    ))
    .hint("leave the hooks out; where a MIG mode changes on an Ampere, stop what holds the GPU before")
}

/// Reads a config. A hooks file is told from it.
fn config(path: &Path) -> Result<Config, Failure> {
    let input = open(path)?;
    let name = input.name.clone();
    let bytes = read_all(input)?;
    let reading = read(&name, &bytes)?;
    if let Some(config) = reading.config {
        return Ok(config);
    }
    let hooks = read_documents(&name, &bytes).is_ok_and(|trees| {
        trees.iter().any(|tree| tree.root.as_mapping().is_some_and(|m| m.get("hooks").is_some()))
    });
    if hooks {
        return Err(no_hooks(&name));
    }
    let refused = reading.notes.iter().filter(|note| note.effect == Effect::Refused);
    let told = refused.map(|note| Failure::input(note.to_diagnostic(&name).to_string())).collect();
    Err(Failure::join(told).unwrap_or_else(|| Failure::input(format!("{name}: is refused"))))
}

fn checkpoint(path: &Path) -> Result<Checkpoint, Failure> {
    let input = open(path)?;
    let name = input.name.clone();
    Checkpoint::read(&read_all(input)?).map_err(|error| {
        Failure::input(format!("{name}: {error}")).hint("give a file that `tesela mig checkpoint` wrote")
    })
}

fn seen(driver: &dyn GpuDriver) -> Result<Vec<Seen>, Failure> {
    let seen = observe(driver).map_err(|error| Failure::program(error.to_string()))?;
    if seen.is_empty() {
        return Err(Failure::program("the driver sees no GPU on this node"));
    }
    Ok(seen)
}

/// Plans what a label of a config wants; without a file one of the generated labels.
fn by_label(
    driver: &dyn GpuDriver,
    config: Option<&Config>,
    wanted: &cli::Wanted,
    products: &ProductTable,
) -> Result<Planned, Failure> {
    let seen = seen(driver)?;
    let made;
    let (config, name) = match (config, &wanted.file) {
        (Some(config), Some(path)) => (config, path.display().to_string()),
        _ => {
            made = labels_of(&seen, products);
            (&made, "the labels of this node".to_owned())
        }
    };
    let label = chosen(config, wanted.config.as_deref(), &name)?;
    let states = states(&seen);
    let gpus = states.iter().map(|state| node_gpu(state)).collect::<Vec<_>>();
    let entries = label.on_node(&gpus).map_err(|error| {
        Failure::input(format!("{name}:{}: {error}", error.at))
            .hint("take its index out, or write `mig-enabled: false`")
    })?;
    let mut plans = Vec::new();
    for (state, entry) in states.iter().zip(entries) {
        if let Some(entry) = entry {
            let wish = entry.wanted().map_or(Wish::Off, Wish::Counts);
            plans.push(plan(state, products, &wish));
        }
    }
    let named = |index: u32| {
        label.entries.iter().any(|entry| match &entry.devices.value {
            tesela_formats::mig_parted::Devices::All => true,
            tesela_formats::mig_parted::Devices::Indexes(list) => list.contains(&i64::from(index)),
        })
    };
    Ok(Planned { plans, silent: silent(&seen, |index, _| named(index)) })
}

fn chosen<'a>(config: &'a Config, name: Option<&str>, file: &str) -> Result<&'a Label, Failure> {
    let known = config.labels.iter().map(|label| label.name.value.as_str()).collect::<Vec<_>>();
    let list = if known.is_empty() { "no label".to_owned() } else { known.join(", ") };
    match name {
        None => config.only_label().ok_or_else(|| {
            Failure::input(format!("{file}: which label? It has {list}")).hint("name one with -c")
        }),
        Some(name) => config.label(name).ok_or_else(|| {
            let near = nearest(name, known.iter().copied());
            let near = near.first().map(|near| format!(", did you mean {near}?")).unwrap_or_default();
            Failure::input(format!("{file}: there is no label `{name}`{near} It has {list}"))
        }),
    }
}

fn states(seen: &[Seen]) -> Vec<&GpuState> {
    seen.iter()
        .filter_map(|one| match one {
            Seen::Gpu(state) => Some(&**state),
            Seen::Unreadable { .. } => None,
        })
        .collect()
}

fn silent(seen: &[Seen], wanted: impl Fn(u32, Option<&str>) -> bool) -> Vec<Silent> {
    let mut found = Vec::new();
    for one in seen {
        if let Seen::Unreadable { index, uuid, error } = one {
            let uuid = uuid.as_ref().map(GpuUuid::as_str);
            if wanted(*index, uuid) {
                let name = uuid.map_or_else(|| format!("GPU {index}"), str::to_owned);
                found.push(Silent { name, reason: error.to_string() });
            }
        }
    }
    found
}

fn node_gpu(state: &GpuState) -> NodeGpu {
    NodeGpu {
        index: state.identity.index,
        device: state.identity.pci_device_id,
        subsystem: Some(state.identity.pci_subsystem_id),
        mig_capable: state.mode.is_some(),
    }
}

/// The labels that NVIDIA's generator would make here.
fn labels_of(seen: &[Seen], products: &ProductTable) -> Config {
    let capable = states(seen).into_iter().filter(|state| state.mode.is_some());
    let known = capable.filter_map(|state| {
        let catalogue = tesela_executor::catalogue::Catalogue::of(state, products).ok()?;
        Some((state.identity.pci_device_id, catalogue.product))
    });
    let known = known.collect::<Vec<_>>();
    generated(&known.iter().map(|(device, product)| (*device, product)).collect::<Vec<_>>())
}

fn by_checkpoint(
    driver: &dyn GpuDriver,
    saved: &Checkpoint,
    path: &Path,
    products: &ProductTable,
) -> Result<Planned, Failure> {
    let seen = seen(driver)?;
    let states = states(&seen);
    let mut plans = Vec::new();
    let mut missing = Vec::new();
    for gpu in &saved.gpus {
        match states.iter().find(|state| state.identity.uuid == gpu.uuid) {
            Some(state) => plans.push(plan(state, products, &Wish::Exactly(gpu.goal()))),
            None => missing.push(gpu.uuid.as_str()),
        }
    }
    let mut silent = silent(&seen, |_, uuid| uuid.is_some_and(|uuid| missing.contains(&uuid)));
    let gone = missing.iter().filter(|uuid| silent.iter().all(|s| s.name != **uuid));
    let gone =
        gone.map(|uuid| Silent { name: (*uuid).to_owned(), reason: "it is not on this node".to_owned() });
    let gone = gone.collect::<Vec<_>>();
    if plans.is_empty() && silent.is_empty() && !saved.gpus.is_empty() {
        return Err(Failure::input(format!("{}: none of its GPUs is on this node", path.display()))
            .hint("it was written on another node: `nvidia-smi -L` lists the UUIDs of this one"));
    }
    silent.extend(gone);
    Ok(Planned { plans, silent })
}

fn write_checkpoint(
    words: &cli::MigCheckpoint,
    products: &ProductTable,
    printer: &Printer,
) -> Result<Outcome, Failure> {
    let session = driver::open(&words.node.driver)?;
    let saved =
        Checkpoint::of(&seen(&session)?, products).map_err(|error| Failure::program(error.to_string()))?;
    let text = serde_json::to_string_pretty(&saved)
        .map_err(|error| Failure::program(format!("the checkpoint cannot be written as JSON: {error}")))?;
    let text = format!("{text}\n");
    match &words.file {
        None => printer.text(text.as_bytes())?,
        Some(path) => {
            let existing = if words.force { Existing::Replace } else { Existing::Keep };
            io::write(path, &text, existing)?;
            printer.note(&format!(
                "wrote the layouts of {} to {}",
                table::words::many(saved.gpus.len() as u64, "GPU"),
                path.display()
            ));
        }
    }
    Ok(Outcome::Done)
}
