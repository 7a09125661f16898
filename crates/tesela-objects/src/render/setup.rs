//! What comes before the first node changes: namespaces, ConfigMaps, the ClusterPolicy, new nodes, pool labels.

use std::collections::{BTreeMap, BTreeSet};

use tesela_model::fleet::Mode;
use tesela_model::plan::PlannedNode;
use tesela_model::product::{ProductTable, ProfileName};
use tesela_model::resource::{GpuDevice, GpuResource, PREFIX};

use super::config;
use super::error::RenderError;
use super::existing::ExistingMap;
use super::manifest::{ConfigMap, Namespace, yaml};
use super::name::{NameRule, plain};
use super::script::{Script, amounts};
use super::{Context, File, Step, Target};

/// The entry for nodes that carry no label of the device plugin: what the plugin does without any config.
const DEFAULT_ENTRY: &str = "tesela-default";

/// One ConfigMap of the rendering.
pub(super) struct Rendered {
    namespace: String,
    name: String,
    data: BTreeMap<String, String>,
    /// `data` before, where the ConfigMap was given.
    before: Option<BTreeMap<String, String>>,
    /// Values that a node's label may have.
    values: Vec<String>,
}

/// The configs that the nodes of the plan get.
pub(super) struct Configs {
    mig: Option<Rendered>,
    plugin: Option<Rendered>,
    /// Per kind of new node: how many, the labels it needs.
    new_nodes: Vec<NewNodes>,
}

struct NewNodes {
    node: PlannedNode,
    count: u64,
    mig: Option<String>,
    plugin: Option<String>,
    allocatable: BTreeMap<String, u64>,
}

impl Context<'_> {
    /// Where the ConfigMaps and the GPU stack are.
    pub(super) fn stack_namespace(&self) -> &str {
        let given = [self.existing.mig(), self.existing.plugin()];
        given.into_iter().flatten().find_map(|m| m.namespace.as_deref()).unwrap_or(self.target.namespace())
    }
}

impl Configs {
    /// Collects the configs of all nodes, and says what is missing.
    pub(super) fn of(context: &Context<'_>) -> Result<(Self, Vec<String>), RenderError> {
        let mut labels = BTreeMap::new();
        let mut entries = BTreeMap::new();
        for node in &context.nodes {
            labels.extend(node.mig.clone());
            entries.extend(node.plugin.clone());
        }
        let new_nodes = new_nodes_of(context, &mut labels, &mut entries)?;
        let mut warnings = Vec::new();
        let mig = match context.existing.mig() {
            _ if labels.is_empty() => None,
            Some(map) => Some(
                merged(context, map, |ns| map.with_labels(ns, &labels))?
                    .with_values(map.mig_labels().into_iter().chain(labels.keys().cloned())),
            ),
            None => Some(own_mig(context, labels, &mut warnings)),
        };
        let plugin = match context.existing.plugin() {
            _ if entries.is_empty() => None,
            Some(map) => Some(
                merged(context, map, |ns| map.with_entries(ns, &entries))?
                    .with_values(map.data.keys().chain(entries.keys()).cloned()),
            ),
            None => Some(own_plugin(context, entries, &mut warnings)),
        };
        Ok((Self { mig, plugin, new_nodes }, warnings))
    }
}

impl Rendered {
    fn with_values(mut self, values: impl IntoIterator<Item = String>) -> Self {
        self.values = values.into_iter().collect::<BTreeSet<_>>().into_iter().collect();
        self
    }
}

fn merged(
    context: &Context<'_>,
    map: &ExistingMap,
    merge: impl Fn(&str) -> Result<BTreeMap<String, String>, RenderError>,
) -> Result<Rendered, RenderError> {
    let namespace = map.namespace.as_deref().unwrap_or(context.target.namespace());
    NameRule::Label.check("the existing ConfigMap (metadata.namespace)", namespace)?;
    NameRule::Subdomain.check("the existing ConfigMap (metadata.name)", &map.name)?;
    let data = merge(namespace)?;
    Ok(Rendered {
        namespace: namespace.to_owned(),
        name: map.name.clone(),
        data,
        before: Some(map.data.clone()),
        values: Vec::new(),
    })
}

