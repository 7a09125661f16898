//! From series of use to what workloads need.

#![expect(clippy::unwrap_used, reason = "a test that cannot unwrap has failed")]

mod builders;

use std::collections::BTreeMap;

use builders::{
    A30, A100, H100, With, demand, fleet, gi, mig_offer, needs, node, resource, running, workload,
};
use proptest::prelude::*;
use tesela_model::demand::{Demand, Duty, PodRef, WorkloadKey};
use tesela_model::fleet::{Fleet, Mode, Offer};
use tesela_model::origin::{Known, Origin};
use tesela_model::product::ProductTable;
use tesela_model::quantity::Mib;
use tesela_model::server::{Program, Server};
use tesela_model::usage::{Metric, PodLife, Sample, Subject, UsageSeries};
use tesela_plan::evidence::{Collector, Evidence, Measured, Scene, Unread};
use tesela_plan::input::{PlanInput, Settings};
use tesela_plan::plan;
use tesela_plan::validate::validate;

const STEP: i64 = 300_000;
const DAY: i64 = 86_400_000;

/// What a test is about.
struct Case {
    fleet: Fleet,
    demand: Demand,
    servers: BTreeMap<WorkloadKey, Server>,
    lives: BTreeMap<PodRef, PodLife>,
    series: Vec<UsageSeries>,
}

impl Case {
    fn new(fleet: Fleet, demand: Demand) -> Self {
        Self { fleet, demand, servers: BTreeMap::new(), lives: BTreeMap::new(), series: Vec::new() }
    }

    /// With a series of one value every five minutes, from a time on.
    fn add(mut self, metric: Metric, subject: Subject, from: i64, values: &[u64]) -> Self {
        let at = |k: usize| from + STEP * i64::try_from(k).unwrap();
        let samples = values.iter().enumerate().map(|(k, value)| Sample { at_ms: at(k), value: *value });
        self.series.push(UsageSeries { metric, subject, samples: samples.collect() });
        self
    }

    /// Use of a pod: memory in Gi and activity in percent, each a day long.
    fn pod(self, name: &str, memory: u64, percent: u64) -> Self {
        let day = usize::try_from(DAY / STEP).unwrap() + 1;
        self.add(Metric::MemoryUsed, pod(name), 0, &vec![memory << 20; day]).add(
            Metric::GpuUtil,
            pod(name),
            0,
            &vec![percent * 10_000; day],
        )
    }

    fn evidence(&self) -> Evidence {
        self.finish(false)
    }

    fn scene(&self) -> Scene<'_> {
        Scene {
            demand: &self.demand,
            fleet: &self.fleet,
            products: ProductTable::builtin(),
            servers: &self.servers,
            lives: &self.lives,
        }
    }

    fn finish(&self, ratio: bool) -> Evidence {
        let mut collector = Collector::new(self.scene());
        self.series.iter().for_each(|one| collector.take(one));
        collector.finish(&Settings::default(), ratio)
    }

    fn measured(&self, name: &str) -> Measured {
        let evidence = self.evidence();
        let found = evidence.measured.iter().find(|(key, _)| key.name == name);
        found.unwrap_or_else(|| panic!("{name} is not in {evidence:?}")).1.clone()
    }
}

fn pod(name: &str) -> Subject {
    Subject { pod: Some(PodRef { namespace: "a".into(), name: name.into() }), ..Subject::default() }
}

fn device(node: &str, gpu: &str) -> Subject {
    Subject { node: Some(node.into()), gpu: Some(gpu.into()), ..Subject::default() }
}

/// Two pods of `web` on whole H100s of one node.
fn whole() -> Case {
    let web = running(workload("a", "web", 2), "n", "nvidia.com/gpu", 2);
    Case::new(fleet(vec![node("n", H100, 4, &Offer::Exclusive)]), demand(vec![web]))
}

fn finding<'a>(evidence: &'a Evidence, rule: &str) -> Option<&'a str> {
    evidence.findings.iter().find(|f| f.rule == rule).map(|f| f.message.as_str())
}

#[test]
fn memory_is_the_peak_of_all_pods_and_a_reserve() {
    let case = whole().add(Metric::MemoryUsed, pod("web-n-0"), 0, &[1 << 20, 8 << 20, 2 << 20]).add(
        Metric::MemoryUsed,
        pod("web-n-1"),
        0,
        &[10 << 20, 3 << 20],
    );
    let found = case.measured("web");
    assert_eq!((found.pods, found.peak, found.samples, found.span_ms), (2, Some(gi(10)), 3, 2 * STEP));
    // 10 Gi and a tenth of it, less the 500 Mi that the plan adds for the context.
    assert_eq!(found.need, Some(Mib(10_240 + 1024 - 500)));
    assert_eq!((found.duty, found.by), (None, None));
}

