//! The GPUs of each node as tiles, today and under the plan.

use std::collections::{BTreeMap, BTreeSet};

use maud::{Markup, html};
use tesela_model::plan::{NodeToday, PlannedGpu, PlannedNode};

use super::Sheet;
use super::text::fill;
use super::tile::{Face, Tile, picture, samples, shows, who};

/// Fleets of more nodes are told by kinds of nodes.
pub(super) const EACH_NODE: usize = 20;
/// Kinds of nodes shown at once, folded away, and left out.
const SHOWN: usize = 40;
const FOLDED: usize = 400;

/// Nodes that look alike today and under the plan.
struct Row<'a> {
    names: Vec<&'a str>,
    /// Nodes that are not there yet.
    new: u64,
    products: String,
    unusable: Option<&'a str>,
    today: Option<Vec<Tile>>,
    plan: Option<Vec<Tile>>,
}

impl Row<'_> {
    fn same(&self) -> bool {
        let faces = |tiles: &Option<Vec<Tile>>| {
            tiles.as_ref().map(|t| t.iter().map(|t| t.face.clone()).collect::<Vec<_>>())
        };
        self.today.is_some() && faces(&self.today) == faces(&self.plan)
    }

    fn nodes(&self) -> u64 {
        self.names.len() as u64 + self.new
    }
}

pub(super) fn section(sheet: &Sheet<'_>) -> Markup {
    let text = sheet.text;
    let mut rows = rows(sheet);
    let all: u64 = rows.iter().map(Row::nodes).sum();
    let grouped = all > EACH_NODE as u64;
    if grouped {
        rows = together(rows);
        rows.sort_by_key(|r| (r.same(), std::cmp::Reverse(r.nodes())));
    }
    let folded = rows.iter().skip(SHOWN).take(FOLDED);
    let rest = rows.len().saturating_sub(SHOWN + FOLDED) as u64;
    html! {
        section id="gpus" {
            h2 { (text.by_node) }
            @if rows.is_empty() { p { (text.no_gpus_seen) } }
            @else {
                (table(sheet, rows.iter().take(SHOWN), grouped))
                @if rows.len() > SHOWN {
                    details {
                        summary { (fill(text.more_rows, &[("n", &text.count((rows.len() - SHOWN) as u64))])) }
                        (table(sheet, folded, grouped))
                        @if rest > 0 { p { (text.many(rest, &text.not_drawn)) } }
                    }
                }
                (legend(sheet, &rows))
            }
        }
    }
}

fn rows<'a>(sheet: &Sheet<'a>) -> Vec<Row<'a>> {
    let planned: BTreeMap<&str, &PlannedNode> =
        sheet.plan.nodes.iter().filter_map(|n| Some((n.name.as_deref()?, n))).collect();
    let known: BTreeSet<&str> = sheet.plan.nodes_today.iter().map(|n| n.name.as_str()).collect();
    let mut rows: Vec<Row<'a>> = sheet
        .plan
        .nodes_today
        .iter()
        .map(|node| existing(sheet, node, planned.get(node.name.as_str()).copied()))
        .collect();
    let others =
        sheet.plan.nodes.iter().filter(|n| n.name.as_deref().is_none_or(|name| !known.contains(name)));
    rows.extend(others.map(|node| Row {
        names: node.name.as_deref().into_iter().collect(),
        new: u64::from(node.name.is_none()),
        products: products(node.gpus.iter().map(|g| g.product.as_str())),
        unusable: None,
        today: None,
        plan: Some(node.gpus.iter().map(|g| planned_tile(sheet, g, false)).collect()),
    }));
    together_new(rows)
}

fn existing<'a>(sheet: &Sheet<'a>, node: &'a NodeToday, planned: Option<&'a PlannedNode>) -> Row<'a> {
    let tile = |face: Face, who: String| Tile { face, changed: false, who };
    let today: Vec<Tile> = match &node.unusable {
        Some(_) => node.gpus.iter().map(|_| tile(Face::Unknown, String::new())).collect(),
        None => {
            let one = |g: &tesela_model::plan::GpuToday| {
                tile(Face::today(g), who(&g.used_by, &g.instances, sheet.text))
            };
            node.gpus.iter().map(one).collect()
        }
    };
    let plan = planned.filter(|_| node.unusable.is_none()).map(|n| {
        let changes = n
            .gpus
            .iter()
            .zip(&node.gpus)
            .map(|(g, t)| Face::planned(g).without_holders() != Face::today(t).without_holders());
        n.gpus.iter().zip(changes).map(|(g, changed)| planned_tile(sheet, g, changed)).collect()
    });
    Row {
        names: vec![&node.name],
        new: 0,
        products: products(node.gpus.iter().map(|g| g.product.as_str())),
        unusable: node.unusable.as_deref(),
        today: Some(today),
        plan,
    }
}

fn planned_tile(sheet: &Sheet<'_>, gpu: &PlannedGpu, changed: bool) -> Tile {
    Tile { face: Face::planned(gpu), changed, who: who(&gpu.used_by, &gpu.instances, sheet.text) }
}

fn products<'a>(names: impl Iterator<Item = &'a str>) -> String {
    names.collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>().join(", ")
}

type Key = (String, Option<Vec<Face>>, Option<Vec<Face>>, Option<String>);