/// Our own mig-parted ConfigMap: our labels, the two that every fleet relies on, and those that nodes of the
/// plan carry today where their name says what they mean (`all-1g.10gb`: as many as fit).
fn own_mig(
    context: &Context<'_>,
    mut labels: BTreeMap<String, String>,
    warnings: &mut Vec<String>,
) -> Rendered {
    labels.insert("all-disabled".to_owned(), "- devices: all\n  mig-enabled: false\n".to_owned());
    labels.insert(
        "all-enabled".to_owned(),
        "- devices: all\n  mig-enabled: true\n  mig-devices: {}\n".to_owned(),
    );
    let mut missing: BTreeSet<&str> = BTreeSet::new();
    for node in &context.nodes {
        let Some(label) = node.node.mig_config_today.as_deref().filter(|l| !l.is_empty()) else { continue };
        if labels.contains_key(label) {
            continue;
        }
        match derived(context, label) {
            Some(text) => {
                labels.insert(label.to_owned(), text);
            }
            None => {
                missing.insert(label);
            }
        }
    }
    if !missing.is_empty() {
        let names: Vec<_> = missing.into_iter().collect();
        warnings.push(format!(
            "Nodes carry nvidia.com/mig.config = {}, and no ConfigMap was given that has it. Step 10 stops until \
             you render again with --existing and the mig-parted ConfigMap of the cluster.",
            names.join(", ")
        ));
    }
    let document = config::mig_document(&labels);
    Rendered {
        namespace: context.stack_namespace().to_owned(),
        name: "tesela-mig-parted".to_owned(),
        data: BTreeMap::from([("config.yaml".to_owned(), document)]),
        before: None,
        values: labels.into_keys().collect(),
    }
}

/// What `all-<profile>` means on the nodes that carry it; `None` when the name is another one, or when their
/// products allow different numbers.
fn derived(context: &Context<'_>, label: &str) -> Option<String> {
    let resource: GpuResource = format!("{PREFIX}mig-{}", label.strip_prefix("all-")?).parse().ok()?;
    let GpuResource { device: GpuDevice::Mig(profile), shared: false } = resource else { return None };
    let carriers = context.nodes.iter().filter(|n| n.node.mig_config_today.as_deref() == Some(label));
    let mut counts = BTreeSet::new();
    for gpu in carriers.flat_map(|n| &n.node.gpus) {
        counts.insert(most_instances(&gpu.product, &profile)?);
    }
    let mut counts = counts.into_iter();
    match (counts.next(), counts.next()) {
        (Some(count), None) => {
            Some(format!("- devices: all\n  mig-enabled: true\n  mig-devices:\n    \"{profile}\": {count}\n"))
        }
        _ => None,
    }
}

fn most_instances(product: &str, profile: &ProfileName) -> Option<u32> {
    ProductTable::builtin().find(product).ok()?.profile(profile.as_str()).ok()?.max_instances
}

fn own_plugin(
    context: &Context<'_>,
    mut entries: BTreeMap<String, String>,
    warnings: &mut Vec<String>,
) -> Rendered {
    entries.insert(DEFAULT_ENTRY.to_owned(), "version: v1\n".to_owned());
    let today = context.nodes.iter().filter_map(|n| n.node.plugin_config_today.as_deref());
    let missing: BTreeSet<_> = today.filter(|l| !l.is_empty() && !entries.contains_key(*l)).collect();
    if !missing.is_empty() {
        let names: Vec<_> = missing.into_iter().collect();
        warnings.push(format!(
            "Nodes carry nvidia.com/device-plugin.config = {}, and no ConfigMap was given that has it. Step 10 stops \
             until you render again with --existing and the device plugin's ConfigMap of the cluster.",
            names.join(", ")
        ));
    }
    Rendered {
        namespace: context.stack_namespace().to_owned(),
        name: "tesela-device-plugin".to_owned(),
        values: entries.keys().cloned().collect(),
        data: entries,
        before: None,
    }
}

