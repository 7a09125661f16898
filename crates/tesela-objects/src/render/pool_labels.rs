//! Step 16: the pool label of nodes that stay as they are.

use super::script::Script;
use super::{Context, Step};

/// One step for all of them; nothing reacts to the label.
pub(super) fn step(context: &Context<'_>) -> Option<Step> {
    let stays: Vec<_> = context
        .nodes
        .iter()
        .filter(|n| n.changes.is_empty())
        .filter_map(|n| n.pool_label().map(|pool| (n.name, pool)))
        .collect();
    if stays.is_empty() {
        return None;
    }
    let dir = "16-pool-labels";
    let mut change =
        Script::new(1, context.stack_namespace(), "Labels nodes that stay as they are with their pool");
    let mut verify = Script::new(1, context.stack_namespace(), "Checks the pool labels");
    let mut undo = Script::new(1, context.stack_namespace(), "Puts the pool labels back");
    for (node, pool) in &stays {
        change.call("join_pool", [node, pool]);
        verify.call("expect_label", [node, "tesela.dev/pool", pool, pool]);
        undo.call("leave_pool", [node]);
    }
    let files = vec![change.file(dir, "change.sh"), verify.file(dir, "verify.sh"), undo.file(dir, "undo.sh")];
    Some(Step {
        number: 16,
        title: format!("Pool label on nodes that stay as they are ({})", stays.len()),
        hits: "No pod restarts".to_owned(),
        notes: vec!["The label tesela.dev/pool is Tesela's own; nothing reacts to it.".to_owned()],
        files,
        ..Step::at(dir)
    })
}
