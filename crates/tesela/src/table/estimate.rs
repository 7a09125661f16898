//! An estimate for people: the four parts, then where the model runs.

use tesela_model::network::Network;
use tesela_model::origin::{Known, Origin};
use tesela_plan::estimate::{Estimate, Fit};

use super::columns::{Columns, Kind};
use super::text::{Line, Page, Style};
use super::words::{count, list, many};

/// Parts, places and notes.
pub(crate) fn put(
    page: &mut Page,
    files: &[String],
    network: &Network,
    found: &Estimate,
    places: &[Fit],
    notes: &[String],
) {
    page.paragraph(&Line::default(), &title(files, network), Style::Strong);
    page.say(&load(found));
    page.gap();
    put_parts(page, found);
    page.gap();
    put_places(page, found, places);
    // A need that no single GPU meets is none that a Demand could state.
    let gpus = found.tensor_parallel;
    if let Some(memory) = found.gpu_memory().filter(|_| gpus > 1 || places.iter().any(|fit| fit.gpus == 1)) {
        let with = if gpus > 1 { format!("gpus: {gpus}, ") } else { String::new() };
        page.gap();
        page.say(&format!(
            "In a Demand: {with}gpuMemory: {}Mi. The planner adds the context's overhead itself.",
            memory.0
        ));
    }
    if !notes.is_empty() {
        page.heading("Worth knowing");
        for note in notes {
            page.item("", note, Style::Plain);
        }
    }
}

fn title(files: &[String], network: &Network) -> String {
    let name = network.architecture.as_deref().unwrap_or("A model");
    let mut facts = Vec::new();
    facts.extend(network.parameters.map(|n| many(n, "parameter")));
    if let Some(shape) = &network.shape {
        facts.push(if shape.decodes { shape.attention.words().to_owned() } else { "an encoder".to_owned() });
        if let Some(experts) = shape.experts {
            let active = experts.active.map(|n| format!(", {n} at work")).unwrap_or_default();
            facts.push(format!("{} experts{active}", experts.count));
        }
    }
    let from = match files {
        [] => String::new(),
        [one] => format!(" ({one})"),
        [first, rest @ ..] => format!(" ({first} and {})", many(rest.len() as u64, "more file")),
    };
    match facts.is_empty() {
        true => format!("{name}{from}"),
        false => format!("{name}{from}: {}", facts.join(", ")),
    }
}

fn load(found: &Estimate) -> String {
    let sequences = many(found.concurrency, "sequence");
    let of = match found.context {
        Some(Known { value, origin }) => {
            let why = match origin {
                Origin::Given => "",
                Origin::Assumed => ", which is assumed",
                _ => ", the longest it was made for",
            };
            format!(" of {}{why}", many(value, "token"))
        }
        None => String::new(),
    };
    let on = match found.tensor_parallel {
        1 => "one GPU".to_owned(),
        n => format!("each of {n} GPUs"),
    };
    let beside = if found.context.is_none() { " at once" } else { "" };
    format!("Memory on {on} for {sequences}{beside}{of}.")
}

fn put_parts(page: &mut Page, found: &Estimate) {
    let mut columns = Columns::new(&[
        ("part", Kind::Fixed),
        ("memory", Kind::Number),
        ("origin", Kind::Fixed),
        ("how", Kind::Text),
    ]);
    let names = ["weights", "KV cache", "activations", "context overhead"];
    for (name, part) in names.into_iter().zip(found.parts()) {
        let (memory, origin) = match part.bytes {
            Some(bytes) => (Line::plain(size(bytes)), Line::plain(part.origin.to_string())),
            None => (Line::styled(Style::Warn, "?"), Line::styled(Style::Warn, "not known")),
        };
        let how = match part.source.as_str() {
            "-" => part.formula.clone(),
            source => format!("{} [{source}]", grouped(&part.formula)),
        };
        columns.row(vec![Line::plain(name), memory, origin, Line::styled(Style::Faint, how)]);
    }
    let total = found.known_bytes().map(size).unwrap_or_default();
    let (total, why) = if found.is_complete() {
        (total, Line::default())
    } else {
        (format!("> {total}"), Line::styled(Style::Faint, "without what is not known"))
    };
    columns.row(vec![
        Line::styled(Style::Strong, "together"),
        Line::styled(Style::Strong, total),
        Line::default(),
        why,
    ]);
    columns.put(page);
}

