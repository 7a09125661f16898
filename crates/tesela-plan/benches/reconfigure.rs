//! Reconfiguration of many GPUs: `cargo bench -p tesela-plan --bench reconfigure`. With `-- --quick` few GPUs, to see
//! that it runs; `--gpus N`, `--fill N` and `--movable N` choose one value instead of all.
//!
//! GPUs hold parts of random maximal layouts. `fill` is the share of compute slices that are busy; of the other
//! instances half are idle and half are absent. A busy instance weighs 1, 2 or 3 and is movable with the share given,
//! else pinned. Targets: *fewer GPUs* keeps what is busy and asks for as many whole-GPU instances as can be had, by
//! halving; *one more 7g* keeps what is busy and half of what is idle; *new mix* packs what is busy first-fit
//! decreasing and fills most of the rest with random profiles. `gap` is the disturbed weight less the bound that the
//! certificate proves, in percent of the bound; the optimum lies between. `destroy-all` is the weight on the GPUs that
//! change. Weights, operations, steps and times are means over the seeds; gaps median and worst; `ms` the call alone.

#![expect(
    clippy::unwrap_used,
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a benchmark prints its table, may stop at a fault, reads the clock and rounds its means"
)]

use std::collections::BTreeMap;
use std::time::Instant;

use tesela_model::product::{Product, ProductTable, ProfileName};
use tesela_plan::layouts::{default_profiles, layouts};
use tesela_plan::reconfigure::{
    Answer, Executor, Gpu, Held, Reconfiguration, Request, Target, Usage, reconfigure,
};

/// SplitMix64: the same fleets on every machine.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Fewer,
    OneMore,
    Mix,
}

impl Kind {
    const ALL: [Self; 3] = [Self::Fewer, Self::OneMore, Self::Mix];

    fn name(self) -> &'static str {
        match self {
            Self::Fewer => "fewer GPUs",
            Self::OneMore => "one more 7g",
            Self::Mix => "new mix",
        }
    }
}

type Counts = BTreeMap<ProfileName, u64>;

/// GPUs whose busy compute slices are the share `fill` of all, as near as instances allow.
fn fleet(product: &Product, gpus: usize, fill: usize, movable: usize, dice: &mut Dice) -> Vec<Gpu> {
    let all = layouts(product, &default_profiles(product)).unwrap().layouts;
    let mut fleet = Vec::new();
    let mut places = Vec::new();
    for gpu in 0..gpus {
        let layout = &all[dice.below(all.len())];
        places.extend((0..layout.instances().len()).map(|at| (gpu, at)));
        let held = |i: &tesela_model::layout::Instance| Held {
            profile: i.profile.clone(),
            start: i.start,
            usage: Usage::Idle,
        };
        let instances = layout.instances().iter().map(held).collect();
        fleet.push(Gpu { name: format!("gpu-{gpu:05}"), instances, executor: Executor::Native });
    }
    for at in (1..places.len()).rev() {
        places.swap(at, dice.below(at + 1));
    }
    let wanted = gpus * product.compute_slices as usize * fill / 100;
    let mut busy = 0;
    let mut gone = Vec::new();
    for (gpu, at) in places {
        let held = &mut fleet[gpu].instances[at];
        if busy < wanted {
            let pinned = dice.below(100) >= movable;
            held.usage = Usage::Busy { weight: 1 + dice.below(3) as u64, pinned };
            busy += product.profile(held.profile.as_str()).unwrap().compute_slices as usize;
        } else if dice.below(2) == 0 {
            gone.push((gpu, at));
        }
    }
    gone.sort_unstable();
    for (gpu, at) in gone.into_iter().rev() {
        fleet[gpu].instances.remove(at);
    }
    fleet
}

fn count(gpus: &[Gpu], wanted: impl Fn(Usage) -> bool) -> Counts {
    let mut counts = Counts::new();
    for held in gpus.iter().flat_map(|g| &g.instances).filter(|h| wanted(h.usage)) {
        *counts.entry(held.profile.clone()).or_insert(0) += 1;
    }
    counts
}

fn is_pinned(usage: Usage) -> bool {
    matches!(usage, Usage::Busy { pinned: true, .. })
}

