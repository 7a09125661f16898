//! Checks a way from layouts in force to a target by rules of its own: placements, replayed steps, and the bound,
//! derived again from the profile table. Shares no code with the solver: `Layout` and the plan crate's states are not
//! used here.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use tesela_model::layout::Instance;
use tesela_model::product::{Product, Profile};
use tesela_plan::reconfigure::{
    Blast, Executor, Gpu, GpuChange, Held, Proof, Reconfiguration, Request, Seat, Step, Target, Usage,
};

fn profile<'a>(product: &'a Product, name: &str) -> &'a Profile {
    product.profiles.iter().find(|p| p.name.as_str() == name).unwrap()
}

fn instance(product: &Product, held: &Held) -> Instance {
    let size = profile(product, held.profile.as_str())
        .placements
        .iter()
        .find(|p| p.start == held.start)
        .unwrap()
        .size;
    Instance { profile: held.profile.clone(), start: held.start, size }
}

/// Why these instances cannot be on one GPU together.
pub(crate) fn fault(product: &Product, instances: &[Instance]) -> Option<String> {
    let mut units = [false; 64];
    for i in instances {
        let placements = &profile(product, i.profile.as_str()).placements;
        if !placements.iter().any(|p| (p.start, p.size) == (i.start, i.size)) {
            return Some(format!("{i} may not sit there"));
        }
        for unit in i.start..i.start + i.size {
            if std::mem::replace(&mut units[unit as usize], true) {
                return Some(format!("unit {unit} is taken twice"));
            }
        }
    }
    let all = instances.iter().map(|i| profile(product, i.profile.as_str())).collect::<Vec<_>>();
    if all.iter().map(|p| p.compute_slices).sum::<u32>() > product.compute_slices {
        return Some("too many compute slices".to_owned());
    }
    let full = product.profiles.iter().find(|p| p.compute_slices == product.compute_slices);
    for engine in 0..5 {
        let cap = full.and_then(|p| p.engines.values()[engine]);
        let taken = all.iter().filter_map(|p| p.engines.values()[engine]).sum::<u32>();
        if cap.is_some_and(|cap| taken > cap) {
            return Some(format!("{taken} engines of kind {engine}"));
        }
    }
    let many = |p: &&&Profile| {
        p.max_instances.is_some_and(|max| all.iter().filter(|q| q.name == p.name).count() > max as usize)
    };
    all.iter().find(many).map(|p| format!("too many of {}", p.name))
}

/// Every state over the profiles, the empty one included, each by start. Those over all plain profiles of a product
/// are walked once and kept.
pub(crate) fn states(product: &Product, profiles: &[String]) -> Vec<Vec<Instance>> {
    static KNOWN: Mutex<BTreeMap<String, Vec<Vec<Instance>>>> = Mutex::new(BTreeMap::new());
    let plain = product.profiles.iter().filter(|p| p.is_plain() && !p.placements.is_empty());
    let plain = plain.map(|p| p.name.to_string()).collect::<Vec<_>>();
    if profiles.iter().any(|name| !plain.contains(name)) {
        return enumerate(product, profiles);
    }
    let mut known = KNOWN.lock().unwrap();
    let all = known.entry(product.id.to_string()).or_insert_with(|| enumerate(product, &plain));
    let within = |state: &&Vec<Instance>| {
        state.iter().all(|i| profiles.iter().any(|name| *name == i.profile.as_str()))
    };
    all.iter().filter(within).cloned().collect()
}

fn enumerate(product: &Product, profiles: &[String]) -> Vec<Vec<Instance>> {
    let mut slots = Vec::new();
    for name in profiles {
        let of = profile(product, name);
        slots.extend(of.placements.iter().map(|p| Instance {
            profile: of.name.clone(),
            start: p.start,
            size: p.size,
        }));
    }
    slots.sort_by(|a, b| (a.start, &a.profile).cmp(&(b.start, &b.profile)));
    fn grow(product: &Product, now: &mut Vec<Instance>, slots: &[Instance], found: &mut Vec<Vec<Instance>>) {
        found.push(now.clone());
        for (index, slot) in slots.iter().enumerate() {
            now.push(slot.clone());
            if fault(product, now).is_none() {
                grow(product, now, &slots[index + 1..], found);
            }
            now.pop();
        }
    }
    let mut found = Vec::new();
    grow(product, &mut Vec::new(), &slots, &mut found);
    found
}

