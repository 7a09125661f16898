//! Packing beside first-fit decreasing: `cargo bench -p tesela-plan --bench pack`.
//!
//! Each line is the mean over the seeds. `gap` is the cost less the bound that the certificate proves, `search gap` the
//! cost less what the exhaustive search proves; the optimum lies between. `process ms` is the time of a whole process
//! that reads the demand from its arguments, packs, and prints the layouts and the certificate as JSON.
//! Mixes are weights of 1g, 2g, 3g, 4g, 7g: uniform 1:1:1:1:1, small 5:3:1:.5:.5, big 1:1:2:2:2, mid 1:3:3:1:.3.

use std::collections::BTreeSet;
use std::time::Instant;

use tesela_model::layout::Layout;
use tesela_model::product::{Product, ProductTable, ProfileName};
use tesela_plan::layouts::all_profiles;
use tesela_plan::pack::{Class, Offer, Packing, Partial, Problem, pack, pack_product};

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

    fn index(&mut self, n: usize) -> usize {
        usize::try_from(self.below(n as u64)).unwrap()
    }
}

fn draw(dice: &mut Dice, names: &[&str], weights: &[u64], n: u64) -> Vec<(ProfileName, u64)> {
    let sum = weights.iter().take(names.len()).sum();
    let mut counts = vec![0; names.len()];
    for _ in 0..n {
        let mut at = dice.below(sum);
        for (count, weight) in counts.iter_mut().zip(weights) {
            if at < *weight {
                *count += 1;
                break;
            }
            at -= weight;
        }
    }
    names
        .iter()
        .zip(counts)
        .map(|(name, count)| (name.parse().unwrap(), count))
        .collect()
}

/// First-fit decreasing: the largest first, each on the first GPU with a free place, at its last free start.
/// Equal instances follow each other, so one walk over the GPUs places them all.
fn first_fit_decreasing(product: &Product, demand: &[(ProfileName, u64)]) -> u64 {
    let mut demand = demand.to_vec();
    let size = |name: &ProfileName| {
        let profile = product.profile(name.as_str()).unwrap();
        (profile.compute_slices, profile.units())
    };
    demand.sort_by_key(|(name, _)| std::cmp::Reverse(size(name)));
    let mut gpus: Vec<(u64, u32)> = Vec::new();
    for (name, count) in demand {
        let profile = product.profile(name.as_str()).unwrap();
        let masks = profile
            .placements
            .iter()
            .rev()
            .map(|p| p.mask())
            .collect::<Vec<_>>();
        let mut left = count;
        let mut at = 0;
        while left > 0 {
            if at == gpus.len() {
                gpus.push((0, product.compute_slices));
            }
            let (units, slices) = &mut gpus[at];
            let free = masks
                .iter()
                .find(|mask| **mask & *units == 0 && profile.compute_slices <= *slices);
            match free {
                Some(mask) => {
                    *units |= mask;
                    *slices -= profile.compute_slices;
                    left -= 1;
                }
                None => at += 1,
            }
        }
    }
    gpus.len() as u64
}

#[expect(clippy::disallowed_methods, reason = "a benchmark takes time")]
fn timed<T>(work: impl FnOnce() -> T) -> (T, f64) {
    let start = Instant::now();
    let result = work();
    (result, start.elapsed().as_secs_f64() * 1e3)
}

/// Milliseconds of a whole process that does the same.
#[expect(
    clippy::disallowed_methods,
    reason = "a benchmark starts itself as a process to time it whole"
)]
fn process(product: &Product, demand: &[(ProfileName, u64)]) -> f64 {
    let words = demand.iter().map(|(name, count)| format!("{name}={count}"));
    let mut command = std::process::Command::new(std::env::current_exe().unwrap());
    command
        .arg("--pack")
        .arg(product.id.as_str())
        .args(words)
        .stdout(std::process::Stdio::null());
    let (status, ms) = timed(|| command.status().unwrap());
    assert!(status.success());
    ms
}

fn child(words: &[String]) {
    let product = ProductTable::builtin().find(&words[0]).unwrap();
    let demand = words[1..].iter().map(|word| {
        let (name, count) = word.split_once('=').unwrap();
        (name.parse().unwrap(), count.parse().unwrap())
    });
    let packing = pack_product(product, &demand.collect::<Vec<_>>()).unwrap();
    println!("{}", serde_json::to_string(&packing).unwrap());
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
            format!(
                "{:.1} / {:.1}",
                average(&self.process_ms),
                worst(&self.process_ms)
            )
        };
        let more = if self.other > 0.0 {
            format!(
                "{:.2} (+{:.2} %)",
                mean(self.other),
                (self.other / self.cost - 1.0) * 100.0
            )
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

fn one_product(product: &Product, names: &[&str]) {
    for (n, seeds) in [(30, 30), (100, 30), (1_000, 30), (10_000, 5), (1_000_000, 3)] {
        for (mix, weights) in MIXES {
            let mut row = Row::default();
            for seed in 0..seeds {
                let demand = draw(&mut Dice(seed), names, &weights, n);
                let (packing, ms) = timed(|| pack_product(product, &demand).unwrap());
                let other = first_fit_decreasing(product, &demand);
                let process_ms = (seed < 3).then(|| process(product, &demand));
                row.add(&packing, other, ms, process_ms);
            }
            row.print(product.id.as_str(), n, mix);
        }
    }
}

const FLEET: [(&str, u64); 3] = [
    ("h100-sxm-80gb", 2_990_000),
    ("a100-40gb", 1_290_000),
    ("a30-24gb", 610_000),
];
const SIZES: [(&str, [&str; 3]); 5] = [
    ("1g", ["1g.10gb", "1g.5gb", "1g.6gb"]),
    ("2g", ["2g.20gb", "2g.10gb", "2g.12gb"]),
    ("3g", ["3g.40gb", "3g.20gb", "4g.24gb"]),
    ("4g", ["4g.40gb", "4g.20gb", ""]),
    ("7g", ["7g.80gb", "7g.40gb", ""]),
];

fn fleet_classes(dice: &mut Dice, weights: &[u64; 5], n: u64) -> Vec<Class> {
    let names = ["1g.10gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb"];
    let counts = draw(dice, &names, weights, n);
    let mut classes = Vec::new();
    for ((name, profiles), (_, count)) in SIZES.iter().zip(counts) {
        let each = FLEET
            .iter()
            .zip(profiles)
            .filter(|(_, profile)| !profile.is_empty());
        let profiles = each.map(|((id, _), profile)| (id.parse().unwrap(), profile.parse().unwrap()));
        classes.push(Class {
            name: (*name).to_owned(),
            count,
            profiles: profiles.collect(),
        });
    }
    classes
}

fn find(id: &str) -> &'static Product {
    ProductTable::builtin().find(id).unwrap()
}

