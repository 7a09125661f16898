//! The reasons: each workload's way of sharing, the room kept free, the quotas.

use std::collections::BTreeMap;

use maud::{Markup, html};
use tesela_model::fleet::Mode;
use tesela_model::plan::{Assignment, Headroom};
use tesela_model::resource::{GpuResource, PREFIX};

use super::Sheet;
use super::text::{Text, fill};
use super::unknown::left_out;
use crate::outline::{Group, groups, way_of};

/// Nodes named in one cell.
const NAMED: usize = 8;
/// Rows of a table that the input can make long.
const ROWS: usize = 1_000;
/// Of these, rows of one heading that are printed on paper.
const PRINTED: usize = 40;

pub(super) fn section(sheet: &Sheet<'_>) -> Markup {
    let text = sheet.text;
    let groups = groups(&sheet.plan.assignments);
    let shown = &groups[..groups.len().min(ROWS)];
    let tenants = shown.iter().any(|g| g.first.tenant != g.first.namespace);
    let columns = if tenants { 6 } else { 5 };
    html! {
        section id="workloads" {
            h3 { (text.workloads) }
            div.scroll role="region" tabindex="0" aria-label=(text.workloads_caption) {
                table.workloads {
                    caption.vh { (text.workloads_caption) }
                    thead { tr {
                        th scope="col" { (text.workload) }
                        @if tenants { th.tenant scope="col" { (text.tenant) } }
                        th.n scope="col" { (text.pods_word) }
                        th.n.stay scope="col" { (text.stay) }
                        th.req scope="col" { (text.request) }
                        th scope="col" { (text.where_to) }
                    } }
                    @for of in shown.chunk_by(|a, b| way_of(a.first) == way_of(b.first)) {
                        tbody {
                            tr.why { th scope="rowgroup" colspan=(columns) { (way_and_reason(sheet, of[0].first)) } }
                            @for (index, group) in of.iter().enumerate() {
                                (row(sheet, group, tenants, index >= PRINTED))
                            }
                            @if of.len() > PRINTED {
                                tr.print { td { (text.many((of.len() - PRINTED) as u64, &text.print_rows)) } }
                            }
                        }
                    }
                }
            }
            (left_out(sheet, groups.len(), ROWS))
        }
    }
}

/// The way of sharing, what a pod requests for it, and the reason.
fn way_and_reason(sheet: &Sheet<'_>, a: &Assignment) -> Markup {
    let text = sheet.text;
    html! {
        b { (way(text, a)) } ", " (fill(text.requests, &[("what", &units(&a.resource, a.gpus))])) ": "
        em { (sheet.told(&a.reason)) }
    }
}

fn row(sheet: &Sheet<'_>, group: &Group<'_>, tenants: bool, on_screen_only: bool) -> Markup {
    let text = sheet.text;
    let a = group.first;
    let nodes: Vec<&str> = group.nodes.iter().copied().collect();
    html! {
        tr class=[on_screen_only.then_some("screen")] {
            th scope="row" { (a.namespace) "/" (a.workload) }
            @if tenants { td.tenant { (a.tenant) } }
            td.n { (text.count(group.pods)) }
            td.n.stay { (text.count(group.staying)) }
            td.req { @if let Some(today) = &a.request_today { b { (name(today)) } } }
            td {
                (text.some(&nodes, NAMED))
                @if group.new_nodes { @if !nodes.is_empty() { ", " } (text.new_hardware) }
            }
        }
    }
}

fn way(text: &Text, a: &Assignment) -> String {
    let n = text.count(a.gpus);
    let profile = a.profile.as_ref().map_or(String::new(), |p| {
        if a.gpus > 1 && a.replicas.is_none() { format!("{n} × {p}") } else { p.to_string() }
    });
    let replicas = a.replicas.map_or_else(|| "?".to_owned(), |r| text.count(r));
    let template = match (a.mode, a.replicas) {
        (Mode::Exclusive, _) if a.gpus == 1 => text.way_whole,
        (Mode::Exclusive, _) => text.way_wholes,
        (Mode::Mig, None) => text.way_instance,
        (Mode::Mig, Some(_)) => text.way_turns,
        (Mode::TimeSliced, _) => text.way_slices,
        (Mode::Mps, _) => text.way_clients,
    };
    fill(template, &[("n", &n), ("profile", &profile), ("replicas", &replicas)])
}

