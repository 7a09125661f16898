//! Several snapshots of one cluster as a series in time, so that nightly jobs and weekends count.
//!
//! kubectl's lists carry no time, so snapshots stand in the order given. A list is a later snapshot when it repeats
//! pods of a namespace that the current snapshot has already, and anything in it differs: another content of a
//! node or pod, a pod more, a pod less. A list that repeats nothing, or nothing but the same, is a part of the
//! current snapshot.

use std::collections::{BTreeMap, BTreeSet};

use tesela_model::demand::{Demand, PodRef, Workload, WorkloadKey};
use tesela_model::finding::Severity;
use tesela_model::resource::GpuResource;

use super::finding::{Draft, EVERYTHING, counted, size, some_of};
use super::pod::PodRecord;
use super::workload::{self, Pods, main_ask};
use super::{Dated, HeldBefore};

/// What is kept of the snapshots before the current one.
#[derive(Debug, Default)]
pub(super) struct Series {
    /// Whether the current document is a list.
    pub(super) list: bool,
    /// Snapshots that are closed.
    closed: u32,
    /// Namespaces whose pods the current snapshot has.
    covered: BTreeSet<String>,
    /// Namespaces whose pods the current document has.
    current: BTreeSet<String>,
    /// The cluster before the current document repeated anything.
    candidate: Option<Vec<Workload>>,
    /// Pods of that cluster.
    candidate_pods: Vec<(PodRef, HeldBefore)>,
    /// Whether the document repeats pods of a namespace that the current snapshot has.
    closes: bool,
    /// Whether anything that the document repeats differs.
    differs: bool,
    groups: BTreeMap<Group, Past>,
    /// Most devices that all pods asked for at once.
    most_devices: u64,
    /// Pods of closed snapshots.
    pub(super) pods: BTreeMap<PodRef, Vec<HeldBefore>>,
    /// Latest time in the document, in the current snapshot, and whether an earlier one goes beyond it.
    times: Times,
}

#[derive(Debug, Default)]
struct Times {
    document: Option<String>,
    snapshot: Option<String>,
    /// Of the snapshot before, and of the later one that is older.
    back: Option<(String, String)>,
}

/// Workloads that stand for each other over time.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Group {
    /// One that lasts, or comes back under its name.
    Lasting(WorkloadKey),
    /// Jobs of one CronJob: namespace, and name without the minute they were due.
    Recurring(String, String),
    /// Work that ends and does not come back under its name: namespace, kind, request. Seen at once, it is needed at
    /// once; a run that ended makes room for the next.
    Passing(String, String, Option<GpuResource>, u32),
}

/// The most that a group asked for at once.
#[derive(Debug)]
struct Past {
    most: u64,
    /// Workloads of the group in that snapshot.
    then: Vec<Workload>,
    /// Snapshots in which it was there.
    seen: u32,
}

fn group(workload: &Workload) -> Group {
    let WorkloadKey { namespace, kind, name } = &workload.key;
    if kind == "Job"
        && let Some((base, minute)) = name.rsplit_once('-')
        && minute.len() >= 8
        && minute.bytes().all(|b| b.is_ascii_digit())
    {
        return Group::Recurring(namespace.clone(), base.to_owned());
    }
    if kind.ends_with("Job") || kind == "Pod" || kind == "Workflow" {
        return Group::Passing(namespace.clone(), kind.clone(), workload.request.clone(), workload.gpus);
    }
    Group::Lasting(workload.key.clone())
}

impl Series {
    /// A document begins.
    pub(super) fn begin(&mut self) {
        self.list = false;
        self.current.clear();
        self.candidate = None;
        self.candidate_pods.clear();
        (self.closes, self.differs) = (false, false);
        self.times.document = None;
    }

    /// A time that an object of the document knows: when it was made, or last heard of.
    pub(super) fn time(&mut self, time: Option<&str>) {
        // As the API server writes it; texts of one form compare like times.
        if let Some(time) = time.filter(|t| t.len() == 20 && t.ends_with('Z'))
            && self.times.document.as_deref().is_none_or(|last| last < time)
        {
            self.times.document = Some(time.to_owned());
        }
    }