/// What is free on a GPU, in units and slices.
#[derive(Clone, Copy)]
struct Free {
    units: u64,
    slices: u32,
}

fn take(product: &Product, free: &mut Free, name: &ProfileName, start: Option<u32>) -> bool {
    let profile = product.profile(name.as_str()).unwrap();
    let fits = |p: &&tesela_model::product::Placement| {
        p.mask() & !free.units == 0 && start.is_none_or(|start| start == p.start)
    };
    let Some(place) = profile.placements.iter().rev().find(fits) else { return false };
    if profile.compute_slices > free.slices {
        return false;
    }
    free.units &= !place.mask();
    free.slices -= profile.compute_slices;
    true
}

/// Counts that some layouts of the GPUs hold: what is pinned stays, the other busy ones go where they fit first, the
/// largest first; then four tries for each GPU of a random profile. `None` when the first fit fails.
fn mix(product: &Product, gpus: &[Gpu], dice: &mut Dice) -> Option<Counts> {
    let whole = Free { units: (1 << product.units()) - 1, slices: product.compute_slices };
    let mut free = vec![whole; gpus.len()];
    let mut movable = Vec::new();
    let mut counts = Counts::new();
    for (gpu, free) in gpus.iter().zip(&mut free) {
        for held in gpu.instances.iter().filter(|h| h.usage != Usage::Idle) {
            *counts.entry(held.profile.clone()).or_insert(0) += 1;
            if is_pinned(held.usage) {
                assert!(take(product, free, &held.profile, Some(held.start)));
            } else {
                movable.push(&held.profile);
            }
        }
    }
    movable.sort_by_key(|name| std::cmp::Reverse(product.profile(name.as_str()).unwrap().units()));
    for name in movable {
        free.iter_mut().any(|free| take(product, free, name, None)).then_some(())?;
    }
    let names = default_profiles(product);
    for free in &mut free {
        for _ in 0..4 {
            let name = &names[dice.below(names.len())];
            if take(product, free, name, None) {
                *counts.entry(name.clone()).or_insert(0) += 1;
            }
        }
    }
    Some(counts)
}

fn target(product: &Product, gpus: &[Gpu], kind: Kind, dice: &mut Dice) -> Target {
    let whole = product.full_profile().unwrap().name.clone();
    let mut counts = count(gpus, |usage| usage != Usage::Idle);
    let idle = count(gpus, |usage| usage == Usage::Idle);
    let free = gpus.iter().filter(|g| !g.instances.iter().any(|h| is_pinned(h.usage))).count() as u64;
    match kind {
        Kind::Mix => Target::Counts(mix(product, gpus, dice).unwrap_or(counts)),
        Kind::Fewer => possible(product, gpus, free, |more| {
            let mut counts = counts.clone();
            *counts.entry(whole.clone()).or_insert(0) += more;
            counts
        }),
        Kind::OneMore => {
            *counts.entry(whole).or_insert(0) += u64::from(free > 0);
            possible(product, gpus, 100, |part| {
                let mut counts = counts.clone();
                for (name, n) in &idle {
                    *counts.entry(name.clone()).or_insert(0) += n * part / 200;
                }
                counts
            })
        }
    }
}

/// The target for the largest of `most`, a half, a quarter … that can be reached.
fn possible(product: &Product, gpus: &[Gpu], most: u64, counts: impl Fn(u64) -> Counts) -> Target {
    let mut n = most;
    loop {
        let target = Target::Counts(counts(n));
        let request = Request { product, gpus, target: &target, spares: 0 };
        if n == 0 || matches!(reconfigure(&request).unwrap(), Answer::Change(_)) {
            return target;
        }
        n /= 2;
    }
}

#[derive(Default)]
struct Sums {
    runs: u64,
    blocked: u64,
    disturbed: u64,
    bound: u64,
    operations: u64,
    operations_bound: u64,
    steps: u64,
    spares: u64,
    stopped: u64,
    destroy_all: u64,
    gaps: Vec<f64>,
    times: Vec<f64>,
}

