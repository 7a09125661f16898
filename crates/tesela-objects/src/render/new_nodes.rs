//! Step 15: hardware that is not there yet.

use std::collections::BTreeMap;

use tesela_model::fleet::Mode;
use tesela_model::plan::PlannedNode;

use super::config;
use super::error::RenderError;
use super::name::plain;
use super::script::{Script, amounts};
use super::setup::Configs;
use super::{Context, Step};

/// Nodes that are alike.
pub(super) struct NewNodes {
    node: PlannedNode,
    count: u64,
    mig: Option<String>,
    plugin: Option<String>,
    allocatable: BTreeMap<String, u64>,
}

/// Nodes that are not there yet, equal ones together; their configs go to the others.
pub(super) fn kinds(
    context: &Context<'_>,
    labels: &mut BTreeMap<String, String>,
    entries: &mut BTreeMap<String, String>,
) -> Result<Vec<NewNodes>, RenderError> {
    let mut kinds: Vec<NewNodes> = Vec::new();
    for node in context.plan.nodes.iter().filter(|n| n.name.is_none()) {
        let mut plain = node.clone();
        // Who uses a GPU does not matter for what the node must be.
        for gpu in &mut plain.gpus {
            gpu.used_by.clear();
            for instance in &mut gpu.instances {
                instance.used_by.clear();
            }
        }
        if let Some(kind) = kinds.iter_mut().find(|k| k.node == plain) {
            kind.count += 1;
            continue;
        }
        let offer = config::offer(&plain, "(new)", true)?;
        let has_mig = plain.gpus.iter().any(|g| g.mode == Mode::Mig);
        let mig = has_mig.then(|| {
            let text = config::mig_text(&config::mig_devices(&plain));
            let label = config::mig_label(&plain, &text);
            labels.insert(label.clone(), text);
            label
        });
        let plugin = if has_mig || !offer.sharing.replicas.is_empty() {
            let (label, text) = config::plugin_entry(&offer.sharing, None)?;
            entries.insert(label.clone(), text);
            Some(label)
        } else {
            None
        };
        kinds.push(NewNodes { node: plain, count: 1, mig, plugin, allocatable: offer.allocatable });
    }
    Ok(kinds)
}

/// One step per kind of node.
pub(super) fn steps(context: &Context<'_>, configs: &Configs) -> Vec<Step> {
    configs.new_nodes.iter().zip(1..).map(|(kind, index)| new_node_step(context, kind, index)).collect()
}

fn new_node_step(context: &Context<'_>, kind: &NewNodes, index: usize) -> Step {
    let product = kind.node.gpus.first().map_or("GPU", |g| g.product.as_str());
    let dir = format!("15-new-nodes-{index:02}");
    let pool = pool_of_new(context, &kind.node);
    let what = format!("{} with {} × {}", nodes_word(kind.count), kind.node.gpus.len(), plain(product));
    let mut change = Script::new(1, context.stack_namespace(), "Labels a new node: ./change.sh NODE");
    let mut verify = Script::new(1, context.stack_namespace(), "Checks a new node: ./verify.sh NODE");
    let mut undo =
        Script::new(1, context.stack_namespace(), "Takes the labels of a new node back: ./undo.sh NODE");
    for script in [&mut change, &mut verify, &mut undo] {
        script
            .run("NODE=${1:?give the name of the new node}")
            .set("EXPECTED", &amounts(&kind.allocatable, false))
            .set("MIG", kind.mig.as_deref().unwrap_or_default())
            .set("PLUGIN", kind.plugin.as_deref().unwrap_or_default())
            .set("POOL", pool.unwrap_or_default());
    }
    let labels = [
        ("nvidia.com/device-plugin.config", "PLUGIN", kind.plugin.is_some()),
        ("nvidia.com/mig.config", "MIG", kind.mig.is_some()),
        ("tesela.dev/pool", "POOL", pool.is_some()),
    ];
    let mut list = Vec::new();
    for (key, variable, there) in labels {
        if !there {
            continue;
        }
        change.run(&format!("set_label \"$NODE\" {key} \"${variable}\""));
        undo.run(&format!("set_label \"$NODE\" {key} ''"));
        let value = match variable {
            "PLUGIN" => kind.plugin.as_deref(),
            "MIG" => kind.mig.as_deref(),
            _ => pool,
        };
        list.push(format!("{key}={}", value.unwrap_or_default()));
    }
    change.run("wait_node \"$NODE\" \"$EXPECTED\" \"$MIG\" \"$PLUGIN\"");
    verify.run("check_node \"$NODE\" \"$EXPECTED\" \"$MIG\" \"$PLUGIN\"\nsay \"node $NODE is as planned\"");
    let mut notes =
        vec![format!("The plan needs {what} that the cluster does not have yet: buy, rent or add them.")];
    if list.is_empty() {
        notes.push("They need no labels.".to_owned());
    } else {
        notes.push(format!(
            "Run ./change.sh NODE for each once it has joined, or let it join with these labels: {}.",
            list.join(", ")
        ));
    }
    notes.push(
        "Steps that need them say so; pods that the plan puts there stay pending until they have joined."
            .to_owned(),
    );
    let files =
        vec![change.file(&dir, "change.sh"), verify.file(&dir, "verify.sh"), undo.file(&dir, "undo.sh")];
    Step {
        number: 15,
        title: format!("Add {what}"),
        hits: "No pod restarts".to_owned(),
        notes,
        files,
        ..Step::at(&dir)
    }
}

fn nodes_word(count: u64) -> String {
    if count == 1 { "1 node".to_owned() } else { format!("{count} nodes") }
}

/// The pool of a kind of new node: the only one of its product and mode, if there is only one.
fn pool_of_new<'a>(context: &Context<'a>, node: &PlannedNode) -> Option<&'a str> {
    let first = node.gpus.first()?;
    let alike = node
        .gpus
        .iter()
        .all(|g| g.mode == first.mode && g.product == first.product && g.replicas == first.replicas);
    let mut fits = context
        .plan
        .pools
        .iter()
        .filter(|p| alike && p.product == first.product && p.mode == first.mode)
        .filter(|p| first.mode == Mode::Mig || p.replicas == first.replicas);
    match (fits.next(), fits.next()) {
        (Some(pool), None) => Some(&pool.name),
        _ => None,
    }
}