pub(crate) fn counts(instances: &[Instance]) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for i in instances {
        *counts.entry(i.profile.to_string()).or_insert(0) += 1;
    }
    counts
}

/// The rows that a final layout counts towards: profiles, or its geometry.
fn rows(target: &Target, last: &[Instance]) -> BTreeMap<String, u64> {
    match target {
        Target::Counts(_) => counts(last),
        Target::Geometries(_) => {
            let geometry = last.iter().map(|i| i.profile.clone()).collect::<tesela_model::layout::Geometry>();
            BTreeMap::from([(geometry.to_string(), 1)])
        }
    }
}

pub(crate) fn wanted(target: &Target) -> BTreeMap<String, u64> {
    let wanted = match target {
        Target::Counts(counts) => {
            counts.iter().map(|(name, n)| (name.to_string(), *n)).collect::<BTreeMap<_, _>>()
        }
        Target::Geometries(all) => all.iter().map(|(geometry, n)| (geometry.to_string(), *n)).collect(),
    };
    wanted.into_iter().filter(|(_, n)| *n > 0).collect()
}

/// Profiles that a final layout may hold.
pub(crate) fn profiles(target: &Target) -> Vec<String> {
    let names = match target {
        Target::Counts(counts) => {
            counts.iter().filter(|(_, n)| **n > 0).map(|(name, _)| name.to_string()).collect()
        }
        Target::Geometries(all) => {
            all.keys().flat_map(|g| g.counts().map(|(name, _)| name.to_string())).collect::<BTreeSet<_>>()
        }
    };
    names.into_iter().collect()
}

/// Weight disturbed and operations when a GPU ends in a layout; `None` when something pinned would go.
pub(crate) fn cost(product: &Product, gpu: &Gpu, last: &[Instance]) -> Option<(u64, u64)> {
    let now = gpu.instances.iter().map(|h| (instance(product, h), h.usage)).collect::<Vec<_>>();
    let same = now.len() == last.len() && now.iter().all(|(i, _)| last.contains(i));
    let all_go = gpu.executor == Executor::GpuOperator && !same;
    let (mut weight, mut gone) = (0, 0);
    for (i, usage) in &now {
        if all_go || !last.contains(i) {
            gone += 1;
            match usage {
                Usage::Busy { pinned: true, .. } => return None,
                Usage::Busy { weight: w, .. } => weight += w,
                Usage::Idle => {}
            }
        }
    }
    let kept = now.len() as u64 - gone;
    Some((weight, gone + last.len() as u64 - kept))
}

/// Checks everything an answer claims. Returns the first lie.
pub(crate) fn check(request: &Request<'_>, answer: &Reconfiguration) -> Result<(), String> {
    let mut seen = BTreeSet::new();
    let (mut weight, mut operations) = (0, 0);
    let mut held: BTreeMap<String, u64> = BTreeMap::new();
    let mut last = Vec::new();
    for change in &answer.gpus {
        if !seen.insert(change.gpu) {
            return Err(format!("GPU {} comes twice", change.gpu));
        }
        let gpu = &request.gpus[change.gpu];
        let end = check_gpu(request.product, gpu, change)?;
        let Some((w, o)) = cost(request.product, gpu, &end) else {
            return Err(format!("{}: something pinned is disturbed", gpu.name));
        };
        if o != (change.destroy.len() + change.create.len()) as u64 {
            return Err(format!("{}: {o} operations, not those of the answer", gpu.name));
        }
        weight += w;
        operations += o;
        for (row, n) in rows(request.target, &end) {
            *held.entry(row).or_insert(0) += n;
        }
        last.push((change.gpu, end));
    }
    if seen.len() != request.gpus.len() {
        return Err("not every GPU has a fate".to_owned());
    }
    if held != wanted(request.target) {
        return Err(format!("holds {held:?} in the end, wanted {:?}", wanted(request.target)));
    }
    if (weight, operations) != (answer.disturbed_weight, answer.operations) {
        return Err(format!("({weight}, {operations}) is not what the answer says"));
    }
    check_blasts(request, answer, &last)?;
    check_bound(request, answer)?;
    replay(request, answer, &last)
}

