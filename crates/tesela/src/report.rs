//! A plan as one page to hand on: what a person who decides reads first, then the reasons that settle a dispute.
//!
//! The page is made of the plan alone. It has no script and loads nothing; a policy in its head forbids both. Pods'
//! environment, arguments and annotations are in no plan, so they are on no page.

mod burst;
mod changes;
mod english;
mod findings;
mod gpus;
mod head;
mod money;
mod number;
mod page;
mod proof;
mod sentence;
mod spanish;
#[cfg(test)]
mod tests;
mod text;
mod tile;
mod unknown;
mod workloads;

use tesela_model::plan::Plan;

use self::text::Text;

/// A language of the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Language {
    /// English.
    English,
    /// Spanish.
    Spanish,
}

/// The plan as an HTML document. The same plan gives the same bytes.
pub(crate) fn html(plan: &Plan, language: Language) -> String {
    let text = match language {
        Language::English => &english::ENGLISH,
        Language::Spanish => &spanish::SPANISH,
    };
    page::page(&Sheet { plan, text, language })
}

/// A plan, and the words to tell it in.
struct Sheet<'a> {
    plan: &'a Plan,
    text: &'static Text,
    language: Language,
}
