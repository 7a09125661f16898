//! From a machine file as written to a machine that can be: groups written out, instances and processes checked.

use std::collections::BTreeMap;

use tesela_model::driver::ProcessKind;
use tesela_model::layout::{Layout, LayoutError};
use tesela_model::machine::{
    CONTEXT_MIB, DRIVER_VERSION, MOST_GPUS, Machine, MachineGpu, MachineInstance, MachineProcess, Manner,
    gpu_memory, instance_memory, reserved_memory,
};
use tesela_model::product::{Product, ProductTable, Profile, ProfileName};
use tesela_model::quantity::Mib;

use super::wire::{GpuSpec, InstanceSpec, MachineSpec, ProcessSpec};
use crate::diagnostic::{Diagnostics, nearest, shown};
use crate::documents::check::Check;
use crate::documents::hardware::{Hardware, candidates};
use crate::source::{Located, Span};

/// Largest process id of Linux (`PID_MAX_LIMIT`).
const MOST_PID: i128 = 1 << 22;
/// Processes of one GPU. Its memory bounds them far earlier: a context takes hundreds of MiB.
const MOST_PROCESSES: usize = 1024;

pub(super) fn machine(file: &str, spec: &MachineSpec, table: &ProductTable) -> Result<Machine, Diagnostics> {
    let mut reader = Reader { check: Check::new(file), table, names: BTreeMap::new() };
    let driver = reader.driver(spec.driver.as_ref());
    let seed = reader.check.count("seed", spec.seed.as_ref(), 0, i128::from(u64::MAX)).unwrap_or(0);
    let manner = reader.manner(spec);
    let mut gpus = Vec::new();
    let mut told = false;
    for entry in &spec.gpus {
        let made = reader.gpus(entry);
        if gpus.len() + made.len() > MOST_GPUS && !told {
            told = true;
            let count = (gpus.len() + made.len()).to_string();
            let message = format!("the GPUs of this machine are more than {MOST_GPUS}");
            reader.check.error(entry.at, "number-range", &count, message, "write fewer GPUs");
        }
        if !told {
            gpus.extend(made);
        }
    }
    reader.check.finish(Machine { driver, seed, manner, gpus })
}

struct Reader<'a> {
    check: Check<'a>,
    table: &'a ProductTable,
    /// UUIDs, serial numbers and PCI addresses, each once.
    names: BTreeMap<String, Span>,
}

impl<'a> Reader<'a> {
    fn driver(&mut self, written: Option<&Located<String>>) -> String {
        let Some(written) = written else { return DRIVER_VERSION.to_owned() };
        let text = &written.value;
        let parts = text.split('.').collect::<Vec<_>>();
        let number =
            |part: &&str| !part.is_empty() && part.len() <= 4 && part.bytes().all(|b| b.is_ascii_digit());
        if !(2..=3).contains(&parts.len()) || !parts.iter().all(number) {
            let message = format!("`{}` is no version of a driver", shown(text));
            let fix = format!("write it as `nvidia-smi` prints it, such as \"{DRIVER_VERSION}\"");
            self.check.error(written.at, "invalid-value", text, message, fix);
        }
        text.clone()
    }

    fn manner(&mut self, spec: &MachineSpec) -> Manner {
        let passing = spec.in_use_after_destroy.as_ref();
        let answers = passing.and_then(|p| p.answers.as_ref());
        let milliseconds = passing.and_then(|p| p.milliseconds.as_ref());
        Manner {
            latency: spec.latency.unwrap_or(false),
            in_use_answers: self.check.count("answers", answers, 0, 1_000_000).unwrap_or(0),
            in_use_milliseconds: self.check.count("milliseconds", milliseconds, 0, 86_400_000).unwrap_or(0),
        }
    }

    fn gpus(&mut self, entry: &Located<GpuSpec>) -> Vec<MachineGpu> {
        let spec = &entry.value;
        let most = i128::try_from(MOST_GPUS).unwrap_or(i128::MAX);
        let count: usize = self.check.count("count", spec.count.as_ref(), 1, most).unwrap_or(1);
        self.alone(spec, count);
        let Some(product) = self.product(&spec.product) else { return Vec::new() };
        let named = product.nvml_names.iter().find(|name| **name == spec.product.value);
        let name = named.or(product.nvml_names.first()).unwrap_or(&product.title).clone();
        let mig = spec.mig.as_ref().map(|mig| self.instances(product, mig));
        let processes = self.processes(product, spec, mig.as_deref());
        let gpu = MachineGpu {
            product: product.id.clone(),
            name,
            uuid: self.uuid(spec.uuid.as_ref()),
            serial: self.serial(spec.serial.as_ref()),
            pci: self.pci(spec.pci.as_ref()),
            mig,
            processes,
            health: spec.health.as_ref().map(|health| health.value).unwrap_or_default(),
            clients: spec.clients.iter().map(|client| client.value.clone()).collect(),
            passthrough: spec.passthrough.unwrap_or(false),
        };
        vec![gpu; count]
    }

