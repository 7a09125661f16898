//! From a Fleet document as written to checked nodes: groups written out, layouts checked.

use std::collections::BTreeMap;

use tesela_model::fleet::{Gpu, MigStrategy, Mode, Node, NodeOffer, Offer, Taint};
use tesela_model::layout::{Instance, Layout};
use tesela_model::origin::Origin;
use tesela_model::product::{Product, ProductTable, ProfileName};
use tesela_model::quantity::{Bytes, Mib, MilliCpu};

use super::FleetDocument;
use super::wire::{FleetSpec, GpuEntry, InstanceEntry, NodeEntry, Offer as OfferEntry};
use crate::diagnostic::{Diagnostics, shown};
use crate::documents::check::{Check, MOST_GPUS, MOST_MEMORY};
use crate::documents::hardware::Hardware;
use crate::documents::name::NameRule;
use crate::documents::scalar::Memory;
use crate::source::{Located, Span};

/// Nodes of one document.
const MOST_NODES: usize = 100_000;
/// GPUs of one document.
const MOST_GPUS_IN_ALL: usize = 200_000;

/// Reads the content of a Fleet document.
pub(in crate::documents) fn read(
    file: &str,
    spec: &FleetSpec,
    table: &ProductTable,
) -> Result<FleetDocument, Diagnostics> {
    let mut reader = Reader {
        check: Check::new(file),
        table,
        names: BTreeMap::new(),
        uuids: BTreeMap::new(),
        nodes: Vec::new(),
        gpus: 0,
        full: false,
    };
    for entry in &spec.nodes {
        reader.entry(entry);
    }
    let buy = spec.buy.iter().filter_map(|offer| reader.offer(&offer.value)).collect();
    let mut namespaces = BTreeMap::new();
    for namespace in &spec.namespaces {
        reader.check.name("namespace", namespace, NameRule::Label);
        if let Some(first) = namespaces.insert(namespace.value.clone(), namespace.at) {
            reader.check.duplicate("the namespace", &namespace.value, first, namespace.at);
        }
    }
    let headroom = spec.headroom.as_ref().map(|h| &h.nodes);
    let headroom_nodes = reader.check.count("headroom.nodes", headroom, 0, 100_000);
    let Reader { check, nodes, .. } = reader;
    let mut document =
        FleetDocument { headroom_nodes, survive_node_loss: spec.survive_node_loss, ..Default::default() };
    document.fleet.has_nodes = !spec.nodes.is_empty();
    document.fleet.resources = nodes.iter().flat_map(super::resources_of).collect();
    document.fleet.nodes = nodes;
    document.fleet.buy = buy;
    document.fleet.namespaces = namespaces.into_keys().collect();
    check.finish(document)
}

struct Reader<'a> {
    check: Check<'a>,
    table: &'a ProductTable,
    names: BTreeMap<String, Span>,
    uuids: BTreeMap<String, Span>,
    nodes: Vec<Node>,
    gpus: usize,
    full: bool,
}

impl<'a> Reader<'a> {
    fn entry(&mut self, entry: &Located<NodeEntry>) {
        let names = self.names_of(entry);
        let node = self.node(&entry.value);
        self.gpus += node.gpus.len() * names.len();
        if self.gpus > MOST_GPUS_IN_ALL {
            let message = format!("the GPUs of this document are more than {MOST_GPUS_IN_ALL}");
            self.too_many(entry.at, &self.gpus.to_string(), message);
            return;
        }
        for (name, at) in names {
            if let Some(&first) = self.names.get(&name) {
                self.check.duplicate("the node name", &name, first, at);
                continue;
            }
            self.names.insert(name.clone(), at);
            self.nodes.push(Node { name, ..node.clone() });
        }
    }

