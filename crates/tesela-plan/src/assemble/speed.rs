//! What a plan does not know: how fast work is on what it gets.

use std::collections::BTreeMap;

use tesela_model::demand::Demand;
use tesela_model::finding::{Finding, Severity};
use tesela_model::fleet::Mode;
use tesela_model::plan::Assignment;

/// Workloads named before it says how many more there are.
const NAMED: usize = 4;

/// Work with a latency promise that is new on an instance: the profile was chosen by memory, and compute goes with it.
pub(super) fn findings(demand: &Demand, assignments: &[Assignment]) -> Option<Finding> {
    let promises: BTreeMap<(&str, &str, &str), bool> = (demand.workloads.iter())
        .map(|w| ((&*w.key.namespace, &*w.key.kind, &*w.key.name), w.slo.is_some()))
        .collect();
    let promised = |a: &&Assignment| promises.get(&(&*a.namespace, &*a.kind, &*a.workload)) == Some(&true);
    let mut pods = 0;
    let mut names: Vec<String> = Vec::new();
    let new = assignments.iter().filter(|a| a.mode == Mode::Mig && a.staying < a.count);
    for a in new.filter(promised) {
        pods += a.count - a.staying;
        names.push(format!("{}/{}", a.namespace, a.workload));
    }
    names.sort();
    names.dedup();
    let more = names.len().saturating_sub(NAMED);
    let shown = names.iter().take(NAMED).cloned().collect::<Vec<_>>().join(", ");
    let shown = if more == 0 { shown } else { format!("{shown} and {more} more") };
    let (who, they) =
        if pods == 1 { ("1 pod".to_owned(), "it is") } else { (format!("{pods} pods"), "they are") };
    (pods > 0).then(|| Finding {
        severity: Severity::Warning,
        rule: "speed-not-checked".into(),
        subject: "Plan/speed".into(),
        message: format!(
            "{who} with a latency promise: the instance was chosen by memory, and how fast {they} there is not computed \
             ({shown})"
        ),
        fix: "measure the latency on one instance of that profile before you carry this out; `isolation: device` keeps a \
              whole GPU"
            .into(),
    })
}