    /// What belongs to one GPU cannot stand at several.
    fn alone(&mut self, spec: &GpuSpec, count: usize) {
        let Some(written) = spec.count.as_ref().filter(|_| count > 1) else { return };
        let mut clash = |at: Option<Span>, field: &str| {
            let Some(at) = at else { return };
            let other = (written.at, format!("count: {count}"));
            let fix = "write that GPU as an entry of its own";
            self.check.contradiction((at, field), other, "it belongs to one GPU", fix);
        };
        clash(spec.uuid.as_ref().map(|l| l.at), "uuid");
        clash(spec.serial.as_ref().map(|l| l.at), "serial");
        clash(spec.pci.as_ref().map(|l| l.at), "pci");
        clash(spec.processes.first().map(|l| l.at), "processes");
    }

    fn product(&mut self, written: &Located<String>) -> Option<&'a Product> {
        let table = self.table;
        let text = &written.value;
        let product = match self.check.product(table, written)? {
            Hardware::Known(product) => product,
            Hardware::Foreign(_) => {
                let message =
                    format!("`{}` is not in the profile table, so it cannot be emulated", shown(text));
                self.check.error(written.at, "unknown-product", text, message, candidates(table, text));
                return None;
            }
        };
        if product.has_placements() {
            return Some(product);
        }
        let message =
            format!("where instances may sit on {} is not known, so it cannot be emulated", product.id);
        let ids = table.products().iter().filter(|p| p.has_placements()).map(|p| p.id.as_str());
        let fix = format!("products that can be: {}", ids.collect::<Vec<_>>().join(", "));
        self.check.error(written.at, "no-placements", text, message, fix);
        None
    }

    fn instances(
        &mut self,
        product: &Product,
        mig: &Located<Vec<Located<InstanceSpec>>>,
    ) -> Vec<MachineInstance> {
        let mut made = Vec::new();
        let mut whole = true;
        for entry in &mig.value {
            let one = self.instance(product, &entry.value);
            whole &= one.is_some();
            made.extend(one);
        }
        if whole {
            self.layout(product, mig, &made);
        }
        made
    }

    fn instance(&mut self, product: &Product, spec: &InstanceSpec) -> Option<MachineInstance> {
        let start = self.check.count("start", Some(&spec.start), 0, 63);
        let profile = match product.profile(&spec.profile.value) {
            Ok(profile) => profile,
            Err(unknown) => {
                self.check.unknown_profile(&spec.profile, &unknown);
                return None;
            }
        };
        let compute = self.compute(profile, spec)?;
        Some(MachineInstance { profile: profile.name.clone(), start: start?, compute })
    }

    /// The compute instances of a GPU instance: names of the table, together within its slices.
    fn compute(&mut self, profile: &Profile, spec: &InstanceSpec) -> Option<Vec<ProfileName>> {
        let Some(written) = &spec.compute else {
            return Some(profile.whole_compute_instance().map(|c| c.name.clone()).into_iter().collect());
        };
        let mut made = Vec::new();
        let mut slices = 0;
        for one in written {
            let text = &one.value;
            let Some(known) = profile.compute_instances.iter().find(|c| c.name.as_str() == *text) else {
                let names = profile.compute_instances.iter().map(|c| c.name.as_str()).collect::<Vec<_>>();
                let near = nearest(text, names.iter().copied());
                let near = near.map_or_else(String::new, |near| format!("did you mean `{near}`? "));
                let fix = format!("{near}{} holds {}", profile.name, names.join(", "));
                let message = format!("`{}` is no compute instance of {}", shown(text), profile.name);
                self.check.error(one.at, "unknown-profile", text, message, fix);
                return None;
            };
            slices += known.slices;
            if slices > profile.compute_slices {
                let message = format!(
                    "the compute instances take {slices} slices, {} has {}",
                    profile.name, profile.compute_slices
                );
                self.check.error(
                    one.at,
                    "impossible-layout",
                    text,
                    message,
                    "remove this one or a larger one",
                );
                return None;
            }
            made.push(known.name.clone());
        }
        Some(made)
    }

    /// Every rule of the product. The place is that of the first instance with which it breaks.
    fn layout(
        &mut self,
        product: &Product,
        mig: &Located<Vec<Located<InstanceSpec>>>,
        made: &[MachineInstance],
    ) {
        let named = |i: &MachineInstance| (i.profile.clone(), i.start);
        let Err(all) = Layout::new(product, made.iter().map(named)) else { return };
        let breaks = |n: &usize| Layout::new(product, made[..=*n].iter().map(named)).is_err();
        let first = (0..made.len()).find(breaks);
        let fault =
            first.and_then(|n| Layout::new(product, made[..=n].iter().map(named)).err()).unwrap_or(all);
        let entry = first.and_then(|n| mig.value.get(n));
        let place = match (&fault, entry) {
            (LayoutError::Start { .. }, Some(entry)) => entry.value.start.at,
            (_, Some(entry)) => entry.value.profile.at,
            (_, None) => mig.at,
        };
        let value = entry.map(|e| e.value.profile.value.clone()).unwrap_or_default();
        let fix = format!("`tesela layouts {}` lists what can exist together", product.id);
        self.check.error(place, "impossible-layout", &value, fault.to_string(), fix);
    }

    fn processes(
        &mut self,
        product: &Product,
        spec: &GpuSpec,
        mig: Option<&[MachineInstance]>,
    ) -> Vec<MachineProcess> {
        if let Some(entry) = spec.processes.get(MOST_PROCESSES) {
            let message = format!("a GPU has at most {MOST_PROCESSES} processes");
            self.check.error(entry.at, "number-range", "", message, "write fewer processes");
            return Vec::new();
        }
        // The index of an instance is judged against the entries as written, wrong ones included.
        let entries = spec.mig.as_ref().map(|mig| mig.value.len());
        let all_read = entries == mig.map(<[_]>::len);
        let (mut processes, mut pids) = (Vec::new(), BTreeMap::new());
        for entry in &spec.processes {
            let mig = mig.filter(|_| all_read);
            self.pid(&entry.value, &mut pids);
            processes.extend(self.process(&entry.value, entries, mig));
        }
        self.memory(product, spec, mig.filter(|_| all_read), &processes);
        processes
    }

    /// A process is on a GPU once: CUDA gives it the whole GPU or one MIG device.
    fn pid(&mut self, spec: &ProcessSpec, pids: &mut BTreeMap<String, Span>) {
        let pid = spec.pid.value.0.text();
        if let Some(first) = pids.insert(pid.clone(), spec.pid.at) {
            self.check.duplicate("the process", &pid, first, spec.pid.at);
        }
    }

    fn process(
        &mut self,
        spec: &ProcessSpec,
        entries: Option<usize>,
        mig: Option<&[MachineInstance]>,
    ) -> Option<MachineProcess> {
        let pid = self.check.count("pid", Some(&spec.pid), 1, MOST_PID);
        let memory = self.check.count("memory_mib", spec.memory_mib.as_ref(), 1, 1 << 24);
        let busy = spec.busy.as_ref().and_then(|busy| self.check.part("busy", busy)).unwrap_or(0);
        let (instance, compute) = self.place(spec, entries, mig)?;
        Some(MachineProcess {
            pid: pid?,
            name: spec.name.clone(),
            kind: spec.kind.as_ref().map_or(ProcessKind::Compute, |kind| kind.value),
            memory: memory.map_or(CONTEXT_MIB, Mib),
            instance,
            compute,
            busy,
        })
    }

    /// The instance that a process is on: none with MIG off, one that is there with MIG on.
    fn place(
        &mut self,
        spec: &ProcessSpec,
        entries: Option<usize>,
        mig: Option<&[MachineInstance]>,
    ) -> Option<(Option<usize>, usize)> {
        let Some(entries) = entries else {
            let Some(at) = spec.instance.as_ref().or(spec.compute.as_ref()).map(|l| l.at) else {
                return Some((None, 0));
            };
            let message = "`instance` needs `mig`: with MIG off a process is on the whole GPU";
            self.check.error(
                at,
                "contradiction",
                "",
                message,
                "remove the line, or list instances under `mig`",
            );
            return None;
        };
        let Some(written) = &spec.instance else {
            let message = "a process on a GPU with MIG on is on one of its instances";
            let fix = "add `instance:`, the position in `mig`, from 0";
            self.check.error(spec.pid.at, "missing-field", "", message, fix);
            return None;
        };
        let instance: usize = self.index("instance", written, entries, "`mig` lists")?;
        let made = mig.and_then(|mig| mig.get(instance))?;
        let compute = match &spec.compute {
            Some(written) => self.index("compute", written, made.compute.len(), "that instance holds")?,
            None if made.compute.is_empty() => {
                let message = "that instance has no compute instance, so nothing can run on it";
                let fix = "remove its `compute: []`, or the process";
                self.check.error(written.at, "contradiction", &written.value.0.text(), message, fix);
                return None;
            }
            None => 0,
        };
        Some((Some(instance), compute))
    }

    fn index(
        &mut self,
        field: &str,
        written: &Located<crate::documents::scalar::Whole>,
        length: usize,
        holder: &str,
    ) -> Option<usize> {
        let value: usize = self.check.count(field, Some(written), 0, i128::from(u32::MAX))?;
        if value < length {
            return Some(value);
        }
        let text = value.to_string();
        let message = format!("`{field}: {value}` is beyond the list: {holder} {length}");
        let fix = match length.checked_sub(1) {
            Some(last) => format!("write 0 to {last}"),
            None => "remove the process, or add an instance".to_owned(),
        };
        self.check.error(written.at, "number-range", &text, message, fix);
        None
    }

    /// What processes hold must be there.
    fn memory(
        &mut self,
        product: &Product,
        spec: &GpuSpec,
        mig: Option<&[MachineInstance]>,
        processes: &[MachineProcess],
    ) {
        if processes.len() != spec.processes.len() || (mig.is_none() && spec.mig.is_some()) {
            return;
        }
        let mut held: BTreeMap<Option<usize>, u64> = BTreeMap::new();
        for (process, entry) in processes.iter().zip(&spec.processes) {
            let on = process.instance.and_then(|i| mig?.get(i));
            let profile = on.and_then(|i| product.profile(i.profile.as_str()).ok());
            let room = match profile {
                Some(profile) => instance_memory(product, profile).0,
                None => gpu_memory(product).0 - reserved_memory(product).0,
            };
            let held = held.entry(process.instance).or_default();
            *held = held.saturating_add(process.memory.0);
            if *held <= room {
                continue;
            }
            let what = profile.map_or_else(|| product.id.to_string(), |p| p.name.to_string());
            let message = format!("the processes hold {held} MiB, {what} has {room} MiB for them");
            let place = entry.value.memory_mib.as_ref().map_or(entry.value.pid.at, |m| m.at);
            let value = process.memory.0.to_string();
            self.check.error(place, "number-range", &value, message, "write less `memory_mib`");
            return;
        }
    }

    fn once(&mut self, what: &str, written: &Located<String>) {
        let key = written.value.to_ascii_lowercase();
        if let Some(first) = self.names.insert(key, written.at) {
            self.check.duplicate(what, &written.value, first, written.at);
        }
    }

    fn shape(
        &mut self,
        what: &str,
        written: Option<&Located<String>>,
        holds: bool,
        fix: &str,
    ) -> Option<String> {
        let written = written?;
        if !holds {
            let message = format!("`{}` is no {what}", shown(&written.value));
            self.check.error(written.at, "invalid-value", &written.value, message, fix);
        }
        self.once(&format!("the {what}"), written);
        Some(written.value.clone())
    }

    fn uuid(&mut self, written: Option<&Located<String>>) -> Option<String> {
        let groups = |text: &str| {
            let lengths = text.split('-').map(str::len).collect::<Vec<_>>();
            let hex = text.bytes().all(|b| b == b'-' || b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
            lengths == [8, 4, 4, 4, 12] && hex
        };
        let holds = written.is_some_and(|w| w.value.strip_prefix("GPU-").is_some_and(groups));
        let fix =
            "write it as `nvidia-smi -L` prints it: `GPU-` and 32 hexadecimal digits in groups of 8-4-4-4-12";
        self.shape("UUID of a GPU", written, holds, fix)
    }

    fn serial(&mut self, written: Option<&Located<String>>) -> Option<String> {
        let digits = |text: &str| (1..=13).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
        let holds = written.is_some_and(|w| digits(&w.value));
        self.shape("serial number", written, holds, "write up to 13 digits, in quotes")
    }

    fn pci(&mut self, written: Option<&Located<String>>) -> Option<String> {
        let address = |text: &str| {
            let parts = text.split([':', '.']).map(str::len).collect::<Vec<_>>();
            let hex =
                text.bytes().all(|b| b":.".contains(&b) || b.is_ascii_digit() || (b'A'..=b'F').contains(&b));
            parts == [8, 2, 2, 1] && hex && text.as_bytes().get(14) == Some(&b'.')
        };
        let holds = written.is_some_and(|w| address(&w.value));
        let fix = "write domain, bus, device and function in upper case, such as \"00000000:3B:00.0\"";
        self.shape("PCI address", written, holds, fix)
    }
}
