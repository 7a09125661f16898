//! A plan as a folder of numbered steps: manifests that an API server accepts, and scripts that carry a step
//! out, check it and take it back.
//!
//! The order is: ConfigMaps, one canary node, then waves of nodes and of the requests of workloads as their places
//! become ready (`waves`), granted quotas, zero quotas. Each step says whom it restarts when the chosen program
//! carries it out; the scripts stop when they meet a pod that the plan does not name. What the folder promises is
//! in `docs/render.md`.

mod config;
mod config_maps;
mod error;
mod existing;
mod journey;
mod manifest;
mod moves;
mod name;
mod namespaces;
mod new_nodes;
mod node;
mod node_steps;
mod policy;
mod pool_labels;
mod quotas;
mod readme;
mod requests;
mod script;
mod setup;
mod starts;
mod steps;
mod template;
mod tenants;
mod today;
mod waves;

use std::fmt;
use std::str::FromStr;

use tesela_model::demand::PodRef;
use tesela_model::plan::{API_VERSION, Plan};

pub use error::RenderError;
pub use existing::Existing;

use journey::Journey;
use name::NameRule;

/// Which program carries the plan out on the nodes (DESIGN 1: native, adopt).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Target {
    /// The Tesela agent.
    Native,
    /// NVIDIA's GPU Operator: its MIG Manager and its device plugin.
    GpuOperator,
}

/// A text that is no target.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no target: expected `native` or `gpu-operator`")]
pub struct NoTarget(pub String);

impl Target {
    /// Where its ConfigMaps lie unless the ones given say otherwise.
    #[must_use]
    pub fn namespace(self) -> &'static str {
        match self {
            Self::Native => "tesela-system",
            Self::GpuOperator => "gpu-operator",
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Native => "native",
            Self::GpuOperator => "gpu-operator",
        })
    }
}

impl FromStr for Target {
    type Err = NoTarget;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "native" => Ok(Self::Native),
            "gpu-operator" => Ok(Self::GpuOperator),
            other => Err(NoTarget(other.to_owned())),
        }
    }
}

/// One file of the folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// Relative to the folder, `/` between parts. Never absolute, never with `..`.
    pub path: String,
    /// Its text.
    pub text: String,
    /// Whether it is a program to be run (mode 0755).
    pub executable: bool,
}

/// Pods of a workload that a step restarts. kubectl and the plan know how many, not which.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WorkloadPods {
    /// Its namespace.
    pub namespace: String,
    /// The owner's kind.
    pub kind: String,
    /// The workload's name.
    pub workload: String,
    /// How many pods.
    pub pods: u64,
}

/// Whom a step hits, for the program that carries it out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BlastRadius {
    /// Pods that are evicted, by name.
    pub pods: Vec<PodRef>,
    /// Workloads whose pods on the node are hit or may be hit as well, although they stay by the plan. The step
    /// stops until a person names them.
    pub workloads: Vec<WorkloadPods>,
    /// Pods in both lists together.
    pub pods_total: u64,
    /// Whether the node's device plugin stops or restarts: running pods go on, new GPU pods wait.
    pub plugin_stops: bool,
    /// GPUs that are cleared or reset, or whose sharing changes.
    pub cleared_gpus: usize,
    /// Whether GPUs are reset.
    pub reset: bool,
}

/// One step. Its files lie in its folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The number that its folder begins with; steps of one number go in the order of the list.
    pub number: u32,
    /// Its folder.
    pub dir: String,
    /// What it does, in a few words.
    pub title: String,
    /// Whom it restarts, in one sentence.
    pub hits: String,
    /// Pods that the plan restarts and that this step restarts, by name. Each pod of the plan's `restarting` stands
    /// in one step.
    pub restarts: Vec<PodRef>,
    /// Workloads that have no pod from this step on, or again from it on, in one sentence each.
    pub outages: Vec<String>,
    /// Whom it restarts as data, for steps that change a node.
    pub blast: Option<BlastRadius>,
    /// What a person must know.
    pub notes: Vec<String>,
    /// Its files, sorted by path.
    pub files: Vec<File>,
}

impl Step {
    /// An empty step in a folder.
    fn at(dir: &str) -> Self {
        Self {
            number: 0,
            dir: dir.to_owned(),
            title: String::new(),
            hits: String::new(),
            restarts: Vec::new(),
            outages: Vec::new(),
            blast: None,
            notes: Vec::new(),
            files: Vec::new(),
        }
    }
}

/// The folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rendering {
    /// Text of `00-README.md`.
    pub readme: String,
    /// Text of `lib.sh`, which the scripts read.
    pub library: String,
    /// The steps, in the order in which they are carried out.
    pub steps: Vec<Step>,
    /// What a person must know before the first step.
    pub warnings: Vec<String>,
}

