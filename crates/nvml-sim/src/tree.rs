//! The files that programs look for beside the library: the driver's part of procfs, capabilities of MIG devices, PCI
//! devices in sysfs.
//!
//! They are rendered under a root of their own, with the paths they have on a node (`proc/driver/nvidia/version` and so
//! on). A program finds them when it takes a root (`--driver-root` and the like), or when the folders are mounted where
//! it looks, which `tesela sim run` does for it alone.
//!
//! | path | who looks |
//! | --- | --- |
//! | `proc/driver/nvidia/version`, `…/gpus/ADDRESS/information` | people, schedulers, container runtimes |
//! | `proc/driver/nvidia-caps/mig-minors` | NVIDIA's device plugin, container toolkit |
//! | `proc/driver/nvidia/capabilities/…` | the same, and the DRA driver |
//! | `proc/modules`, `proc/devices` | mig-parted (that the module is loaded), container toolkit (device numbers) |
//! | `sys/bus/pci/devices/ADDRESS/…` | mig-parted, feature discovery, through go-nvlib's nvpci |
//!
//! Device files are not among them: nothing emulated answers behind one.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Component, Path, PathBuf};

use tesela_sim::board::Board;
use tesela_sim::state::{Gpu, State};

/// Numbers of the driver's character devices. That of GPUs is fixed (195, Linux devices.txt); that of capabilities is
/// drawn by the kernel, and this is one that is seen often.
const GPU_MAJOR: u32 = 195;
const CAPS_MAJOR: u32 = 237;

/// A file or link, by its path under the root.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry {
    /// Where.
    pub path: PathBuf,
    /// What.
    pub content: Content,
}

/// What an [`Entry`] is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Content {
    /// A file with these bytes.
    File(Vec<u8>),
    /// A symbolic link to this target.
    Link(PathBuf),
}

/// All files of a node, by path.
#[must_use]
pub fn entries(state: &State) -> Vec<Entry> {
    let mut all = system(state);
    for (index, gpu) in state.gpus.iter().enumerate() {
        let minor = u32::try_from(index).unwrap_or(u32::MAX);
        all.push(information(minor, gpu));
        all.extend(capabilities(minor, gpu));
        all.extend(pci(gpu));
    }
    all.sort();
    all
}

fn text(path: impl Into<PathBuf>, text: impl Into<String>) -> Entry {
    Entry { path: path.into(), content: Content::File(text.into().into_bytes()) }
}

fn system(state: &State) -> Vec<Entry> {
    let driver = &state.driver;
    let version = format!(
        "NVRM version: NVIDIA UNIX x86_64 Kernel Module  {driver}  (emulated)\nGCC version:  (none)\n"
    );
    let modules = "nvidia_uvm 1556480 0 - Live 0x0000000000000000\n\
                   nvidia 60669952 1 nvidia_uvm, Live 0x0000000000000000\n";
    let devices = format!(
        "Character devices:\n{GPU_MAJOR} nvidia\n{GPU_MAJOR} nvidiactl\n{CAPS_MAJOR} nvidia-caps\n\nBlock devices:\n"
    );
    let minors = (0..state.gpus.len()).flat_map(|gpu| {
        let gpu = u32::try_from(gpu).unwrap_or(u32::MAX);
        let of_gpu = (0..GPU_INSTANCES).flat_map(move |gi| {
            let own = format!("gpu{gpu}/gi{gi}/access {}\n", minor_of(gpu, gi, None));
            let parts = (0..COMPUTE_INSTANCES)
                .map(move |ci| format!("gpu{gpu}/gi{gi}/ci{ci}/access {}\n", minor_of(gpu, gi, Some(ci))));
            std::iter::once(own).chain(parts)
        });
        of_gpu.collect::<Vec<_>>()
    });
    let minors = format!("config {CONFIG}\nmonitor {MONITOR}\n{}", minors.collect::<String>());
    vec![
        text("proc/driver/nvidia/version", version),
        text("proc/driver/nvidia/params", "ResmanDebugLevel: 4294967295\nModifyDeviceFiles: 1\n"),
        text("proc/driver/nvidia-caps/mig-minors", minors),
        text("proc/driver/nvidia/capabilities/mig/config", capability(CONFIG, 0o400)),
        text("proc/driver/nvidia/capabilities/mig/monitor", capability(MONITOR, 0o444)),
        text("proc/modules", modules),
        text("proc/devices", devices),
    ]
}

fn information(minor: u32, gpu: &Gpu) -> Entry {
    let address = address(gpu);
    let text_of = format!(
        "Model: \t\t {}\nIRQ:   \t\t 0\nGPU UUID: \t {}\nVideo BIOS: \t ??.??.??.??.??\nBus Type: \t PCIe\n\
         Bus Location: \t {address}\nDevice Minor: \t {minor}\nGPU Excluded:\t No\n",
        gpu.name, gpu.uuid
    );
    text(format!("proc/driver/nvidia/gpus/{address}/information"), text_of)
}

/// Minor numbers of capabilities, which are the same on every machine: two for MIG as a whole, then for each GPU, by the
/// minor number of its device file, GPU instances 0 to 14, each with compute instances 0 to 7 (MIG User Guide, "Device
/// nodes and capabilities", whose list ends with `gpu31/gi14/ci7/access 4322`).
const CONFIG: u32 = 1;
const MONITOR: u32 = 2;
const GPU_INSTANCES: u32 = 15;
const COMPUTE_INSTANCES: u32 = 8;

fn minor_of(gpu: u32, gi: u32, ci: Option<u32>) -> u32 {
    let per_instance = COMPUTE_INSTANCES + 1;
    MONITOR + 1 + (gpu * GPU_INSTANCES + gi) * per_instance + ci.map_or(0, |ci| ci + 1)
}