fn check_gpu(product: &Product, gpu: &Gpu, change: &GpuChange) -> Result<Vec<Instance>, String> {
    let mut now = gpu.instances.iter().map(|h| instance(product, h)).collect::<Vec<_>>();
    let mut parts = [change.keep.clone(), change.destroy.clone()].concat();
    now.sort();
    parts.sort();
    if now != parts {
        return Err(format!("{}: keep and destroy are not what is there", gpu.name));
    }
    let mut end = [change.keep.clone(), change.create.clone()].concat();
    end.sort_by_key(|i| i.start);
    if let Some(fault) = fault(product, &end) {
        return Err(format!("{}: {fault}", gpu.name));
    }
    let busy = |i: &&Instance| {
        gpu.instances.iter().any(|h| h.start == i.start && h.profile == i.profile && h.usage != Usage::Idle)
    };
    let disturbed = change.destroy.iter().filter(busy).cloned().collect::<Vec<_>>();
    if disturbed != change.disturbed {
        return Err(format!("{}: another set is disturbed", gpu.name));
    }
    Ok(end)
}

fn check_blasts(
    request: &Request<'_>,
    answer: &Reconfiguration,
    last: &[(usize, Vec<Instance>)],
) -> Result<(), String> {
    let mut native = Blast { instances: 0, weight: 0, pinned: 0 };
    let mut all = native;
    for (gpu, end) in last {
        let now = request.gpus[*gpu].instances.iter().map(|h| (instance(request.product, h), h.usage));
        let now = now.collect::<Vec<_>>();
        if now.len() == end.len() && now.iter().all(|(i, _)| end.contains(i)) {
            continue;
        }
        for (i, usage) in now {
            let Usage::Busy { weight, pinned } = usage else { continue };
            for (blast, hit) in [(&mut native, !end.contains(&i)), (&mut all, true)] {
                if hit {
                    blast.instances += 1;
                    blast.weight += weight;
                    blast.pinned += u64::from(pinned);
                }
            }
        }
    }
    if (native, all) != (answer.native, answer.gpu_operator) || answer.destroy_all_weight != all.weight {
        return Err("the blast radius is another".to_owned());
    }
    if answer.disturbed_weight > all.weight {
        return Err("more is disturbed than by destroying all".to_owned());
    }
    Ok(())
}

fn check_bound(request: &Request<'_>, answer: &Reconfiguration) -> Result<(), String> {
    let certificate = &answer.certificate;
    let scale = i128::try_from(certificate.scale).unwrap();
    let states = states(request.product, &profiles(request.target));
    let geometries = wanted(request.target);
    let price = |rows: &BTreeMap<String, u64>| {
        rows.iter()
            .map(|(row, n)| certificate.prices.get(row).copied().unwrap_or(0) * i128::from(*n))
            .sum::<i128>()
    };
    let mut known: BTreeMap<Vec<Held>, i128> = BTreeMap::new();
    let mut sum = price(&geometries);
    for gpu in request.gpus {
        let key = || [gpu.instances.clone(), marker(gpu.executor)].concat();
        let worth = known.entry(key()).or_insert_with(|| {
            let allowed = states.iter().filter(|state| match request.target {
                Target::Counts(_) => true,
                Target::Geometries(_) => {
                    rows(request.target, state).keys().all(|row| geometries.contains_key(row))
                }
            });
            let worth = |state: &Vec<Instance>| {
                let (weight, _) = cost(request.product, gpu, state)?;
                Some(scale * i128::from(weight) - price(&rows(request.target, state)))
            };
            allowed.filter_map(worth).min().unwrap()
        });
        sum += *worth;
    }
    let whole = sum.max(0).div_euclid(scale) + i128::from(sum.max(0).rem_euclid(scale) > 0);
    let unit = i128::from(certificate.weight_unit);
    let bound = (whole + unit - 1) / unit * unit;
    let weights = request.gpus.iter().flat_map(|g| &g.instances).filter_map(|h| match h.usage {
        Usage::Busy { weight, .. } => Some(i128::from(weight)),
        Usage::Idle => None,
    });
    if weights.into_iter().any(|w| w % unit != 0) {
        return Err("the weights have another unit".to_owned());
    }
    if bound != i128::from(answer.lower_bound) {
        return Err(format!("the prices prove {bound}, the answer says {}", answer.lower_bound));
    }
    let proven = answer.lower_bound == answer.disturbed_weight;
    if proven != answer.proven_optimal || proven != (answer.proof == Proof::Certificate) {
        return Err("the proof is not what the answer says".to_owned());
    }
    if answer.lower_bound > answer.disturbed_weight || answer.operations_bound > answer.operations {
        return Err("a bound is above the answer".to_owned());
    }
    Ok(())
}

