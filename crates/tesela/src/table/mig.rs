//! Changes of MIG layouts for people: each GPU before and after, as tiles.

use tesela_executor::plan::{Change, Piece};
use tesela_model::layout::Instance;

use super::text::{Line, Page, Style};
use super::tile::Scale;
use super::words::{count, list, many};
use crate::verbs::mig::{Answer, Gpu};

/// What the answer is to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    /// What would be done.
    Plan,
    /// Whether it is so.
    Assert,
    /// What was done.
    Apply,
}

/// Columns before a tile.
const BEFORE: usize = 9;

/// The whole answer.
pub(crate) fn put(page: &mut Page, answer: &Answer, told: Told) {
    page.paragraph(&Line::default(), &head(answer, told), Style::Strong);
    let changes = answer.gpus.iter().filter(|gpu| gpu.change != Change::None).collect::<Vec<_>>();
    for gpu in &changes {
        page.gap();
        put_gpu(page, gpu, told);
    }
    let same = answer.gpus.iter().filter(|gpu| gpu.change == Change::None && !is_blocked(answer, gpu));
    let same = same.map(|gpu| gpu.index.to_string()).collect::<Vec<_>>();
    if !same.is_empty() && !changes.is_empty() {
        page.gap();
        let noun = if same.len() == 1 { "GPU" } else { "GPUs" };
        page.paragraph(&Line::default(), &format!("As wanted already: {noun} {}", list(&same)), Style::Faint);
    }
    if !answer.blocked.is_empty() {
        page.heading(if told == Told::Apply { "Not changed as wanted" } else { "In the way" });
        for blocked in &answer.blocked {
            let name = blocked.index.map_or_else(|| blocked.uuid.clone(), |index| format!("GPU {index}"));
            page.item(&name, &blocked.reason, Style::Plain);
        }
    }
    if changes.iter().any(|gpu| !gpu.destroy.is_empty()) && told == Told::Plan {
        page.gap();
        page.say("Which pods hold what goes is not known here: the kubelet is not asked. Processes are.");
    }
}

fn is_blocked(answer: &Answer, gpu: &Gpu) -> bool {
    answer.blocked.iter().any(|blocked| blocked.uuid == gpu.uuid.as_str())
}

fn head(answer: &Answer, told: Told) -> String {
    let all = answer.gpus.len();
    let changes = answer.gpus.iter().filter(|gpu| gpu.change != Change::None);
    let number = |pieces: fn(&Gpu) -> &Vec<Piece>| -> u64 {
        changes.clone().map(|gpu| pieces(gpu).len() as u64).sum()
    };
    let (go, come, stay) = (number(|g| &g.destroy), number(|g| &g.create), number(|g| &g.keep));
    let some = changes.clone().count();
    if some == 0 {
        return match (answer.blocked.is_empty(), all) {
            (true, 0) => "No GPU of this node is meant".to_owned(),
            (true, _) => format!("{} as wanted; nothing to do", many(all as u64, "GPU")),
            (false, _) => "Nothing can be done as wanted".to_owned(),
        };
    }
    let what =
        format!("{} destroyed, {} created, {} not touched", many(go, "instance"), count(come), count(stay));
    match told {
        Told::Assert => format!("{} of {} not as wanted", count(some as u64), many(all as u64, "GPU")),
        Told::Plan => format!("{} of {} to change: {what}", count(some as u64), many(all as u64, "GPU")),
        Told::Apply => {
            let done = changes.filter(|gpu| gpu.outcome == Some("done")).count();
            match done == some {
                true => format!("{} changed: {what}", many(done as u64, "GPU")),
                false => format!("{} of {} changed", count(done as u64), many(some as u64, "GPU")),
            }
        }
    }
}

fn put_gpu(page: &mut Page, gpu: &Gpu, told: Told) {
    let mut line = Line::styled(Style::Strong, format!("GPU {}", gpu.index));
    line.push(Style::Plain, format!("  {}  ", gpu.product));
    line.push(Style::Faint, gpu.uuid.as_str());
    if told == Told::Plan {
        line.push(Style::Plain, format!("  {}", kind(gpu.change)));
    }
    page.line(line);
    let picture = &gpu.picture;
    let (before, after) = (picture.before.as_deref(), picture.after.as_deref());
    let all = before.iter().chain(&after).flat_map(|list| list.iter());
    let scale = Scale::fitting(picture.units, all, page.width().saturating_sub(BEFORE));
    let stays = told == Told::Apply && !matches!(gpu.outcome, Some("done"));
    put_tile(page, "before", before, &scale);
    put_tile(page, if stays { "wanted" } else { "after" }, after, &scale);
    for (word, pieces) in [("destroy", &gpu.destroy), ("create", &gpu.create)] {
        if !pieces.is_empty() {
            let names = pieces.iter().map(|p| format!("{}@{}", p.profile, p.start)).collect::<Vec<_>>();
            let mut first = Line::plain(format!("  {word}"));
            first.pad_to(11);
            page.paragraph(&first, &names.join(" "), Style::Plain);
        }
    }
    if !gpu.disturbed_processes.is_empty() {
        let name = |h: &crate::verbs::mig::Holder| match &h.name {
            Some(name) => format!("{} ({name})", h.pid),
            None => h.pid.to_string(),
        };
        let names = gpu.disturbed_processes.iter().map(name).collect::<Vec<_>>();
        page.paragraph(&Line::plain("  disturbs "), &format!("process {}", list(&names)), Style::Warn);
    }
    put_outcome(page, gpu);
}

fn put_outcome(page: &mut Page, gpu: &Gpu) {
    let (style, word) = match gpu.outcome {
        Some("done") => (Style::Good, "done"),
        Some("rolledBack") => (Style::Bad, "as before"),
        Some("between") => (Style::Bad, "between"),
        Some("lost") => (Style::Bad, "lost"),
        _ => return,
    };
    let text = gpu.message.as_ref().map(|message| format!("{word}: {message}"));
    page.paragraph(&Line::plain("  "), text.as_deref().unwrap_or(word), style);
}

fn put_tile(page: &mut Page, word: &str, instances: Option<&[Instance]>, scale: &Scale) {
    let mut line = Line::styled(Style::Faint, format!("  {word}"));
    line.pad_to(BEFORE);
    match instances {
        Some(instances) => line.append(&scale.tile(instances)),
        None => line.push(Style::Plain, "MIG off"),
    }
    page.line(line);
}

fn kind(change: Change) -> &'static str {
    match change {
        Change::None => "stays",
        Change::Geometry => "what stays runs on",
        Change::MigMode => "MIG mode changes: the GPU must be idle",
        Change::MigModeReset => "MIG mode changes: the GPU must be idle, and is reset",
    }
}