fn offers() -> Vec<Offer<'static>> {
    FLEET
        .iter()
        .map(|(id, cost)| Offer {
            product: find(id),
            cost: *cost,
            limit: None,
        })
        .collect()
}

fn mixed_fleet() {
    let offers = offers();
    for (n, seeds) in [(30, 30), (1_000, 30), (10_000, 5), (1_000_000, 3)] {
        for (mix, weights) in MIXES {
            let mut row = Row::default();
            for seed in 0..seeds {
                let classes = fleet_classes(&mut Dice(seed), &weights, n);
                let problem = Problem {
                    classes: &classes,
                    offers: &offers,
                    partial: &[],
                };
                let (packing, ms) = timed(|| pack(&problem).unwrap());
                row.add(&packing, 0, ms, None);
            }
            row.print("H100+A100+A30, cost in micro-units an hour", n, mix);
        }
    }
}

/// Distinct states of the products, all profiles, at least `count` of them.
fn states(products: &[&'static Product], count: usize) -> Vec<Partial<'static>> {
    let mut dice = Dice(7);
    let mut seen = BTreeSet::new();
    let mut partial = Vec::new();
    while partial.len() < count {
        let product = products[dice.index(products.len())];
        let names = all_profiles(product);
        let mut layout = Layout::empty(product);
        for _ in 0..=dice.below(6) {
            let name = &names[dice.index(names.len())];
            let placements = &product.profile(name.as_str()).unwrap().placements;
            let start = placements[dice.index(placements.len())].start;
            let before = layout.instances().iter().map(|i| (i.profile.clone(), i.start));
            if let Ok(grown) = Layout::new(product, before.chain([(name.clone(), start)])) {
                layout = grown;
            }
        }
        if seen.insert((product.id.clone(), layout.clone())) {
            partial.push(Partial {
                product,
                layout,
                count: 1,
            });
        }
    }
    partial
}

fn partly_filled() {
    for (what, products) in [
        (
            "5,000 states of A100-40GB, A100-80GB, H100 and H200",
            ["a100-40gb", "a100-80gb", "h100-sxm-80gb", "h200-141gb"],
        ),
        (
            "5,000 states of A100-40GB, H100, A30 and RTX PRO 6000",
            ["a100-40gb", "h100-sxm-80gb", "a30-24gb", "rtx-pro-6000-96gb"],
        ),
    ] {
        let products = products.map(find);
        let partial = states(&products, 5_000);
        for n in [1_000, 10_000, 20_000, 1_000_000] {
            for (mix, weights) in MIXES {
                let classes = fleet_classes(&mut Dice(1), &weights, n);
                let mut all = Vec::new();
                for mut class in classes {
                    let like = class.profiles[&products[if products[1].id.as_str() == "h100-sxm-80gb" {
                        1
                    } else {
                        2
                    }]
                    .id]
                        .clone();
                    for product in products {
                        let slices = like.slices();
                        let named = product.profiles.iter().find(|p| {
                            p.is_plain() && p.compute_slices == slices && p.gi_profile_enum != Some(9)
                        });
                        if let Some(profile) = named {
                            class.profiles.insert(product.id.clone(), profile.name.clone());
                        }
                    }
                    all.push(class);
                }
                let one = [Offer {
                    product: find("h100-sxm-80gb"),
                    cost: 1,
                    limit: None,
                }];
                let problem = Problem {
                    classes: &all,
                    offers: &one,
                    partial: &partial,
                };
                let (packing, ms) = timed(|| pack(&problem).unwrap());
                let mut row = Row::default();
                row.add(&packing, 0, ms, None);
                row.print(what, n, mix);
            }
        }
    }
}

fn main() {
    let words = std::env::args().skip(1).collect::<Vec<_>>();
    if words.first().is_some_and(|word| word == "--pack") {
        return child(&words[1..]);
    }
    println!(
        "| GPUs | instances | cost | gap | search gap | proven | first-fit decreasing | ms mean / worst | process ms |"
    );
    println!("| --- | --- | --- | --- | --- | --- | --- | --- | --- |");
    one_product(
        find("a100-40gb"),
        &["1g.5gb", "2g.10gb", "3g.20gb", "4g.20gb", "7g.40gb"],
    );
    one_product(find("a30-24gb"), &["1g.6gb", "2g.12gb", "4g.24gb"]);
    mixed_fleet();
    partly_filled();
}
