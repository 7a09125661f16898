//! The words of the command line: clap definitions and help texts, nothing else.
//!
//! `xtask` includes this file to write `docs/cli.md`, so it uses no other module and none of our crates.

#[path = "cli/mig.rs"]
pub(crate) mod mig;
#[path = "cli/sim.rs"]
pub(crate) mod sim;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use tesela_model::cloud::CloudList;

use self::mig::Mig;
use self::sim::Sim;

/// Decides how every NVIDIA GPU of a Kubernetes fleet is shared.
#[derive(Debug, Parser)]
#[command(name = "tesela", version, arg_required_else_help = true)]
#[command(after_help = EXAMPLES, after_long_help = EXAMPLES_AND_CODES)]
pub(crate) struct Cli {
    /// What every verb understands.
    #[command(flatten)]
    pub(crate) global: Global,
    /// What to do.
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

/// Options of every verb.
#[derive(Debug, Args)]
pub(crate) struct Global {
    /// How results are printed
    #[arg(long, global = true, value_enum, default_value_t = Format::Table, help_heading = "Output")]
    pub(crate) format: Format,
    /// Draw tables with ASCII characters only
    #[arg(long, global = true, help_heading = "Output")]
    pub(crate) ascii: bool,
    /// When tables are coloured; nothing is said by colour alone
    #[arg(long, global = true, value_enum, default_value_t = Colour::Auto, value_name = "WHEN")]
    #[arg(help_heading = "Output")]
    pub(crate) color: Colour,
    /// Columns a table may take [default: the terminal's width, 100 where there is none]
    #[arg(long, global = true, value_name = "COLUMNS", help_heading = "Output")]
    #[arg(value_parser = clap::value_parser!(u16).range(60..=1000))]
    pub(crate) width: Option<u16>,
    /// A profile table of yours, put on top of the built-in one (YAML or JSON)
    #[arg(long, global = true, value_name = "FILE", help_heading = "Input")]
    pub(crate) products: Option<PathBuf>,
}

/// Forms of output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people
    Table,
    /// For programs; the keys are a contract
    Json,
    /// The same as JSON, as YAML
    Yaml,
}

/// When tables are coloured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Colour {
    /// On a terminal, unless NO_COLOR is set or TERM is dumb
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

/// What the program can do. Each verb's help is that of its words.
#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    Plan(Plan),
    Pack(Pack),
    Layouts(Layouts),
    Estimate(Estimate),
    Lint(Lint),
    Render(Render),
    Mig(Mig),
    Sim(Sim),
    Gpus(Gpus),
    Completions(Completions),
}