    /// The names of an entry, each with the place it comes from.
    fn names_of(&mut self, entry: &Located<NodeEntry>) -> Vec<(String, Span)> {
        let at = entry.at;
        let NodeEntry { name, name_prefix, count, gpus, .. } = &entry.value;
        match (name, name_prefix) {
            (Some(name), None) => {
                if let Some(count) = count {
                    let text = format!("count: {}", count.value.0.text());
                    let named = format!("name: {}", name.value);
                    let fix = "for a group of equal nodes write `namePrefix` instead of `name`";
                    self.check.contradiction((count.at, text), (name.at, named), "one name is one node", fix);
                }
                self.check.name("node name", name, NameRule::Subdomain);
                vec![(name.value.clone(), name.at)]
            }
            (None, Some(prefix)) => {
                let most = i128::try_from(MOST_NODES).unwrap_or(i128::MAX);
                let count: usize = match count {
                    Some(count) => self.check.count("count", Some(count), 1, most).unwrap_or(1),
                    None => 1,
                };
                for gpu in gpus {
                    if let Some(uuid) = gpu.value.uuid.as_ref().filter(|_| count > 1) {
                        let fix =
                            "write each of these nodes with its own `name`, or `count` instead of `uuid`";
                        let this = (uuid.at, format!("uuid: {}", uuid.value));
                        self.check.contradiction(
                            this,
                            (prefix.at, "namePrefix"),
                            "a UUID is one GPU of one node",
                            fix,
                        );
                    }
                }
                if self.nodes.len() + count > MOST_NODES {
                    let message = format!("the nodes of this document are more than {MOST_NODES}");
                    self.too_many(prefix.at, &prefix.value, message);
                    return Vec::new();
                }
                let width = count.to_string().len();
                let first = prefix.as_ref().map(|prefix| format!("{prefix}{:0width$}", 1));
                self.check.name("node name", &first, NameRule::Subdomain);
                (1..=count).map(|i| (format!("{}{i:0width$}", prefix.value), prefix.at)).collect()
            }
            (Some(name), Some(prefix)) => {
                let other = (name.at, format!("name: {}", name.value));
                let this = (prefix.at, format!("namePrefix: {}", prefix.value));
                self.check.contradiction(this, other, "a node has one of them", "remove one of the two");
                Vec::new()
            }
            (None, None) => {
                let fix = "add `name:`, or `namePrefix:` and `count:` for a group of equal nodes";
                self.check.error(at, "missing-field", "", "a node has neither `name` nor `namePrefix`", fix);
                Vec::new()
            }
        }
    }

    /// Told once: what follows would only repeat it.
    fn too_many(&mut self, at: Span, value: &str, message: String) {
        if !self.full {
            self.full = true;
            self.check.error(at, "number-range", value, message, "write fewer nodes");
        }
    }

    /// Everything of a node but its name.
    fn node(&mut self, entry: &NodeEntry) -> Node {
        let labels = self.labels(&entry.labels);
        let taints = entry.taints.iter().map(|taint| {
            let taint = &taint.value;
            self.check.name("taint key", &taint.key, NameRule::LabelKey);
            if let Some(value) = &taint.value {
                self.check.name("taint value", value, NameRule::LabelValue);
            }
            Taint {
                key: taint.key.value.clone(),
                value: taint.value.as_ref().map(|v| v.value.clone()).unwrap_or_default(),
                effect: taint.effect.value.as_str().to_owned(),
            }
        });
        let taints = taints.collect();
        let mut gpus = Vec::new();
        for gpu in &entry.gpus {
            self.gpus(&gpu.value, &mut gpus);
        }
        let mig = gpus.iter().any(|gpu| gpu.offer.mode() == Mode::Mig);
        let default = if mig { MigStrategy::Mixed } else { MigStrategy::None };
        if let Some(strategy) = &entry.mig_strategy {
            self.strategy(strategy, entry, &gpus);
        }
        Node {
            name: String::new(),
            labels,
            taints,
            schedulable: entry.schedulable.unwrap_or(true),
            cpu: entry.cpu.as_ref().and_then(|cpu| self.check.cpu(cpu)).map(MilliCpu),
            memory: self.memory(entry.memory.as_ref()),
            cpu_taken: MilliCpu(0),
            memory_taken: Bytes(0),
            pods: None,
            pods_taken: 0,
            gpus,
            allocatable: std::collections::BTreeMap::new(),
            mig_strategy: entry.mig_strategy.as_ref().map_or(default, |s| s.value),
            shares_renamed: entry.shares_renamed.unwrap_or(false),
            held_by_others: Vec::new(),
            operator: entry.operator.unwrap_or(false),
            unusable: None,
        }
    }