    /// The document has a pod. `same` = whether it is the pod that was known already; `None` = it was not known.
    pub(super) fn pod(&mut self, namespace: &str, same: Option<bool>) {
        let covered = self.covered.contains(namespace);
        self.closes |= covered && same.is_some();
        self.differs |= covered && same != Some(true);
        if !self.current.contains(namespace) {
            self.current.insert(namespace.to_owned());
        }
    }

    /// Namespaces of which the document has pods.
    pub(super) fn namespaces(&self) -> usize {
        self.current.len()
    }

    /// The document repeats a node.
    pub(super) fn node(&mut self, same: bool) {
        self.differs |= !same;
    }

    /// Whether the cluster as it is must be kept before this pod is replaced.
    pub(super) fn wants_census(&self) -> bool {
        self.list && self.candidate.is_none()
    }

    /// Keeps the cluster as it was before the document: its pods of earlier documents.
    pub(super) fn census(&mut self, pods: &BTreeMap<PodRef, Dated<PodRecord>>, document: u32) {
        let before = pods.iter().filter(|(_, d)| d.document < document);
        let asking = before.filter_map(|(name, d)| Some((name, &d.record, d.record.gpu.as_deref()?)));
        let asking = asking.collect::<Pods<'_>>();
        self.candidate_pods = asking.iter().filter_map(held).collect();
        self.candidate = Some(workload::demand(&asking, &mut Vec::new()).workloads);
    }

    /// The document ends. `gone` = whether the list lacks something that it covers.
    pub(super) fn end(&mut self, gone: bool) {
        let later = self.closes && (self.differs || gone);
        let current = std::mem::take(&mut self.current);
        if let Some(workloads) = self.candidate.take().filter(|_| later) {
            self.fold(&workloads);
            self.closed += 1;
            for (pod, held) in std::mem::take(&mut self.candidate_pods) {
                let lives = self.pods.entry(pod).or_default();
                if !lives.contains(&held) {
                    lives.push(held);
                }
            }
            self.covered = current;
            let (before, now) = (self.times.snapshot.take(), self.times.document.take());
            if let (Some(before), Some(now)) = (before, &now)
                && *now < before
                && self.times.back.is_none()
            {
                self.times.back = Some((before, now.clone()));
            }
            self.times.snapshot = now;
        } else {
            self.covered.extend(current);
            let document = self.times.document.take();
            self.times.snapshot = self.times.snapshot.take().max(document);
        }
    }

    fn fold(&mut self, workloads: &[Workload]) {
        let devices = |w: &Workload| w.count.saturating_mul(u64::from(w.gpus));
        let all = workloads.iter().map(devices).fold(0u64, u64::saturating_add);
        self.most_devices = self.most_devices.max(all);
        for (group, members) in grouped(workloads) {
            let pods = members.iter().map(|w| w.count).sum::<u64>();
            let past = self.groups.entry(group).or_insert(Past { most: 0, then: Vec::new(), seen: 0 });
            past.seen += 1;
            if pods > past.most {
                past.most = pods;
                past.then = members.into_iter().cloned().collect();
            }
        }
    }

    /// Raises the demand of the last snapshot to the most that each group asked for at once, and says so.
    pub(super) fn raise(mut self, demand: Demand, drafts: &mut Vec<Draft>) -> Demand {
        if self.closed == 0 {
            return demand;
        }
        self.fold(&demand.workloads);
        let mut workloads: BTreeMap<WorkloadKey, Workload> =
            demand.workloads.iter().map(|w| (w.key.clone(), w.clone())).collect();
        let mut told = Told::default();
        let now = grouped(&demand.workloads);
        for (group, past) in &self.groups {
            let there: Vec<&Workload> = now.get(group).cloned().unwrap_or_default();
            let missing = past.most.saturating_sub(there.iter().map(|w| w.count).sum());
            if missing == 0 {
                continue;
            }
            told.names.push(format!("{} ({} of {})", past.name(), past.seen, self.closed + 1));
            told.pods += missing;
            match (there.last(), group) {
                (Some(last), Group::Lasting(_) | Group::Recurring(..)) => {
                    if let Some(workload) = workloads.get_mut(&last.key) {
                        workload.count += missing;
                    }
                }
                _ => past.bring_back(missing, &mut workloads),
            }
        }
        let workloads = workloads.into_values().collect::<Vec<_>>();
        drafts.extend(self.told(&demand.workloads, &workloads, &told));
        drafts.extend(self.order());
        Demand { tenants: workload::tenants(&workloads), workloads }
    }