/// Decide which workload gets which share of which GPU, and prove it.
///
/// Reads what `kubectl get nodes,pods -A -o json` prints, documents of ours (Fleet, Demand, PriceBook; YAML or
/// JSON), or both. A document of ours wins over what was observed, wherever it stands. Where two documents say the
/// same thing, the later one wins; a namespace that two of them give to different tenants is refused. What a pod
/// requests shows what it holds, never what it needs: write the demand as observed with --write-demand, say what is
/// needed, and plan again with both.
#[derive(Debug, Args)]
#[command(after_help = PLAN_EXAMPLES)]
#[command(group = clap::ArgGroup::new("written").multiple(true).args(["write_demand", "html"]))]
pub(crate) struct Plan {
    /// Files to read; `-` is standard input. Several outputs of kubectl that repeat pods are snapshots, oldest first
    #[arg(required_unless_present = "print_usage_query", value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// What pods used: a saved answer of Prometheus, instant or range; may be repeated
    #[arg(long, value_name = "FILE", help_heading = "Input")]
    pub(crate) usage: Vec<PathBuf>,
    /// Print what to ask Prometheus for --usage, as commands, and do nothing else
    #[arg(long, help_heading = "Input")]
    pub(crate) print_usage_query: bool,
    /// Label of pods whose value is the tenant; where it is absent the namespace is
    #[arg(long, value_name = "KEY", help_heading = "Input")]
    pub(crate) tenant_label: Option<String>,
    /// Write the demand as observed to this file, each value with its origin, ready to edit
    ///
    /// Give it back as the first of the files: other Demands, which stand later, then win over it.
    #[arg(long, value_name = "FILE")]
    pub(crate) write_demand: Option<PathBuf>,
    /// Write the plan as a page for people to this file: HTML that loads nothing and prints well
    #[arg(long, value_name = "FILE", help_heading = "Report")]
    pub(crate) html: Option<PathBuf>,
    /// Language of that page
    #[arg(long, value_enum, default_value_t = Language::En, requires = "html", help_heading = "Report")]
    pub(crate) lang: Language,
    /// Let --write-demand and --html replace files that exist
    #[arg(long, requires = "written")]
    pub(crate) force: bool,
    /// Price of one GPU for one hour, such as h100-sxm-80gb=2.50/h; may be repeated
    #[arg(long = "price", value_name = "PRODUCT=AMOUNT/h", help_heading = "Prices")]
    pub(crate) prices: Vec<String>,
    /// Currency of --price [default: that of the PriceBook, else EUR]
    #[arg(long, value_name = "CODE", help_heading = "Prices")]
    pub(crate) currency: Option<String>,
    /// A PriceBook document
    #[arg(long = "prices", value_name = "FILE", help_heading = "Prices")]
    pub(crate) price_book: Option<PathBuf>,
    /// Take the dated list prices of a cloud for products that have none: aws, azure, azure/westeurope
    #[arg(long, value_name = "PROVIDER[/REGION]", value_parser = cloud_list, help_heading = "Prices")]
    pub(crate) cloud_prices: Option<&'static CloudList>,
    /// Say on which cloud instances the pods that do not fit could run, at list price
    #[arg(long, value_name = "PROVIDER[/REGION]", value_parser = cloud_list, help_heading = "Prices")]
    pub(crate) burst: Option<&'static CloudList>,
    /// A log of requests (CSV): who works when decides which pods may share a device; may be repeated
    ///
    /// Columns: time,namespace,workload,input_tokens,output_tokens or time,namespace,workload,seconds, and kind if
    /// wanted. Pods without a log are shared by their mean load, as without logs.
    #[arg(long, value_name = "FILE", help_heading = "Activity")]
    pub(crate) requests: Vec<PathBuf>,
    /// How long a request takes on a device of its own, where the log counts tokens, such as 10,30,4000
    #[arg(long, value_name = "BASE_MS,US_PER_INPUT_TOKEN,US_PER_OUTPUT_TOKEN", requires = "requests")]
    #[arg(help_heading = "Activity")]
    pub(crate) service_time: Option<String>,
    /// Length of the windows in which work counts as simultaneous, 1 to 10 [default: 1]
    #[arg(long, value_name = "SECONDS", requires = "requests", help_heading = "Activity")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=10))]
    pub(crate) window: Option<u32>,
    /// Pods of a shared device that may work at the same time [default: 1]; with --usage, take who works when from it
    #[arg(long, value_name = "PODS", help_heading = "Activity")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(crate) at_once: Option<u32>,
    /// Share of the windows in which more may, 1 to 50 [default: 5]
    #[arg(long, value_name = "PERCENT", help_heading = "Activity")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=50))]
    pub(crate) at_once_risk: Option<u32>,
    /// Instead of a plan: the way from the MIG layouts in force to exactly these counts, such as 1g.10gb=40,7g.80gb=2
    ///
    /// Over all MIG GPUs of the product together; a profile that is not named has none in the end. Says which GPU changes
    /// how, in which order, and which pods restart.
    #[arg(long, value_name = "PROFILE=COUNT,…", help_heading = "Reconfigure")]
    pub(crate) target: Option<String>,
    /// The product of --target, where MIG is on for several
    #[arg(long, value_name = "PRODUCT", requires = "target", help_heading = "Reconfigure")]
    pub(crate) product: Option<String>,
    /// Empty GPUs of the product, beside those given, that --target may use on the way
    #[arg(long, value_name = "N", default_value_t = 0, requires = "target", help_heading = "Reconfigure")]
    pub(crate) spares: u64,
    /// Findings shown in the table: a number, or `all`
    #[arg(long, default_value = "8", value_name = "N|all", help_heading = "Output")]
    pub(crate) findings: Rows,
    /// Rows shown in each other part of the table: a number, or `all`
    #[arg(long, default_value = "30", value_name = "N|all", help_heading = "Output")]
    pub(crate) rows: Rows,
}

/// A list of cloud prices by name.
fn cloud_list(name: &str) -> Result<&'static CloudList, String> {
    CloudList::find(name).ok_or_else(|| {
        let known = CloudList::builtin().iter().map(CloudList::name).collect::<Vec<_>>();
        format!("no list of that name; there are {}", known.join(", "))
    })
}

/// Languages of the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Language {
    /// English
    En,
    /// Spanish
    Es,
}

/// How many rows of a part are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rows(pub(crate) usize);

impl std::str::FromStr for Rows {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "all" {
            return Ok(Self(usize::MAX));
        }
        let number = text.parse().ok().filter(|n| *n > 0).map(Self);
        number.ok_or_else(|| "give a number of rows above 0, or `all`".to_owned())
    }
}

