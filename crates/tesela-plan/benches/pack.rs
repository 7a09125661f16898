//! Packing beside first-fit decreasing: `cargo bench -p tesela-plan --bench pack`. With `-- --quick` one small demand of
//! each kind, to see that it runs.
//!
//! Each line is the mean over the seeds. `gap` is the cost less the bound that the certificate proves, `search gap` the
//! cost less what the exhaustive search proves; the optimum lies between. `ms` is the packing alone, mean and worst;
//! `process ms` a whole process that reads the counts from its arguments (and draws the partly filled GPUs), packs, and
//! prints the layouts and the certificate as JSON. Mixes are weights of 1g, 2g, 3g, 4g, 7g: uniform 1:1:1:1:1, small 5:3:1:.5:.5,
//! big 1:1:2:2:2, mid 1:3:3:1:.3. Costs: 1 for each GPU, in the mixed fleet micro-units an hour.

#![expect(
    clippy::unwrap_used,
    clippy::cast_precision_loss,
    clippy::print_stdout,
    reason = "a benchmark prints its table, may stop at a fault, and rounds its means"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use tesela_model::layout::{Instance, Layout};
use tesela_model::product::{Placement, Product, ProductId, ProductTable, Profile, ProfileName};
use tesela_plan::layouts::{all_profiles, layouts};
use tesela_plan::pack::{Class, Offer, Packing, Partial, Problem, pack};

const MIXES: [(&str, [u64; 5]); 4] = [
    ("uniform", [10, 10, 10, 10, 10]),
    ("small", [50, 30, 10, 5, 5]),
    ("big", [10, 10, 20, 20, 20]),
    ("mid", [10, 30, 30, 10, 3]),
];

/// SplitMix64: the same demands on every machine.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
}

/// What is free on one GPU of the heuristic.
#[derive(Clone)]
struct Free {
    product: usize,
    units: u64,
    slices: u32,
    engines: [u32; 5],
}

impl Free {
    fn new(product: usize, of: &Product) -> Self {
        let engines = of.engine_caps().values().map(|cap| cap.unwrap_or(u32::MAX));
        Self { product, units: 0, slices: of.compute_slices, engines }
    }

    fn take(&mut self, profile: &Profile, start: Option<u32>) -> bool {
        let engines = profile.engines.values().map(|e| e.unwrap_or(0));
        let fits = |at: &&Placement| at.mask() & self.units == 0 && start.is_none_or(|s| s == at.start);
        let Some(at) = profile.placements.iter().rev().find(fits) else {
            return false;
        };
        if profile.compute_slices > self.slices || engines.iter().zip(&self.engines).any(|(e, free)| e > free)
        {
            return false;
        }
        self.units |= at.mask();
        self.slices -= profile.compute_slices;
        for (free, engine) in self.engines.iter_mut().zip(engines) {
            *free -= engine;
        }
        true
    }
}

/// First-fit decreasing: the largest classes first, each instance on the first GPU with a free place (partly filled ones
/// come first), at its last free start; a new GPU is of the product on which an instance of the class costs least.
/// Equal instances follow each other, so one walk over the GPUs places them all.
fn first_fit_decreasing(problem: &Problem<'_>) -> u64 {
    let mut products: Vec<&Product> = problem.offers.iter().map(|o| o.product).collect();
    let mut gpus = Vec::new();
    for partial in problem.partial {
        let known = products.iter().position(|p| p.id == partial.product.id);
        let index = known.unwrap_or(products.len());
        if known.is_none() {
            products.push(partial.product);
        }
        let mut free = Free::new(index, partial.product);
        for instance in partial.layout.instances() {
            let profile = partial.product.profile(instance.profile.as_str()).unwrap();
            assert!(free.take(profile, Some(instance.start)));
        }
        gpus.extend(std::iter::repeat_n(free, usize::try_from(partial.count).unwrap()));
    }
    let mut cost = 0;
    let mut classes = problem.classes.iter().collect::<Vec<_>>();
    let size = |class: &Class| class.profiles.values().map(ProfileName::slices).max();
    classes.sort_by_key(|class| std::cmp::Reverse(size(class)));
    for class in classes {
        let mut profiles = Vec::new();
        for product in &products {
            let product: &Product = product;
            profiles
                .push(class.profiles.get(&product.id).map(|name| product.profile(name.as_str()).unwrap()));
        }
        let each = |o: usize| {
            let profile = profiles[o]?;
            Some((problem.offers[o].cost * 1_000 / u64::from(profile.max_instances?), o))
        };
        let cheapest = (0..problem.offers.len()).filter_map(each).min().unwrap().1;
        let (mut left, mut at) = (class.count, 0);
        while left > 0 {
            if at == gpus.len() {
                gpus.push(Free::new(cheapest, products[cheapest]));
                cost += problem.offers[cheapest].cost;
            }
            let profile = profiles[gpus[at].product];
            if profile.is_some_and(|profile| gpus[at].take(profile, None)) {
                left -= 1;
            } else {
                at += 1;
            }
        }
    }
    cost
}