    /// Strategy `single` offers all MIG devices of a node under one name, so they must be alike; `none` offers none.
    fn strategy(&mut self, strategy: &Located<MigStrategy>, entry: &NodeEntry, gpus: &[Gpu]) {
        let Some(first) = entry.gpus.iter().find_map(|g| g.value.mig.as_ref()) else { return };
        let mut profiles = Vec::new();
        for gpu in gpus {
            if let Offer::Mig { instances, .. } = &gpu.offer {
                profiles.extend(instances.iter().map(|i| &i.profile));
            }
        }
        profiles.sort();
        profiles.dedup();
        let (text, why) = match strategy.value {
            MigStrategy::Single if profiles.len() > 1 => {
                ("single", "with `single` all instances of a node are alike")
            }
            MigStrategy::None if !profiles.is_empty() => ("none", "with `none` no instance is offered"),
            _ => return,
        };
        let this = (strategy.at, format!("migStrategy: {text}"));
        self.check.contradiction(this, (first.at, "mig"), why, "write `migStrategy: mixed`");
    }

    fn memory(&mut self, written: Option<&Located<Memory>>) -> Option<Bytes> {
        self.check.memory("memory", written?, MOST_MEMORY).map(Bytes)
    }

    fn labels(&mut self, written: &BTreeMap<Located<String>, Located<String>>) -> BTreeMap<String, String> {
        for (key, value) in written {
            self.check.name("label key", key, NameRule::LabelKey);
            self.check.name("label value", value, NameRule::LabelValue);
        }
        written.iter().map(|(key, value)| (key.value.clone(), value.value.clone())).collect()
    }

    fn gpus(&mut self, entry: &GpuEntry, into: &mut Vec<Gpu>) {
        let most = i128::from(MOST_GPUS);
        let count: usize = match &entry.count {
            Some(count) => self.check.count("count", Some(count), 1, most).unwrap_or(1),
            None => 1,
        };
        let uuid = entry.uuid.as_ref();
        if let Some(uuid) = uuid {
            self.uuid(uuid);
            if let Some(count) = &entry.count {
                let this = (count.at, format!("count: {}", count.value.0.text()));
                let other = (uuid.at, format!("uuid: {}", uuid.value));
                self.check.contradiction(
                    this,
                    other,
                    "a UUID is one GPU",
                    "remove `count`, or leave the UUID out",
                );
            }
        }
        if into.len() + count > usize::try_from(MOST_GPUS).unwrap_or(usize::MAX) {
            let message = format!("a node has at most {MOST_GPUS} GPUs");
            self.check.error(entry.product.at, "number-range", &count.to_string(), message, "check `count`");
            return;
        }
        let Some((hardware, memory)) = self.hardware(&entry.product, entry.gpu_memory.as_ref()) else {
            return;
        };
        let Some(offer) = self.offer_of(entry, &hardware) else { return };
        let gpu = Gpu { uuid: uuid.map(|u| u.value.clone()), product: hardware.name(), memory, offer };
        into.extend(std::iter::repeat_n(gpu, count));
    }

    fn uuid(&mut self, uuid: &Located<String>) {
        let text = &uuid.value;
        if !text.starts_with("GPU-")
            || text.len() == 4
            || !text.is_ascii()
            || text.contains(char::is_whitespace)
        {
            let fix = if text.starts_with("MIG-") {
                "this is the UUID of a MIG device; `nvidia-smi -L` prints that of its GPU one line above"
            } else {
                "a GPU's UUID begins with `GPU-`; `nvidia-smi -L` prints it"
            };
            let message = format!("`{}` is no UUID of a GPU", shown(text));
            self.check.error(uuid.at, "invalid-name", text, message, fix);
        }
        match self.uuids.get(text) {
            Some(&first) => self.check.duplicate("the UUID", text, first, uuid.at),
            None => {
                self.uuids.insert(text.clone(), uuid.at);
            }
        }
    }