/// Pack MIG profiles onto the fewest GPUs of one product, with a certificate.
///
/// The certificate is an integer price for each profile such that no layout of one GPU costs more than `scale`.
/// The demand's price divided by `scale`, rounded up, is then a number of GPUs that no packing can beat.
#[derive(Debug, Args)]
#[command(after_help = PACK_EXAMPLES)]
pub(crate) struct Pack {
    /// Table id or exact NVML name, such as h100-sxm-80gb
    #[arg(long, value_name = "PRODUCT")]
    pub(crate) product: String,
    /// How many instances of each profile, such as 1g.10gb=100,3g.40gb=20
    #[arg(long, value_name = "PROFILE=COUNT,…")]
    pub(crate) profiles: String,
}

/// Show every way in which MIG can cut one GPU of a product.
///
/// Counts the states and geometries that the placement rules allow and lists the layouts to which nothing can be
/// added. Without --profiles the set is every profile without a `+` or `-` suffix.
#[derive(Debug, Args)]
#[command(after_help = LAYOUTS_EXAMPLES)]
pub(crate) struct Layouts {
    /// Table id or exact NVML name, such as a100-40gb
    #[arg(value_name = "PRODUCT")]
    pub(crate) product: String,
    /// Only these profiles, such as 1g.5gb,3g.20gb
    #[arg(long, value_name = "A,B,…", conflicts_with = "all")]
    pub(crate) profiles: Option<String>,
    /// All profiles of the product, also those with a `+` or `-` suffix
    #[arg(long)]
    pub(crate) all: bool,
}

/// Say how much GPU memory a model takes, and the smallest profile of each product that holds it.
///
/// Reads a Hugging Face config.json, safetensors headers or their index, GGUF headers, or a folder with such files; of
/// a file of weights only the header is read. Weights, KV cache, activations and context overhead are told apart, each
/// with its formula, its source and its origin. Without files, --parameters and --data-type give the weights alone.
#[derive(Debug, Args)]
#[command(after_help = ESTIMATE_EXAMPLES)]
pub(crate) struct Estimate {
    /// Files of one model, or the folder they lie in; `-` is standard input
    #[arg(required_unless_present = "parameters", value_name = "FILE|DIR")]
    pub(crate) files: Vec<PathBuf>,
    /// How many parameters the model has, such as 7b, 350m or 6738415616
    #[arg(long, value_name = "N", help_heading = "Model")]
    pub(crate) parameters: Option<Parameters>,
    /// Type the weights are loaded in: bf16, fp16, fp32, fp8, int8, int4, …
    #[arg(long, value_name = "TYPE", help_heading = "Model")]
    pub(crate) data_type: Option<String>,
    /// Type of the KV cache [default: that of the activations]
    #[arg(long, value_name = "TYPE", help_heading = "Model")]
    pub(crate) kv_data_type: Option<String>,
    /// Tokens of a sequence, prompt and answer together [default: as many as the model was made for]
    #[arg(long, value_name = "TOKENS", help_heading = "Load")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=1 << 40))]
    pub(crate) context: Option<u64>,
    /// Sequences at once, each of the full context
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Load")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub(crate) concurrency: u64,
    /// GPUs that share each layer [default: 1, and more where one is too small]
    #[arg(long, value_name = "N", help_heading = "Load")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=1024))]
    pub(crate) tensor_parallel: Option<u64>,
    /// Tokens computed in one pass at most (vLLM: --max-num-batched-tokens) [default: 8192]
    #[arg(long, value_name = "TOKENS", help_heading = "Load")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=1 << 40))]
    pub(crate) batch_tokens: Option<u64>,
    /// Only this product; may be repeated [default: all of the profile table]
    #[arg(long = "product", value_name = "PRODUCT")]
    pub(crate) only: Vec<String>,
}

/// A number of parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Parameters(pub(crate) u64);

