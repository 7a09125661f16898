//! A way from the layouts in force to a target, for people.

use tesela_model::demand::PodRef;
use tesela_model::layout::Instance;
use tesela_plan::reconfigure::Executor;

use super::columns::{Columns, Kind};
use super::text::{Line, Page, Style};
use super::words::{count, is, list, many};
use crate::verbs::reconfigure::{Change, Line as StepLine, Place, Sheet};

/// Names listed in a sentence before it stops.
const NAMES: usize = 8;

/// The whole answer.
pub(crate) fn put(page: &mut Page, sheet: &Sheet) {
    if !sheet.blocked.is_empty() {
        put_blocked(page, sheet);
        put_rest(page, sheet);
        return;
    }
    let pods = sheet.gpus.iter().map(|c| c.disturbed_pods.len()).sum::<usize>() as u64;
    let head = format!(
        "{} of {} in {}: {}, {} to create or destroy",
        many(sheet.gpus.len() as u64, "GPU change"),
        count(sheet.gpus_in_force),
        sheet.product,
        if pods == 0 {
            "nobody is disturbed".to_owned()
        } else {
            format!("{} to restart", many(pods, "pod"))
        },
        many(sheet.operations, "instance"),
    );
    page.paragraph(&Line::default(), &head, Style::Strong);
    if sheet.gpus.is_empty() {
        page.say("The GPUs hold the target already.");
    } else {
        put_gpus(page, sheet);
        put_steps(page, sheet);
    }
    put_proof(page, sheet);
    put_rest(page, sheet);
}

fn put_blocked(page: &mut Page, sheet: &Sheet) {
    page.paragraph(&Line::default(), "The target cannot be reached", Style::Bad);
    for blocked in &sheet.blocked {
        let end = if blocked.gpus.is_empty() { String::new() } else { format!(": {}", some(&blocked.gpus)) };
        page.say(&format!("{}{end}.", blocked.reason));
    }
}

fn some(names: &[String]) -> String {
    let mut shown = names.iter().take(NAMES).cloned().collect::<Vec<_>>();
    if names.len() > NAMES {
        shown.push(format!("{} more", count((names.len() - NAMES) as u64)));
    }
    list(&shown)
}

fn instances(instances: &[Instance]) -> Line {
    if instances.is_empty() {
        return Line::styled(Style::Faint, "-");
    }
    Line::plain(instances.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "))
}

fn pods(pods: &[PodRef]) -> String {
    pods.iter().map(|p| format!("{}/{}", p.namespace, p.name)).collect::<Vec<_>>().join(" ")
}

fn put_gpus(page: &mut Page, sheet: &Sheet) {
    page.heading("GPUs that change");
    let mut columns = Columns::new(&[
        ("node", Kind::Name),
        ("GPU", Kind::Number),
        ("keep", Kind::Fixed),
        ("destroy", Kind::Fixed),
        ("create", Kind::Fixed),
        ("pods disturbed", Kind::Text),
    ]);
    for change in &sheet.gpus {
        columns.row(vec![
            Line::plain(&change.node),
            Line::plain(change.index.to_string()),
            instances(&change.keep),
            instances(&change.destroy),
            instances(&change.create),
            Line::styled(Style::Warn, pods(&change.disturbed_pods)),
        ]);
    }
    columns.put(page);
}

fn at(place: &Place) -> String {
    match &place.node {
        Some(node) => format!("{} on {node} GPU {}", place.instance, place.index),
        None => format!("{} on spare GPU {}", place.instance, place.index),
    }
}

fn sentence(step: &StepLine) -> String {
    let who = pods(&step.pods);
    let to = step.to.as_ref().map(at).unwrap_or_default();
    match step.action {
        "move" => format!("move {who} from {} to {to}", at(&step.at)),
        "stop" => format!("stop {who}, which holds {}; its next instance comes later", at(&step.at)),
        "start" => format!("start {who} on {to}"),
        action => format!("{action} {}", at(&step.at)),
    }
}

fn put_steps(page: &mut Page, sheet: &Sheet) {
    page.heading("Steps, in this order");
    for step in &sheet.steps {
        let mut first = Line::plain(format!("{:>4}  ", step.step));
        first.pad_to(6);
        page.paragraph(&first, &sentence(step), Style::Plain);
    }
    page.gap();
    if sheet.stopped > 0 {
        page.say(&format!(
            "{} in a circle: {} stops before the next instance exists. With {} nobody would \
             (--spares {}).",
            "Moves wait for one another",
            many(sheet.stopped, "workload"),
            many(sheet.spares_wanted, "empty spare GPU"),
            sheet.spares_wanted,
        ));
    } else if sheet.spares > 0 {
        page.say(&format!("On the way {} {} used.", many(sheet.spares, "spare GPU"), is(sheet.spares)));
    }
}

fn put_proof(page: &mut Page, sheet: &Sheet) {
    page.heading("Proof");
    let verdict = if sheet.proven_optimal {
        format!("Weight disturbed: {}. No way to this target disturbs less.", count(sheet.disturbed_weight))
    } else {
        format!(
            "Weight disturbed: {}; no way to this target disturbs less than {}.",
            count(sheet.disturbed_weight),
            count(sheet.lower_bound)
        )
    };
    page.say(&format!(
        "{verdict} A pod weighs 1, and 1 more for each lower priority among the running workloads. Destroying every \
         instance of the GPUs that change would disturb {}.",
        count(sheet.destroy_all_weight)
    ));
    let Some(executors) = &sheet.executors else { return };
    let operator = sheet.gpus.iter().filter(|c: &&Change| c.executor == Executor::GpuOperator).count() as u64;
    page.heading("Blast radius");
    page.say(&format!(
        "Tesela's agent disturbs {}. NVIDIA's MIG Manager destroys every instance of a GPU that differs: {}, of which {} \
         must not be disturbed. {} of the GPUs that change {} on nodes that MIG Manager keeps, and the plan counts them \
         so.",
        many(executors.native.instances, "busy instance"),
        many(executors.gpu_operator.instances, "busy instance"),
        count(executors.gpu_operator.pinned),
        count(operator),
        is(operator),
    ));
}

fn put_rest(page: &mut Page, sheet: &Sheet) {
    if !sheet.assumed.is_empty() {
        page.heading("Assumed");
        page.say(&format!(
            "On {} it is not known where instances start or which pod holds which: kubectl shows counts only. The steps \
             above take the starts that the driver would choose and seat pods in a fixed order. Compare with \
             `nvidia-smi mig -lgi` on the node before you carry them out.",
            some(&sheet.assumed)
        ));
    }
    if !sheet.aside.is_empty() {
        page.heading("Left alone");
        for left in &sheet.aside {
            page.say(&format!("{}, {}: {}.", left.node, many(left.gpus, "GPU"), left.reason));
        }
    }
    if !sheet.unseated.is_empty() {
        page.heading("Not found");
        let names = sheet.unseated.iter().map(|p| format!("{}/{}", p.namespace, p.name)).collect::<Vec<_>>();
        page.say(&format!(
            "{} hold an instance that their node does not offer, as far as can be seen.",
            some(&names)
        ));
    }
}