fn key(row: &Row<'_>) -> Key {
    let faces = |tiles: &Option<Vec<Tile>>| {
        tiles.as_ref().map(|tiles| {
            let mut faces: Vec<Face> = tiles.iter().map(|t| t.face.clone()).collect();
            faces.sort();
            faces
        })
    };
    (row.products.clone(), faces(&row.today), faces(&row.plan), row.unusable.map(str::to_owned))
}

/// Nodes that are not there yet have no name to tell them apart by.
fn together_new(rows: Vec<Row<'_>>) -> Vec<Row<'_>> {
    let (there, new): (Vec<_>, Vec<_>) = rows.into_iter().partition(|r| r.new == 0);
    let mut rows = there;
    rows.extend(together(new));
    rows
}

/// Rows that look alike become one, in the order of the first of each, without who holds what.
fn together(rows: Vec<Row<'_>>) -> Vec<Row<'_>> {
    let mut groups: Vec<Row<'_>> = Vec::new();
    let mut places: BTreeMap<Key, usize> = BTreeMap::new();
    for mut row in rows {
        for tiles in [&mut row.today, &mut row.plan].into_iter().flatten() {
            tiles.iter_mut().for_each(|t| t.who.clear());
            tiles.sort_by(|a, b| (!a.face.held(), &a.face).cmp(&(!b.face.held(), &b.face)));
        }
        match places.get(&key(&row)) {
            Some(&place) => {
                groups[place].names.extend(row.names);
                groups[place].new += row.new;
            }
            None => {
                places.insert(key(&row), groups.len());
                groups.push(row);
            }
        }
    }
    groups
}

fn table<'r, 'a: 'r>(sheet: &Sheet<'a>, rows: impl Iterator<Item = &'r Row<'a>>, grouped: bool) -> Markup {
    let text = sheet.text;
    // The roles are said once more, since a style that restacks the cells would take them away.
    html! {
        table.tiles role="table" {
            caption.vh { (text.by_node_caption) }
            thead role="rowgroup" {
                tr role="row" {
                    th scope="col" role="columnheader" { (text.node) }
                    th scope="col" role="columnheader" { (text.product) }
                    th scope="col" role="columnheader" { (text.today) }
                    th scope="col" role="columnheader" { (text.plan) }
                }
            }
            tbody role="rowgroup" {
                @for row in rows {
                    tr role="row" {
                        th scope="row" role="rowheader" { (title(sheet, row)) }
                        td.pr role="cell" { (row.products) }
                        td.td role="cell" {
                            @if let Some(tiles) = row.today.as_ref().filter(|t| !t.is_empty()) {
                                span.lbl aria-hidden="true" { (text.today) }
                                (tiles_of(sheet, text.today, tiles, grouped))
                            }
                        }
                        td class=(if row.same() || row.unusable.is_some() { "tp" } else { "tp chg" }) role="cell" {
                            @if row.plan.is_some() && !row.same() { span.lbl aria-hidden="true" { (text.plan) } }
                            @if let Some(why) = row.unusable {
                                span.note { (sheet.inside(text.cannot_be_planned, "why", why)) }
                            } @else if row.same() {
                                span.same { (text.unchanged) }
                            } @else if let Some(tiles) = &row.plan {
                                (tiles_of(sheet, text.plan, tiles, grouped))
                            }
                        }
                    }
                }
            }
        }
    }
}

fn title(sheet: &Sheet<'_>, row: &Row<'_>) -> String {
    let text = sheet.text;
    match row.names.first() {
        None => text.many(row.new, &text.new_node),
        Some(name) => text.many_with(row.nodes(), &text.alike, &[("name", name)]),
    }
}

/// The tiles of a node; in a group equal ones once, with their number.
fn tiles_of(sheet: &Sheet<'_>, state: &str, tiles: &[Tile], grouped: bool) -> Markup {
    let text = sheet.text;
    let mut words: Vec<(String, u64)> = Vec::new();
    for word in tiles.iter().map(|t| t.face.words(text)) {
        match words.iter_mut().find(|(known, _)| *known == word) {
            Some((_, n)) => *n += 1,
            None => words.push((word, 1)),
        }
    }
    let words: Vec<String> =
        words.into_iter().map(|(word, n)| format!("{} × {word}", text.count(n))).collect();
    let label = format!("{state}: {}", words.join("; "));
    html! {
        span.row role="img" aria-label=(label) {
            @if grouped {
                @for run in tiles.chunk_by(|a, b| a == b) {
                    span.run { b { (run.len()) "×" } (picture(&run[0])) }
                }
            } @else {
                @for tile in tiles { (picture(tile)) }
            }
        }
    }
}

/// What is on the page, and nothing else.
fn legend(sheet: &Sheet<'_>, rows: &[Row<'_>]) -> Markup {
    let text = sheet.text;
    let tiles = || rows.iter().flat_map(|r| r.today.iter().chain(&r.plan).flatten());
    let there = samples(text).into_iter().filter(|(sample, _)| tiles().any(|t| shows(&t.face, sample)));
    let guessed = sheet.plan.nodes_today.iter().flat_map(|n| &n.gpus).any(|g| g.uuid.is_none());
    html! {
        h3.vh { (text.legend) }
        ul.legend {
            @for (face, words) in there {
                li { (picture(&Tile { face, changed: false, who: String::new() })) " " (words) }
            }
            @if tiles().any(|t| t.changed) { li { (text.changed) } }
        }
        @if guessed { p.note { (text.guessed) } }
    }
}