#[expect(clippy::disallowed_methods, reason = "a benchmark takes time")]
fn timed<T>(work: impl FnOnce() -> T) -> (T, f64) {
    let start = Instant::now();
    let result = work();
    (result, start.elapsed().as_secs_f64() * 1e3)
}

/// Milliseconds of a whole process that does the same from the counts of the classes.
#[expect(clippy::disallowed_methods, reason = "a benchmark starts itself as a process to time it whole")]
fn process(suite: usize, classes: &[Class]) -> f64 {
    let mut command = std::process::Command::new(std::env::current_exe().unwrap());
    let counts = classes.iter().map(|class| class.count.to_string());
    command.arg("--pack").arg(suite.to_string()).args(counts).stdout(std::process::Stdio::null());
    let (status, ms) = timed(|| command.status().unwrap());
    assert!(status.success());
    ms
}

fn child(words: &[String]) {
    let suite = Suite::new(words[0].parse().unwrap());
    let mut classes = suite.classes(0, 0, 0);
    for (class, count) in classes.iter_mut().zip(&words[1..]) {
        class.count = count.parse().unwrap();
    }
    let problem = Problem { classes: &classes, offers: &suite.offers, partial: &suite.partial };
    println!("{}", serde_json::to_string(&pack(&problem).unwrap()).unwrap());
}

#[derive(Default)]
struct Row {
    tries: f64,
    cost: f64,
    gap: f64,
    search_gap: f64,
    proven: u32,
    other: f64,
    ms: Vec<f64>,
    process_ms: Vec<f64>,
}

impl Row {
    fn add(&mut self, packing: &Packing, other: u64, ms: f64, process_ms: Option<f64>) {
        self.tries += 1.0;
        self.cost += packing.cost as f64;
        self.gap += (packing.cost - packing.lower_bound) as f64;
        self.search_gap += (packing.cost - packing.search_bound) as f64;
        self.proven += u32::from(packing.proven_optimal);
        self.other += other as f64;
        self.ms.push(ms);
        self.process_ms.extend(process_ms);
    }

    fn print(&self, what: &str, n: u64, mix: &str) {
        let mean = |sum: f64| sum / self.tries;
        let worst = |times: &[f64]| times.iter().copied().fold(0.0, f64::max);
        let average = |times: &[f64]| times.iter().sum::<f64>() / times.len().max(1) as f64;
        let process = if self.process_ms.is_empty() {
            "-".to_owned()
        } else {
            format!("{:.1} / {:.1}", average(&self.process_ms), worst(&self.process_ms))
        };
        let more = if self.other > 0.0 {
            format!("{:.2} (+{:.2} %)", mean(self.other), (self.other / self.cost - 1.0) * 100.0)
        } else {
            "-".to_owned()
        };
        println!(
            "| {what} | {n} {mix} | {:.2} | {:.2} | {:.2} | {}/{} | {more} | {:.2} / {:.2} | {process} |",
            mean(self.cost),
            mean(self.gap),
            mean(self.search_gap),
            self.proven,
            self.tries,
            average(&self.ms),
            worst(&self.ms),
        );
    }
}

/// A set of GPUs, and the profile that each size of the mixes takes on each product.
struct Suite {
    title: &'static str,
    offers: Vec<Offer<'static>>,
    partial: Vec<Partial<'static>>,
}

const SEVEN_SLICES: [&str; 4] = ["a100-40gb", "a100-80gb", "h100-sxm-80gb", "h200-141gb"];
const FOUR_KINDS: [&str; 4] = ["a100-40gb", "h100-sxm-80gb", "a30-24gb", "rtx-pro-6000-96gb"];
const SUITES: usize = 5;

impl Suite {
    fn new(index: usize) -> Self {
        let offer = |id: &str, cost: u64| Offer { product: find(id), cost, limit: None };
        let (title, offers, partial) = match index {
            0 => ("A100-40GB", vec![offer("a100-40gb", 1)], Vec::new()),
            1 => ("A30", vec![offer("a30-24gb", 1)], Vec::new()),
            2 => (
                "H100 at 2.99, A100-40GB at 1.29, A30 at 0.75",
                vec![
                    offer("h100-sxm-80gb", 2_990_000),
                    offer("a100-40gb", 1_290_000),
                    offer("a30-24gb", 750_000),
                ],
                Vec::new(),
            ),
            3 => {
                let partial = states(&SEVEN_SLICES.map(find), 5_000);
                (
                    "H100, 5,000 distinct partly filled A100-40GB, A100-80GB, H100, H200",
                    vec![offer("h100-sxm-80gb", 1)],
                    partial,
                )
            }
            _ => {
                let partial = states(&FOUR_KINDS.map(find), 5_000);
                (
                    "H100, 5,000 distinct partly filled A100-40GB, H100, A30, RTX PRO 6000",
                    vec![offer("h100-sxm-80gb", 1)],
                    partial,
                )
            }
        };
        Self { title, offers, partial }
    }

