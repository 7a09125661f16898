//! The order of a change: an instance is created when its room is free, a workload moves when its next instance
//! exists, an instance goes when nobody holds it. Where moves wait for one another in a circle, a workload waits on a
//! spare GPU, or stops until its next instance exists.

use std::collections::{BTreeSet, VecDeque};

use tesela_model::layout::Instance;
use tesela_model::product::{Product, ProfileName};

use super::spare::Spares;
use super::table::fits;

/// Where an instance is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Seat {
    /// On a GPU of the request, by its index.
    Gpu(usize, Instance),
    /// On a spare GPU, numbered from 0.
    Spare(usize, Instance),
}

impl Seat {
    /// The instance.
    #[must_use]
    pub fn instance(&self) -> &Instance {
        match self {
            Self::Gpu(_, instance) | Self::Spare(_, instance) => instance,
        }
    }
}

/// One thing to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Create an instance on free slices.
    Create(Seat),
    /// Destroy an instance that nobody holds.
    Destroy(Seat),
    /// Move the workload to an instance that exists and nobody holds; it restarts there.
    Move {
        /// Where it runs.
        from: Seat,
        /// Where it goes.
        to: Seat,
    },
    /// Stop the workload: its next instance can only be created when it is gone.
    Stop(Seat),
    /// Start a stopped workload.
    Start {
        /// Where it ran before.
        from: Seat,
        /// Where it goes.
        to: Seat,
    },
}

/// A GPU that changes.
#[derive(Debug, Clone)]
pub(super) struct Job {
    pub(super) gpu: usize,
    /// Everything on it now.
    pub(super) live: Vec<Instance>,
    /// What goes, with its weight where busy.
    pub(super) going: Vec<(Instance, Option<u64>)>,
    /// What comes.
    pub(super) coming: Vec<Instance>,
    /// Whether everything goes at once before anything comes.
    pub(super) whole: bool,
}

/// The steps and what they need.
pub(super) struct Schedule {
    pub(super) steps: Vec<Step>,
    pub(super) spares: u64,
    pub(super) stopped: u64,
}

/// Puts the changes in order.
///
/// `seats`: idle instances that stay. Every profile has as many instances in the end as holders, so it always ends.
pub(super) fn order(product: &Product, jobs: Vec<Job>, seats: Vec<Seat>, spares: u64) -> Schedule {
    let all = jobs.iter().flat_map(|job| job.live.iter().chain(&job.coming));
    let names = all.chain(seats.iter().map(Seat::instance)).map(|i| i.profile.clone());
    let names = names.collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>();
    let mut order = Order {
        product,
        waits: vec![Waits::default(); jobs.len()],
        jobs,
        seats: vec![VecDeque::new(); names.len()],
        names,
        waiting: VecDeque::new(),
        parked: Vec::new(),
        spares: Spares::new(product, spares),
        steps: Vec::new(),
        stopped: 0,
    };
    for seat in seats {
        order.offer(seat);
    }
    order.run();
    Schedule { steps: order.steps, spares: order.spares.peak, stopped: order.stopped }
}

struct Order<'a> {
    product: &'a Product,
    jobs: Vec<Job>,
    /// What each job waits for, as long as it does not change.
    waits: Vec<Waits>,
    /// The profiles there are, sorted.
    names: Vec<ProfileName>,
    /// Instances of the target that exist and nobody holds, by profile.
    seats: Vec<VecDeque<Seat>>,
    /// Stopped workloads, by where they ran.
    waiting: VecDeque<Seat>,
    /// Workloads on spare GPUs.
    parked: Vec<(usize, Instance)>,
    spares: Spares<'a>,
    steps: Vec<Step>,
    stopped: u64,
}

/// How many of each profile, in the order of the names.
type Needs = Vec<usize>;

/// What a GPU's holders need before they can leave.
#[derive(Debug, Clone, Default)]
struct Waits {
    /// Holders that have to go.
    holders: usize,
    /// The places that all of them need.
    all: Needs,
    /// The places that those in the way of each coming instance need.
    each: Vec<Needs>,
}

