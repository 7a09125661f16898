//! Workloads: which way of sharing each gets, what its pods request, where they go, and why.

use tesela_model::fleet::Mode;
use tesela_model::plan::Assignment;
use tesela_model::resource::{GpuResource, PREFIX};

use super::{Sheet, left_out};
use crate::outline::{Group, groups};
use crate::table::columns::{Columns, Kind};
use crate::table::text::{Line, Page, Style};
use crate::table::words::{count, many};

pub(super) fn put(page: &mut Page, sheet: &Sheet<'_>) {
    let groups = groups(&sheet.plan.assignments);
    if groups.is_empty() {
        return;
    }
    page.heading("Workloads");
    let tenants = groups.iter().any(|g| g.first.tenant != g.first.namespace);
    let mut columns = Columns::new(&[
        ("workload", Kind::Name),
        ("tenant", Kind::Name),
        ("pods", Kind::Number),
        ("stay", Kind::Number),
        ("way", Kind::Fixed),
        ("requests", Kind::Fixed),
        ("nodes", Kind::Name),
        ("why", Kind::Text),
    ]);
    for group in groups.iter().take(sheet.rows) {
        let a = group.first;
        columns.row(vec![
            Line::plain(format!("{}/{}", a.namespace, a.workload)),
            Line::plain(if tenants { a.tenant.as_str() } else { "" }),
            Line::plain(count(group.pods)),
            Line::plain(count(group.staying)),
            Line::plain(way(a)),
            request(a),
            Line::plain(nodes(group)),
            Line::plain(&a.reason),
        ]);
    }
    columns.put(page);
    left_out(page, groups.len(), groups.len().min(sheet.rows), "--rows");
    let mut note = "Requests are of nvidia.com/; `stay` counts pods that need not restart.".to_owned();
    if groups.iter().any(|g| g.first.request_today.is_some()) {
        note.push_str(" * the request changes: tesela render writes the patch.");
    }
    page.paragraph(&Line::default(), &note, Style::Faint);
}

/// The way of sharing in a few words.
fn way(a: &Assignment) -> String {
    match (a.mode, a.replicas, &a.profile) {
        (Mode::Exclusive, _, _) if a.gpus == 1 => "whole GPU".to_owned(),
        (Mode::Exclusive, _, _) => format!("{} whole GPUs", a.gpus),
        (Mode::Mig, None, Some(profile)) if a.gpus > 1 => format!("{} × {profile}", a.gpus),
        (Mode::Mig, None, Some(profile)) => profile.to_string(),
        (Mode::Mig, Some(replicas), Some(profile)) => format!("{} of {replicas} turns on {profile}", a.gpus),
        (Mode::Mig, _, None) => many(a.gpus, "MIG instance"),
        (Mode::TimeSliced, Some(replicas), _) => format!("{} of {replicas} time slices", a.gpus),
        (Mode::TimeSliced, None, _) => many(a.gpus, "time slice"),
        (Mode::Mps, Some(replicas), _) => format!("{} of {replicas} MPS clients", a.gpus),
        (Mode::Mps, None, _) => many(a.gpus, "MPS client"),
    }
}

/// What a pod requests, with a mark where that is new.
fn request(a: &Assignment) -> Line {
    let mut line = Line::plain(units(&a.resource, a.gpus));
    if a.request_today.is_some() {
        line.push(Style::Warn, " *");
    }
    line
}

/// The number and the name; the vendor's prefix, the same for all, is told once below.
fn units(resource: &GpuResource, number: u32) -> String {
    let name = resource.to_string();
    format!("{number} {}", name.strip_prefix(PREFIX).unwrap_or(&name))
}

fn nodes(group: &Group<'_>) -> String {
    let mut names = group.nodes.iter().copied();
    let more = group.nodes.len().saturating_sub(1) + usize::from(group.new_nodes);
    match (names.next(), more) {
        (None, _) => "new".to_owned(),
        (Some(name), 0) => name.to_owned(),
        (Some(name), more) => format!("{name} + {more}"),
    }
}
