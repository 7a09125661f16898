//! GPUs as tiles by node: today and under the plan.

use std::collections::{BTreeMap, BTreeSet};

use tesela_model::fleet::{Mode, Node};
use tesela_model::plan::{PlannedGpu, PlannedInstance, PlannedNode, Use};
use tesela_model::product::ProductTable;

use super::today::{faces, holdings, units};
use super::{Sheet, left_out};
use crate::table::text::{Line, Page, Style, shorten, width};
use crate::table::tile::{Face, Piece, row, rows as tiles};
use crate::table::words::{count, many};

/// Nodes that look alike today and under the plan.
struct Row {
    names: Vec<String>,
    product: String,
    today: Option<Vec<Face>>,
    plan: Option<Vec<Face>>,
}

pub(super) fn put(page: &mut Page, sheet: &Sheet<'_>) {
    let rows = rows(sheet);
    if rows.is_empty() {
        return;
    }
    let known = rows.iter().any(|r| r.today.is_some());
    page.heading(if known { "GPUs by node, today → plan" } else { "GPUs by node" });
    let all = rows.len();
    // Equal nodes are told together only where each by itself would fill the screen.
    let mut rows = rows;
    if all > sheet.rows {
        rows = together(rows);
        rows.sort_by_key(|r| (is_same(r), std::cmp::Reverse(r.names.len())));
    }
    let shown = rows.iter().take(sheet.rows).collect::<Vec<_>>();
    put_rows(page, &shown);
    left_out(page, all, shown.iter().map(|r| r.names.len()).sum(), "--rows");
    put_legend(page, &shown);
}

fn rows(sheet: &Sheet<'_>) -> Vec<Row> {
    let held = holdings(sheet.demand);
    let planned = sheet.plan.nodes.iter().filter_map(|n| n.name.as_deref().map(|name| (name, n)));
    let planned = planned.collect::<BTreeMap<_, _>>();
    let today = sheet.fleet.nodes.iter().filter(|n| !n.gpus.is_empty());
    let mut rows = today
        .map(|node| {
            let held = held.get(node.name.as_str()).map_or(&[][..], Vec::as_slice);
            let plan = planned.get(node.name.as_str());
            Row {
                names: vec![node.name.clone()],
                product: products(node.gpus.iter().map(|g| g.product.as_str())),
                today: Some(today_faces(node, held, sheet.products)),
                plan: plan.map(|n| n.gpus.iter().map(|g| planned_face(g, sheet.products)).collect()),
            }
        })
        .collect::<Vec<_>>();
    let known = sheet.fleet.nodes.iter().map(|n| n.name.as_str()).collect::<BTreeSet<_>>();
    let new = sheet.plan.nodes.iter().filter(|n| n.name.as_deref().is_none_or(|name| !known.contains(name)));
    rows.extend(new.map(|node| new_row(node, sheet.products)));
    rows
}

fn today_faces(node: &Node, held: &[&tesela_model::demand::Holding], products: &ProductTable) -> Vec<Face> {
    if node.unusable.is_some() { vec![Face::Unknown; node.gpus.len()] } else { faces(node, held, products) }
}

fn new_row(node: &PlannedNode, table: &ProductTable) -> Row {
    Row {
        names: vec![node.name.clone().unwrap_or_else(|| "new node".to_owned())],
        product: products(node.gpus.iter().map(|g| g.product.as_str())),
        today: None,
        plan: Some(node.gpus.iter().map(|g| planned_face(g, table)).collect()),
    }
}

fn products<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let names = names.collect::<BTreeSet<_>>();
    names.into_iter().collect::<Vec<_>>().join(", ")
}

fn planned_face(gpu: &PlannedGpu, products: &ProductTable) -> Face {
    let pods = |uses: &[Use]| uses.iter().map(|u| u.pods).sum::<u64>();
    match gpu.mode {
        Mode::Exclusive => Face::Whole { held: !gpu.used_by.is_empty() },
        Mode::TimeSliced | Mode::Mps => Face::Shared {
            mps: gpu.mode == Mode::Mps,
            replicas: gpu.replicas.unwrap_or(1),
            held: pods(&gpu.used_by),
        },
        Mode::Mig => {
            let piece = |i: &PlannedInstance| Piece {
                start: i.start,
                size: i.size,
                slices: i.profile.slices(),
                shared: i.replicas.is_some(),
                held: !i.used_by.is_empty(),
            };
            let pieces = gpu.instances.iter().map(piece).collect::<Vec<_>>();
            Face::Cut { units: units(&gpu.product, &pieces, products), pieces }
        }
    }
}

/// Rows that look alike become one, in the order of the first of each.
fn together(rows: Vec<Row>) -> Vec<Row> {
    let mut groups: Vec<Row> = Vec::new();
    let mut places = BTreeMap::new();
    for row in rows {
        let key = (row.product.clone(), drawn(row.today.as_deref()), drawn(row.plan.as_deref()));
        match places.get(&key) {
            Some(&place) => {
                let group: &mut Row = &mut groups[place];
                group.names.extend(row.names);
            }
            None => {
                places.insert(key, groups.len());
                groups.push(row);
            }
        }
    }
    groups
}

fn drawn(faces: Option<&[Face]>) -> Option<String> {
    faces.map(|f| row(f).text())
}