    fn classes(&self, mix: usize, n: u64, seed: u64) -> Vec<Class> {
        let products = self.offers.iter().map(|o| o.product).chain(self.partial.iter().map(|p| p.product));
        let products = products.map(|p| (&p.id, p)).collect::<BTreeMap<_, _>>();
        let mut sizes = Vec::new();
        for (name, slices, weight) in [1, 2, 3, 4, 7]
            .iter()
            .zip(MIXES[mix].1)
            .map(|(slices, weight)| (format!("{slices}g"), *slices, weight))
        {
            let plain =
                |p: &&Profile| p.is_plain() && p.compute_slices == slices && p.gi_profile_enum != Some(9);
            let profiles = products.iter().filter_map(|(id, product)| {
                let profile = product.profiles.iter().find(plain)?;
                Some(((*id).clone(), profile.name.clone()))
            });
            let profiles = profiles.collect::<BTreeMap<_, _>>();
            if self.offers.iter().any(|o| profiles.contains_key(&o.product.id)) {
                sizes.push((Class { name, count: 0, profiles }, weight));
            }
        }
        let sum = sizes.iter().map(|(_, weight)| weight).sum();
        let mut dice = Dice(seed);
        for _ in 0..n {
            let mut at = dice.below(sum);
            for (class, weight) in &mut sizes {
                if at < *weight {
                    class.count += 1;
                    break;
                }
                at -= *weight;
            }
        }
        sizes.into_iter().map(|(class, _)| class).collect()
    }

    fn run(&self, index: usize, quick: bool) {
        let sizes = [(30, 30), (100, 30), (1_000, 30), (10_000, 5), (1_000_000, 3)];
        let few = [(1_000, 2), (10_000, 2), (1_000_000, 2)];
        for &(n, seeds) in if quick {
            &[(100, 1)]
        } else if self.partial.is_empty() {
            &sizes[..]
        } else {
            &few[..]
        } {
            for (mix, (name, _)) in MIXES.iter().enumerate() {
                let mut row = Row::default();
                for seed in 0..seeds {
                    let classes = self.classes(mix, n, seed);
                    let problem = Problem { classes: &classes, offers: &self.offers, partial: &self.partial };
                    let (packing, ms) = timed(|| pack(&problem).unwrap());
                    let process_ms = (seed < 3).then(|| process(index, &classes));
                    row.add(&packing, first_fit_decreasing(&problem), ms, process_ms);
                }
                row.print(self.title, n, name);
            }
        }
    }
}

fn find(id: &str) -> &'static Product {
    ProductTable::builtin().find(id).unwrap()
}

/// So many distinct states of the products over all their profiles: parts of their maximal layouts, drawn in turn.
fn states(products: &[&'static Product], count: usize) -> Vec<Partial<'static>> {
    let mut dice = Dice(7);
    let listed =
        products.iter().map(|p| (*p, layouts(p, &all_profiles(p)).unwrap().layouts)).collect::<Vec<_>>();
    let mut seen = BTreeSet::new();
    while seen.len() < count {
        for (product, layouts) in &listed {
            let whole = &layouts[usize::try_from(dice.below(layouts.len() as u64)).unwrap()];
            let part = whole.instances().iter().filter(|_| dice.below(2) == 0).cloned().collect::<Vec<_>>();
            if !part.is_empty() && seen.len() < count {
                seen.insert((&product.id, part));
            }
        }
    }
    let state = |(id, instances): (&ProductId, Vec<Instance>)| {
        let product = find(id.as_str());
        let placed = instances.into_iter().map(|i| (i.profile, i.start));
        Partial { product, layout: Layout::new(product, placed).unwrap(), count: 1 }
    };
    seen.into_iter().map(state).collect()
}

fn main() {
    let words = std::env::args().skip(1).collect::<Vec<_>>();
    if words.first().is_some_and(|word| word == "--pack") {
        return child(&words[1..]);
    }
    println!(
        "| GPUs | instances | cost | gap | search gap | proven | first-fit decreasing | ms mean / worst | process ms mean / worst |"
    );
    println!("| --- | --- | --- | --- | --- | --- | --- | --- | --- |");
    let quick = words.iter().any(|word| word == "--quick");
    for index in 0..SUITES {
        Suite::new(index).run(index, quick);
    }
}