impl std::str::FromStr for Parameters {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        const FORM: &str = "write a number, or one with m, b or t behind it: 350m, 7b, 1.5b, 6738415616";
        let lower = text.trim().to_ascii_lowercase();
        if let Some((experts, size)) = lower.split_once('x').filter(|(n, _)| n.parse::<u32>().is_ok()) {
            return Err(format!(
                "{experts} experts of {size} share their attention, so the whole is less than {experts} times {size}: \
                 give the total, such as 46.7b for Mixtral 8x7B"
            ));
        }
        let (digits, zeros) = match lower.strip_suffix(['k', 'm', 'b', 't']) {
            Some(digits) => (
                digits,
                match lower.as_bytes().last() {
                    Some(b'k') => 3,
                    Some(b'm') => 6,
                    Some(b'b') => 9,
                    _ => 12,
                },
            ),
            None => (lower.as_str(), 0),
        };
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        let plain = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
        if whole.is_empty() || !plain(whole) || !plain(fraction) || fraction.len() > zeros {
            return Err(FORM.to_owned());
        }
        let number = format!("{whole}{fraction}{}", "0".repeat(zeros - fraction.len())).parse::<u64>();
        match number {
            Ok(0) => Err("a model has at least one parameter".to_owned()),
            Ok(number) if number <= 1 << 50 => Ok(Self(number)),
            _ => Err("no model has so many parameters; the most that is understood is 1125t".to_owned()),
        }
    }
}

/// Check NVIDIA's device-plugin and mig-parted configs, and documents of ours.
///
/// Reads the two formats by themselves or inside a ConfigMap, and says what NVIDIA's programs would refuse, what
/// they would ignore or drop without a word, and what contradicts itself: with file, line, rule and fix.
#[derive(Debug, Args)]
#[command(after_help = LINT_EXAMPLES)]
pub(crate) struct Lint {
    /// Files to check; `-` is standard input
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// Least severity that makes the exit code 3
    #[arg(long, value_enum, default_value_t = FailOn::Warning, value_name = "SEVERITY")]
    pub(crate) fail_on: FailOn,
}

/// Severities of `lint`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum FailOn {
    /// Refused by NVIDIA's parser, or broken
    Error,
    /// It works, but not as written
    Warning,
    /// Worth knowing
    Info,
}

/// Write a plan as numbered steps of Kubernetes manifests.
///
/// Each step says what it does, how to verify it and how to undo it. A canary node goes first, quotas of zero go
/// last. Nothing is sent to a cluster.
#[derive(Debug, Args)]
#[command(after_help = RENDER_EXAMPLES)]
pub(crate) struct Render {
    /// A plan that `tesela plan --format json` printed; `-` is standard input
    #[arg(value_name = "PLAN")]
    pub(crate) plan: PathBuf,
    /// Who carries the plan out on the nodes
    #[arg(long = "for", value_enum, value_name = "TARGET")]
    pub(crate) target: Target,
    /// Folder for the steps; created if need be
    #[arg(long, value_name = "DIR")]
    pub(crate) out: PathBuf,
    /// ConfigMaps that exist, whose entries are kept (`kubectl get configmap … -o yaml`); may be repeated
    #[arg(long, value_name = "FILE", help_heading = "Input")]
    pub(crate) existing: Vec<PathBuf>,
    /// Where the GPU Operator's pods run [default: as the plan's input showed, else gpu-operator]
    #[arg(long, value_name = "NAMESPACE", help_heading = "Input")]
    pub(crate) operator_namespace: Option<String>,
    /// Replace files in DIR that differ
    #[arg(long)]
    pub(crate) force: bool,
}

/// Who carries a plan out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Target {
    /// Tesela's own agent
    Native,
    /// NVIDIA's GPU Operator
    GpuOperator,
}

/// Show the GPUs of this node: how each is cut, what is on it, what still fits.
///
/// Asks the driver and changes nothing. Without root, GPU instances and room are left out, since the driver does not tell
/// them; MIG devices are told all the same by nvidia-smi -L.
#[derive(Debug, Args)]
#[command(after_help = GPUS_EXAMPLES)]
pub(crate) struct Gpus {
    /// Which driver.
    #[command(flatten)]
    pub(crate) driver: Driver,
}

/// Which driver to ask.
#[derive(Debug, Args)]
pub(crate) struct Driver {
    /// Root of the driver's installation, such as /run/nvidia/driver [default: where the loader looks]
    #[arg(long, value_name = "DIR", help_heading = "Driver")]
    pub(crate) driver_root: Option<PathBuf>,
    /// The library itself, libnvidia-ml.so.1
    #[arg(long, value_name = "FILE", help_heading = "Driver", conflicts_with = "driver_root")]
    pub(crate) driver_library: Option<PathBuf>,
}

/// Print a completion script for a shell.
#[derive(Debug, Args)]
#[command(after_help = COMPLETIONS_EXAMPLES)]
pub(crate) struct Completions {
    /// The shell
    #[arg(value_enum)]
    pub(crate) shell: Shell,
}

/// Shells with completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Shell {
    /// GNU Bash
    Bash,
    /// Z shell
    Zsh,
    /// fish
    Fish,
    /// PowerShell
    Powershell,
    /// Elvish
    Elvish,
}