/// Nodes that are not there yet, equal ones together; their configs go to the others.
fn new_nodes_of(
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

/// Step 05: the namespaces of the quotas, and of our ConfigMaps where nothing else makes it.
pub(super) fn namespaces(context: &Context<'_>) -> Result<Option<Step>, RenderError> {
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
        dir: dir.to_owned(),
        title: "Namespaces of the plan".to_owned(),
        hits: "No pod restarts".to_owned(),
        blast: None,
        notes: vec!["A namespace that exists stays as it is; only its name is applied.".to_owned()],
        files,
    }))
}

fn nothing_to_undo(context: &Context<'_>, why: &str) -> Script {
    let mut script = Script::new(1, context.stack_namespace(), "Nothing to take back");
    script.call("say", [why]);
    script
}

/// Step 10: the ConfigMaps. Nothing reads them yet, unless they were there.
pub(super) fn config_maps(context: &Context<'_>, configs: &Configs) -> Result<Option<Step>, RenderError> {
    if configs.mig.is_none() && configs.plugin.is_none() {
        return Ok(None);
    }
    let dir = "10-configmaps";
    let namespace = context.stack_namespace();
    let mut change = Script::new(1, namespace, "Applies the ConfigMaps");
    let mut verify = Script::new(1, namespace, "Compares the ConfigMaps with the cluster");
    let mut undo = Script::new(1, namespace, "Takes the ConfigMaps back");
    let mut files = Vec::new();
    let mut notes = Vec::new();
    let both = [
        (&configs.mig, "mig-parted", "nvidia.com/mig.config"),
        (&configs.plugin, "device-plugin", "nvidia.com/device-plugin.config"),
    ];
    for (rendered, stem, key) in both {
        let Some(map) = rendered else { continue };
        let file = format!("{stem}.yaml");
        let object = ConfigMap::new(&map.namespace, &map.name, map.data.clone(), map.before.is_none());
        let text = yaml(&map.name, &object)?;
        files.push(File { path: format!("{dir}/{file}"), text, executable: false });
        change.list("KNOWN", &map.values).run(&format!("check_known {key} \"$KNOWN\""));
        // A document in one key can only be changed as a whole, so its field must become ours.
        let force: &[&str] = if map.before.is_some() { &["--force-conflicts"] } else { &[] };
        change.call("apply", std::iter::once(file.as_str()).chain(force.iter().copied()));
        verify.call("check_same", [file.as_str()]);
        let at = format!("ConfigMap {}/{}", map.namespace, map.name);
        if let Some(before) = &map.before {
            let object = ConfigMap::new(&map.namespace, &map.name, before.clone(), false);
            let file = format!("before/{stem}.yaml");
            files.push(File {
                path: format!("{dir}/{file}"),
                text: yaml(&map.name, &object)?,
                executable: false,
            });
            undo.call("apply", [file.as_str(), "--force-conflicts"]);
            notes.push(format!(
                "{at} was given: its entries stay to the byte, ours are added. It must not have changed since; \
                 look at the difference with ./verify.sh first. Where Helm or GitOps keeps it, add our entries there \
                 as well, or they go with the next sync."
            ));
        } else {
            undo.call(
                "change kubectl delete configmap",
                [map.name.as_str(), "-n", &map.namespace, "--ignore-not-found"],
            );
            notes.push(format!("{at} is Tesela's own."));
        }
    }
    notes.push(
        "A changed content always has a new name, because NVIDIA's programs act on a change of the node label's value \
         and not on an edit behind it."
            .to_owned(),
    );
    verify.run("exit \"$DIFFERENT\"");
    notes.push("Undo only after the steps behind this one have been undone: nodes must not name an entry that is gone.".to_owned());
    files.extend([change.file(dir, "change.sh"), verify.file(dir, "verify.sh"), undo.file(dir, "undo.sh")]);
    Ok(Some(Step {
        number: 10,
        dir: dir.to_owned(),
        title: "ConfigMaps with the new layouts and ways of sharing".to_owned(),
        hits: "No pod restarts".to_owned(),
        blast: None,
        notes,
        files,
    }))
}