fn put_rows(page: &mut Page, rows: &[&Row]) {
    let names = rows.iter().map(|r| r.names[0].as_str()).collect::<Vec<_>>();
    let names = shorten(&names, page.width() / 3);
    let titles = rows.iter().zip(names).map(|(row, name)| match row.names.len() {
        1 => name,
        n => format!("{name} + {} alike", count(n as u64 - 1)),
    });
    let titles = titles.collect::<Vec<_>>();
    let title_width = titles.iter().map(|t| width(t)).max().unwrap_or(0);
    let product_width = rows.iter().map(|r| width(&r.product)).max().unwrap_or(0);
    let left = title_width + 2 + product_width + 2;
    let room = page.width().saturating_sub(left);
    let widest = |lines: &mut dyn Iterator<Item = Line>| lines.map(|l| l.width()).max().unwrap_or(0);
    let today_width = widest(&mut rows.iter().flat_map(|r| today_lines(r, usize::MAX)));
    let plan_width = widest(&mut rows.iter().flat_map(|r| plan_lines(r, usize::MAX)));
    let one_line = today_width + 1 + plan_width <= room;
    for (row, title) in rows.iter().zip(titles) {
        let mut line = Line::plain(title);
        line.pad_to(title_width + 2);
        line.push(Style::Faint, &row.product);
        line.pad_to(left);
        if one_line {
            today_lines(row, usize::MAX).iter().for_each(|l| line.append(l));
            line.pad_to(if today_width == 0 { left } else { left + today_width + 1 });
            plan_lines(row, usize::MAX).iter().for_each(|l| line.append(l));
            page.line(line);
            continue;
        }
        // The arrow hangs to the left, so that the tiles of both states stand in one column.
        let mut states = today_lines(row, room);
        let mut plan = plan_lines(row, room);
        // What stays is told on the same line, where there is room.
        if let Some(last) = states.last_mut().filter(|l| is_same(row) && l.width() + 11 <= room) {
            last.push(Style::Plain, " ");
            plan.drain(..).for_each(|l| last.append(&l));
        }
        let today = states.len();
        states.extend(plan);
        for (index, state) in states.iter().enumerate() {
            line.pad_to(if index == today && index > 0 { left - 2 } else { left });
            line.append(state);
            page.line(std::mem::take(&mut line));
        }
    }
}

fn today_lines(r: &Row, limit: usize) -> Vec<Line> {
    r.today.as_ref().map(|faces| tiles(faces, limit)).unwrap_or_default()
}

fn is_same(r: &Row) -> bool {
    r.today.is_some() && drawn(r.plan.as_deref()) == drawn(r.today.as_deref())
}

/// The plan's tiles, behind an arrow where there is a today.
fn plan_lines(r: &Row, limit: usize) -> Vec<Line> {
    let mut lines = match &r.plan {
        None => vec![Line::styled(Style::Faint, "as it is")],
        Some(_) if is_same(r) => vec![Line::styled(Style::Faint, "the same")],
        Some(faces) => tiles(faces, limit),
    };
    if r.today.is_some() {
        let mut arrow = Line::plain("→ ");
        arrow.append(&lines[0]);
        lines[0] = arrow;
    }
    lines
}

/// A tile in figures, and what it says.
fn in_figures(face: &Face) -> String {
    let Face::Shared { mps, replicas, held } = face else { return String::new() };
    let how = if *mps { "shared by" } else { "taken in turns by" };
    let through = if *mps { " through MPS" } else { "" };
    format!("{} {how} {replicas}{through}, {} held", face.tile().text(), many(*held, "share"))
}

/// What the signs on these rows mean; signs that are not there are not told.
fn put_legend(page: &mut Page, rows: &[&Row]) {
    let faces = rows.iter().flat_map(|r| r.today.iter().chain(&r.plan).flatten()).collect::<Vec<_>>();
    let pieces =
        || faces.iter().flat_map(|f| if let Face::Cut { pieces, .. } = f { &pieces[..] } else { &[] });
    let waste = |f: &&Face| matches!(f, Face::Cut { units, pieces } if pieces.iter().map(|p| p.size).sum::<u32>() < *units);
    let mut signs = Vec::new();
    let mut sign = |there: bool, text: &str| {
        if there {
            signs.push(text.to_owned());
        }
    };
    sign(faces.iter().any(|f| matches!(f, Face::Whole { held: true })), "████████ whole GPU, held");
    sign(faces.iter().any(|f| matches!(f, Face::Whole { held: false })), "········ whole GPU, free");
    for of_mps in [false, true] {
        let of_kind = |f: &&&Face| matches!(f, Face::Shared { mps, .. } if *mps == of_mps);
        let drawn = if of_mps {
            "M4 ■■□□ shared by 4 through MPS, 2 shares held"
        } else {
            "÷4 ■■□□ taken in turns by 4, 2 shares held"
        };
        sign(faces.iter().filter(of_kind).any(|f| !f.in_figures()), drawn);
        // Too many to draw: one that is on the page is read aloud.
        let figures = faces.iter().filter(of_kind).find(|f| f.in_figures());
        sign(figures.is_some(), &figures.map(|f| in_figures(f)).unwrap_or_default());
    }
    sign(pieces().any(|p| p.held), "2━ MIG instance of 2 slices, held");
    sign(pieces().any(|p| p.held && p.shared), "2÷ the same, in turns");
    sign(pieces().any(|p| !p.held), "┆╌ MIG instance, free");
    sign(faces.iter().any(waste), "░ memory that no instance takes");
    sign(faces.iter().any(|f| matches!(f, Face::Unknown)), "???????? not known");
    let mut line = Line::default();
    for sign in signs {
        if line.width() > 0 && line.width() + 3 + width(&sign) > page.width() {
            page.line(std::mem::take(&mut line));
        }
        if line.width() > 0 {
            line.push(Style::Faint, " | ");
        }
        line.push(Style::Faint, sign);
    }
    page.line(line);
    if rows.iter().flat_map(|r| r.today.iter().flatten()).any(Face::held) {
        let text =
            "Where nobody says which GPU of a node a pod holds, today's tiles are filled from the left.";
        page.paragraph(&Line::default(), text, Style::Faint);
    }
}