const EXAMPLES: &str = "\
Examples:
  kubectl get nodes,pods -A -o json | tesela plan -
  tesela pack --product h100-sxm-80gb --profiles 1g.10gb=100,3g.40gb=20
  tesela lint time-slicing-config.yaml

Put a link called kubectl-tesela to this program on the PATH to call it as `kubectl tesela`.";

const EXAMPLES_AND_CODES: &str = "\
Examples:
  kubectl get nodes,pods -A -o json | tesela plan -
  tesela pack --product h100-sxm-80gb --profiles 1g.10gb=100,3g.40gb=20
  tesela lint time-slicing-config.yaml

Exit codes:
  0  done
  1  failure
  2  wrong usage or invalid input; standard output is empty, standard error says where and why
  3  done in part: some pods do not fit, or lint found something at or above its threshold

Results go to standard output, everything else to standard error. NO_COLOR and TERM=dumb switch colour off.
Put a link called kubectl-tesela to this program on the PATH to call it as `kubectl tesela`.";

const GPUS_EXAMPLES: &str = "\
Examples:
  sudo tesela gpus
  tesela gpus --driver-root /run/nvidia/driver --format json
  eval \"$(tesela sim env machine.yaml)\"; tesela gpus";

const PLAN_EXAMPLES: &str = "\
Examples:
  What is true today, and what would be better:
    kubectl get nodes,pods -A -o json | tesela plan -

  Say what the pods need, then plan with it:
    kubectl get nodes,pods -A -o json > cluster.json
    tesela plan cluster.json --write-demand observed.yaml
    $EDITOR observed.yaml
    tesela plan observed.yaml cluster.json

  With prices, for a program:
    tesela plan cluster.json --price h100-sxm-80gb=2.50/h --price a30-24gb=0.60/h --format json > plan.json

  As a page to hand on, in Spanish:
    tesela plan cluster.json --html plan.html --lang es

  With what the pods used in a week, as Prometheus knows it:
    tesela plan --print-usage-query > ask.sh
    sh ask.sh
    tesela plan cluster.json --usage usage.json

  What it takes, and whom, to bring the MIG GPUs to other counts of profiles:
    tesela plan cluster.json --target 1g.10gb=40,3g.40gb=6

  Quotas count every namespace only when kubectl lists them and the quotas in force too:
    kubectl get nodes,pods,namespaces,resourcequotas -A -o json | tesela plan -

Exit code 3 means that some pods fit nowhere; the plan says which and why.";

const PACK_EXAMPLES: &str = "\
Examples:
  tesela pack --product h100-sxm-80gb --profiles 1g.10gb=100,2g.20gb=50
  tesela pack --product 'NVIDIA A30' --profiles 1g.6gb=7 --format json";

const LAYOUTS_EXAMPLES: &str = "\
Examples:
  tesela layouts a100-40gb
  tesela layouts h100-sxm-80gb --profiles 1g.10gb,3g.40gb
  tesela layouts 'NVIDIA H200' --all --format json";

const ESTIMATE_EXAMPLES: &str = "\
Examples:
  From a number of parameters alone:
    tesela estimate --parameters 7b --data-type bf16

  From a model's folder, for 16 sequences of 8192 tokens:
    tesela estimate models/llama-3-8b --context 8192 --concurrency 16

  From files; only their headers are read:
    tesela estimate config.json model.safetensors.index.json
    tesela estimate llama-2-7b.Q4_K_M.gguf --kv-data-type q8_0 --product a30-24gb

  Over four GPUs, with an 8-bit KV cache, for a program:
    tesela estimate config.json --tensor-parallel 4 --kv-data-type fp8 --format json

  A header from elsewhere, on standard input:
    head -c 1000000 model.safetensors | tesela estimate -";

const LINT_EXAMPLES: &str = "\
Examples:
  tesela lint time-slicing-config.yaml
  kubectl get configmap -n gpu-operator default-mig-parted-config -o yaml | tesela lint -
  tesela lint --fail-on error configs/*.yaml";

const RENDER_EXAMPLES: &str = "\
Examples:
  tesela plan cluster.json demand.yaml --format json > plan.json
  tesela render plan.json --for gpu-operator --out steps
  tesela plan cluster.json --format json | tesela render - --for native --out steps";

const COMPLETIONS_EXAMPLES: &str = "\
Examples:
  tesela completions bash > ~/.local/share/bash-completion/completions/tesela
  tesela completions zsh > ~/.zfunc/_tesela
  tesela completions fish > ~/.config/fish/completions/tesela.fish";
