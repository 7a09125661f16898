//! Step 05: the namespaces of the plan.

use std::collections::BTreeSet;

use super::error::RenderError;
use super::manifest::{Namespace, yaml};
use super::script::Script;
use super::{Context, File, Step, Target};

/// Step 05: the namespaces of the quotas, and of our ConfigMaps where nothing else makes it.
pub(super) fn step(context: &Context<'_>) -> Result<Option<Step>, RenderError> {
    let mut names: BTreeSet<&str> = context.plan.quotas.iter().map(|q| q.namespace.as_str()).collect();
    let plan_names: Vec<_> = context.plan.assignments.iter().map(|a| a.namespace.as_str()).collect();
    names.extend(plan_names);
    if context.target == Target::Native {
        names.insert(context.stack_namespace());
    }
    if names.is_empty() {
        return Ok(None);
    }
    let dir = "05-namespaces";
    let mut script = Script::new(1, context.stack_namespace(), "Makes the namespaces that are missing");
    let mut verify = Script::new(1, context.stack_namespace(), "Checks that the namespaces are there");
    let mut files = Vec::new();
    for name in &names {
        let file = format!("{name}.yaml");
        files.push(File {
            path: format!("{dir}/{file}"),
            text: yaml(&format!("namespace {name}"), &Namespace::new(name))?,
            executable: false,
        });
        script.call("apply", [file.as_str()]);
        verify.call("kubectl get namespace", [*name]);
    }
    files.push(script.file(dir, "change.sh"));
    files.push(verify.file(dir, "verify.sh"));
    files.push(nothing_to_undo(context, "namespaces stay: work may be in them").file(dir, "undo.sh"));
    Ok(Some(Step {
        number: 5,
        title: "Namespaces of the plan".to_owned(),
        hits: "No pod restarts".to_owned(),
        notes: vec!["A namespace that exists stays as it is; only its name is applied.".to_owned()],
        files,
        ..Step::at(dir)
    }))
}

fn nothing_to_undo(context: &Context<'_>, why: &str) -> Script {
    let mut script = Script::new(1, context.stack_namespace(), "Nothing to take back");
    script.call("say", [why]);
    script
}
