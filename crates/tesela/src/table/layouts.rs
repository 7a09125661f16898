//! The layouts of a product for people.

use std::collections::BTreeMap;

use tesela_model::layout::{Geometry, Layout};
use tesela_model::product::{Product, Profile, ProfileName};
use tesela_plan::layouts::Layouts;

use super::columns::{Columns, Kind};
use super::text::{Line, Page, Style};
use super::tile::Scale;
use super::words::{count, many};

/// Columns beside the tile: ways, free slices, free units.
const BESIDE: usize = 30;

/// Profiles, tiles, and the counts in words.
pub(crate) fn put(page: &mut Page, product: &Product, profiles: &[ProfileName], found: &Layouts) {
    let facts = format!(
        "{} ({}): {} and {}",
        product.title,
        product.id,
        many(product.compute_slices, "compute slice"),
        many(product.units(), "memory unit"),
    );
    page.paragraph(&Line::default(), &facts, Style::Strong);
    page.gap();
    put_profiles(page, product, profiles);
    page.gap();
    let drawn = put_tiles(page, product, &found.layouts);
    for text in in_words(found, drawn) {
        page.gap();
        page.say(&text);
    }
}

fn put_profiles(page: &mut Page, product: &Product, profiles: &[ProfileName]) {
    let mut columns = Columns::new(&[
        ("profile", Kind::Fixed),
        ("slices", Kind::Number),
        ("units", Kind::Number),
        ("memory", Kind::Number),
        ("at most", Kind::Number),
        ("may start at unit", Kind::Text),
    ]);
    for profile in profiles.iter().filter_map(|name| product.profile(name.as_str()).ok()) {
        let Profile { name, compute_slices, memory, max_instances, placements, .. } = profile;
        columns.row(vec![
            Line::plain(name.as_str()),
            Line::plain(compute_slices.to_string()),
            Line::plain(profile.units().to_string()),
            Line::plain(memory.map(|m| format!("{} MiB", count(m.0))).unwrap_or_default()),
            Line::plain(max_instances.map(|m| m.to_string()).unwrap_or_default()),
            Line::plain(placements.iter().map(|p| p.start.to_string()).collect::<Vec<_>>().join(", ")),
        ]);
    }
    columns.put(page);
}

/// One tile for each geometry: the first of the layouts that have it. Returns how many.
fn put_tiles(page: &mut Page, product: &Product, layouts: &[Layout]) -> usize {
    let mut geometries = BTreeMap::<Geometry, (usize, &Layout, usize)>::new();
    for (index, layout) in layouts.iter().enumerate() {
        geometries.entry(layout.geometry()).or_insert((index, layout, 0)).2 += 1;
    }
    let mut shown = geometries.into_values().collect::<Vec<_>>();
    shown.sort_by_key(|(index, ..)| *index);
    let instances = || shown.iter().flat_map(|(_, layout, _)| layout.instances());
    let scale = Scale::fitting(product.units(), instances(), page.width().saturating_sub(BESIDE));
    let mut columns = Columns::new(&[
        ("layout", Kind::Fixed),
        ("ways", Kind::Number),
        ("free slices", Kind::Number),
        ("free units", Kind::Number),
    ]);
    for (_, layout, ways) in &shown {
        columns.row(vec![
            scale.tile(layout.instances()),
            Line::plain(ways.to_string()),
            dash(layout.free_slices(product)),
            dash(layout.free_units(product)),
        ]);
    }
    columns.put(page);
    if scale.cuts(instances()) {
        page.gap();
        page.say("Some names are cut to their slices; a wider page (--width) shows them whole.");
    }
    shown.len()
}

/// A zero as `-`, so that waste stands out.
fn dash(number: u32) -> Line {
    match number {
        0 => Line::styled(Style::Faint, "-"),
        _ => Line::styled(Style::Warn, number.to_string()),
    }
}

fn in_words(found: &Layouts, drawn: usize) -> [String; 2] {
    let n = |number: usize| count(number as u64);
    [
        format!(
            "{} drawn, to which nothing can be added: one for each set of instances. `ways` says how often the same \
             instances fit elsewhere on the GPU; ░ is memory that no instance takes.",
            if drawn == 1 { "1 layout is".to_owned() } else { format!("{} layouts are", n(drawn)) },
        ),
        format!(
            "Counted: {} (sets of instances with their starts, the empty one included), {} of them full: nothing can \
             be added. Starts forgotten: {}, {} of them contained in no other. --format json lists every full layout.",
            many(found.states as u64, "state"),
            n(found.maximal_states),
            if found.geometries == 1 {
                "1 geometry".to_owned()
            } else {
                format!("{} geometries", n(found.geometries))
            },
            n(found.maximal_geometries),
        ),
    ]
}