impl Order<'_> {
    fn profile(&self, name: &ProfileName) -> Option<usize> {
        self.names.binary_search(name).ok()
    }

    fn offer(&mut self, seat: Seat) {
        if let Some(profile) = self.profile(&seat.instance().profile) {
            self.seats[profile].push_back(seat);
        }
    }

    fn take(&mut self, name: &ProfileName) -> Option<Seat> {
        let profile = self.profile(name)?;
        self.seats[profile].pop_front()
    }

    fn run(&mut self) {
        for job in 0..self.jobs.len() {
            self.settle(job);
        }
        // Those that give more room than they need go first.
        let mut open = (0..self.jobs.len()).filter(|&job| self.is_open(job)).collect::<Vec<_>>();
        open.sort_by_key(|&job| (std::cmp::Reverse(self.gain(job)), job));
        loop {
            self.start_waiting();
            open.retain(|&job| self.is_open(job));
            if open.is_empty() {
                break;
            }
            if !(self.pass(&open) || self.unlock_one(&open) || self.unpark()) {
                self.break_circle(&open);
            }
        }
        while self.unpark() {}
    }

    fn is_open(&self, job: usize) -> bool {
        self.jobs[job].going.iter().any(|(_, weight)| weight.is_some())
    }

    /// Instances that come less holders that have to go.
    fn gain(&self, job: usize) -> isize {
        self.jobs[job].coming.len().cast_signed() - self.waits[job].holders.cast_signed()
    }

    /// Counts again what a job waits for; whenever it changes.
    fn count(&mut self, job: usize) {
        let leavers = self.blockers(job, None);
        let each = self.jobs[job].coming.iter().map(|i| self.needs(&self.blockers(job, Some(i)))).collect();
        self.waits[job] = Waits { holders: leavers.len(), all: self.needs(&leavers), each };
    }

    fn needs(&self, leavers: &[Instance]) -> Needs {
        let mut needs = vec![0; self.names.len()];
        for profile in leavers.iter().filter_map(|i| self.profile(&i.profile)) {
            needs[profile] += 1;
        }
        needs
    }

    /// Places that lack.
    fn missing(&self, needs: &Needs) -> usize {
        needs.iter().zip(&self.seats).map(|(need, seats)| need.saturating_sub(seats.len())).sum()
    }

    /// The holders that a GPU has to get rid of; with `only`, those in the way of one coming instance.
    fn blockers(&self, job: usize, only: Option<&Instance>) -> Vec<Instance> {
        let overlaps = |a: &Instance, b: &Instance| a.start < b.start + b.size && b.start < a.start + a.size;
        let busy = self.jobs[job].going.iter().filter(|(_, weight)| weight.is_some());
        let here = busy.filter(|(i, _)| only.is_none_or(|coming| overlaps(i, coming)));
        here.map(|(i, _)| i.clone()).collect()
    }

    /// Clears every GPU whose holders all have a place to go. Those that take more places than they give wait until no
    /// other is left.
    fn pass(&mut self, open: &[usize]) -> bool {
        let mut any = false;
        let (giving, taking) = open.iter().partition::<Vec<_>, _>(|&&job| self.gain(job) >= 0);
        for &job in giving {
            any |= self.clear_if_possible(job);
        }
        if any {
            return true;
        }
        let left = open.iter().any(|&job| self.is_open(job) && self.gain(job) >= 0);
        for &job in taking {
            any |= self.clear_if_possible(job);
            if any && left {
                break;
            }
        }
        any
    }

    fn clear_if_possible(&mut self, job: usize) -> bool {
        let possible = self.waits[job].holders > 0 && self.missing(&self.waits[job].all) == 0;
        if possible {
            self.clear(job, &self.blockers(job, None));
        }
        possible
    }

    /// Makes room for one instance that comes, where its blockers have places and the GPU's others have not.
    fn unlock_one(&mut self, open: &[usize]) -> bool {
        for &job in open {
            if self.jobs[job].whole {
                continue;
            }
            let each = &self.waits[job].each;
            let ready = |needs: &Needs| needs.iter().any(|n| *n > 0) && self.missing(needs) == 0;
            if let Some(coming) = each.iter().position(ready) {
                self.clear(job, &self.blockers(job, Some(&self.jobs[job].coming[coming])));
                return true;
            }
        }
        false
    }

    /// Nothing can move: the fewest workloads wait on a spare GPU, or stop.
    fn break_circle(&mut self, open: &[usize]) {
        let mut best: Option<(usize, usize, Option<usize>)> = None;
        for &job in open {
            let Waits { all, each, .. } = &self.waits[job];
            let parts = each.iter().enumerate().filter(|_| !self.jobs[job].whole);
            let ways = [(None, all)].into_iter().chain(parts.map(|(at, needs)| (Some(at), needs)));
            for (coming, needs) in ways.filter(|(_, needs)| needs.iter().any(|n| *n > 0)) {
                let missing = self.missing(needs);
                if best.is_none_or(|(least, ..)| missing < least) {
                    best = Some((missing, job, coming));
                }
            }
        }
        if let Some((_, job, coming)) = best {
            let coming = coming.map(|at| &self.jobs[job].coming[at]);
            self.clear(job, &self.blockers(job, coming));
        }
    }

    /// Sends holders away and lets the GPU do what it then can. Of equal ones the heaviest get the places there are.
    fn clear(&mut self, job: usize, leavers: &[Instance]) {
        let weight =
            |i: &Instance| self.jobs[job].going.iter().find(|(g, _)| g == i).and_then(|(_, weight)| *weight);
        let mut leavers = leavers.iter().map(|i| (weight(i), i.clone())).collect::<Vec<_>>();
        leavers.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
        for (_, instance) in leavers {
            let from = Seat::Gpu(self.jobs[job].gpu, instance.clone());
            if let Some(to) = self.take(&instance.profile) {
                self.steps.push(Step::Move { from, to });
            } else if let Some((spare, place)) = self.spares.place(&instance.profile) {
                let to = Seat::Spare(spare, place.clone());
                self.steps.push(Step::Create(to.clone()));
                self.steps.push(Step::Move { from, to });
                self.parked.push((spare, place));
            } else {
                self.steps.push(Step::Stop(from.clone()));
                self.waiting.push_back(from);
                self.stopped += 1;
            }
            for (going, weight) in &mut self.jobs[job].going {
                if *going == instance {
                    *weight = None;
                }
            }
        }
        self.settle(job);
    }

    /// Destroys what nobody holds and creates what has room.
    fn settle(&mut self, job: usize) {
        self.change(job);
        self.count(job);
    }

    fn change(&mut self, job: usize) {
        if self.jobs[job].whole && self.is_open(job) {
            return;
        }
        let Job { gpu, live, going, coming, .. } = &mut self.jobs[job];
        let gpu = *gpu;
        for (instance, _) in going.extract_if(.., |(_, weight)| weight.is_none()) {
            live.retain(|i| *i != instance);
            self.steps.push(Step::Destroy(Seat::Gpu(gpu, instance)));
        }
        let mut created = Vec::new();
        for instance in std::mem::take(coming) {
            if !fits(self.product, live, &instance) {
                coming.push(instance);
                continue;
            }
            live.push(instance.clone());
            let seat = Seat::Gpu(gpu, instance);
            self.steps.push(Step::Create(seat.clone()));
            created.push(seat);
        }
        for seat in created {
            self.offer(seat);
        }
    }

    /// Stopped workloads get the first places there are.
    fn start_waiting(&mut self) {
        for _ in 0..self.waiting.len() {
            let Some(from) = self.waiting.pop_front() else { break };
            match self.take(&from.instance().profile.clone()) {
                Some(to) => self.steps.push(Step::Start { from, to }),
                None => self.waiting.push_back(from),
            }
        }
    }

    /// Brings one workload back from a spare GPU.
    fn unpark(&mut self) -> bool {
        for index in 0..self.parked.len() {
            let (spare, instance) = self.parked[index].clone();
            let Some(to) = self.take(&instance.profile) else { continue };
            self.parked.remove(index);
            let from = Seat::Spare(spare, instance.clone());
            self.steps.push(Step::Move { from: from.clone(), to });
            self.steps.push(Step::Destroy(from));
            self.spares.clear(spare, &instance);
            return true;
        }
        false
    }
}
