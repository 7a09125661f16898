//! The order of a change: an instance is created when its room is free, a workload moves when its next instance
//! exists, an instance goes when nobody holds it. Where moves wait for one another in a circle, a workload waits on a
//! spare GPU, or stops until its next instance exists.

use std::collections::{BTreeMap, VecDeque};

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
    let mut order = Order {
        product,
        jobs,
        seats: BTreeMap::new(),
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
    /// Instances of the target that exist and nobody holds.
    seats: BTreeMap<ProfileName, VecDeque<Seat>>,
    /// Stopped workloads, by where they ran.
    waiting: VecDeque<Seat>,
    /// Workloads on spare GPUs.
    parked: Vec<(usize, Instance)>,
    spares: Spares<'a>,
    steps: Vec<Step>,
    stopped: u64,
}

/// How many of each profile.
type Needs = BTreeMap<ProfileName, usize>;

impl Order<'_> {
    fn offer(&mut self, seat: Seat) {
        self.seats.entry(seat.instance().profile.clone()).or_default().push_back(seat);
    }

    fn free(&self, profile: &ProfileName) -> usize {
        self.seats.get(profile).map_or(0, VecDeque::len)
    }

    fn take(&mut self, profile: &ProfileName) -> Option<Seat> {
        self.seats.get_mut(profile)?.pop_front()
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
    fn gain(&self, job: usize) -> i64 {
        let job = &self.jobs[job];
        let holders = job.going.iter().filter(|(_, weight)| weight.is_some()).count();
        job.coming.len() as i64 - holders as i64
    }

    /// The holders that a GPU has to get rid of; with `only`, those in the way of one coming instance.
    fn blockers(&self, job: usize, only: Option<&Instance>) -> Vec<Instance> {
        let overlaps = |a: &Instance, b: &Instance| a.start < b.start + b.size && b.start < a.start + a.size;
        let busy = self.jobs[job].going.iter().filter(|(_, weight)| weight.is_some());
        let here = busy.filter(|(i, _)| only.is_none_or(|coming| overlaps(i, coming)));
        here.map(|(i, _)| i.clone()).collect()
    }

    fn missing(&self, leavers: &[Instance]) -> usize {
        let mut needs = Needs::new();
        for instance in leavers {
            *needs.entry(instance.profile.clone()).or_insert(0) += 1;
        }
        needs.iter().map(|(profile, need)| need.saturating_sub(self.free(profile))).sum()
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
        let leavers = self.blockers(job, None);
        let possible = !leavers.is_empty() && self.missing(&leavers) == 0;
        if possible {
            self.clear(job, &leavers);
        }
        possible
    }

    /// Makes room for one instance that comes, where its blockers have places and the GPU's others have not.
    fn unlock_one(&mut self, open: &[usize]) -> bool {
        for &job in open {
            if self.jobs[job].whole {
                continue;
            }
            for coming in self.jobs[job].coming.clone() {
                let leavers = self.blockers(job, Some(&coming));
                if !leavers.is_empty() && self.missing(&leavers) == 0 {
                    self.clear(job, &leavers);
                    return true;
                }
            }
        }
        false
    }

    /// Nothing can move: the fewest workloads wait on a spare GPU, or stop.
    fn break_circle(&mut self, open: &[usize]) {
        let mut best: Option<(usize, usize, Vec<Instance>)> = None;
        for &job in open {
            let mut ways = vec![self.blockers(job, None)];
            if !self.jobs[job].whole {
                ways.extend(self.jobs[job].coming.iter().map(|coming| self.blockers(job, Some(coming))));
            }
            for leavers in ways.into_iter().filter(|leavers| !leavers.is_empty()) {
                let missing = self.missing(&leavers);
                if best.as_ref().is_none_or(|(least, _, _)| missing < *least) {
                    best = Some((missing, job, leavers));
                }
            }
        }
        if let Some((_, job, leavers)) = best {
            self.clear(job, &leavers);
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
