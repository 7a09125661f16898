//! What does not fit, quotas, changes, and what the plan rests on.

use std::collections::BTreeMap;

use tesela_model::demand::PodRef;
use tesela_model::plan::{Change, ChangeKind};
use tesela_model::resource::PREFIX;

use super::doubts;
use super::{Sheet, left_out};
use crate::table::columns::{Columns, Kind};
use crate::table::text::{Line, Page, Style};
use crate::table::words::{count, many, shell};

/// Names shown where many follow each other in one cell.
const NAMED: usize = 3;

pub(super) fn put_unmet(page: &mut Page, sheet: &Sheet<'_>) {
    let unmet = &sheet.plan.unmet;
    if unmet.is_empty() {
        return;
    }
    let pods = unmet.iter().map(|u| u.count).sum::<u64>();
    page.heading(&format!("Fits nowhere ({})", many(pods, "pod")));
    let mut columns = Columns::new(&[("workload", Kind::Name), ("pods", Kind::Number), ("why", Kind::Text)]);
    for one in unmet.iter().take(sheet.rows) {
        columns.row(vec![
            Line::plain(format!("{}/{}", one.namespace, one.workload)),
            Line::styled(Style::Warn, count(one.count)),
            Line::plain(&one.reason),
        ]);
    }
    columns.put(page);
    left_out(page, unmet.len(), unmet.len().min(sheet.rows), "--rows");
}

pub(super) fn put_quotas(page: &mut Page, sheet: &Sheet<'_>) {
    let mut namespaces = BTreeMap::<&str, (Vec<String>, u64)>::new();
    let mut dra = false;
    for quota in &sheet.plan.quotas {
        let (granted, zeros) = namespaces.entry(&quota.namespace).or_default();
        match quota.resource.strip_prefix("requests.").and_then(|name| name.strip_prefix(PREFIX)) {
            _ if quota.hard == 0 => *zeros += 1,
            Some(name) => granted.push(format!("{} {name}", count(quota.hard))),
            None => dra = true,
        }
    }
    if namespaces.is_empty() {
        return;
    }
    page.heading("Quotas by namespace");
    let (some, none): (Vec<_>, Vec<_>) = namespaces.iter().partition(|(_, (granted, _))| !granted.is_empty());
    let mut columns =
        Columns::new(&[("namespace", Kind::Name), ("names set to 0", Kind::Number), ("granted", Kind::Text)]);
    for (namespace, (granted, zeros)) in some.iter().take(sheet.rows) {
        columns.row(vec![
            Line::plain(namespace),
            Line::plain(count(*zeros)),
            Line::plain(granted.join(", ")),
        ]);
    }
    if !some.is_empty() {
        columns.put(page);
    }
    left_out(page, some.len(), some.len().min(sheet.rows), "--rows");
    if !none.is_empty() {
        let names = none.iter().map(|(name, _)| **name).collect::<Vec<_>>();
        page.say(&format!("Every name set to 0: {}.", named(&names)));
    }
    let also = if dra { " The names of the same devices under DRA are granted with them." } else { "" };
    let text =
        format!("Granted are names of nvidia.com/, as `requests.nvidia.com/…` in a ResourceQuota.{also}");
    page.paragraph(&Line::default(), &text, Style::Faint);
}

pub(super) fn put_changes(page: &mut Page, sheet: &Sheet<'_>) {
    let changes = together(&sheet.plan.changes);
    if changes.is_empty() {
        return;
    }
    page.heading("Changes");
    let mut columns = Columns::new(&[
        ("node", Kind::Name),
        ("GPUs", Kind::Number),
        ("change", Kind::Fixed),
        ("restarts", Kind::Number),
        ("to", Kind::Fixed),
        ("pods disturbed", Kind::Text),
    ]);
    for (change, gpus, pods) in changes.iter().take(sheet.rows) {
        let names = pods.iter().map(|p| format!("{}/{}", p.namespace, p.name)).collect::<Vec<_>>();
        let names = names.iter().map(String::as_str).collect::<Vec<_>>();
        let style = if pods.is_empty() { Style::Faint } else { Style::Warn };
        columns.row(vec![
            Line::plain(&change.node),
            Line::plain(count(*gpus)),
            Line::plain(kind(change.change)),
            Line::styled(style, count(pods.len() as u64)),
            Line::plain(&change.to),
            Line::plain(if names.is_empty() { "none".to_owned() } else { named(&names) }),
        ]);
    }
    columns.put(page);
    left_out(page, changes.len(), changes.len().min(sheet.rows), "--rows");
    put_kinds(page, &sheet.plan.changes);
}

