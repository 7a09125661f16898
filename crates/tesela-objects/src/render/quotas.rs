//! Steps 17, 80 and 90: quotas as a closed set. Granted amounts come after the requests, zeros last.

use std::collections::{BTreeMap, BTreeSet};

use tesela_model::plan::Quota;

use super::error::RenderError;
use super::manifest::{ResourceQuota, yaml};
use super::script::{Script, amounts};
use super::{Context, File, Step};

/// Our two ResourceQuotas in a namespace: what it may have, and what is closed to it.
const GRANTED: &str = "tesela-gpu";
const CLOSED: &str = "tesela-gpu-closed";

type ByNamespace<'a> = BTreeMap<&'a str, BTreeMap<String, u64>>;

/// The plan's quotas that are granted (`zero` false) or closed (`zero` true), by namespace.
fn part<'a>(quotas: &'a [Quota], zero: bool) -> Result<ByNamespace<'a>, RenderError> {
    let mut out: ByNamespace<'_> = BTreeMap::new();
    let mut seen = BTreeSet::new();
    for quota in quotas {
        if !seen.insert((&quota.namespace, &quota.resource)) {
            let what = format!("two quotas for {} in {}", quota.resource, quota.namespace);
            return Err(RenderError::Contradiction { what });
        }
        if (quota.hard == 0) == zero {
            out.entry(&quota.namespace).or_default().insert(quota.resource.clone(), quota.hard);
        }
    }
    Ok(out)
}

/// Step 17: what the plan grants must not be closed by a quota of an earlier plan while requests change.
pub(super) fn open(context: &Context<'_>) -> Option<Step> {
    let granted = part(&context.plan.quotas, false).ok()?;
    if granted.is_empty() {
        return None;
    }
    let dir = "17-quotas-open";
    let mut change =
        Script::new(1, context.stack_namespace(), "Opens what an earlier plan closed and this one grants");
    for (namespace, hard) in &granted {
        let keys: Vec<_> = hard.keys().map(|key| format!("\"{key}\":null")).collect();
        let patch = format!("{{\"spec\":{{\"hard\":{{{}}}}}}}", keys.join(","));
        for quota in [CLOSED, GRANTED] {
            change.call("open_quota", [namespace, quota, patch.as_str()]);
        }
    }
    let mut verify = Script::new(1, context.stack_namespace(), "Nothing to check");
    verify.call("say", ["nothing to check: step 80 sets the quotas"]);
    let mut undo = Script::new(1, context.stack_namespace(), "Takes nothing back");
    undo.call("say", ["apply steps 80 and 90 of the former plan's folder"]);
    Some(Step {
        number: 17,
        title: "Open what an earlier plan closed".to_owned(),
        hits: "No pod restarts".to_owned(),
        notes: vec![
            "Takes keys out of the ResourceQuotas tesela-gpu and tesela-gpu-closed, where they are there; the first \
             time it does nothing. Until step 80 those namespaces have no limit of ours on what they are granted."
                .to_owned(),
        ],
        files: vec![change.file(dir, "change.sh"), verify.file(dir, "verify.sh"), undo.file(dir, "undo.sh")],
        ..Step::at(dir)
    })
}

/// Step 80: what each namespace may have.
pub(super) fn granted(context: &Context<'_>) -> Result<Option<Step>, RenderError> {
    let granted = part(&context.plan.quotas, false)?;
    quota_step(context, &granted, 80, "80-quotas", GRANTED, "What each namespace may have")
}

/// Step 90: everything else is closed.
pub(super) fn zero(context: &Context<'_>) -> Result<Option<Step>, RenderError> {
    let zero = part(&context.plan.quotas, true)?;
    quota_step(context, &zero, 90, "90-quotas-zero", CLOSED, "Close every other GPU resource")
}

fn quota_step(
    context: &Context<'_>,
    quotas: &ByNamespace<'_>,
    number: u32,
    dir: &str,
    name: &str,
    title: &str,
) -> Result<Option<Step>, RenderError> {
    if quotas.is_empty() {
        return Ok(None);
    }
    let mut change = Script::new(1, context.stack_namespace(), title);
    let mut verify = Script::new(1, context.stack_namespace(), "Checks the quotas");
    let mut undo = Script::new(1, context.stack_namespace(), "Removes the quotas of this step");
    let mut files = Vec::new();
    if number == 90 {
        for (namespace, hard) in quotas {
            let resources = hard.keys().filter_map(|k| k.strip_prefix("requests."));
            change.set("NAMESPACE", namespace).list("CLOSED", resources);
            change.run("check_closed \"$NAMESPACE\" \"$CLOSED\"");
        }
    }
    for (namespace, hard) in quotas {
        let file = format!("{namespace}.yaml");
        let text = yaml(&format!("quota {namespace}"), &ResourceQuota::new(namespace, name, hard))?;
        files.push(File { path: format!("{dir}/{file}"), text, executable: false });
        change.call("apply", [file.as_str()]);
        verify.call("check_quota", [*namespace, name, &amounts(hard, true)]);
        undo.call("change kubectl delete resourcequota", [name, "-n", namespace, "--ignore-not-found"]);
    }
    let note = if number == 90 {
        "A quota of 0 stops no pod that runs; it stops the next one. change.sh stops when a pod still requests what \
         would be closed, because that pod could not come back."
    } else {
        "A quota stops no pod that runs; it counts pods that request the resource, and refuses the next one beyond it."
    };
    files.extend([change.file(dir, "change.sh"), verify.file(dir, "verify.sh"), undo.file(dir, "undo.sh")]);
    Ok(Some(Step {
        number,
        title: title.to_owned(),
        hits: "No pod restarts".to_owned(),
        notes: vec![note.to_owned()],
        files,
        ..Step::at(dir)
    }))
}