#[test]
fn a_small_peak_has_a_reserve_too_and_a_large_one_ends_with_the_device() {
    let measured =
        |mib: u64| whole().add(Metric::MemoryUsed, pod("web-n-0"), 0, &[mib << 10]).measured("web");
    let need = |mib: u64| measured(mib).need.unwrap();
    assert_eq!(need(1000), Mib(1000 + 256 - 500));
    assert_eq!(need(500), Mib(256));
    let less = measured(499);
    assert_eq!(
        (less.need, less.unread),
        (None, Some(Unread::NothingLoaded)),
        "less than a context shows no need"
    );
    let most = ProductTable::builtin().find(H100).unwrap().memory.unwrap();
    assert_eq!(need(most.0 - 100), Mib(most.0 - 500));
}

#[test]
fn what_is_not_free_is_used() {
    let case = whole().add(Metric::MemoryFree, pod("web-n-0"), 0, &[70 << 20, 60 << 20]);
    assert_eq!(case.measured("web").peak, None);
    let case = case.add(Metric::MemoryTotal, pod("web-n-0"), 0, &[80 << 20]);
    assert_eq!(case.measured("web").peak, Some(gi(20)));
}

#[test]
fn duty_is_the_mean_of_the_busiest_pod() {
    let many = |value: u64| vec![value; 12];
    let case = whole().add(Metric::GpuUtil, pod("web-n-0"), 0, &many(41_000)).add(
        Metric::GpuUtil,
        pod("web-n-1"),
        0,
        &[vec![0; 10], vec![1_000_000; 2]].concat(),
    );
    let found = case.measured("web");
    // 16.7 %, rounded up.
    assert_eq!((found.duty, found.by), (Duty::permille(170), Some(Metric::GpuUtil)));
    let engine = case.add(Metric::EngineActive, pod("web-n-0"), 0, &many(300_000));
    assert_eq!(engine.measured("web").duty, Duty::permille(300), "the finer metric goes before");
    let idle = whole().add(Metric::GpuUtil, pod("web-n-0"), 0, &many(0));
    assert_eq!(idle.measured("web").duty, Duty::permille(10));
    let few = whole().add(Metric::GpuUtil, pod("web-n-0"), 0, &[0]);
    assert_eq!(few.measured("web").duty, Duty::permille(250), "one sample shows no idleness");
    let few = whole().add(Metric::GpuUtil, pod("web-n-0"), 0, &[900_000]);
    assert_eq!(few.measured("web").duty, Duty::permille(900));
}

#[test]
fn how_much_of_a_gpu_works_says_only_when_it_works() {
    let values = [vec![20_000; 3], vec![5_000; 9]].concat();
    let case = whole().add(Metric::SmActive, pod("web-n-0"), 0, &values);
    let found = case.measured("web");
    assert_eq!((found.duty, found.by), (Duty::permille(250), Some(Metric::SmActive)));
}

#[test]
fn a_ratio_under_the_name_of_a_percent_is_not_used() {
    let case = whole().pod("web-n-0", 4, 1);
    let found = case.finish(true);
    let web = found.measured.values().next().unwrap();
    assert_eq!((web.duty, web.peak), (None, Some(gi(4))));
    assert!(found.activity.is_none());
}

#[test]
fn a_shared_device_is_nobodys_need() {
    let shared = node("n", H100, 1, &Offer::TimeSliced { replicas: 4 });
    let web = running(workload("a", "web", 2), "n", "nvidia.com/gpu", 2);
    let both = |p: &str| Subject { gpu: Some("GPU-1".into()), ..pod(p) };
    let case = Case::new(fleet(vec![shared]), demand(vec![web]));
    let alone = case.add(Metric::MemoryUsed, pod("web-n-0"), 0, &[1]);
    let told = alone.evidence();
    assert!(finding(&told, "usage-of-shared-devices").unwrap().starts_with("1 series of pods"), "{told:?}");
    let case = alone
        .add(Metric::MemoryUsed, both("web-n-0"), 0, &[9 << 20])
        .add(Metric::MemoryUsed, both("web-n-1"), 0, &[9 << 20])
        .add(Metric::GpuUtil, both("web-n-1"), 0, &[500_000; 20]);
    let found = case.evidence();
    assert!(found.measured.is_empty() && found.activity.is_none(), "{found:?}");
    let said = finding(&found, "usage-of-shared-devices").unwrap();
    assert!(said.contains("1 device is shared") && said.contains("at most 9Gi, on GPU-1 of n"), "{said}");
    assert_eq!(finding(&found, "usage-missing"), None);
    let mut after = case.demand.clone();
    assert_eq!(found.apply(&mut after), 0);
    assert_eq!(after, case.demand);
}

