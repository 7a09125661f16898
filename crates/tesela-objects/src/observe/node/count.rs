//! How many GPUs a node has, of which product, and how each is offered.

use std::collections::BTreeMap;

use tesela_model::finding::Severity;
use tesela_model::fleet::{Gpu, MigStrategy, Offer};
use tesela_model::label;
use tesela_model::origin::Origin;
use tesela_model::product::{LabelledProduct, Product, ProductTable, ProfileName};
use tesela_model::quantity::Mib;
use tesela_model::resource::{GpuDevice, GpuResource};

use super::{MOST_GPUS, NodeRecord, Offered, UNKNOWN};
use crate::observe::cut::{CutFault, Cutter};
use crate::observe::finding::Draft;

/// GPUs of a node, the MIG strategy in force, and why they must not be planned with.
pub(super) struct Counted {
    pub(super) gpus: Vec<Gpu>,
    /// What kubelet gives out of each name, where that is fewer than the GPUs offer.
    pub(super) allocatable: BTreeMap<GpuResource, u64>,
    pub(super) strategy: MigStrategy,
    pub(super) unusable: Option<String>,
}

/// Counts the GPUs of a node and adds what is odd about them to `drafts`.
pub(super) fn count(
    name: &str,
    record: &NodeRecord,
    offered: &BTreeMap<GpuResource, Offered>,
    table: &ProductTable,
    cutter: &mut Cutter,
    drafts: &mut Vec<Draft>,
) -> Counted {
    let mut reader = Reader { name, record, offered, table, cutter, drafts, gpus: Vec::new() };
    let (strategy, unusable) = reader.read();
    let gpus = reader.gpus;
    let allocatable = fewer(&gpus, strategy, offered);
    Counted { gpus, allocatable, strategy, unusable }
}

/// Names of which kubelet gives out fewer devices than these GPUs have.
fn fewer(
    gpus: &[Gpu],
    strategy: MigStrategy,
    offered: &BTreeMap<GpuResource, Offered>,
) -> BTreeMap<GpuResource, u64> {
    let renamed = offered.iter().any(|(r, o)| r.shared && o.capacity > 0);
    let named = |name: GpuResource, shared: bool| if shared && renamed { name.renamed() } else { name };
    let mut has: BTreeMap<GpuResource, u64> = BTreeMap::new();
    let mut add = |name: GpuResource, units: u64| {
        let sum = has.entry(name).or_insert(0);
        *sum = sum.saturating_add(units);
    };
    for gpu in gpus {
        match &gpu.offer {
            Offer::Exclusive => add(GpuResource::gpu(), 1),
            Offer::TimeSliced { replicas } | Offer::Mps { replicas } => {
                add(named(GpuResource::gpu(), true), u64::from(*replicas));
            }
            Offer::Mig { instances, replicas, .. } => {
                for instance in instances {
                    let shares = replicas.get(&instance.profile);
                    let name = match strategy {
                        MigStrategy::Single => GpuResource::gpu(),
                        MigStrategy::None | MigStrategy::Mixed => GpuResource::mig(instance.profile.clone()),
                    };
                    add(named(name, shares.is_some()), shares.map_or(1, |n| u64::from(*n)));
                }
            }
        }
    }
    let given_out = |name: &GpuResource| offered.get(name).map_or(0, |o| o.allocatable);
    let fewer = has.into_iter().map(|(name, has)| (given_out(&name), name, has));
    fewer.filter(|(out, _, has)| out < has).map(|(out, name, _)| (name, out)).collect()
}

/// Sharing of whole GPUs as labels and names show it.
#[derive(Clone, Copy)]
enum Sharing {
    None,
    TimeSliced(u32),
    Mps(u32),
}

impl Sharing {
    fn offer(self) -> Offer {
        match self {
            Self::None => Offer::Exclusive,
            Self::TimeSliced(replicas) => Offer::TimeSliced { replicas },
            Self::Mps(replicas) => Offer::Mps { replicas },
        }
    }

    fn replicas(self) -> u64 {
        match self {
            Self::None => 1,
            Self::TimeSliced(replicas) | Self::Mps(replicas) => u64::from(replicas),
        }
    }
}

/// What a product label says, with what the table knows of it.
struct Named<'a> {
    product: Option<&'a Product>,
    id: String,
    memory: Option<Mib>,
}

