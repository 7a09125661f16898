//! The configs that nodes need: those of the cluster with ours added, or our own.

use std::collections::{BTreeMap, BTreeSet};

use tesela_model::product::{ProductTable, ProfileName};
use tesela_model::resource::{GpuDevice, GpuResource, PREFIX};

use super::config;
use super::error::RenderError;
use super::existing::ExistingMap;
use super::name::NameRule;
use super::new_nodes::{self, NewNodes};
use super::{Context, Target};

/// The entry for nodes that carry no label of the device plugin: what the plugin does without any config.
pub(super) const DEFAULT_ENTRY: &str = "tesela-default";

/// One ConfigMap of the rendering.
pub(super) struct Rendered {
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) data: BTreeMap<String, String>,
    /// `data` before, where the ConfigMap was given.
    pub(super) before: Option<BTreeMap<String, String>>,
    /// Values that a node's label may have.
    pub(super) values: Vec<String>,
}

/// The configs that the nodes of the plan get.
pub(super) struct Configs {
    pub(super) mig: Option<Rendered>,
    pub(super) plugin: Option<Rendered>,
    /// Per kind of new node: how many, the labels it needs.
    pub(super) new_nodes: Vec<NewNodes>,
}

impl Context<'_> {
    /// Where the ConfigMaps and the GPU stack are.
    pub(super) fn stack_namespace(&self) -> &str {
        self.stack().0
    }

    /// The same, and who says so.
    pub(super) fn stack(&self) -> (&str, &'static str) {
        let operator = self.target == Target::GpuOperator;
        let existing = [self.existing.mig(), self.existing.plugin()];
        if let Some(given) = self.existing.operator_namespace().filter(|_| operator) {
            (given, "as given")
        } else if let Some(of_map) = existing.into_iter().flatten().find_map(|m| m.namespace.as_deref()) {
            (of_map, "that of the ConfigMap given")
        } else if let Some(seen) = self.plan.operator_namespace.as_deref().filter(|_| operator) {
            (seen, "where the operator's pods run, as the plan's input shows")
        } else {
            (self.target.namespace(), "the usual one: the plan's input does not show another")
        }
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
        let new_nodes = new_nodes::kinds(context, &mut labels, &mut entries)?;
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
    let namespace = map.namespace.as_deref().unwrap_or(context.stack_namespace());
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
    ProductTable::builtin().look_up(product)?.profile(profile.as_str()).ok()?.max_instances
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