fn put_places(page: &mut Page, found: &Estimate, places: &[Fit]) {
    let (run, not) = places.iter().partition::<Vec<_>, _>(|fit| fit.gpus > 0);
    let mut columns = Columns::new(&[
        ("product", Kind::Name),
        ("smallest", Kind::Fixed),
        ("memory", Kind::Number),
        ("needed", Kind::Number),
        ("sequences at once", Kind::Number),
    ]);
    for fit in &run {
        let smallest = match (&fit.profile, fit.gpus) {
            (Some(profile), _) => Line::plain(profile.as_str()),
            (None, 1) => Line::plain("whole GPU"),
            (None, gpus) => Line::plain(format!("{gpus} whole GPUs")),
        };
        let memory = fit.memory.map(|memory| {
            let about = if memory.origin == Origin::Measured { "" } else { "~" };
            format!("{about}{}", size(memory.value.0.saturating_mul(1 << 20)))
        });
        columns.row(vec![
            Line::plain(fit.product.as_str()),
            smallest,
            Line::plain(memory.unwrap_or_default()),
            Line::plain(fit.needed.map(size).unwrap_or_default()),
            match fit.concurrency {
                Some(n) => Line::styled(Style::Good, count(n)),
                None => Line::styled(Style::Warn, "?"),
            },
        ]);
    }
    columns.put(page);
    let about = run.iter().any(|fit| fit.memory.is_some_and(|memory| memory.origin != Origin::Measured));
    if about {
        page.say("~ is the profile's part of the whole GPU; no source gives its memory.");
    }
    if found.tensor_parallel == 1 && run.iter().any(|fit| fit.gpus > 1) {
        page.say("Where more than one GPU is needed, memory and need are those of each.");
    }
    put_nowhere(page, &not);
}

/// Products on which it does not run; those with the same reason together.
fn put_nowhere(page: &mut Page, not: &[&Fit]) {
    let mut reasons: Vec<(&str, Vec<String>)> = Vec::new();
    for fit in not {
        match reasons.iter_mut().find(|(reason, _)| *reason == fit.reason) {
            Some((_, products)) => products.push(fit.product.to_string()),
            None => reasons.push((&fit.reason, vec![fit.product.to_string()])),
        }
    }
    for (reason, products) in reasons {
        page.item("", &format!("Not on {}: {reason}.", list(&products)), Style::Warn);
    }
}

/// Bytes in the unit that keeps two decimals meaningful.
fn size(bytes: u64) -> String {
    let (unit, shift) = if bytes < 1 << 30 { ("MiB", 20) } else { ("GiB", 30) };
    let hundredths = (u128::from(bytes) * 100 + (1 << (shift - 1))) >> shift;
    format!("{}.{:02} {unit}", count(hundredths / 100), hundredths % 100)
}

/// Numbers of five digits and more with separators.
fn grouped(text: &str) -> String {
    let mut out = String::new();
    let mut digits = String::new();
    let mut word = false;
    for c in text.chars().chain([' ']) {
        if c.is_ascii_digit() && !word {
            digits.push(c);
            continue;
        }
        if !digits.is_empty() {
            let number =
                digits.parse::<u64>().ok().filter(|_| digits.len() > 4 && !c.is_alphanumeric() && c != '.');
            out.push_str(&number.map_or_else(|| digits.clone(), count));
            digits.clear();
        }
        // Digits inside of a name stay as they are.
        word = c.is_alphanumeric() || matches!(c, '.' | '_' | '-' | '/');
        out.push(c);
    }
    out.pop();
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_keep_two_decimals() {
        assert_eq!(size(0), "0.00 MiB");
        assert_eq!(size(524_288_000), "500.00 MiB");
        assert_eq!(size(16_060_522_496), "14.96 GiB");
        assert_eq!(size(u64::MAX), "17,179,869,184.00 GiB");
    }

    #[test]
    fn long_numbers_are_grouped_and_names_left_alone() {
        assert_eq!(grouped("8192 tokens × (12288 + 43008)"), "8192 tokens × (12,288 + 43,008)");
        assert_eq!(grouped("pytorch#20532 llama-12345 0.123456"), "pytorch#20,532 llama-12345 0.123456");
    }
}
