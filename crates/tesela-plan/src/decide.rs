//! Which way of sharing each workload gets: the first decision of DESIGN 4, per workload and without a fleet.
//!
//! A request shows what is allocated, never what is needed. So a workload of which nothing but its request is
//! known keeps what it has; only a known need is fitted.

use tesela_model::demand::{Demand, Isolation, TenantClass, Workload};
use tesela_model::fleet::Mode;
use tesela_model::origin::Origin;
use tesela_model::product::ProfileName;
use tesela_model::quantity::Mib;
use tesela_model::resource::{GpuDevice, GpuResource};

use crate::input::Settings;

/// A way of sharing that satisfies a workload.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Shape {
    /// What it asks for today, no more and no less.
    AsRequested,
    /// Whole GPUs.
    Whole,
    /// One MIG instance.
    Instance(InstanceNeed),
    /// A share of a GPU that takes turns.
    Share(ShareNeed),
}

/// Which instance will do.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum InstanceNeed {
    /// Exactly this profile, on any product that has it.
    Profile(ProfileName),
    /// The smallest profile that has at least this.
    Least {
        /// Need and context overhead together.
        memory: Mib,
        /// Thousandths of the whole GPU's compute; 0 = not known.
        compute: u16,
    },
}

/// What a share must offer.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ShareNeed {
    /// `timeSliced` or `mps`.
    pub(crate) mode: Mode,
    /// Need and context overhead together; `None` = not known.
    pub(crate) memory: Option<Mib>,
    /// Only with this tenant's own work.
    pub(crate) tenant: Option<String>,
    /// Thousandths of the time it works.
    pub(crate) duty: u16,
    /// Whether its name must carry `.shared`, where running pods ask for just that name.
    pub(crate) renamed: Option<bool>,
}

/// Ways that satisfy a workload, the best first, with the reason for the first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Decision {
    pub(crate) shapes: Vec<Shape>,
    /// One sentence, without the product's part.
    pub(crate) reason: String,
    /// What it must not share: what it says, and what its tenant's class asks for.
    pub(crate) isolation: Isolation,
    /// Whether the need itself is known.
    pub(crate) known: bool,
}

/// Decides each workload of a demand, in its order.
pub(crate) fn decide_all(demand: &Demand, settings: &Settings) -> Vec<Decision> {
    demand.workloads.iter().map(|w| decide(w, class_of(demand, w), settings)).collect()
}

pub(crate) fn class_of(demand: &Demand, workload: &Workload) -> TenantClass {
    demand.tenants.iter().find(|t| t.name == workload.tenant).map_or(TenantClass::Standard, |t| t.class)
}

fn decide(workload: &Workload, class: TenantClass, settings: &Settings) -> Decision {
    let floor = if class == TenantClass::Regulated { Isolation::Instance } else { Isolation::None };
    let said = workload.isolation.map(|k| k.value);
    // Work with a latency promise never takes turns.
    let promised = if workload.slo.is_some() { Isolation::Instance } else { Isolation::None };
    let isolation = said.unwrap_or(Isolation::None).max(floor).max(promised);
    let known = workload.gpu_memory.is_some() || workload.profile.is_some() || workload.mode.is_some();
    let (shapes, reason) =
        choose(workload, isolation, said.is_some() || class == TenantClass::Regulated, settings);
    Decision { shapes, reason, isolation, known }
}

fn choose(w: &Workload, isolation: Isolation, said: bool, settings: &Settings) -> (Vec<Shape>, String) {
    if let Some(mode) = w.mode {
        return chosen_by_hand(w, mode, isolation, settings);
    }
    if w.gpus > 1 {
        return several_devices(w, isolation);
    }
    if isolation == Isolation::Device {
        return (vec![Shape::Whole], "needs isolation `device`: no other pod on its GPU".into());
    }
    if let Some(profile) = &w.profile {
        let reason = format!("profile {profile} was chosen by hand");
        return (vec![Shape::Instance(InstanceNeed::Profile(profile.clone()))], reason);
    }
    let Some(need) = need_with_context(w, settings) else {
        return without_need(w, isolation);
    };
    let duty = w.duty.map_or(settings.assumed_duty_permille, |d| d.value.as_permille());
    let said_light = w.duty.is_some_and(|d| d.value.as_permille() <= settings.light_duty_permille);
    let light = said_light || w.duty.is_none() && w.interactive.is_some_and(|i| i.value);
    let needs = format!("needs {} of GPU memory", w.gpu_memory.map_or(Mib(0), |m| m.value));
    let instance = Shape::Instance(least(w, need));
    if let Some(slo) = &w.slo {
        let (percentile, latency) = (percentile(slo.percentile), slo.latency_ms);
        let reason = format!("{needs} and promises p{percentile} within {latency} ms, so it takes no turns");
        return (vec![instance, Shape::Whole], reason);
    }
    if isolation >= Isolation::Instance {
        return (vec![instance, Shape::Whole], format!("{needs} and isolation `instance`"));
    }
    if light || said && w.duty.is_none() {
        let share = Shape::Share(ShareNeed {
            mode: Mode::TimeSliced,
            memory: Some(need),
            tenant: (isolation == Isolation::Tenant).then(|| w.tenant.clone()),
            duty,
            renamed: None,
        });
        let why = if let Some(sharers) = joint(w) {
            format!("{needs}, and who works when lets {sharers} pods share a device")
        } else if w.duty.is_some() {
            let isolation = if said { "needs no isolation" } else { "nobody said that it needs isolation" };
            format!("{needs}, works {} of the time and {isolation}", percent(duty))
        } else if said {
            format!("{needs} and isolation `{isolation}` is enough")
        } else {
            format!("{needs} and is interactive, so it is idle most of the time")
        };
        return (vec![share, instance, Shape::Whole], why);
    }
    let why = match w.duty {
        Some(_) if joint(w) == Some(1) => "works when others do, so it takes no turns with them".to_owned(),
        Some(_) => format!(
            "works {} of the time, too much to take turns (above {})",
            percent(duty),
            percent(settings.light_duty_permille)
        ),
        None => "nothing says that it may take turns".to_owned(),
    };
    (vec![instance, Shape::Whole], format!("{needs} and {why}"))
}