    /// The product, and its memory: from the table, else from `gpuMemory`.
    fn hardware(
        &mut self,
        product: &Located<String>,
        gpu_memory: Option<&Located<Memory>>,
    ) -> Option<(Hardware<'a>, Option<Mib>)> {
        let written = gpu_memory.map(|memory| (memory.at, self.check.gpu_memory(memory)));
        let table = self.table;
        match (self.check.product(table, product)?, written) {
            (Hardware::Known(known), None) => Some((Hardware::Known(known), known.memory)),
            (Hardware::Known(known), Some((_, memory))) if known.memory.is_none() => {
                Some((Hardware::Known(known), memory.map(Mib)))
            }
            (Hardware::Known(known), Some((at, _))) => {
                let memory = known.memory.map(|m| m.to_string()).unwrap_or_default();
                let other = (product.at, format!("product: {}", product.value));
                let why = format!("the table knows the memory of {} ({memory})", known.id);
                self.check.contradiction((at, "gpuMemory"), other, &why, "remove `gpuMemory`");
                None
            }
            (Hardware::Foreign(name), Some((_, memory))) => Some((Hardware::Foreign(name), memory.map(Mib))),
            (Hardware::Foreign(_), None) => {
                let text = &product.value;
                let message =
                    format!("the table has no product `{}`, and `gpuMemory` is missing", shown(text));
                let fix =
                    "add `gpuMemory:` with the memory of one GPU, such as 24Gi; it is then a GPU without MIG";
                self.check.error(product.at, "unknown-product", text, message, fix);
                None
            }
        }
    }

    fn offer_of(&mut self, entry: &GpuEntry, hardware: &Hardware<'_>) -> Option<Offer> {
        let default = if entry.mig.is_some() { Mode::Mig } else { Mode::Exclusive };
        let mode = entry.mode.as_ref().map_or(default, |m| m.value);
        let mode_at = entry.mode.as_ref().map_or(entry.product.at, |m| m.at);
        let mode_text = match &entry.mode {
            Some(mode) => format!("mode: {}", mode.value),
            None => format!("product: {}", entry.product.value),
        };
        if let (Some(mig), false) = (&entry.mig, mode == Mode::Mig) {
            let fix = "write `mode: mig`, or remove `mig`";
            self.check.contradiction(
                (mig.at, "mig"),
                (mode_at, mode_text),
                "only a GPU in mode mig has instances",
                fix,
            );
            return None;
        }
        let most = i128::from(u16::MAX);
        let replicas: Option<u32> = self.check.count("replicas", entry.replicas.as_ref(), 2, most);
        match (mode, &entry.replicas) {
            (Mode::Exclusive, None) => Some(Offer::Exclusive),
            (Mode::Exclusive, Some(written)) => {
                let this = (written.at, format!("replicas: {}", written.value.0.text()));
                let why = "an exclusive GPU has no shares";
                let fix = "write `mode: timeSliced` or `mode: mps`, or remove `replicas`";
                let other = match &entry.mode {
                    Some(_) => mode_text,
                    None => "mode: exclusive (the default)".to_owned(),
                };
                self.check.contradiction(this, (mode_at, other), why, fix);
                None
            }
            (Mode::TimeSliced | Mode::Mps, None) => {
                let message = format!("`{mode_text}` needs `replicas`");
                let fix = "add `replicas:` with the number of shares, at least 2";
                self.check.error(mode_at, "missing-field", &mode.to_string(), message, fix);
                None
            }
            (Mode::TimeSliced, Some(_)) => replicas.map(|replicas| Offer::TimeSliced { replicas }),
            (Mode::Mps, Some(_)) => replicas.map(|replicas| Offer::Mps { replicas }),
            (Mode::Mig, written) => {
                let instances = self.instances(entry, hardware, mode_at, &mode_text)?;
                let shared = match written {
                    Some(_) => instances
                        .iter()
                        .map(|i| Some((i.profile.clone(), replicas?)))
                        .collect::<Option<_>>()?,
                    None => BTreeMap::new(),
                };
                Some(Offer::Mig { instances, replicas: shared, origin: Origin::Given })
            }
        }
    }