/// Something no real GPU holds, so that equal GPUs of two executors are told apart.
fn marker(executor: Executor) -> Vec<Held> {
    match executor {
        Executor::Native => Vec::new(),
        Executor::GpuOperator => {
            vec![Held { profile: "9g.999gb".parse().unwrap(), start: 99, usage: Usage::Idle }]
        }
    }
}

type Place = (bool, usize);

fn place(seat: &Seat) -> (Place, Instance) {
    match seat {
        Seat::Gpu(gpu, i) => ((true, *gpu), i.clone()),
        Seat::Spare(spare, i) => ((false, *spare), i.clone()),
    }
}

/// An instance and its holder: a workload, by where it ran at the beginning.
type Occupied = (Instance, Option<(usize, Instance)>);

/// The world while steps are replayed: instances with their holder, a workload by where it ran at the beginning.
struct World<'a> {
    request: &'a Request<'a>,
    live: BTreeMap<Place, Vec<Occupied>>,
    stopped: BTreeSet<(usize, Instance)>,
    stops: u64,
    peak: usize,
}

impl World<'_> {
    fn find(&mut self, seat: &Seat) -> Result<&mut Occupied, String> {
        let (place, instance) = place(seat);
        let here = self.live.entry(place).or_default();
        here.iter_mut().find(|(i, _)| *i == instance).ok_or_else(|| format!("{instance} is not there"))
    }

    fn step(&mut self, step: &Step) -> Result<(), String> {
        match step {
            Step::Create(seat) => {
                let (place, instance) = place(seat);
                let here = self.live.entry(place).or_default();
                here.push((instance, None));
                let all = here.iter().map(|(i, _)| i.clone()).collect::<Vec<_>>();
                match fault(self.request.product, &all) {
                    Some(fault) => return Err(format!("on the way: {fault}")),
                    None => {
                        let used =
                            self.live.iter().filter(|((real, _), live)| !real && !live.is_empty()).count();
                        self.peak = self.peak.max(used);
                    }
                }
            }
            Step::Destroy(seat) => {
                if self.find(seat)?.1.is_some() {
                    return Err(format!("{seat:?} is held and destroyed"));
                }
                let (place, instance) = place(seat);
                self.live.entry(place).or_default().retain(|(i, _)| *i != instance);
            }
            Step::Move { from, to } => {
                let holder = self.find(from)?.1.take().ok_or("nobody to move")?;
                self.seat(to, holder)?;
            }
            Step::Stop(seat) => {
                let holder = self.find(seat)?.1.take().ok_or("nobody to stop")?;
                self.stops += 1;
                self.stopped.insert(holder);
            }
            Step::Start { from, to } => {
                let Seat::Gpu(gpu, instance) = from else {
                    return Err("a spare holds no stopped work".to_owned());
                };
                let holder = (*gpu, instance.clone());
                if !self.stopped.remove(&holder) {
                    return Err("starts what was not stopped".to_owned());
                }
                self.seat(to, holder)?;
            }
        }
        Ok(())
    }

    fn seat(&mut self, to: &Seat, holder: (usize, Instance)) -> Result<(), String> {
        let usage =
            self.request.gpus[holder.0].instances.iter().find(|h| h.start == holder.1.start).unwrap().usage;
        if matches!(usage, Usage::Busy { pinned: true, .. }) {
            return Err("something pinned moves".to_owned());
        }
        let seat = self.find(to)?;
        if seat.1.is_some() || seat.0.profile != holder.1.profile {
            return Err("moves to an instance that is held, or of another profile".to_owned());
        }
        seat.1 = Some(holder);
        Ok(())
    }
}