impl Rendering {
    /// Every file of the folder: the README, the library, then the steps' files in order.
    #[must_use]
    pub fn files(&self) -> Vec<File> {
        let file =
            |path: &str, text: &str| File { path: path.to_owned(), text: text.to_owned(), executable: false };
        let mut files = vec![file("00-README.md", &self.readme), file("lib.sh", &self.library)];
        files.extend(self.steps.iter().flat_map(|s| s.files.iter().cloned()));
        files
    }
}

/// Everything the parts of the rendering share.
struct Context<'a> {
    plan: &'a Plan,
    target: Target,
    existing: &'a Existing,
    nodes: Vec<node::NodePlan<'a>>,
}

/// Renders a plan for the program that will carry it out. Pure: the same input gives the same bytes.
///
/// # Errors
/// A name that Kubernetes refuses, a plan that contradicts itself, a node that the config formats of NVIDIA's
/// programs cannot express, a clash with an entry of an existing ConfigMap.
pub fn render(plan: &Plan, target: Target, existing: &Existing) -> Result<Rendering, RenderError> {
    check(plan)?;
    let nodes = node::nodes(plan, target, existing)?;
    let context = Context { plan, target, existing, nodes };
    NameRule::Label.check("the GPU Operator's namespace", context.stack_namespace())?;
    let requests = requests::all(&context);
    let journey = Journey::of(plan, &context.nodes, &requests)?;
    let (configs, mut warnings) = setup::Configs::of(&context)?;
    let mut steps = Vec::new();
    steps.extend(namespaces::step(&context)?);
    steps.extend(config_maps::step(&context, &configs)?);
    steps.extend(policy::step(&context, &configs));
    steps.extend(new_nodes::steps(&context, &configs));
    steps.extend(pool_labels::step(&context));
    steps.extend(quotas::open(&context));
    steps.extend(steps::steps(&context, &journey, &requests));
    steps.extend(tenants::fences(&context));
    steps.sort_by(|a, b| (a.number, &a.dir).cmp(&(b.number, &b.dir)));
    steps.extend(quotas::granted(&context)?);
    steps.extend(quotas::zero(&context)?);
    warnings.extend(readme::warnings(&context));
    for step in &mut steps {
        step.files.push(readme::step_file(target, step));
        step.files.sort_by(|a, b| a.path.cmp(&b.path));
    }
    let readme = readme::readme(&context, &journey, &steps, &warnings);
    Ok(Rendering { readme, library: include_str!("render/lib.sh").to_owned(), steps, warnings })
}

/// Checks every text of the plan that reaches a path, a manifest or a script.
fn check(plan: &Plan) -> Result<(), RenderError> {
    let header = |key, value: &str, expected| {
        if value == expected {
            return Ok(());
        }
        Err(RenderError::Header { key, value: tesela_formats::diagnostic::shown(value), expected })
    };
    header("apiVersion", &plan.api_version, API_VERSION)?;
    header("kind", &plan.kind, "Plan")?;
    for node in &plan.nodes {
        if let Some(name) = &node.name {
            NameRule::Subdomain.check("nodes.name", name)?;
        }
        for label in node.mig_config_today.iter().chain(&node.plugin_config_today).filter(|l| !l.is_empty()) {
            NameRule::LabelValue.check("nodes.mig_config_today or plugin_config_today", label)?;
        }
    }
    for pool in &plan.pools {
        NameRule::LabelValue.check("pools.name", &pool.name)?;
        NameRule::Subdomain.check("pools.name", &pool.name)?;
        if let Some(tenant) = &pool.tenant {
            NameRule::LabelValue.check("pools.tenant", tenant)?;
        }
        for node in &pool.nodes {
            NameRule::Subdomain.check("pools.nodes", node)?;
        }
    }
    for a in &plan.assignments {
        NameRule::Label.check("assignments.namespace", &a.namespace)?;
        NameRule::Subdomain.check("assignments.workload", &a.workload)?;
        NameRule::Kind.check("assignments.kind", &a.kind)?;
    }
    for u in &plan.unmet {
        NameRule::Label.check("unmet.namespace", &u.namespace)?;
        NameRule::Subdomain.check("unmet.workload", &u.workload)?;
    }
    for quota in &plan.quotas {
        NameRule::Label.check("quotas.namespace", &quota.namespace)?;
        NameRule::Qualified.check("quotas.resource", &quota.resource)?;
    }
    for r in &plan.restarting {
        NameRule::Subdomain.check("restarting.node", &r.node)?;
        NameRule::Label.check("restarting.namespace", &r.namespace)?;
        NameRule::Subdomain.check("restarting.name", &r.name)?;
        NameRule::Kind.check("restarting.kind", &r.kind)?;
        NameRule::Subdomain.check("restarting.workload", &r.workload)?;
    }
    for change in &plan.changes {
        NameRule::Subdomain.check("changes.node", &change.node)?;
        for pod in &change.disturbed_pods {
            NameRule::Label.check("changes.disturbed_pods.namespace", &pod.namespace)?;
            NameRule::Subdomain.check("changes.disturbed_pods.name", &pod.name)?;
        }
    }
    Ok(())
}
