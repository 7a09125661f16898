//! ARCHITECTURE.md draws the house as it is: every crate with what it may import, every dependency with its reason.

use std::collections::BTreeSet;

use super::HOUSE;

/// Used by the fuzz targets, which are a workspace of their own.
const OF_FUZZING: &str = "libfuzzer-sys";

/// What `text` (ARCHITECTURE.md) leaves out, has too much, or draws otherwise than the table of edges.
/// `outside` are the packages of others that our manifests name.
pub(super) fn faults(text: &str, outside: &BTreeSet<&str>) -> Vec<String> {
    let mut faults = Vec::new();
    for room in &HOUSE {
        let row = rows(section(text, "## The house")).find(|row| row.name == room.name);
        let Some(row) = row else {
            faults.push(format!("ARCHITECTURE.md has no row for {}", room.name));
            continue;
        };
        let drawn = row.last.split(", ").map(|word| format!("tesela-{word}")).collect::<BTreeSet<_>>();
        let may = room.may.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>();
        let in_words = matches!(row.last, "–" | "all of these");
        if !in_words && drawn != may || row.last == "–" && !may.is_empty() {
            faults
                .push(format!("ARCHITECTURE.md lets {} import {}; the table: {may:?}", room.name, row.last));
        }
    }
    let told = rows(section(text, "## Dependencies")).map(|row| row.name).collect::<BTreeSet<_>>();
    let used = outside.iter().copied().chain([OF_FUZZING]).collect::<BTreeSet<_>>();
    faults.extend(used.difference(&told).map(|name| format!("ARCHITECTURE.md gives no reason for {name}")));
    faults.extend(
        told.difference(&used).map(|name| format!("ARCHITECTURE.md gives a reason for {name}, unused")),
    );
    faults
}

/// From a heading to the next of its level.
fn section<'a>(text: &'a str, heading: &str) -> &'a str {
    let rest = text.split_once(heading).map_or("", |(_, rest)| rest);
    rest.split_once("\n## ").map_or(rest, |(section, _)| section)
}

struct Row<'a> {
    name: &'a str,
    last: &'a str,
}

/// Table rows that begin with a name in code.
fn rows(section: &str) -> impl Iterator<Item = Row<'_>> {
    section.lines().filter_map(|line| {
        let (name, rest) = line.strip_prefix("| `")?.split_once("` |")?;
        let last = rest.trim_end().strip_suffix('|')?.rsplit('|').next()?.trim();
        Some(Row { name, last })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_too_much_or_drawn_wrong_is_told() {
        let text =
            "## The house\n| `tesela-plan` | decides | model, formats |\n## Dependencies\n| `serde` | x |\n";
        let told = faults(text, &BTreeSet::from(["clap"]));
        for part in [
            "no row for tesela-model",
            "lets tesela-plan import model, formats",
            "gives no reason for clap",
            "gives a reason for serde, unused",
        ] {
            assert!(told.iter().any(|fault| fault.contains(part)), "{part}: {told:?}");
        }
    }
}
