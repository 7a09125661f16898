//! `tesela plan --target`: from the MIG layouts in force to counts of profiles, and what each change costs whom.

use std::collections::BTreeMap;

use serde::Serialize;
use tesela_model::demand::PodRef;
use tesela_model::layout::Instance;
use tesela_model::product::{Product, ProductId};
use tesela_plan::reconfigure::force::{Aside, Force, cut_products, in_force};
use tesela_plan::reconfigure::{
    Answer, Blast, Blocked, Certificate, Executor, GpuChange, Reconfiguration, Request, Seat, Step, Target,
    reconfigure,
};

use super::layouts::find;
use super::pack::counts;
use crate::cli;
use crate::failure::{Failure, Outcome};
use crate::input::Gathered;
use crate::printer::Printer;
use crate::table;

/// The result, as JSON has it.
#[derive(Debug, Serialize)]
pub(crate) struct Sheet {
    pub(crate) product: ProductId,
    /// GPUs that change; the others stay as they are.
    pub(crate) gpus: Vec<Change>,
    pub(crate) steps: Vec<Line>,
    pub(crate) disturbed_weight: u64,
    pub(crate) lower_bound: u64,
    pub(crate) proven_optimal: bool,
    pub(crate) destroy_all_weight: u64,
    pub(crate) blocked: Vec<Blocked>,
    /// MIG GPUs that were looked at.
    pub(crate) gpus_in_force: u64,
    pub(crate) operations: u64,
    /// Spare GPUs that the steps use.
    pub(crate) spares: u64,
    /// Spare GPUs with which nobody would have to stop before the next instance exists.
    pub(crate) spares_wanted: u64,
    /// Workloads that stop before their next instance exists.
    pub(crate) stopped: u64,
    pub(crate) certificate: Option<Certificate>,
    pub(crate) executors: Option<Executors>,
    /// GPUs of the product that are left alone.
    pub(crate) aside: Vec<Left>,
    /// Nodes on which starts or holders of instances are assumed.
    pub(crate) assumed: Vec<String>,
    /// Pods for which no instance was found.
    pub(crate) unseated: Vec<PodRef>,
}

/// The same steps by each executor.
#[derive(Debug, Serialize)]
pub(crate) struct Executors {
    pub(crate) native: Blast,
    pub(crate) gpu_operator: Blast,
}

/// One GPU that changes.
#[derive(Debug, Serialize)]
pub(crate) struct Change {
    pub(crate) node: String,
    /// Its UUID, where known.
    pub(crate) gpu: Option<String>,
    pub(crate) index: usize,
    pub(crate) executor: Executor,
    pub(crate) keep: Vec<Instance>,
    pub(crate) destroy: Vec<Instance>,
    pub(crate) create: Vec<Instance>,
    pub(crate) disturbed_pods: Vec<PodRef>,
    pub(crate) starts_assumed: bool,
    pub(crate) seats_assumed: bool,
}

/// Where an instance is.
#[derive(Debug, Serialize)]
pub(crate) struct Place {
    /// `None` on a spare GPU.
    pub(crate) node: Option<String>,
    pub(crate) gpu: Option<String>,
    /// Place among the node's GPUs, or number of the spare GPU.
    pub(crate) index: usize,
    #[serde(flatten)]
    pub(crate) instance: Instance,
}

/// One step.
#[derive(Debug, Serialize)]
pub(crate) struct Line {
    pub(crate) step: usize,
    pub(crate) action: &'static str,
    #[serde(flatten)]
    pub(crate) at: Place,
    /// Where the pods go.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) to: Option<Place>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) pods: Vec<PodRef>,
}

/// GPUs that are left alone.
#[derive(Debug, Serialize)]
pub(crate) struct Left {
    pub(crate) node: String,
    pub(crate) gpus: u64,
    pub(crate) reason: String,
}

/// Finds the way and prints it.
///
/// # Errors
/// A product or target that makes no sense, no MIG GPUs, output not writable.
pub(crate) fn run(
    words: &cli::Plan,
    target: &str,
    gathered: &Gathered,
    printer: &Printer,
) -> Result<Outcome, Failure> {
    let product = product(words, gathered)?;
    let counts = counts(product, "--target", target)?;
    let force = in_force(product, &gathered.fleet, &gathered.demand);
    if force.gpus.is_empty() {
        let why =
            force.aside.iter().map(|a| format!("{}: {}", a.node, a.reason)).collect::<Vec<_>>().join("; ");
        let why = if why.is_empty() { "there are none".to_owned() } else { why };
        return Err(Failure::input(format!("--target: no MIG GPU of {} can be changed: {why}", product.id))
            .hint("plan without --target to see which GPUs should be cut at all"));
    }
    let gpus = force.gpus.iter().map(|g| g.gpu.clone()).collect::<Vec<_>>();
    let target = Target::Counts(counts.into_iter().collect::<BTreeMap<_, _>>());
    let request = Request { product, gpus: &gpus, target: &target, spares: words.spares };
    let answer = reconfigure(&request).map_err(|error| Failure::input(format!("--target: {error}")))?;
    let outcome = match answer {
        Answer::Change(_) => Outcome::Done,
        Answer::Blocked(_) => Outcome::Partly,
    };
    let sheet = sheet(product, &force, answer);
    printer.result(&sheet, |page| table::reconfigure::put(page, &sheet))?;
    Ok(outcome)
}