struct Reader<'a> {
    name: &'a str,
    record: &'a NodeRecord,
    offered: &'a BTreeMap<GpuResource, Offered>,
    table: &'a ProductTable,
    cutter: &'a mut Cutter,
    drafts: &'a mut Vec<Draft>,
    gpus: Vec<Gpu>,
}

impl Reader<'_> {
    /// Fills `gpus`; answers the MIG strategy and why the GPUs must not be planned with.
    fn read(&mut self) -> (MigStrategy, Option<String>) {
        let told = match self.record.text(label::MIG_STRATEGY) {
            Some("single") => MigStrategy::Single,
            Some("mixed") => MigStrategy::Mixed,
            _ => MigStrategy::None,
        };
        let offers_mig =
            self.offered.iter().any(|(r, o)| o.capacity > 0 && matches!(r.device, GpuDevice::Mig(_)));
        let mut strategy = if offers_mig { MigStrategy::Mixed } else { told };
        let mut unusable = self.record.virtual_gpus();
        if let Some(reason) = &unusable {
            self.find(Severity::Info, "virtual-gpus", 0, &format!("{reason}, so they are not planned with"), "nothing to do if that is meant; else change the label and let the node be set up for containers");
        }
        let Some(value) = self.record.text(label::GPU_PRODUCT) else {
            if unusable.is_none() {
                unusable = self.without_labels(offers_mig);
            }
            return (strategy, unusable);
        };
        let label = LabelledProduct::read(value);
        let product = self.table.by_label(value);
        let memory = || {
            label.mig.is_none().then(|| self.record.number(label::GPU_MEMORY)).flatten().filter(|m| *m > 0)
        };
        let named = Named {
            product,
            id: product.map_or_else(|| label.product.to_owned(), |p| p.id.to_string()),
            memory: product.and_then(|p| p.memory).or_else(|| memory().map(Mib)),
        };
        let fault = match (label.mig, strategy) {
            (Some("INVALID"), _) => Some(self.invalid(value)),
            (Some(profile), _) if !offers_mig => {
                strategy = MigStrategy::Single;
                self.single(&named, profile)
            }
            (_, MigStrategy::Mixed) => self.mixed(&named),
            _ => self.plain(&named),
        };
        (strategy, unusable.or(fault))
    }

    fn find(&mut self, severity: Severity, rule: &'static str, gpus: u64, what: &str, fix: &str) {
        self.drafts.push(Draft {
            severity,
            rule,
            subject: format!("Node/{}", self.name),
            message: format!("node {}: {what}", self.name),
            fix: fix.to_owned(),
            gpus,
        });
    }

    fn capacity(&self, resource: &GpuResource) -> u64 {
        self.offered.get(resource).map_or(0, |o| o.capacity)
    }

    fn push(&mut self, count: u64, named: &Named<'_>, offer: &Offer) {
        for _ in 0..count.min(MOST_GPUS) {
            let (product, memory) = (named.id.clone(), named.memory);
            self.gpus.push(Gpu { uuid: None, product, memory, offer: offer.clone() });
        }
    }

    /// Sharing of whole GPUs. Labels come from the config file, names from what the plugin offers; names win.
    fn sharing(&self, mixed: bool) -> Sharing {
        let shared = self.capacity(&GpuResource::gpu().renamed());
        let strategy = self.record.text(label::GPU_SHARING_STRATEGY).unwrap_or_default();
        let told = self.record.number(label::GPU_REPLICAS).filter(|n| *n >= 2);
        let product = self.record.text(label::GPU_PRODUCT).map(LabelledProduct::read);
        let is_shared = shared > 0
            || told.is_some()
            || matches!(strategy, "time-slicing" | "mps")
            || product.is_some_and(|p| p.shared);
        let offered = if shared > 0 { shared } else { self.capacity(&GpuResource::gpu()) };
        // On a mixed node `gpu.count` counts the MIG GPUs too, which are not behind this name.
        let count = self.record.number(label::GPU_COUNT).filter(|n| *n > 0 && !mixed);
        let counted =
            || count.filter(|n| offered.is_multiple_of(*n)).map(|n| offered / n).filter(|n| *n >= 2);
        let replicas = told.or_else(counted).and_then(|n| u32::try_from(n).ok());
        match replicas.filter(|_| is_shared) {
            Some(replicas) if strategy == "mps" => Sharing::Mps(replicas),
            Some(replicas) => Sharing::TimeSliced(replicas),
            None => Sharing::None,
        }
    }

    /// Whole GPUs that the names offer: replicas counted back to devices.
    fn whole(&self, sharing: Sharing) -> u64 {
        let plain = self.capacity(&GpuResource::gpu());
        let shared = self.capacity(&GpuResource::gpu().renamed());
        if shared > 0 {
            plain + shared.div_ceil(sharing.replicas())
        } else {
            plain.div_ceil(sharing.replicas())
        }
    }

    /// The label `gpu.count`, unless no machine has so many.
    fn count(&mut self) -> Option<u64> {
        let count = self.record.number(label::GPU_COUNT)?;
        if count <= MOST_GPUS {
            return Some(count);
        }
        self.find(
            Severity::Error,
            "gpu-count-implausible",
            0,
            &format!(
                "the label {}={count} is more than any machine has; it is not believed",
                label::GPU_COUNT
            ),
            "restart GPU feature discovery on the node",
        );
        None
    }

    /// No MIG: `gpu.count` GPUs, offered whole or in shares.
    fn plain(&mut self, named: &Named<'_>) -> Option<String> {
        let sharing = self.sharing(false);
        let whole = self.whole(sharing);
        let count = self.count().unwrap_or(whole);
        self.push(count, named, &sharing.offer());
        self.surplus(whole, count);
        self.not_offered(whole, count);
        None
    }

    /// More GPUs offered than the labels count: feature discovery labels one of several products.
    fn surplus(&mut self, whole: u64, count: u64) {
        let more = whole.saturating_sub(count);
        if more == 0 {
            return;
        }
        let unknown = Named { product: None, id: UNKNOWN.to_owned(), memory: None };
        self.push(more, &unknown, &Offer::Exclusive);
        let what = format!(
            "the labels count {count} GPUs and no sharing, but the node offers {whole}: it has several products, of which the labels tell one, or shares that the labels do not show; {more} are taken as GPUs of an unknown product"
        );
        self.find(
            Severity::Warning,
            "labels-count-fewer-gpus",
            more,
            &what,
            "give feature discovery the device plugin's config, or move the other products to nodes of their own",
        );
    }

    /// Fewer GPUs offered than the labels count.
    fn not_offered(&mut self, whole: u64, count: u64) {
        let missing = count.saturating_sub(whole);
        if missing > 0 {
            self.find(
                Severity::Error,
                "gpus-not-offered",
                missing,
                &format!("the labels count {count} GPUs, the node offers {whole}; nobody can ask for the other {missing}"),
                "look at the device plugin's pod on the node (kubectl -n gpu-operator get pods -o wide) and at `nvidia-smi` there; restart the plugin once the GPUs are well",
            );
        }
    }

    fn without_labels(&mut self, offers_mig: bool) -> Option<String> {
        let plain = self.capacity(&GpuResource::gpu());
        let shared = self.capacity(&GpuResource::gpu().renamed());
        let offered = self.offered.iter().filter(|(_, o)| o.capacity > 0);
        let mut offered =
            offered.map(|(name, o)| format!("{} {name}", o.capacity)).collect::<Vec<_>>().join(", ");
        if offered.is_empty() {
            "nothing".clone_into(&mut offered);
        }
        let unknown = Named { product: None, id: UNKNOWN.to_owned(), memory: None };
        if plain <= MOST_GPUS {
            self.push(plain, &unknown, &Offer::Exclusive);
        }
        self.find(
            Severity::Warning,
            "gpu-labels-absent",
            plain,
            &format!(
                "it offers {offered}, but has no label {}; its product is not known",
                label::GPU_PRODUCT
            ),
            "install GPU feature discovery, or look at its pod on the node",
        );
        (offers_mig || shared > 0 || plain > MOST_GPUS || plain == 0).then(|| {
            format!("it has no label {}, so what it offers cannot be counted in GPUs", label::GPU_PRODUCT)
        })
    }

    fn invalid(&mut self, value: &str) -> String {
        let what = format!(
            "its label {}={value} says that MIG strategy single does not hold: an empty MIG GPU, MIG and plain GPUs together, or more than one profile; the device plugin does not start there, and its GPUs cannot be counted",
            label::GPU_PRODUCT
        );
        self.find(
            Severity::Error,
            "mig-invalid",
            0,
            &what,
            "give all GPUs of the node one profile each (nvidia.com/mig.config=all-<profile>), or use MIG strategy mixed",
        );
        "its MIG layout does not fit MIG strategy single (label ends in -MIG-INVALID)".to_owned()
    }

    /// MIG strategy single: `gpu.count` counts MIG devices.
    fn single(&mut self, named: &Named<'_>, profile: &str) -> Option<String> {
        let sharing = self.sharing(false);
        let replicas = sharing.replicas();
        let offered = self.whole(sharing);
        let devices = self.count().unwrap_or(offered);
        let Some(product) = named.product else {
            return self.unknown_mig(&named.id, profile);
        };
        let found = product.profile_by_label(profile).ok().filter(|p| !p.placements.is_empty());
        let Some(found) = found else {
            return self.unknown_mig(&named.id, profile);
        };
        let alone = BTreeMap::from([(found.name.clone(), devices)]);
        let max = found.max_instances.map(u64::from).filter(|n| *n > 0);
        let gpus = match max {
            Some(max) => u32::try_from(devices.div_ceil(max)).ok(),
            None => self.cutter.fewest(product, &alone),
        };
        let cut = gpus.map_or(Err(CutFault::Impossible), |gpus| self.cutter.spread(product, &alone, gpus));
        let shares = u32::try_from(replicas).ok().filter(|n| *n >= 2);
        let shares = shares.map(|n| (found.name.clone(), n)).into_iter().collect::<BTreeMap<_, _>>();
        match cut {
            Ok(layouts) => {
                for instances in layouts {
                    let offer = Offer::Mig { instances, replicas: shares.clone(), origin: Origin::Estimated };
                    self.push(1, named, &offer);
                }
                self.not_offered_instances(offered, devices);
                None
            }
            Err(fault) => self.impossible_cut(product, &alone, gpus.unwrap_or(0), fault),
        }
    }

    fn not_offered_instances(&mut self, offered: u64, devices: u64) {
        if let Some(missing) = devices.checked_sub(offered).filter(|n| *n > 0) {
            self.find(
                Severity::Error,
                "gpus-not-offered",
                1,
                &format!("the labels count {devices} MIG devices, the node offers {offered}; nobody can ask for the other {missing}"),
                "restart the device plugin on the node: it finds MIG devices at its start only",
            );
        }
    }

    fn unknown_mig(&mut self, id: &str, profile: &str) -> Option<String> {
        let what = format!(
            "it offers MIG devices of {profile}, but where they sit on {id} is not in the profile table, so its GPUs cannot be counted"
        );
        self.find(
            Severity::Warning,
            "mig-profile-unknown",
            0,
            &what,
            "give the profile's placements in a table of your own",
        );
        Some(format!("the profile table has no placements of {profile} on {id}"))
    }

    /// MIG strategy mixed: whole GPUs keep `nvidia.com/gpu`, the others have MIG on, with or without instances.
    fn mixed(&mut self, named: &Named<'_>) -> Option<String> {
        let (instances, shares, strange) = self.instances(named);
        let sharing = self.sharing(true);
        let whole = self.whole_beside_mig(sharing);
        let told = self.count();
        let mig = match (told, named.product) {
            (Some(count), _) => count.saturating_sub(whole),
            (None, Some(product)) => self.cutter.fewest(product, &instances).map_or(0, u64::from),
            (None, None) => 0,
        };
        self.push(whole.min(told.unwrap_or(whole)), named, &sharing.offer());
        if let Some(count) = told {
            self.surplus(whole, count);
        }
        let unknown = |profile: &str| (named.id.clone(), profile.to_owned());
        let fault = match (named.product, strange) {
            (_, Some(profile)) => Some(unknown(&profile)),
            (None, None) if !instances.is_empty() => Some(unknown("MIG")),
            _ => None,
        };
        if let Some((id, profile)) = fault {
            let empty =
                Offer::Mig { instances: Vec::new(), replicas: BTreeMap::new(), origin: Origin::Assumed };
            self.push(mig, named, &empty);
            return self.unknown_mig(&id, &profile);
        }
        let cut = match (named.product, u32::try_from(mig)) {
            (Some(product), Ok(mig)) => self.cutter.spread(product, &instances, mig),
            (None, Ok(mig)) => Ok(vec![Vec::new(); usize::try_from(mig).unwrap_or(0)]),
            (_, Err(_)) => Err(CutFault::Impossible),
        };
        match cut {
            Ok(layouts) => {
                for instances in layouts {
                    let replicas = shares.clone();
                    let replicas =
                        replicas.into_iter().filter(|(p, _)| instances.iter().any(|i| i.profile == *p));
                    let offer =
                        Offer::Mig { replicas: replicas.collect(), instances, origin: Origin::Estimated };
                    self.push(1, named, &offer);
                }
                None
            }
            Err(fault) => {
                let empty =
                    Offer::Mig { instances: Vec::new(), replicas: BTreeMap::new(), origin: Origin::Assumed };
                self.push(mig, named, &empty);
                named
                    .product
                    .and_then(|p| self.impossible_cut(p, &instances, u32::try_from(mig).unwrap_or(0), fault))
            }
        }
    }

    /// Whole GPUs of a mixed node. A MIG GPU may overwrite the label `gpu.replicas` with 0; then nobody can tell
    /// how many GPUs are behind `nvidia.com/gpu.shared`.
    fn whole_beside_mig(&mut self, sharing: Sharing) -> u64 {
        let shared = self.capacity(&GpuResource::gpu().renamed());
        if shared == 0 || !matches!(sharing, Sharing::None) {
            return self.whole(sharing);
        }
        let what = format!(
            "it offers {shared} nvidia.com/gpu.shared, but the label {} does not say how many share a GPU; the GPUs behind them are counted as MIG GPUs",
            label::GPU_REPLICAS
        );
        self.find(
            Severity::Warning,
            "replicas-unknown",
            1,
            &what,
            "put whole GPUs and MIG GPUs on different nodes, or give feature discovery the plugin's config",
        );
        self.capacity(&GpuResource::gpu())
    }

    /// Instances by the table's profile names, their replicas, and the first profile the table lacks.
    fn instances(
        &self,
        named: &Named<'_>,
    ) -> (BTreeMap<ProfileName, u64>, BTreeMap<ProfileName, u32>, Option<String>) {
        let (mut counts, mut shares, mut strange) = (BTreeMap::new(), BTreeMap::new(), None);
        for (resource, offered) in self.offered.iter().filter(|(_, o)| o.capacity > 0) {
            let GpuDevice::Mig(profile) = &resource.device else {
                continue;
            };
            let known = named.product.and_then(|p| p.profile(profile.as_str()).ok());
            let Some(known) = known.filter(|p| !p.placements.is_empty()) else {
                strange.get_or_insert_with(|| profile.to_string());
                counts.insert(profile.clone(), offered.capacity);
                continue;
            };
            let key = |what: &str| format!("nvidia.com/mig-{}.{what}", profile.label_form());
            let told = self.record.number(&key("replicas")).filter(|n| *n >= 2);
            let devices = self.record.number(&key("count")).filter(|n| *n > 0);
            let counted =
                devices.filter(|n| offered.capacity.is_multiple_of(*n)).map(|n| offered.capacity / n);
            let told = told.or_else(|| counted.filter(|n| *n >= 2 && resource.shared));
            let replicas = told.and_then(|n| u32::try_from(n).ok());
            let real = offered.capacity.div_ceil(replicas.map_or(1, u64::from));
            *counts.entry(known.name.clone()).or_insert(0) += real;
            if let Some(replicas) = replicas {
                shares.insert(known.name.clone(), replicas);
            }
        }
        (counts, shares, strange)
    }

    fn impossible_cut(
        &mut self,
        product: &Product,
        counts: &BTreeMap<ProfileName, u64>,
        gpus: u32,
        fault: CutFault,
    ) -> Option<String> {
        let list = counts.iter().map(|(p, n)| format!("{n}x {p}")).collect::<Vec<_>>().join(" + ");
        let why = match fault {
            CutFault::TooHard => "were not reconciled with any set of layouts",
            CutFault::NoPlacements | CutFault::Impossible => "fit no set of layouts",
        };
        let what = format!("its instances ({list}) {why} of {gpus} {} GPUs with MIG on", product.id);
        self.find(
            Severity::Error,
            "mig-counts-impossible",
            u64::from(gpus),
            &what,
            "compare `nvidia-smi mig -lgi` with the node's labels and capacity; restart the device plugin and feature discovery there",
        );
        Some(format!("its instances ({list}) {why} of {gpus} GPUs"))
    }
}
