//! What a workload may not say at once. Each message names both lines.

use tesela_model::demand::Isolation;
use tesela_model::fleet::Mode;
use tesela_model::origin::Origin;

use super::WorkloadEdit;
use super::tenant::Tenants;
use super::wire::WorkloadEntry;
use crate::documents::check::Check;
use crate::source::Located;

/// Reports every contradiction inside a workload, and between it and its tenant.
pub(super) fn contradictions(
    check: &mut Check<'_>,
    entry: &WorkloadEntry,
    edit: &WorkloadEdit,
    tenants: &Tenants,
) {
    if let Some(mode) = &entry.mode {
        mode_against_needs(check, entry, edit, mode);
        mode_against_isolation(check, entry, mode);
    }
    profile(check, entry, edit);
    tenant(check, entry, tenants);
}

fn mode_text(mode: &Located<Mode>) -> String {
    format!("mode: {}", mode.value)
}

fn mode_against_needs(
    check: &mut Check<'_>,
    entry: &WorkloadEntry,
    edit: &WorkloadEdit,
    mode: &Located<Mode>,
) {
    if let (Mode::Mig, Some(gpus), Some(2..)) = (mode.value, &entry.gpus, edit.gpus) {
        let other = (gpus.at, format!("gpus: {}", gpus.value.0.text()));
        let why = "work over several GPUs never goes to MIG";
        check.contradiction((mode.at, mode_text(mode)), other, why, "write `mode: exclusive`, or `gpus: 1`");
    }
    if let (Mode::TimeSliced | Mode::Mps, Some(gpus), Some(2..)) = (mode.value, &entry.gpus, edit.gpus) {
        let other = (gpus.at, format!("gpus: {}", gpus.value.0.text()));
        let why = "more than one share brings no more of a GPU, and work over several GPUs gets whole ones";
        check.contradiction((mode.at, mode_text(mode)), other, why, "write `mode: exclusive`, or `gpus: 1`");
    }
    if let (Mode::TimeSliced, Some(slo)) = (mode.value, &entry.slo) {
        let why = "work that takes turns cannot promise a latency";
        let fix = "write `mode: mig` or `mode: exclusive`, or remove `slo`";
        check.contradiction((mode.at, mode_text(mode)), (slo.at, "slo"), why, fix);
    }
}

fn mode_against_isolation(check: &mut Check<'_>, entry: &WorkloadEntry, mode: &Located<Mode>) {
    let Some(isolation) = &entry.isolation else { return };
    let need = isolation.value.value.value;
    let (why, fix) = match (mode.value, need) {
        (Mode::TimeSliced | Mode::Mps, Isolation::Instance | Isolation::Device) => {
            ("work that shares a GPU this way is not isolated", "write `mode: mig` or `mode: exclusive`")
        }
        (Mode::Mig, Isolation::Device) => {
            ("an instance is a part of a device", "write `mode: exclusive`, or `isolation: instance`")
        }
        _ => return,
    };
    let other = (isolation.at, format!("isolation: {need}"));
    check.contradiction((mode.at, mode_text(mode)), other, why, fix);
}

fn profile(check: &mut Check<'_>, entry: &WorkloadEntry, edit: &WorkloadEdit) {
    let Some(profile) = &entry.profile else { return };
    let this = (profile.at, format!("profile: {}", profile.value));
    if let Some(mode) = entry.mode.as_ref().filter(|mode| mode.value != Mode::Mig) {
        let why = "only work in mode mig has a profile";
        let fix = "write `mode: mig`, or remove `profile`";
        check.contradiction(this, (mode.at, mode_text(mode)), why, fix);
        return;
    }
    if let (Some(gpus), Some(2..)) = (&entry.gpus, edit.gpus) {
        let other = (gpus.at, format!("gpus: {}", gpus.value.0.text()));
        let why = "work over several GPUs never goes to MIG";
        check.contradiction(this, other, why, "remove `profile`, or write `gpus: 1`");
        return;
    }
    if let Some(isolation) = entry.isolation.as_ref().filter(|i| i.value.value.value == Isolation::Device) {
        let why = "an instance is a part of a device";
        let fix = "remove `profile`, or write `isolation: instance`";
        check.contradiction(this, (isolation.at, "isolation: device"), why, fix);
    }
}

fn tenant(check: &mut Check<'_>, entry: &WorkloadEntry, tenants: &Tenants) {
    let owner = tenants.owner(&entry.namespace.value);
    if let (Some(written), Some(owner)) = (&entry.tenant, &owner)
        && written.value != owner.name
    {
        let this = (written.at, format!("tenant: {}", written.value));
        let other = (owner.at, format!("namespaces: [{}]", entry.namespace.value));
        let why = format!("namespace {} belongs to tenant {}", entry.namespace.value, owner.name);
        check.contradiction(this, other, &why, "remove `tenant` here, or move the namespace to that tenant");
        return;
    }
    let owner = owner.or_else(|| tenants.named(&entry.tenant.as_ref()?.value));
    let Some((name, regulated)) = owner.and_then(|owner| Some((owner.name, owner.regulated?))) else {
        return;
    };
    let other = || (regulated, "class: regulated");
    if let Some(mode) = entry.mode.as_ref().filter(|m| matches!(m.value, Mode::TimeSliced | Mode::Mps)) {
        let why = format!("{name} is a regulated tenant and shares no GPU below an instance");
        check.contradiction(
            (mode.at, mode_text(mode)),
            other(),
            &why,
            "write `mode: mig` or `mode: exclusive`",
        );
    }
    // A guess or an observation below the promise is raised by the plan; only a person's word contradicts it.
    if let Some(isolation) = entry.isolation.as_ref().filter(|i| i.value.origin == Origin::Given) {
        let need = isolation.value.value.value;
        if need < Isolation::Instance {
            let this = (isolation.at, format!("isolation: {need}"));
            let why = format!("{name} is a regulated tenant and needs at least `instance`");
            check.contradiction(this, other(), &why, "write `isolation: instance`, or remove the line");
        }
    }
}