/// Work over several GPUs gets whole ones. A pod that asks for several instances or shares is left as it asks:
/// what it does with them is not known, and one CUDA process uses one MIG device.
fn several_devices(w: &Workload, isolation: Isolation) -> (Vec<Shape>, String) {
    match &w.request {
        Some(request) if *request != GpuResource::gpu() => {
            let unfit = request.shared && isolation > Isolation::None || isolation == Isolation::Device;
            let shape = if unfit { Shape::Whole } else { Shape::AsRequested };
            (vec![shape], format!("asks for {} × {request}", w.gpus))
        }
        _ => (
            vec![Shape::Whole],
            format!("each pod works over {} GPUs, which never goes to MIG or shares", w.gpus),
        ),
    }
}

/// Only the request is known, if that.
fn without_need(w: &Workload, isolation: Isolation) -> (Vec<Shape>, String) {
    let Some(request) = &w.request else {
        return (vec![Shape::Whole], "its need is not known, so it gets a whole GPU".into());
    };
    if isolation >= Isolation::Instance && request.shared {
        let reason =
            format!("needs isolation `instance`, which {request} does not give; its memory is not known");
        return (vec![Shape::Whole], reason);
    }
    // Where the request leads to a share among strangers, a share of its tenant's own or a whole GPU must do.
    let shapes = if isolation == Isolation::Tenant {
        let own = ShareNeed {
            mode: Mode::TimeSliced,
            memory: None,
            tenant: Some(w.tenant.clone()),
            duty: 0,
            renamed: None,
        };
        vec![Shape::AsRequested, Shape::Share(own), Shape::Whole]
    } else {
        vec![Shape::AsRequested]
    };
    let reason = match &request.device {
        GpuDevice::Mig(profile) => {
            format!("asks for the profile {profile}; its need is not known, so it gets just that")
        }
        GpuDevice::Gpu => format!("asks for {request}; its need is not known, so it gets just that"),
    };
    (shapes, reason)
}

fn chosen_by_hand(
    w: &Workload,
    mode: Mode,
    isolation: Isolation,
    settings: &Settings,
) -> (Vec<Shape>, String) {
    let reason = format!("mode `{mode}` was chosen by hand");
    let shape = match mode {
        Mode::Exclusive => Shape::Whole,
        Mode::Mig if isolation == Isolation::Device => {
            let reason = format!("needs isolation `{isolation}`, which mode `{mode}` does not give");
            return (vec![Shape::Whole], reason);
        }
        Mode::Mig => {
            match (&w.profile, need_with_context(w, settings), w.request.as_ref().map(|r| &r.device)) {
                (Some(profile), _, _) => Shape::Instance(InstanceNeed::Profile(profile.clone())),
                (None, Some(need), _) => Shape::Instance(least(w, need)),
                (None, None, Some(GpuDevice::Mig(p))) => Shape::Instance(InstanceNeed::Profile(p.clone())),
                // Any instance will do; the smallest is the least claim.
                (None, None, _) => Shape::Instance(least(w, Mib(1))),
            }
        }
        Mode::TimeSliced | Mode::Mps if isolation >= Isolation::Instance => {
            return (
                vec![Shape::Whole],
                format!("needs isolation `{isolation}`, which mode `{mode}` does not give"),
            );
        }
        Mode::TimeSliced | Mode::Mps => Shape::Share(ShareNeed {
            mode,
            memory: need_with_context(w, settings),
            tenant: (isolation == Isolation::Tenant || mode == Mode::Mps).then(|| w.tenant.clone()),
            duty: w.duty.map_or(settings.assumed_duty_permille, |d| d.value.as_permille()),
            renamed: None,
        }),
    };
    (vec![shape], reason)
}

/// How many may share a device with it, where joint activity said so ([`crate::activity::share`]): the duty is then
/// estimated, one part of so many.
fn joint(w: &Workload) -> Option<u16> {
    let duty = w.duty.filter(|d| d.origin == Origin::Estimated)?;
    Some(1000 / duty.value.as_permille().max(1))
}

/// An instance with so much memory, and with the compute that the work needs where that is known.
fn least(w: &Workload, memory: Mib) -> InstanceNeed {
    InstanceNeed::Least { memory, compute: w.compute.map_or(0, |c| c.value.as_permille()) }
}

/// What a pod needs of each GPU, the CUDA context included.
pub(crate) fn need_with_context(w: &Workload, settings: &Settings) -> Option<Mib> {
    w.gpu_memory.map(|m| Mib(m.value.0.saturating_add(settings.context_overhead.0)))
}

fn percentile(thousandths: u16) -> String {
    let (whole, tenth) = (thousandths / 10, thousandths % 10);
    if tenth == 0 { whole.to_string() } else { format!("{whole}.{tenth}") }
}

pub(crate) fn percent(thousandths: u16) -> String {
    format!("{} %", percentile(thousandths))
}