fn replay(
    request: &Request<'_>,
    answer: &Reconfiguration,
    last: &[(usize, Vec<Instance>)],
) -> Result<(), String> {
    let mut world = World { request, live: BTreeMap::new(), stopped: BTreeSet::new(), stops: 0, peak: 0 };
    for (index, gpu) in request.gpus.iter().enumerate() {
        let held = gpu.instances.iter().map(|h| {
            let i = instance(request.product, h);
            (i.clone(), (h.usage != Usage::Idle).then_some((index, i)))
        });
        world.live.insert((true, index), held.collect());
    }
    let before = holders(&world);
    let mut moved = BTreeSet::new();
    for (number, step) in answer.steps.iter().enumerate() {
        if let Step::Move { from: Seat::Gpu(gpu, i), .. } | Step::Stop(Seat::Gpu(gpu, i)) = step
            && !moved.insert((*gpu, i.clone()))
        {
            return Err(format!("step {number}: disturbs a workload twice"));
        }
        if let Step::Destroy(Seat::Gpu(gpu, _)) = step
            && request.gpus[*gpu].executor == Executor::GpuOperator
            && world.live[&(true, *gpu)].iter().any(|(_, holder)| holder.is_some())
        {
            return Err(format!("step {number}: MIG Manager would destroy what is held"));
        }
        world.step(step).map_err(|fault| format!("step {number}: {fault}"))?;
    }
    if !world.stopped.is_empty() || holders(&world) != before {
        return Err("somebody has no place in the end".to_owned());
    }
    let disturbed = answer.gpus.iter().flat_map(|c| c.disturbed.iter().map(|i| (c.gpu, i.clone())));
    if disturbed.collect::<BTreeSet<_>>() != moved {
        return Err("the steps disturb other workloads than the answer names".to_owned());
    }
    for (gpu, end) in last {
        let mut here = world.live[&(true, *gpu)].iter().map(|(i, _)| i.clone()).collect::<Vec<_>>();
        here.sort_by_key(|i| i.start);
        if here != *end {
            return Err(format!("GPU {gpu} ends in another layout"));
        }
    }
    if world.live.iter().any(|((real, _), live)| !real && !live.is_empty()) {
        return Err("a spare GPU is not empty in the end".to_owned());
    }
    let peak = world.peak as u64;
    if peak != answer.spares || peak > request.spares || world.stops != answer.stopped {
        return Err(format!("{peak} spares and {} stops are not what the answer says", world.stops));
    }
    Ok(())
}

/// Everybody who holds something, by where they ran at the beginning.
fn holders(world: &World<'_>) -> BTreeSet<(usize, Instance)> {
    world.live.values().flatten().filter_map(|(_, holder)| holder.clone()).collect()
}

/// Whether the changes of an answer can be put in an order without spare GPUs in which nobody stops: every order of
/// moves is tried.
pub(crate) fn needs_no_stop(request: &Request<'_>, answer: &Reconfiguration) -> bool {
    let changes = answer.gpus.iter().collect::<Vec<_>>();
    let sources = changes.iter().enumerate().flat_map(|(at, c)| c.disturbed.iter().map(move |i| (at, i)));
    let sources = sources.collect::<Vec<_>>();
    let mut seen = BTreeSet::new();
    let mut stack = vec![0u32];
    while let Some(gone) = stack.pop() {
        if !seen.insert(gone) {
            continue;
        }
        if gone.count_ones() as usize == sources.len() {
            return true;
        }
        let mut free: BTreeMap<&str, i64> = BTreeMap::new();
        for (at, change) in changes.iter().enumerate() {
            let whole = request.gpus[change.gpu].executor == Executor::GpuOperator;
            let held = sources.iter().enumerate().filter(|(n, (of, _))| *of == at && gone >> n & 1 == 0);
            let held = held.map(|(_, (_, i))| (*i).clone()).collect::<Vec<_>>();
            for i in &change.keep {
                let idle = !request.gpus[change.gpu]
                    .instances
                    .iter()
                    .any(|h| h.start == i.start && h.usage != Usage::Idle);
                *free.entry(i.profile.as_str()).or_insert(0) += i64::from(idle);
            }
            let mut live = [change.keep.clone(), held.clone()].concat();
            for i in &change.create {
                live.push(i.clone());
                if whole && !held.is_empty() || fault(request.product, &live).is_some() {
                    live.pop();
                } else {
                    *free.entry(i.profile.as_str()).or_insert(0) += 1;
                }
            }
        }
        for (_, (_, i)) in sources.iter().enumerate().filter(|(n, _)| gone >> n & 1 == 1) {
            *free.entry(i.profile.as_str()).or_insert(0) -= 1;
        }
        for (n, (_, i)) in sources.iter().enumerate() {
            if gone >> n & 1 == 0 && free.get(i.profile.as_str()).is_some_and(|free| *free > 0) {
                stack.push(gone | 1 << n);
            }
        }
    }
    false
}
