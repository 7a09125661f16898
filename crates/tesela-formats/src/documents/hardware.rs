//! Products as people write them.

use tesela_model::product::{Product, ProductTable, UnknownProfile};

use super::check::Check;
use crate::diagnostic::{nearest, shown};
use crate::source::{Located, Span};

/// What a product's name leads to.
pub(crate) enum Hardware<'t> {
    /// The table has it.
    Known(&'t Product),
    /// An NVML name that the table lacks, blanks as `-`: a GPU without MIG.
    Foreign(String),
}

impl Hardware<'_> {
    /// The name that plans use: table id, else the name as labels write it.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Known(product) => product.id.to_string(),
            Self::Foreign(name) => name.clone(),
        }
    }
}

/// How NVML names begin.
const BRANDS: [&str; 6] = ["NVIDIA", "Tesla", "Quadro", "GRID", "GeForce", "Graphics"];

/// The product of a name, or `None` when it names none: a table id, an exact NVML name (with blanks, or with `-` as
/// labels write it), or an NVML name that the table lacks.
pub(crate) fn lookup<'t>(table: &'t ProductTable, text: &str) -> Option<Hardware<'t>> {
    let labelled = || {
        let suffixed = text.ends_with("-SHARED") || text.contains("-MIG-");
        if suffixed { None } else { table.by_label(text) }
    };
    if let Some(product) = table.look_up(text).or_else(labelled) {
        return Some(Hardware::Known(product));
    }
    let branded =
        BRANDS.iter().any(|b| text.strip_prefix(b).is_some_and(|rest| rest.starts_with([' ', '-'])));
    let clean = text.len() <= 96 && text.chars().all(|c| c.is_ascii_alphanumeric() || " -_./".contains(c));
    (branded && clean && !text.ends_with(' ')).then(|| Hardware::Foreign(text.replace(' ', "-")))
}

/// What to write instead of a wrong name.
pub(crate) fn candidates(table: &ProductTable, text: &str) -> String {
    let ids: Vec<&str> = table.products().iter().map(|p| p.id.as_str()).collect();
    let names = table.products().iter().flat_map(|p| p.nvml_names.iter().map(String::as_str));
    let near = nearest(text, ids.iter().copied().chain(names)).map_or_else(
        || {
            // `h100` is near to nothing by distance, but begins what is meant.
            let begun = text.to_lowercase();
            let begin = |id: &&&str| !begun.is_empty() && id.starts_with(&begun);
            let all: Vec<String> = ids.iter().filter(begin).map(|id| format!("`{id}`")).collect();
            if all.is_empty() { String::new() } else { format!("did you mean {}? ", all.join(", ")) }
        },
        |near| format!("did you mean `{near}`? "),
    );
    format!(
        "{near}a product is a table id ({}) or the name that `nvidia-smi -L` prints, such as `NVIDIA L4`",
        ids.join(", ")
    )
}

impl Check<'_> {
    /// The product of a written name.
    pub(crate) fn product<'t>(
        &mut self,
        table: &'t ProductTable,
        written: &Located<String>,
    ) -> Option<Hardware<'t>> {
        let found = lookup(table, &written.value);
        if found.is_none() {
            let message = format!("unknown product `{}`", shown(&written.value));
            self.error(
                written.at,
                "unknown-product",
                &written.value,
                message,
                candidates(table, &written.value),
            );
        }
        found
    }

    /// A profile that a product does not have.
    pub(crate) fn unknown_profile(&mut self, written: &Located<String>, unknown: &UnknownProfile) {
        let near =
            unknown.nearest.first().map_or_else(String::new, |near| format!("did you mean `{near}`? "));
        let known: Vec<String> = unknown.known.iter().map(ToString::to_string).collect();
        let fix = format!("{near}{} has {}", unknown.product, known.join(", "));
        let message = format!("`{}` is no MIG profile of {}", shown(&written.value), unknown.product);
        self.error(written.at, "unknown-profile", &written.value, message, fix);
    }

    /// Products by name, each once.
    pub(crate) fn products(&mut self, table: &ProductTable, written: &[Located<String>]) -> Vec<String> {
        let mut names: Vec<(String, Span)> = Vec::new();
        for one in written {
            let Some(found) = self.product(table, one) else { continue };
            let name = found.name();
            match names.iter().find(|(known, _)| *known == name) {
                Some((_, first)) => self.duplicate("the product", &name, *first, one.at),
                None => names.push((name, one.at)),
            }
        }
        names.into_iter().map(|(name, _)| name).collect()
    }
}