/// The number and the name; the vendor's prefix, the same for all, is left away.
fn units(resource: &GpuResource, number: u32) -> String {
    format!("{number} {}", name(resource))
}

fn name(resource: &GpuResource) -> String {
    let name = resource.to_string();
    name.strip_prefix(PREFIX).unwrap_or(&name).to_owned()
}

pub(super) fn headroom(sheet: &Sheet<'_>) -> Markup {
    let text = sheet.text;
    if sheet.plan.headroom.is_empty() {
        return html! {};
    }
    html! {
        section id="headroom" {
            h3 { (text.headroom) }
            ul { @for (message, pools) in rooms(&sheet.plan.headroom) { li { b { (pools.join(", ")) } ": " (sheet.told(&message)) } } }
        }
    }
}

/// What is said of each pool; of several with the same words, once, and the pools before it.
fn rooms(rooms: &[Headroom]) -> Vec<(String, Vec<&str>)> {
    let mut said: Vec<(String, Vec<&str>)> = Vec::new();
    for room in rooms {
        let of = format!("pool {}", room.pool);
        let message =
            room.message.replace(&format!(" of {of}"), " of it").replace(&format!(" for {of}"), " for it");
        let message = message.replacen(&format!("{of} is "), "it is ", 1);
        match said.iter_mut().find(|(same, _)| *same == message) {
            Some((_, pools)) => pools.push(&room.pool),
            None => said.push((message, vec![&room.pool])),
        }
    }
    said
}

pub(super) fn quotas(sheet: &Sheet<'_>) -> Markup {
    let text = sheet.text;
    let mut namespaces = BTreeMap::<&str, (Vec<String>, u64)>::new();
    let mut dra = false;
    for quota in &sheet.plan.quotas {
        let (granted, zeros) = namespaces.entry(&quota.namespace).or_default();
        match quota.resource.strip_prefix("requests.").and_then(|name| name.strip_prefix(PREFIX)) {
            _ if quota.hard == 0 => *zeros += 1,
            Some(name) => granted.push(format!("{} {name}", text.count(quota.hard))),
            None => dra = true,
        }
    }
    if namespaces.is_empty() {
        return html! {};
    }
    let (some, none): (Vec<_>, Vec<_>) =
        namespaces.into_iter().partition(|(_, (granted, _))| !granted.is_empty());
    let none: Vec<&str> = none.into_iter().map(|(name, _)| name).collect();
    let (before, after) = text.quotas_note.split_once("{key}").unwrap_or((text.quotas_note, ""));
    html! {
        section id="quotas" {
            h3 { (text.quotas) }
            @if !some.is_empty() {
                div.scroll role="region" tabindex="0" aria-label=(text.quotas_caption) {
                    table.quotas {
                        caption.vh { (text.quotas_caption) }
                        thead { tr {
                            th scope="col" { (text.namespace) }
                            th scope="col" { (text.granted) }
                            th.n scope="col" { (text.zeros) }
                        } }
                        tbody {
                            @for (namespace, (granted, zeros)) in some.iter().take(ROWS) {
                                tr {
                                    th scope="row" { (namespace) }
                                    td { (granted.join(", ")) }
                                    td.n { (text.count(*zeros)) }
                                }
                            }
                        }
                    }
                }
                (left_out(sheet, some.len(), ROWS))
            }
            @if !none.is_empty() { p { (fill(text.zeros_all, &[("names", &text.some(&none, NAMED))])) } }
            p.note {
                (before) code { "requests.nvidia.com/…" } (after)
                @if dra { " " (text.quotas_dra) }
            }
        }
    }
}