#[test]
fn an_instance_is_its_pods_own() {
    let cut = node("n", A100, 1, &mig_offer(A100, &[("1g.5gb", 0), ("2g.10gb", 2)]));
    let small = running(workload("a", "small", 1), "n", "nvidia.com/mig-1g.5gb", 1);
    let case = Case::new(fleet(vec![cut]), demand(vec![small]));
    let need = |mib: u64| {
        let used = Subject { instance: Some("7".into()), gpu: Some("GPU-1".into()), ..pod("small-n-0") };
        let table = ProductTable::builtin().find(A100).unwrap().profile("1g.5gb").unwrap().memory.unwrap();
        let one = Case::new(case.fleet.clone(), case.demand.clone());
        (one.add(Metric::MemoryUsed, used, 0, &[mib << 10]).measured("small").need.unwrap(), table)
    };
    assert_eq!(need(2000).0, Mib(2000 + 256 - 500));
    let (most, instance) = need(4700);
    assert_eq!(most, Mib(instance.0 - 500), "it runs there, so it fits there");
}

#[test]
fn a_reservation_is_no_need() {
    let mut case = whole().pod("web-n-0", 72, 5);
    let key = case.demand.workloads[0].key.clone();
    let server = Server {
        memory_share: Some(900),
        parameters_millions: Some(8000),
        tensor_parallel: Some(2),
        ..Server::new(Program::Vllm)
    };
    case.servers.insert(key.clone(), server);
    let found = case.evidence();
    let web = &found.measured[&key];
    assert_eq!((web.peak, web.need, web.duty), (Some(gi(72)), None, Duty::permille(50)));
    let one = found.findings.iter().find(|f| f.rule == "server-reserves-memory").unwrap();
    for part in [
        "vLLM was told to take 90 %",
        "the 72Gi that were measured",
        "2 GPUs, which never goes to MIG",
        "asks for 1 only",
    ] {
        assert!(one.message.contains(part), "{part}: {}", one.message);
    }
    assert!(one.fix.starts_with("tesela estimate --parameters 8b --tensor-parallel 2 (put in --data-type, --context, --concurrency"), "{}", one.fix);
    let mut known = case.demand.clone();
    known.workloads[0].gpu_memory = needs(gi(20));
    let case = Case { demand: known, ..case };
    assert_eq!(
        finding(&case.evidence(), "server-reserves-memory"),
        None,
        "who gives the need need not be told"
    );
}

#[test]
fn what_is_given_wins() {
    let case = whole().pod("web-n-0", 10, 5);
    let mut after = case.demand.clone();
    after.workloads[0].gpu_memory = needs(gi(3));
    assert_eq!(case.evidence().apply(&mut after), 1);
    let web = &after.workloads[0];
    assert_eq!(web.gpu_memory, Some(Known::given(gi(3))));
    assert_eq!(web.duty, Some(Known::measured(Duty::permille(50).unwrap())));
}

#[test]
fn pods_of_others_are_counted_and_the_exporters_own_are_not() {
    let case = whole()
        .pod("web-n-0", 10, 5)
        .add(Metric::MemoryUsed, pod("gone-1"), 0, &[1])
        .add(Metric::GpuUtil, pod("gone-1"), 0, &[1])
        .add(Metric::MemoryUsed, pod("nvidia-dcgm-exporter-x2x4z"), 0, &[1]);
    let found = case.evidence();
    let said = finding(&found, "usage-of-other-pods").unwrap();
    assert!(said.starts_with("1 pod of the answer holds no GPU") && said.contains("a/gone-1"), "{said}");
    assert_eq!(found.measured.len(), 1);
}

#[test]
fn pods_of_earlier_snapshots_are_known() {
    let case = whole();
    let key = case.demand.workloads[0].key.clone();
    let mut collector = Collector::new(case.scene());
    let old = PodRef { namespace: "a".into(), name: "old".into() };
    collector.earlier(&old, &key, "n", &resource("nvidia.com/gpu"), None);
    let samples = vec![Sample { at_ms: 0, value: 4 << 20 }];
    collector.take(&UsageSeries { metric: Metric::MemoryUsed, subject: pod("old"), samples });
    let found = collector.finish(&Settings::default(), false);
    assert_eq!(found.measured[&key].peak, Some(gi(4)));
}