fn capability(minor: u32, mode: u32) -> String {
    format!("DeviceFileMinor: {minor}\nDeviceFileMode: {mode}\nDeviceFileModify: 1\n")
}

/// Capability files of the instances that are there.
fn capabilities(minor: u32, gpu: &Gpu) -> Vec<Entry> {
    let folder = format!("proc/driver/nvidia/capabilities/gpu{minor}/mig");
    let file = |path: String, number| text(path, capability(number, 0o444));
    gpu.instances
        .iter()
        .flat_map(|one| {
            let own = file(format!("{folder}/gi{}/access", one.id), minor_of(minor, one.id, None));
            let parts = one.compute.iter().map(|ci| {
                let number = minor_of(minor, one.id, Some(ci.id));
                file(format!("{folder}/gi{}/ci{}/access", one.id, ci.id), number)
            });
            std::iter::once(own).chain(parts).collect::<Vec<_>>()
        })
        .collect()
}

/// The GPU as a PCI device.
fn pci(gpu: &Gpu) -> Vec<Entry> {
    const VENDOR: u32 = 0x10de;
    /// 3D controller.
    const CLASS: u32 = 0x0003_0200;
    let folder = PathBuf::from(format!("sys/bus/pci/devices/{}", address(gpu)));
    let ids = Board::of(&gpu.product).map_or(VENDOR, Board::pci_device_id);
    let device = ids >> 16;
    let bar = Board::of(&gpu.product).map_or(0, crate::facts::bar1_bytes);
    let mut resource = String::new();
    // The registers, then the window into memory.
    resource.push_str("0x00000000d0000000 0x00000000d0ffffff 0x0000000000040200\n");
    resource.push_str(&format!(
        "0x0000380000000000 {:#018x} 0x000000000014220c\n",
        0x3800_0000_0000_u64 + bar.max(1) - 1
    ));
    resource.push_str("0x0000000000000000 0x0000000000000000 0x0000000000000000\n");
    let mut config = [0_u8; 64];
    for (offset, value) in [(0x00, VENDOR), (0x02, device), (0x2c, VENDOR), (0x2e, device)] {
        let [low, high, ..] = value.to_le_bytes();
        config[offset] = low;
        config[offset + 1] = high;
    }
    config[0x0a] = 0x02;
    config[0x0b] = 0x03;
    let file = |name: &str, value: String| text(folder.join(name), value);
    vec![
        file("vendor", format!("{VENDOR:#06x}\n")),
        file("device", format!("{device:#06x}\n")),
        file("subsystem_vendor", format!("{VENDOR:#06x}\n")),
        file("subsystem_device", format!("{device:#06x}\n")),
        file("class", format!("{CLASS:#08x}\n")),
        file("numa_node", "-1\n".to_owned()),
        file("irq", "0\n".to_owned()),
        file("resource", resource),
        Entry { path: folder.join("config"), content: Content::File(config.to_vec()) },
        Entry { path: folder.join("driver"), content: Content::Link("../../drivers/nvidia".into()) },
        Entry {
            path: PathBuf::from(format!("sys/bus/pci/drivers/nvidia/{}", address(gpu))),
            content: Content::Link(format!("../../devices/{}", address(gpu)).into()),
        },
    ]
}

/// The address as procfs and sysfs write it: four digits of domain, lower case.
fn address(gpu: &Gpu) -> String {
    let lower = gpu.pci.to_ascii_lowercase();
    lower.strip_prefix("0000").filter(|rest| rest.len() == 12).unwrap_or(&lower).to_owned()
}

/// Makes a folder hold these files and no others. Files that are right already are left alone.
///
/// # Errors
/// Why a file cannot be written.
#[expect(clippy::disallowed_methods, reason = "this is the module that writes these files")]
pub fn write(root: &Path, entries: &[Entry]) -> io::Result<()> {
    for entry in entries {
        // Paths come from us and from ids; that none leads out of the root is easily seen to.
        if !entry.path.components().all(|part| matches!(part, Component::Normal(_))) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("{:?} leads out", entry.path)));
        }
        let path = root.join(&entry.path);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        match &entry.content {
            Content::Link(target) => {
                if fs::read_link(&path).ok().as_ref() != Some(target) {
                    let _ = fs::remove_file(&path);
                    std::os::unix::fs::symlink(target, &path)?;
                }
            }
            Content::File(bytes) => {
                if fs::read(&path).ok().as_deref() != Some(bytes) {
                    // In place: a file that is mounted elsewhere stays the same file.
                    fs::File::create(&path)?.write_all(bytes)?;
                }
            }
        }
    }
    let wanted = entries.iter().map(|entry| root.join(&entry.path)).collect::<BTreeSet<_>>();
    remove_others(root, &wanted)
}

/// Removes files that are not wanted, and folders that are empty then.
#[expect(clippy::disallowed_methods, reason = "this is the module that writes these files")]
fn remove_others(folder: &Path, wanted: &BTreeSet<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() && !path.is_symlink() {
            remove_others(&path, wanted)?;
            if fs::read_dir(&path)?.next().is_none() {
                fs::remove_dir(&path)?;
            }
        } else if !wanted.contains(&path) {
            fs::remove_file(&path)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn minor_numbers_are_those_of_the_guide() {
        // MIG User Guide, "Device nodes and capabilities".
        assert_eq!(minor_of(0, 0, None), 3);
        assert_eq!(minor_of(0, 0, Some(2)), 6);
        assert_eq!(minor_of(0, 1, None), 12);
        assert_eq!(minor_of(31, 14, Some(6)), 4321);
        assert_eq!(minor_of(31, 14, Some(7)), 4322);
    }
}