    fn told(&self, last: &[Workload], raised: &[Workload], told: &Told) -> Option<Draft> {
        let sum = |list: &[Workload]| -> u64 {
            list.iter().map(|w| w.count.saturating_mul(u64::from(w.gpus))).sum()
        };
        let (now, then) = (sum(last), sum(raised));
        let snapshots = u64::from(self.closed) + 1;
        let mut message = format!(
            "{} read as a series in time, the last one as today; each workload counts with the most pods it had at once",
            counted(snapshots, "snapshot")
        );
        if told.pods > 0 {
            let more = format!(
                ": {} more than today, of {} (there in so many snapshots)",
                counted(told.pods, "pod"),
                some_of(told.names.iter().map(String::as_str))
            );
            message.push_str(&more);
        }
        if then > self.most_devices {
            let sums = format!(
                "; these maxima add up to {then} devices, though at most {} were asked for at once (today {now}): whether two workloads can never meet is not known",
                self.most_devices
            );
            message.push_str(&sums);
        }
        Some(Draft {
            severity: Severity::Info,
            rule: "snapshots-as-series",
            subject: EVERYTHING.to_owned(),
            message,
            fix: "if two workloads never run at the same time, say so: set count to 0 for one of them in a Demand".to_owned(),
            gpus: then.saturating_sub(now),
        })
    }

    fn order(&self) -> Option<Draft> {
        let (before, now) = self.times.back.as_ref()?;
        Some(Draft {
            severity: Severity::Warning,
            rule: "snapshots-out-of-order",
            subject: EVERYTHING.to_owned(),
            message: format!(
                "the latest time in a snapshot ({now}) is before that of the snapshot given ahead of it ({before}); the last one given counts as today"
            ),
            fix: "name the files in the order in which they were taken".to_owned(),
            gpus: size(self.groups.len()),
        })
    }
}

#[derive(Default)]
struct Told {
    names: Vec<String>,
    pods: u64,
}

impl Past {
    fn name(&self) -> String {
        self.then.last().map(|w| w.key.to_string()).unwrap_or_default()
    }

    /// Adds so many pods of the group as it was, without what they held.
    fn bring_back(&self, mut missing: u64, workloads: &mut BTreeMap<WorkloadKey, Workload>) {
        for then in &self.then {
            if workloads.contains_key(&then.key) || missing == 0 {
                continue;
            }
            let count = then.count.min(missing);
            missing -= count;
            workloads.insert(then.key.clone(), Workload { count, running: Vec::new(), ..then.clone() });
        }
        // Where those of that time are there still, with fewer pods than then, they get them back.
        for then in &self.then {
            if missing > 0
                && let Some(workload) = workloads.get_mut(&then.key)
            {
                let more = then.count.saturating_sub(workload.count).min(missing);
                workload.count += more;
                missing -= more;
            }
        }
    }
}

fn grouped(workloads: &[Workload]) -> BTreeMap<Group, Vec<&Workload>> {
    let mut groups = BTreeMap::<Group, Vec<&Workload>>::new();
    for workload in workloads {
        groups.entry(group(workload)).or_default().push(workload);
    }
    groups
}

fn held((name, record, pod): &(&PodRef, &PodRecord, &super::pod::GpuPod)) -> Option<(PodRef, HeldBefore)> {
    let (resource, _) = main_ask(pod)?;
    let held = HeldBefore {
        workload: workload::key(name, pod),
        node: record.node.clone()?,
        resource: resource.clone(),
        started_ms: pod.started_ms,
    };
    Some(((*name).clone(), held))
}