#[test]
fn devices_of_a_node_that_one_workload_holds_are_its_own() {
    let full = |count| {
        let web =
            running(workload("a", "web", count), "n", "nvidia.com/gpu", usize::try_from(count).unwrap());
        Case::new(fleet(vec![node("n", A30, 2, &Offer::Exclusive)]), demand(vec![web]))
            .add(Metric::MemoryUsed, device("n", "GPU-1"), 0, &[5 << 20])
            .add(Metric::MemoryUsed, device("n", "GPU-2"), 0, &[6 << 20])
    };
    let found = full(2).measured("web");
    assert_eq!((found.pods, found.peak), (2, Some(gi(6))));
    // One GPU is free, so nobody knows whose the others are.
    let found = full(1).evidence();
    assert!(found.measured.is_empty());
    assert!(finding(&found, "usage-without-pods").unwrap().starts_with("2 devices are"), "{found:?}");
    assert!(finding(&found, "usage-missing").unwrap().contains("1 of 1 workload"), "{found:?}");
}

#[test]
fn short_evidence_is_said() {
    let day = whole().pod("web-n-0", 10, 20).evidence();
    let [long] = &day.assumptions[..] else { panic!("{day:?}") };
    assert_eq!((long.subject.as_str(), long.origin), ("measured use", Origin::Measured));
    assert!(long.value.contains("1 workload over 24 hours") && long.value.contains("10 %"), "{long:?}");
    let instant = whole().add(Metric::MemoryUsed, pod("web-n-0"), 0, &[1 << 20]);
    let instant = instant.add(Metric::GpuUtil, pod("web-n-0"), 0, &[1]).evidence();
    let [short] = &instant.assumptions[..] else { panic!("{instant:?}") };
    assert_eq!(short.subject, "use measured for less than a day");
    assert!(
        short.value.contains("over one instant") && short.value.contains("25 % (1 of them)"),
        "{short:?}"
    );
    assert!(short.if_wrong.contains("--print-usage-query"));
}

#[test]
fn gpus_that_never_work_are_found() {
    let idle = whole().pod("web-n-0", 10, 0).evidence();
    let said = finding(&idle, "gpu-idle-as-measured").unwrap();
    assert!(said.contains("2 devices") && said.contains("24 hours"), "{said}");
    assert_eq!(finding(&whole().pod("web-n-0", 10, 3).evidence(), "gpu-idle-as-measured"), None);
}

#[test]
fn who_worked_when_is_kept_by_window() {
    let half = 500_000;
    let first = [vec![0, half, half, 0], vec![0; 6]].concat();
    let case = whole()
        .add(Metric::GpuUtil, pod("web-n-0"), 0, &first)
        .add(Metric::GpuUtil, pod("web-n-1"), 0, &[0, 0, 200_000, 5_000])
        // The monitoring was down for a while.
        .add(Metric::GpuUtil, pod("web-n-0"), 20 * STEP, &[0, half]);
    let activity = case.evidence().activity.unwrap();
    assert_eq!((i64::from(activity.window_ms()), activity.windows()), (STEP, 12));
    let windows =
        activity.series()[0].windows.iter().map(|w| (w.active, w.busy_permille)).collect::<Vec<_>>();
    assert_eq!(windows[..4], [(0, 0), (1, 500), (2, 500), (0, 0)]);
    assert_eq!(windows[4..], [vec![(0, 0); 7], vec![(1, 500)]].concat());
    assert!(activity.of(&case.demand.workloads[0].key).is_some());
    let short = whole().add(Metric::GpuUtil, pod("web-n-0"), 0, &first).evidence();
    assert!(short.activity.is_none(), "ten windows are too few");
    let single = whole().add(Metric::GpuUtil, pod("web-n-0"), 0, &[half]).evidence();
    assert!(single.activity.is_none());
}

/// One pod of a workload speaks for it where another has no sample; a window that no pod knows is in nobody's series.
#[test]
fn a_window_is_known_by_any_of_the_pods() {
    let other = running(workload("a", "other", 1), "n", "nvidia.com/gpu", 1);
    let mut case = whole();
    case.demand.workloads.push(other);
    let busy = |n: usize| vec![500_000; n];
    let case = case
        .add(Metric::GpuUtil, pod("web-n-0"), 0, &busy(10))
        .add(Metric::GpuUtil, pod("web-n-1"), 8 * STEP, &busy(8))
        .add(Metric::GpuUtil, pod("other-n-0"), 2 * STEP, &busy(18));
    let activity = case.evidence().activity.unwrap();
    // 0 to 15 of web, 2 to 19 of other.
    assert_eq!((activity.series().len(), activity.windows()), (2, 14));
    let web = activity.of(&case.demand.workloads[0].key).unwrap();
    assert_eq!(web.windows.iter().map(|w| w.active).max(), Some(2));
    // Steps that are longer than a window can be stop nobody else.
    let sparse = whole()
        .add(Metric::GpuUtil, pod("web-n-0"), 0, &busy(20))
        .add(Metric::GpuUtil, pod("web-n-1"), 0, &busy(1))
        .add(Metric::GpuUtil, pod("web-n-1"), 0, &busy(1));
    let mut sparse = sparse;
    sparse.series[2].samples.push(Sample { at_ms: DAY, value: 1 });
    assert_eq!(sparse.evidence().activity.unwrap().windows(), 20);
}

