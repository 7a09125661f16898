//! A packing for people: layouts as tiles with their number, waste, and the proof.

use std::collections::BTreeMap;

use tesela_model::product::{Product, ProfileName};
use tesela_plan::pack::Packing;

use super::certificate;
use super::columns::{Columns, Kind};
use super::text::{Line, Page, Style};
use super::tile::Scale;
use super::words::{count, many};

/// Columns beside the tile: the number of GPUs, free slices and units.
const BESIDE: usize = 34;

/// The whole answer.
pub(crate) fn put(page: &mut Page, product: &Product, demand: &[(ProfileName, u64)], packing: &Packing) {
    let instances = demand.iter().fold(0u64, |sum, (_, n)| sum.saturating_add(*n));
    let head = format!(
        "{} on {} of {} ({})",
        many(instances, "instance"),
        many(packing.gpus, "GPU"),
        product.id,
        product.title,
    );
    page.paragraph(&Line::default(), &head, Style::Strong);
    if packing.gpus == 0 {
        return;
    }
    page.gap();
    put_tiles(page, product, packing);
    page.gap();
    page.say(&format!(
        "Not taken by any instance: {} and {} of {} GPUs; ░ is memory that no instance takes.",
        many(packing.wasted_compute_slices, "compute slice"),
        many(packing.wasted_memory_units, "memory unit"),
        count(packing.gpus),
    ));
    page.gap();
    put_proof(page, demand, packing);
}

fn put_tiles(page: &mut Page, product: &Product, packing: &Packing) {
    let instances = || packing.filled.iter().flat_map(|f| f.layout.instances());
    let scale = Scale::fitting(product.units(), instances(), page.width().saturating_sub(BESIDE));
    let mut columns = Columns::new(&[
        ("GPUs", Kind::Number),
        ("each cut like this", Kind::Fixed),
        ("free slices", Kind::Number),
        ("free units", Kind::Number),
    ]);
    for filled in &packing.filled {
        let free = |n: u32| match n {
            0 => Line::styled(Style::Faint, "-"),
            _ => Line::styled(Style::Warn, n.to_string()),
        };
        columns.row(vec![
            Line::plain(format!("{}×", count(filled.count))),
            scale.tile(filled.layout.instances()),
            free(filled.layout.free_slices(product)),
            free(filled.layout.free_units(product)),
        ]);
    }
    columns.put(page);
    if scale.cuts(instances()) {
        page.say("Some names are cut to their slices; a wider page (--width) shows them whole.");
    }
}

fn put_proof(page: &mut Page, demand: &[(ProfileName, u64)], packing: &Packing) {
    let wanted = demand.iter().map(|(name, n)| (name.as_str().to_owned(), *n)).collect::<BTreeMap<_, _>>();
    let prices = certificate::prices(packing.certificate.scale, &packing.certificate.prices, &wanted);
    let mut first = Line::styled(Style::Strong, "Proof");
    first.pad_to(7);
    page.paragraph(&first, &prices, Style::Plain);
    let mut verdict = certificate::verdict(packing.gpus, packing.lower_bound);
    if packing.gpus > packing.lower_bound && packing.search_bound == packing.gpus {
        verdict.push_str(" A search of all packings found none with fewer, which these prices do not show.");
    }
    page.paragraph(&Line::plain("       "), &verdict, Style::Plain);
}