/// Changes of one node that are alike, with their number and all the pods they disturb, each once.
fn together(changes: &[Change]) -> Vec<(&Change, u64, Vec<&PodRef>)> {
    let mut groups: Vec<(&Change, u64, Vec<&PodRef>)> = Vec::new();
    let mut places = BTreeMap::new();
    for change in changes {
        let key = (&change.node, change.change, &change.to);
        let place = *places.entry(key).or_insert_with(|| {
            groups.push((change, 0, Vec::new()));
            groups.len() - 1
        });
        groups[place].1 += 1;
        groups[place].2.extend(&change.disturbed_pods);
    }
    for (_, _, pods) in &mut groups {
        pods.sort();
        pods.dedup();
    }
    groups
}

fn kind(kind: ChangeKind) -> &'static str {
    match kind {
        ChangeKind::Geometry => "instances",
        ChangeKind::MigMode => "MIG on/off",
        ChangeKind::MigModeReset => "MIG on/off + reset",
        ChangeKind::Sharing => "sharing",
    }
}

fn put_kinds(page: &mut Page, changes: &[Change]) {
    let told = [
        (
            ChangeKind::Geometry,
            "the instances that go must be idle (the GPU Operator's MIG Manager also makes the others of that GPU anew)",
        ),
        (ChangeKind::MigMode, "the GPU must be idle"),
        (ChangeKind::MigModeReset, "the GPU must be idle and is reset"),
        (ChangeKind::Sharing, "the GPU must be idle, unless only the number of shares changes"),
    ];
    for (of, text) in told {
        if changes.iter().any(|c| c.change == of) {
            page.paragraph(&Line::default(), &format!("{}: {text}.", kind(of)), Style::Faint);
        }
    }
}

pub(super) fn put_assumptions(page: &mut Page, sheet: &Sheet<'_>) {
    let assumptions = &sheet.plan.assumptions;
    if !assumptions.is_empty() {
        page.heading("What this rests on");
        for assumption in assumptions.iter().take(sheet.rows) {
            let text = format!(
                "{} ({}). If wrong: {}",
                assumption.value.trim_end_matches('.'),
                assumption.origin,
                assumption.if_wrong
            );
            page.item(&assumption.subject, &text, Style::Plain);
        }
        left_out(page, assumptions.len(), assumptions.len().min(sheet.rows), "--rows");
    }
    doubts::put(page, sheet.plan);
    put_way_to_say(page, sheet);
}

/// How to say what is not known. A Demand that stands later wins, so the observed one goes first.
fn put_way_to_say(page: &mut Page, sheet: &Sheet<'_>) {
    let piped = sheet.inputs.iter().any(|i| i == "-");
    let saved = free_name("cluster", "json", &sheet.inputs);
    let mut words = vec!["tesela".to_owned(), "plan".to_owned()];
    words.extend(sheet.inputs.iter().map(|i| if i == "-" { saved.clone() } else { i.clone() }));
    words.extend(sheet.options.iter().cloned());
    let mut with_first = |file: &str| {
        words.insert(2, file.to_owned());
        let line = command(&words);
        words.remove(2);
        line
    };
    page.gap();
    if let Some(file) = &sheet.demand_file {
        page.say(&format!(
            "{file} says what was observed, each value with its origin. Write what the workloads need into it (GPU \
             memory, duty, isolation), then:"
        ));
        page.line(with_first(file));
    } else if sheet.plan.summary.unknown_pods > 0 {
        let file = free_name("observed", "yaml", &sheet.inputs);
        let again = with_first(&file);
        page.say("To say what pods need: write the demand as observed, put in what is known, plan again.");
        if piped {
            let get = format!("kubectl get nodes,pods -A -o json > {saved}");
            page.line(Line::styled(Style::Strong, format!("  {get}")));
        }
        words.extend(["--write-demand".to_owned(), file]);
        page.line(command(&words));
        page.line(again);
    }
}

/// A command that can be copied, on a line of its own.
fn command(words: &[String]) -> Line {
    let words = words.iter().map(|w| shell(w)).collect::<Vec<_>>();
    Line::styled(Style::Strong, format!("  {}", words.join(" ")))
}

/// A file name that is not taken: `observed.yaml`, else `observed-2.yaml` and so on.
fn free_name(stem: &str, end: &str, taken: &[String]) -> String {
    let mut name = format!("{stem}.{end}");
    let mut number = 1;
    while taken.contains(&name) {
        number += 1;
        name = format!("{stem}-{number}.{end}");
    }
    name
}

fn named(names: &[&str]) -> String {
    let shown = names.iter().take(NAMED).copied().collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(NAMED) {
        0 => shown,
        more => format!("{shown} and {} more", count(more as u64)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_not_taken_twice() {
        let taken = ["observed.yaml", "observed-2.yaml"].map(str::to_owned);
        assert_eq!(free_name("observed", "yaml", &[]), "observed.yaml");
        assert_eq!(free_name("observed", "yaml", &taken), "observed-3.yaml");
    }

    #[test]
    fn a_command_can_be_copied() {
        let words = ["tesela", "plan", "my cluster.json", "--tenant-label", "example.com/team"];
        let words = words.map(str::to_owned);
        assert_eq!(command(&words).text(), "  tesela plan 'my cluster.json' --tenant-label example.com/team");
    }
}