fn planned(case: &Case, demand: &Demand) -> tesela_model::plan::Plan {
    let input = PlanInput {
        products: ProductTable::builtin(),
        fleet: &case.fleet,
        demand,
        findings: &[],
        prices: None,
        settings: Settings::default(),
    };
    let made = plan(&input);
    assert_eq!(validate(&input, &made), []);
    made
}

/// More work never takes less hardware: who keeps a GPU busy does not get a seventh of one.
#[test]
fn measured_work_keeps_the_compute_that_it_keeps_busy() {
    let held = |percent: u64| {
        let case = whole().pod("web-n-0", 5, percent).pod("web-n-1", 5, percent);
        let mut demand = case.demand.clone();
        case.evidence().apply(&mut demand);
        let plan = planned(&case, &demand);
        let slices = |a: &tesela_model::plan::Assignment| match (&a.profile, a.replicas) {
            (Some(profile), None) => u64::from(profile.slices()) * 1000 / 7,
            (None, Some(replicas)) => 1000 / u64::from(replicas),
            _ => 1000,
        };
        plan.assignments.iter().map(|a| slices(a) * a.count).sum::<u64>()
    };
    let all: Vec<u64> = [35, 50, 60, 95, 100].into_iter().map(held).collect();
    assert!(all.is_sorted(), "{all:?}");
    assert_eq!(all.last(), Some(&2000), "{all:?}");
    assert!(held(50) >= 2 * 500, "{all:?}");
}

#[test]
fn a_measured_workload_leaves_its_whole_gpu() {
    let case = whole().pod("web-n-0", 7, 40).pod("web-n-1", 6, 30);
    let of = |demand: &Demand| {
        planned(&case, demand).assignments.iter().map(|a| (a.mode, a.count)).collect::<Vec<_>>()
    };
    assert_eq!(of(&case.demand), [(Mode::Exclusive, 2)]);
    let mut after = case.demand.clone();
    case.evidence().apply(&mut after);
    after.workloads[0] = after.workloads[0].clone().with(|w| w.count = 2);
    assert_eq!(of(&after), [(Mode::TimeSliced, 2)]);
    // Work that needs an instance gets one with the compute that it keeps busy: 30 % and a reserve are 3 of 7 slices.
    let case = whole().pod("web-n-0", 7, 30).pod("web-n-1", 6, 28);
    let mut cut = case.demand.clone();
    case.evidence().apply(&mut cut);
    cut.workloads[0].isolation = Some(Known::given(tesela_model::demand::Isolation::Instance));
    let made = planned(&case, &cut);
    assert!(
        made.assignments.iter().all(|a| a.profile.as_ref().unwrap().slices() == 3),
        "{:?}",
        made.assignments
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// The order of series does not matter, more of the same does not either, and no need is above the device.
    #[test]
    fn the_order_of_series_does_not_matter(
        values in prop::collection::vec((0u8..3, 0u8..8, 0i64..50, prop::collection::vec(0u64..1_000_000, 1..20)), 1..12),
        turn in 0usize..12,
    ) {
        let mut case = whole();
        for (who, metric, from, values) in values {
            let subject = [pod("web-n-0"), pod("web-n-1"), device("n", "GPU-1")][usize::from(who)].clone();
            case = case.add(Metric::ALL[usize::from(metric)], subject, from * STEP, &values);
        }
        let first = case.evidence();
        let turn = turn % case.series.len();
        case.series.rotate_left(turn);
        prop_assert_eq!(&first, &case.evidence());
        case.series.reverse();
        prop_assert_eq!(&first, &case.evidence());
        let most = ProductTable::builtin().find(H100).unwrap().memory.unwrap();
        for one in first.measured.values() {
            prop_assert!(one.need.is_none_or(|need| need.0 + 500 <= most.0 && need.0 > 0));
            prop_assert!(one.duty.is_none_or(|duty| duty.as_permille() >= 10));
        }
    }
}