    fn instances(
        &mut self,
        entry: &GpuEntry,
        hardware: &Hardware<'_>,
        mode_at: Span,
        mode_text: &str,
    ) -> Option<Vec<Instance>> {
        let at = entry.mig.as_ref().map_or(mode_at, |mig| mig.at);
        let product = match hardware {
            Hardware::Known(product) if !product.profiles.is_empty() => *product,
            other => {
                let why = format!("{} has no MIG", other.name());
                let this = if entry.mig.is_some() { "mig" } else { mode_text };
                let named = format!("product: {}", entry.product.value);
                let fix = "use `mode: exclusive`, `timeSliced` or `mps` for this product";
                self.check.contradiction((at, this), (entry.product.at, named), &why, fix);
                return None;
            }
        };
        let Some(mig) = &entry.mig else { return Some(Vec::new()) };
        self.layout(product, &mig.value).map(|layout| layout.instances().to_vec())
    }

    /// Checks a layout instance by instance, so that the error stands at the first one that does not fit.
    fn layout(&mut self, product: &Product, entries: &[Located<InstanceEntry>]) -> Option<Layout> {
        let mut placed: Vec<(ProfileName, u32)> = Vec::new();
        let mut layout = Layout::empty(product);
        for entry in entries {
            let profile = self.profile(product, &entry.value.profile);
            let start: Option<u32> = self.check.count("start", Some(&entry.value.start), 0, 63);
            placed.push((profile?, start?));
            match Layout::new(product, placed.iter().cloned()) {
                Ok(fits) => layout = fits,
                Err(error) => {
                    let text =
                        format!("{} at {}", entry.value.profile.value, entry.value.start.value.0.text());
                    let before = match placed.len() {
                        1 => String::new(),
                        _ => format!(" beside those above it, from line {}", entries[0].at),
                    };
                    let message = format!("{text} is not possible on {}{before}: {error}", product.id);
                    let fix = format!("`tesela layouts {}` lists what is possible", product.id);
                    self.check.error(entry.at, "impossible-layout", &text, message, fix);
                    return None;
                }
            }
        }
        Some(layout)
    }

    fn profile(&mut self, product: &Product, written: &Located<String>) -> Option<ProfileName> {
        match product.profile(&written.value) {
            Ok(profile) => Some(profile.name.clone()),
            Err(unknown) => {
                self.check.unknown_profile(written, &unknown);
                None
            }
        }
    }

    fn offer(&mut self, entry: &OfferEntry) -> Option<NodeOffer> {
        let most = i128::from(MOST_GPUS);
        let gpus_per_node = self.check.count("gpusPerNode", Some(&entry.gpus_per_node), 1, most);
        let max_nodes = self.check.count("maxNodes", entry.max_nodes.as_ref(), 1, 100_000);
        let labels = self.labels(&entry.labels);
        let cpu = entry.cpu.as_ref().and_then(|cpu| self.check.cpu(cpu)).map(MilliCpu);
        let memory = self.memory(entry.memory.as_ref());
        let (hardware, gpu_memory) = self.hardware(&entry.product, entry.gpu_memory.as_ref())?;
        let product = hardware.name();
        let gpu_memory = gpu_memory.filter(|_| entry.gpu_memory.is_some());
        Some(NodeOffer { product, gpus_per_node: gpus_per_node?, max_nodes, cpu, memory, gpu_memory, labels })
    }
}
