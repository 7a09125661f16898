//! The experiment of `data/activity/azure-experiment.yaml`: tenants made of two traces, a count of replicas from the
//! fit part, and what it is worth on the test part. Run by the test `activity_azure` and the benchmark `activity`.

#![expect(clippy::expect_used, reason = "helpers of tests and of a benchmark")]

use std::fmt::Write as _;

use serde::Deserialize;
use tesela_formats::de::{Options, from_tree};
use tesela_formats::requests::{ServiceTime, Work, read};
use tesela_formats::tree::read_documents;
use tesela_model::activity::Window;
use tesela_plan::activity::{Device, Member, Risk, Rule, Sampling, at_work, fits_by_averages, replicas};

const EXPERIMENT: &str = include_str!("../../../../data/activity/azure-experiment.yaml");
const TRACES: [(&str, &str); 2] = [
    (
        "AzureLLMInferenceTrace_conv.csv",
        include_str!("../../../../data/traces/azure-llm-2023/AzureLLMInferenceTrace_conv.csv"),
    ),
    (
        "AzureLLMInferenceTrace_code.csv",
        include_str!("../../../../data/traces/azure-llm-2023/AzureLLMInferenceTrace_code.csv"),
    ),
];
const SECOND: u64 = 1_000_000;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Experiment {
    hour: Hour,
    window_ms: u32,
    service_time: String,
    together: Vec<u32>,
    risk_ppm: Vec<u32>,
    sampling: SamplingSpec,
    pub thinnings: Vec<u64>,
    services: Vec<Service>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Hour {
    begin_seconds: u64,
    fit_seconds: u64,
    test_seconds: u64,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct SamplingSpec {
    block_ms: u32,
    resamples: u32,
    seed: u64,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Service {
    trace: String,
    tenants: Vec<Tenant>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Tenant {
    shift_seconds: u64,
    keep_ppm: u32,
    seed: u64,
}

/// One count of replicas and what became of it.
pub struct Cell {
    pub service: String,
    pub together: u32,
    pub risk_ppm: u32,
    /// From the joint activity of the fit part.
    pub chosen: u64,
    /// On the fit part.
    pub fit: Risk,
    /// Of the chosen tenants on the test part.
    pub test: Risk,
    /// The largest count that keeps the limit on the test part, tenants in the same order.
    pub hindsight: u64,
    /// What the product of the fit part's averages would have chosen, and what became of that.
    pub averages: u64,
    pub averages_test: Risk,
}

impl Cell {
    pub fn held(&self) -> bool {
        kept(&self.test, self.risk_ppm)
    }

    pub fn near(&self) -> bool {
        self.chosen + 1 >= self.hindsight
    }
}

/// The plain share of the windows is within the limit.
fn kept(risk: &Risk, risk_ppm: u32) -> bool {
    u128::from(risk.over) * 1_000_000 <= u128::from(risk_ppm) * u128::from(risk.windows)
}

/// How a tenant's time is shifted.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Shift {
    /// Round the end of the fit part and of the test part, each by itself. Nothing of the test part gets into the
    /// fit part.
    Parts,
    /// Three times as far, round the end of the whole hour, before it is cut. The tenants' loads then rise and fall
    /// at different times, so that the test part is on the whole neither busier nor quieter than the fit part; but
    /// requests that one tenant has in the test part may be in another's fit part.
    Hour,
}

/// A service's tenants: their windows in the fit part and in the test part.
pub struct Tenants {
    pub service: String,
    pub fit: Vec<Vec<Window>>,
    pub test: Vec<Vec<Window>>,
}

pub fn experiment() -> Experiment {
    let trees = read_documents("azure-experiment.yaml", EXPERIMENT.as_bytes()).expect("it is YAML");
    from_tree(&trees[0], Options::default()).expect("it is an experiment")
}

/// Requests of a trace: microseconds since the hour began, and how long each takes.
fn requests(experiment: &Experiment, trace: &str) -> Vec<(u64, u64)> {
    let text = TRACES.iter().find(|(name, _)| *name == trace).expect("the trace is there").1;
    let service = ServiceTime::parse(&experiment.service_time).expect("it is a service time");
    let mut found = Vec::new();
    read(trace, text.as_bytes(), |request| {
        let Work::Tokens { input, output } = request.work else { panic!("an Azure trace counts tokens") };
        let at = request.at_us - experiment.hour.begin_seconds * SECOND;
        found.push((at, service.micros(input, output)));
        Ok(())
    })
    .expect("the trace is sound");
    found
}

/// The SplitMix64 number `index` (from 0) of a seed, in millionths of its range.
fn fraction_ppm(seed: u64, index: u64) -> u32 {
    let mut z = seed.wrapping_add((index + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^= z >> 31;
    u32::try_from((u128::from(z) * 1_000_000) >> 64).expect("it is below a million")
}

/// The requests that a tenant keeps of a trace.
fn thinned(all: &[(u64, u64)], tenant: &Tenant, thinning: u64) -> Vec<(u64, u64)> {
    let kept = |index: usize| fraction_ppm(tenant.seed + thinning, index as u64) < tenant.keep_ppm;
    all.iter().enumerate().filter(|(index, _)| kept(*index)).map(|(_, request)| *request).collect()
}

/// Requests of the part of the time that begins at `from` and lasts `length`, counted from there, shifted round its
/// end. Microseconds.
fn shifted(all: &[(u64, u64)], shift: u64, from: u64, length: u64) -> Vec<(u64, u64)> {
    let here = all.iter().filter(|r| (from..from + length).contains(&r.0));
    here.map(|(at, long)| ((at - from + shift) % length, *long)).collect()
}

/// Windows of a part that lasts `length` microseconds; what reaches beyond its end is cut.
fn windows(requests: &[(u64, u64)], length: u64, window: u64) -> Vec<Window> {
    let mut spans: Vec<(u64, u64)> =
        requests.iter().map(|(at, long)| (*at, (at + long).min(length))).collect();
    spans.sort_unstable();
    let mut busy = vec![0u64; usize::try_from(length / window).expect("an hour has few windows")];
    let mut done = 0;
    for (begin, end) in spans {
        let mut at = begin.max(done);
        while at < end {
            let index = at / window;
            let until = end.min((index + 1) * window);
            busy[usize::try_from(index).expect("an hour has few windows")] += until - at;
            at = until;
        }
        done = done.max(end);
    }
    let permille = |us: u64| u16::try_from((us * 1000).div_ceil(window)).expect("at most 1000");
    busy.into_iter().map(|us| Window { active: u16::from(us > 0), busy_permille: permille(us) }).collect()
}

pub fn tenants(experiment: &Experiment, shift: Shift, thinning: u64) -> Vec<Tenants> {
    let (fit, test) = (experiment.hour.fit_seconds * SECOND, experiment.hour.test_seconds * SECOND);
    let window = u64::from(experiment.window_ms) * 1000;
    let of = |service: &Service| {
        let all = requests(experiment, &service.trace);
        let one = |tenant: &Tenant, from, length| {
            let (kept, by) = (thinned(&all, tenant, thinning), tenant.shift_seconds * SECOND);
            let moved = match shift {
                Shift::Parts => shifted(&kept, by, from, length),
                Shift::Hour => shifted(&shifted(&kept, 3 * by, 0, fit + test), 0, from, length),
            };
            windows(&moved, length, window)
        };
        let part = |from, length| service.tenants.iter().map(|t| one(t, from, length)).collect();
        let name = service.trace.trim_start_matches("AzureLLMInferenceTrace_").trim_end_matches(".csv");
        Tenants { service: name.to_owned(), fit: part(0, fit), test: part(fit, test) }
    };
    experiment.services.iter().map(of).collect()
}

fn members(series: &[Vec<Window>]) -> Vec<Member<'_>> {
    series.iter().map(|windows| Member { windows, pods: 1, memory: None }).collect()
}

/// The first `count` tenants at work together.
fn risk(experiment: &Experiment, series: &[Vec<Window>], count: u64, together: u32) -> Risk {
    let members = members(series);
    let pods: Vec<u64> = (0..members.len() as u64).map(|k| u64::from(k < count)).collect();
    Risk::of(&at_work(&members, &pods), together, experiment.window_ms, &sampling(experiment))
}

fn sampling(experiment: &Experiment) -> Sampling {
    let SamplingSpec { block_ms, resamples, seed } = experiment.sampling;
    Sampling { block_ms, resamples, seed }
}

/// Every cell of one thinning.
pub fn cells(experiment: &Experiment, shift: Shift, thinning: u64) -> Vec<Cell> {
    let mut cells = Vec::new();
    for tenants in tenants(experiment, shift, thinning) {
        for &together in &experiment.together {
            for &risk_ppm in &experiment.risk_ppm {
                cells.push(cell(experiment, &tenants, together, risk_ppm));
            }
        }
    }
    cells
}

fn cell(experiment: &Experiment, tenants: &Tenants, together: u32, risk_ppm: u32) -> Cell {
    // The limit alone is tried here: memory and mean load would end many cells before it does.
    let rule = Rule { together, risk_ppm, load_below_permille: u32::MAX, sampling: sampling(experiment) };
    let found = replicas(&members(&tenants.fit), experiment.window_ms, &Device::default(), &rule);
    let on_test = |count: u64| risk(experiment, &tenants.test, count, together);
    let all = tenants.test.len() as u64;
    let hindsight = (1..=all).take_while(|&count| kept(&on_test(count), risk_ppm)).last().unwrap_or(0);
    let duty = |windows: &Vec<Window>| {
        (windows.iter().filter(|w| w.active > 0).count() as u64, windows.len() as u64)
    };
    let duties: Vec<(u64, u64)> = tenants.fit.iter().map(duty).collect();
    let averages = fits_by_averages(&duties, together, risk_ppm) as u64;
    Cell {
        service: tenants.service.clone(),
        together,
        risk_ppm,
        chosen: found.count,
        fit: found.risk,
        test: on_test(found.count),
        hindsight,
        averages,
        averages_test: on_test(averages),
    }
}

fn percent(ppm: u32) -> String {
    format!("{:.2} %", f64::from(ppm) / 1e4)
}

/// How busy the tenants were in the mean, in thousandths of the windows: in the fit part and in the test part.
pub fn duties(tenants: &Tenants) -> (usize, usize) {
    let mean = |part: &[Vec<Window>]| {
        let at_work = part.iter().flatten().filter(|w| w.active > 0).count();
        at_work * 1000 / part.iter().map(Vec::len).sum::<usize>()
    };
    (mean(&tenants.fit), mean(&tenants.test))
}

/// One line: how busy each service's tenants are in the mean.
pub fn busy(services: &[Tenants]) -> String {
    let one = |tenants: &Tenants| {
        let (fit, test) = duties(tenants);
        let percent = |permille: usize| format!("{}.{} %", permille / 10, permille % 10);
        format!("{} {} in the fit part, {} in the test part", tenants.service, percent(fit), percent(test))
    };
    format!("mean duty of the tenants: {}", services.iter().map(one).collect::<Vec<_>>().join("; "))
}

/// The cells as a Markdown table.
pub fn table(cells: &[Cell]) -> String {
    let mut text = String::from(
        "| service | together | limit | replicas | fit: counted, with confidence | test: counted | limit held | best in \
         hindsight | below it | product of averages | test: counted | limit held |\n\
         | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n",
    );
    let word = |held: bool| if held { "yes" } else { "**no**" };
    for cell in cells {
        let below = i128::from(cell.hindsight) - i128::from(cell.chosen);
        let below = if cell.near() { below.to_string() } else { format!("**{below}**") };
        let _ = writeln!(
            text,
            "| {} | {} | {} % | {} | {}, {} | {} | {} | {} | {below} | {} | {} | {} |",
            cell.service,
            cell.together,
            f64::from(cell.risk_ppm) / 1e4,
            cell.chosen,
            percent(cell.fit.share_ppm()),
            percent(cell.fit.upper_ppm),
            percent(cell.test.share_ppm()),
            word(cell.held()),
            cell.hindsight,
            cell.averages,
            percent(cell.averages_test.share_ppm()),
            word(kept(&cell.averages_test, cell.risk_ppm)),
        );
    }
    text
}

/// How many of the cells hold, are near, both; and how many of the product's hold.
pub fn tally(cells: &[Cell]) -> String {
    let count = |keep: &dyn Fn(&Cell) -> bool| cells.iter().filter(|c| keep(c)).count();
    format!(
        "{} cells: limit held in {}, at most one below the best in hindsight in {}, both in {}; the product of averages \
         holds the limit in {}",
        cells.len(),
        count(&Cell::held),
        count(&Cell::near),
        count(&|c| c.held() && c.near()),
        count(&|c| kept(&c.averages_test, c.risk_ppm)),
    )
}