/// Step 12: the GPU Operator must read those ConfigMaps.
pub(super) fn cluster_policy(context: &Context<'_>, configs: &Configs) -> Option<Step> {
    if context.target != Target::GpuOperator || configs.mig.is_none() && configs.plugin.is_none() {
        return None;
    }
    let dir = "12-cluster-policy";
    let namespace = context.stack_namespace();
    let mut change = Script::new(1, namespace, "Makes the GPU Operator read the ConfigMaps");
    let mut verify = Script::new(1, namespace, "Checks which ConfigMaps the GPU Operator reads");
    let mut undo = Script::new(1, namespace, "Makes the GPU Operator read what it read before");
    for script in [&mut change, &mut verify, &mut undo] {
        script.run("POLICY=$(policy)");
    }
    let mut commands = Vec::new();
    let both = [(&configs.mig, "migManager", ""), (&configs.plugin, "devicePlugin", DEFAULT_ENTRY)];
    for (rendered, part, default) in both {
        let Some(map) = rendered else { continue };
        let default = if map.values.iter().any(|v| v == default) { default } else { "" };
        change.call("use_config \"$POLICY\"", [part, &map.name, default]);
        verify.set("WANTED", &map.name).run(&format!(
            "FOUND=$(kubectl get \"$POLICY\" -o 'jsonpath={{.spec.{part}.config.name}}')\n\
             [ \"$FOUND\" = \"$WANTED\" ] || stop \"spec.{part}.config.name is '$FOUND', expected '$WANTED'\""
        ));
        undo.call("leave_config \"$POLICY\"", [part, &map.name]);
        commands.push(format!(
            "`kubectl patch clusterpolicies.nvidia.com NAME --type=merge -p \
             '{{\"spec\":{{\"{part}\":{{\"config\":{{\"name\":\"{}\"}}}}}}}}'`",
            map.name
        ));
    }
    let notes = vec![
        format!("change.sh patches only what differs. By hand: {}.", commands.join(", ")),
        "The first config of the device plugin adds its config manager to the DaemonSet, and a new name restarts it: \
         the plugin of every GPU node of the cluster restarts once. Pods that run go on, new GPU pods wait for some \
         seconds. The MIG Manager restarts too and finds each node's label applied already."
            .to_owned(),
        "The strategy in ClusterPolicy (mig.strategy) stays: each entry of ours says its own, and the entry wins \
         (NVIDIA/gpu-operator#704)."
            .to_owned(),
    ];
    let files = vec![change.file(dir, "change.sh"), verify.file(dir, "verify.sh"), undo.file(dir, "undo.sh")];
    Some(Step {
        number: 12,
        dir: dir.to_owned(),
        title: "Let the GPU Operator read the ConfigMaps".to_owned(),
        hits: "No pod restarts; each node's device plugin restarts once when a name changes".to_owned(),
        blast: None,
        notes,
        files,
    })
}

/// Step 15: hardware that is not there yet.
pub(super) fn new_nodes(context: &Context<'_>, configs: &Configs) -> Vec<Step> {
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
    notes.push("Later steps do not wait for them; the pods that the plan puts there stay pending until they are there.".to_owned());
    let files =
        vec![change.file(&dir, "change.sh"), verify.file(&dir, "verify.sh"), undo.file(&dir, "undo.sh")];
    Step {
        number: 15,
        dir,
        title: format!("Add {what}"),
        hits: "No pod restarts".to_owned(),
        blast: None,
        notes,
        files,
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

/// Step 16: the pool label of nodes that stay as they are.
pub(super) fn pool_labels(context: &Context<'_>) -> Option<Step> {
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
        dir: dir.to_owned(),
        title: format!("Pool label on nodes that stay as they are ({})", stays.len()),
        hits: "No pod restarts".to_owned(),
        blast: None,
        notes: vec!["The label tesela.dev/pool is Tesela's own; nothing reacts to it.".to_owned()],
        files,
    })
}