impl Sums {
    fn add(&mut self, way: &Reconfiguration, ms: f64) {
        self.runs += 1;
        self.disturbed += way.disturbed_weight;
        self.bound += way.lower_bound;
        self.operations += way.operations;
        self.operations_bound += way.operations_bound;
        self.steps += way.steps.len() as u64;
        self.spares += way.spares_wanted;
        self.stopped += way.stopped;
        self.destroy_all += way.destroy_all_weight;
        let gap = way.disturbed_weight - way.lower_bound;
        self.gaps.push(if gap == 0 { 0.0 } else { 100.0 * gap as f64 / way.lower_bound.max(1) as f64 });
        self.times.push(ms);
        assert!(way.disturbed_weight <= way.destroy_all_weight && way.native.pinned == 0);
    }

    fn print(&mut self, product: &str, gpus: usize, fill: usize, movable: usize, kind: Kind) {
        if self.runs == 0 {
            println!("| {product} | {gpus} | {fill} | {movable} | {} | cannot be reached |", kind.name());
            return;
        }
        let mean = |sum: u64| sum as f64 / self.runs as f64;
        self.gaps.sort_by(f64::total_cmp);
        let worst_ms = self.times.iter().copied().fold(0.0, f64::max);
        println!(
            "| {product} | {gpus} | {fill} | {movable} | {} | {:.1} | {:.1} | {:.2} / {:.2} | {:.1} | {:.1} | {:.1} | {:.1} | {:.1} | {:.1} | {:.0} / {:.0} |",
            kind.name(),
            mean(self.disturbed),
            mean(self.bound),
            self.gaps[self.gaps.len() / 2],
            self.gaps[self.gaps.len() - 1],
            mean(self.destroy_all),
            mean(self.operations),
            mean(self.operations_bound),
            mean(self.steps),
            mean(self.spares),
            mean(self.stopped),
            self.times.iter().sum::<f64>() / self.runs as f64,
            worst_ms,
        );
    }
}

fn main() {
    let words = std::env::args().collect::<Vec<_>>();
    let quick = words.iter().any(|word| word == "--quick");
    // One value of a dimension instead of all.
    let only = |name: &str, all: &[usize]| {
        let at = words.iter().position(|word| word == name);
        at.and_then(|at| words.get(at + 1)?.parse().ok()).map_or_else(|| all.to_vec(), |one| vec![one])
    };
    println!(
        "| product | GPUs | fill % | movable % | target | disturbed | bound | gap % median / worst | destroy-all | operations | at least | steps | spares wanted | stopped without | ms mean / worst |"
    );
    println!("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |");
    let sizes = only("--gpus", if quick { &[20] } else { &[10, 100, 1_000, 10_000] });
    let fills = only("--fill", if quick { &[70] } else { &[50, 70, 90] });
    let movables = only("--movable", &[0, 30, 100]);
    let seeds = if quick { 1 } else { 5 };
    let mut all = Vec::new();
    for &gpus in &sizes {
        for id in ["a100-40gb", "a30-24gb"] {
            if id == "a30-24gb" && gpus != 1_000 && !quick {
                continue;
            }
            let product = ProductTable::builtin().find(id).unwrap();
            for &fill in &fills {
                for &movable in &movables {
                    for kind in Kind::ALL {
                        let mut sums = Sums::default();
                        for seed in 0..seeds {
                            let mut dice = Dice(seed * 1_000 + fill as u64 * 10 + movable as u64);
                            let fleet = fleet(product, gpus, fill, movable, &mut dice);
                            let target = target(product, &fleet, kind, &mut dice);
                            let request = Request { product, gpus: &fleet, target: &target, spares: 0 };
                            let start = Instant::now();
                            let answer = reconfigure(&request).unwrap();
                            let ms = start.elapsed().as_secs_f64() * 1e3;
                            match answer {
                                Answer::Change(way) => sums.add(&way, ms),
                                Answer::Blocked(_) => sums.blocked += 1,
                            }
                        }
                        sums.print(id, gpus, fill, movable, kind);
                        if gpus == 10_000 {
                            all.extend(sums.gaps.clone());
                        }
                    }
                }
            }
        }
    }
    all.sort_by(f64::total_cmp);
    if let (Some(middle), Some(worst)) = (all.get(all.len() / 2), all.last()) {
        println!(
            "\n10,000 GPUs, {} runs: gap to the bound median {middle:.2} %, worst {worst:.2} %",
            all.len()
        );
    }
}
