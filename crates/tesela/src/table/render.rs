//! The steps that were written, for people.

use std::path::Path;

use tesela_objects::render::Rendering;

use super::text::{Line, Page, Style};
use super::words::many;

/// Each step with whom it hits, then where to begin.
pub(crate) fn put(page: &mut Page, out: &Path, rendering: &Rendering) {
    let steps = rendering.steps.len() as u64;
    page.line(Line::styled(Style::Strong, format!("{} in {}", many(steps, "step"), out.display())));
    page.gap();
    for step in &rendering.steps {
        page.paragraph(&Line::plain(format!("  {:>3}  ", step.number)), &step.title, Style::Strong);
        let indent = Line::plain("       ");
        page.paragraph(&indent, &step.dir, Style::Faint);
        page.paragraph(&indent, &step.hits, Style::Plain);
        for outage in &step.outages {
            page.paragraph(&indent, outage, Style::Warn);
        }
        for note in &step.notes {
            page.paragraph(&indent, note, Style::Faint);
        }
    }
    if !rendering.warnings.is_empty() {
        page.heading("Before the first step");
        for warning in &rendering.warnings {
            page.item("", warning, Style::Warn);
        }
    }
    page.gap();
    page.say(&format!("Begin with {}. Nothing was sent to a cluster.", out.join("00-README.md").display()));
}