/// The product named, or the only one of which some GPU has MIG on.
fn product<'a>(words: &cli::Plan, gathered: &'a Gathered) -> Result<&'a Product, Failure> {
    if let Some(name) = &words.product {
        return find(&gathered.products, name);
    }
    let cut = cut_products(&gathered.fleet).into_iter().collect::<Vec<_>>();
    match cut[..] {
        [one] => find(&gathered.products, one),
        [] => Err(Failure::input("--target: no GPU of the inputs has MIG on")
            .hint("plan without --target to see which GPUs should be cut at all")),
        _ => Err(Failure::input(format!("--target: MIG is on for {} products", cut.len()))
            .hint(format!("name one: --product {}", cut.join(" or --product ")))),
    }
}

fn sheet(product: &Product, force: &Force, answer: Answer) -> Sheet {
    let assumed = force.gpus.iter().filter(|g| g.starts_assumed || g.seats_assumed).map(|g| g.node.clone());
    let mut assumed = assumed.collect::<Vec<_>>();
    assumed.dedup();
    let left = |a: &Aside| Left { node: a.node.clone(), gpus: a.gpus, reason: a.reason.clone() };
    let mut sheet = Sheet {
        product: product.id.clone(),
        gpus: Vec::new(),
        steps: Vec::new(),
        disturbed_weight: 0,
        lower_bound: 0,
        proven_optimal: false,
        destroy_all_weight: 0,
        blocked: Vec::new(),
        gpus_in_force: force.gpus.len() as u64,
        operations: 0,
        spares: 0,
        spares_wanted: 0,
        stopped: 0,
        certificate: None,
        executors: None,
        aside: force.aside.iter().map(left).collect(),
        assumed,
        unseated: force.unseated.clone(),
    };
    match answer {
        Answer::Blocked(blocked) => sheet.blocked = blocked,
        Answer::Change(way) => fill(&mut sheet, force, *way),
    }
    sheet
}

fn fill(sheet: &mut Sheet, force: &Force, way: Reconfiguration) {
    sheet.gpus = way.gpus.iter().filter(|c| c.changes()).map(|c| change(force, c)).collect();
    sheet.steps = way.steps.iter().enumerate().map(|(at, step)| line(force, at + 1, step)).collect();
    follow(&mut sheet.steps);
    sheet.disturbed_weight = way.disturbed_weight;
    sheet.lower_bound = way.lower_bound;
    sheet.proven_optimal = way.proven_optimal;
    sheet.destroy_all_weight = way.destroy_all_weight;
    sheet.operations = way.operations;
    sheet.spares = way.spares;
    sheet.spares_wanted = way.spares_wanted;
    sheet.stopped = way.stopped;
    sheet.certificate = Some(way.certificate);
    sheet.executors = Some(Executors { native: way.native, gpu_operator: way.gpu_operator });
}

fn pods(force: &Force, gpu: usize, instance: &Instance) -> Vec<PodRef> {
    let gpu = &force.gpus[gpu];
    let held =
        gpu.gpu.instances.iter().position(|h| h.start == instance.start && h.profile == instance.profile);
    held.map(|at| gpu.pods[at].clone()).unwrap_or_default()
}

fn change(force: &Force, change: &GpuChange) -> Change {
    let gpu = &force.gpus[change.gpu];
    Change {
        node: gpu.node.clone(),
        gpu: gpu.uuid.clone(),
        index: gpu.index,
        executor: gpu.gpu.executor,
        keep: change.keep.clone(),
        destroy: change.destroy.clone(),
        create: change.create.clone(),
        disturbed_pods: change.disturbed.iter().flat_map(|i| pods(force, change.gpu, i)).collect(),
        starts_assumed: gpu.starts_assumed,
        seats_assumed: gpu.seats_assumed,
    }
}

fn place(force: &Force, seat: &Seat) -> Place {
    match seat {
        Seat::Spare(index, instance) => {
            Place { node: None, gpu: None, index: *index, instance: instance.clone() }
        }
        Seat::Gpu(gpu, instance) => {
            let gpu = &force.gpus[*gpu];
            let node = Some(gpu.node.clone());
            Place { node, gpu: gpu.uuid.clone(), index: gpu.index, instance: instance.clone() }
        }
    }
}

fn line(force: &Force, step: usize, what: &Step) -> Line {
    let here = |seat: &Seat| match seat {
        Seat::Gpu(gpu, instance) => pods(force, *gpu, instance),
        Seat::Spare(..) => Vec::new(),
    };
    let (action, at, to, pods) = match what {
        Step::Create(at) => ("create", at, None, Vec::new()),
        Step::Destroy(at) => ("destroy", at, None, Vec::new()),
        Step::Move { from, to } => ("move", from, Some(to), here(from)),
        Step::Stop(at) => ("stop", at, None, here(at)),
        Step::Start { from, to } => ("start", from, Some(to), here(from)),
    };
    Line { step, action, at: place(force, at), to: to.map(|to| place(force, to)), pods }
}

/// Names the pods that come back from a spare GPU: those that went there.
fn follow(steps: &mut [Line]) {
    let mut parked: BTreeMap<(usize, Instance), Vec<PodRef>> = BTreeMap::new();
    for line in steps.iter_mut().filter(|line| line.action == "move") {
        if line.at.node.is_none() {
            line.pods = parked.remove(&(line.at.index, line.at.instance.clone())).unwrap_or_default();
        }
        if let Some(to) = line.to.as_ref().filter(|to| to.node.is_none()) {
            parked.insert((to.index, to.instance.clone()), line.pods.clone());
        }
    }
}
