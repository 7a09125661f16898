//! Devices: how they are found, and who they are.

use std::ffi::{c_char, c_int, c_uint, c_ulong};

use nvml_wrapper_sys::bindings as nvml;
use tesela_model::driver::{Code, Device, GpuUuid, MigUuid};
use tesela_sim::call::Call;
use tesela_sim::state::Gpu;

use super::handle::{Handle, Thing};
use super::pointer::{Chars, Done, InOut, Items, Out, Text, Versioned, chars};
use crate::facts;
use crate::live::Live;

functions! {
    /// How many GPUs there are, lost ones too.
    fn nvmlDeviceGetCount(count: Out<c_uint>) = |live| self::count(live, count);
    /// The same.
    fn nvmlDeviceGetCount_v2(count: Out<c_uint>) = |live| self::count(live, count);

    /// The GPU at an index.
    fn nvmlDeviceGetHandleByIndex(index: c_uint, device: Out<Handle>) = |live| by_index(live, index, device);
    /// The same.
    fn nvmlDeviceGetHandleByIndex_v2(index: c_uint, device: Out<Handle>) = |live| by_index(live, index, device);

    /// The GPU or MIG device of a UUID.
    fn nvmlDeviceGetHandleByUUID(uuid: Text, device: Out<Handle>) = |live| {
        let thing = live.find(&uuid.get()?)?;
        device.put(live.handle(thing))
    };

    /// The same, of a UUID in text or binary form.
    fn nvmlDeviceGetHandleByUUIDV(uuid: Versioned, device: Out<Handle>) = |live| {
        let thing = live.find(&uuid_of(&uuid.get::<Uuid>(1)?)?)?;
        device.put(live.handle(thing))
    };

    /// The GPU at a PCI address.
    fn nvmlDeviceGetHandleByPciBusId(address: Text, device: Out<Handle>) = |live| by_pci(live, &address, device);
    /// The same.
    fn nvmlDeviceGetHandleByPciBusId_v2(address: Text, device: Out<Handle>) = |live| by_pci(live, &address, device);

    /// The GPU of a serial number.
    fn nvmlDeviceGetHandleBySerial(serial: Text, device: Out<Handle>) = |live| {
        let serial = serial.get()?;
        by(live, device, |gpu| gpu.serial == serial)
    };

    /// Index of a GPU, or of a MIG device on its GPU.
    fn nvmlDeviceGetIndex(device: Handle, index: Out<c_uint>) = |live| match live.device(device)? {
        Device::Gpu(gpu) => index.put(live.index(&gpu)?),
        Device::Mig { gpu, mig } => {
            let all = live.ask(Call::MigDevices, |sim| sim.mig_devices(&gpu))?;
            index.put(all.iter().find(|one| one.uuid == mig).ok_or(Code::InvalidArgument)?.index)
        }
    };

    /// UUID of a GPU or MIG device.
    fn nvmlDeviceGetUUID(device: Handle, uuid: Chars, length: c_uint) = |live| match live.device(device)? {
        Device::Gpu(gpu) => uuid.put(length, gpu.as_str()),
        Device::Mig { mig, .. } => uuid.put(length, mig.as_str()),
    };

    /// Name of a GPU or MIG device, for people.
    fn nvmlDeviceGetName(device: Handle, name: Chars, length: c_uint) = |live| match live.device(device)? {
        Device::Gpu(gpu) => name.put(length, &live.gpu_of(&gpu)?.name),
        Device::Mig { gpu, mig } => name.put(length, &live.mig_device(&gpu, &mig)?.name),
    };

    /// Serial number.
    fn nvmlDeviceGetSerial(device: Handle, serial: Chars, length: c_uint) = |live| {
        serial.put(length, &live.gpu(device)?.serial)
    };

    /// Number of the device file.
    fn nvmlDeviceGetMinorNumber(device: Handle, minor: Out<c_uint>) = |live| {
        let identity = live.identity(device)?;
        minor.put(identity.minor.ok_or(Code::NotSupported)?)
    };

    /// Brand: data-centre GPUs since Ampere say NVIDIA.
    fn nvmlDeviceGetBrand(device: Handle, brand: Out<nvml::nvmlBrandType_t>) = |live| {
        live.gpu(device)?;
        brand.put(nvml::nvmlBrandType_enum_NVML_BRAND_NVIDIA)
    };

    /// Generation.
    fn nvmlDeviceGetArchitecture(device: Handle, generation: Out<c_uint>) = |live| {
        generation.put(facts::architecture(live.board(device)?))
    };

    /// CUDA compute capability.
    fn nvmlDeviceGetCudaComputeCapability(device: Handle, major: Out<c_int>, minor: Out<c_int>) = |live| {
        let gpu = live.device(device)?.gpu().clone();
        let (high, low) = live.board_of(&gpu)?.compute_capability().ok_or(Code::NotSupported)?;
        let number = |n: u32| c_int::try_from(n).map_err(|_| Code::Unknown);
        major.check()?;
        minor.put(number(low)?)?;
        major.put(number(high)?)
    };

    /// CUDA cores of the whole GPU; not with MIG on.
    fn nvmlDeviceGetNumGpuCores(device: Handle, cores: Out<c_uint>) = |live| {
        live.without_mig(device)?;
        cores.put(facts::cores(live.board(device)?).ok_or(Code::NotSupported)?)
    };

    /// Number of the board: GPUs on one board share it, and here each has its own.
    fn nvmlDeviceGetBoardId(device: Handle, board: Out<c_uint>) = |live| {
        let gpu = live.gpu(device)?;
        board.put(address(&gpu)?.bus << 8)
    };

    /// Whether several GPUs are on the board.
    fn nvmlDeviceGetMultiGpuBoard(device: Handle, several: Out<c_uint>) = |live| {
        live.gpu(device)?;
        several.put(0)
    };

    /// Whether two GPUs are on one board.
    fn nvmlDeviceOnSameBoard(one: Handle, other: Handle, same: Out<c_int>) = |live| {
        let (one, other) = (live.gpu(one)?.uuid, live.gpu(other)?.uuid);
        same.put(c_int::from(one == other))
    };

    /// Where it is on the PCI bus.
    fn nvmlDeviceGetPciInfo(device: Handle, pci: Out<nvml::nvmlPciInfo_t>) = |live| {
        let gpu = live.gpu(device)?;
        pci.put(pci_info(live, &gpu)?)
    };
    /// The same.
    fn nvmlDeviceGetPciInfo_v2(device: Handle, pci: Out<nvml::nvmlPciInfo_t>) = |live| {
        let gpu = live.gpu(device)?;
        pci.put(pci_info(live, &gpu)?)
    };
    /// The same.
    fn nvmlDeviceGetPciInfo_v3(device: Handle, pci: Out<nvml::nvmlPciInfo_t>) = |live| {
        let gpu = live.gpu(device)?;
        pci.put(pci_info(live, &gpu)?)
    };

    /// The same with the class of the device.
    fn nvmlDeviceGetPciInfoExt(device: Handle, pci: Versioned) = |live| {
        let gpu = live.gpu(device)?;
        let info = pci_info(live, &gpu)?;
        let version = pci.version()?;
        pci.put(1, nvml::nvmlPciInfoExt_v1_t {
            version,
            domain: info.domain,
            bus: info.bus,
            device: info.device,
            pciDeviceId: info.pciDeviceId,
            pciSubSystemId: info.pciSubSystemId,
            baseClass: 0x03,
            subClass: 0x02,
            busId: info.busId,
        })
    };

    /// Kind of bus.
    fn nvmlDeviceGetBusType(device: Handle, kind: Out<nvml::nvmlBusType_t>) = |live| {
        live.gpu(device)?;
        kind.put(nvml::NVML_BUS_TYPE_PCIE)
    };

    /// Whether the driver stays loaded without clients: the emulated one does.
    fn nvmlDeviceGetPersistenceMode(device: Handle, mode: Out<nvml::nvmlEnableState_t>) = |live| {
        live.gpu(device)?;
        mode.put(nvml::nvmlEnableState_enum_NVML_FEATURE_ENABLED)
    };

    /// Who may use it: everybody.
    fn nvmlDeviceGetComputeMode(device: Handle, mode: Out<nvml::nvmlComputeMode_t>) = |live| {
        live.device(device)?;
        mode.put(nvml::nvmlComputeMode_enum_NVML_COMPUTEMODE_DEFAULT)
    };

    /// Whether a display is attached.
    fn nvmlDeviceGetDisplayMode(device: Handle, mode: Out<nvml::nvmlEnableState_t>) = |live| {
        live.gpu(device)?;
        mode.put(nvml::nvmlEnableState_enum_NVML_FEATURE_DISABLED)
    };

    /// Whether a display is in use.
    fn nvmlDeviceGetDisplayActive(device: Handle, active: Out<nvml::nvmlEnableState_t>) = |live| {
        live.gpu(device)?;
        active.put(nvml::nvmlEnableState_enum_NVML_FEATURE_DISABLED)
    };

    /// Whether it is passed through to a virtual machine.
    fn nvmlDeviceGetVirtualizationMode(device: Handle, mode: Out<nvml::nvmlGpuVirtualizationMode_t>) = |live| {
        mode.put(if live.gpu(device)?.passthrough {
            nvml::nvmlGpuVirtualizationMode_NVML_GPU_VIRTUALIZATION_MODE_PASSTHROUGH
        } else {
            nvml::nvmlGpuVirtualizationMode_NVML_GPU_VIRTUALIZATION_MODE_NONE
        })
    };

    /// Whether processes are accounted for: they are not.
    fn nvmlDeviceGetAccountingMode(device: Handle, mode: Out<nvml::nvmlEnableState_t>) = |live| {
        live.gpu(device)?;
        mode.put(nvml::nvmlEnableState_enum_NVML_FEATURE_DISABLED)
    };

    /// How CPU and GPU share addresses: not at all.
    fn nvmlDeviceGetAddressingMode(device: Handle, mode: Versioned) = |live| {
        live.gpu(device)?;
        let version = mode.version()?;
        mode.put(1, nvml::nvmlDeviceAddressingMode_v1_t { version, value: 0 })
    };

    /// Position in the machine, from 1.
    fn nvmlDeviceGetModuleId(device: Handle, module: Out<c_uint>) = |live| {
        let gpu = live.gpu(device)?;
        module.put(live.index(&gpu.uuid)? + 1)
    };

    /// What a GPU or MIG device has.
    fn nvmlDeviceGetAttributes(device: Handle, attributes: Out<nvml::nvmlDeviceAttributes_t>) = |live| {
        attributes.put(self::attributes(live, device)?)
    };
    /// The same.
    fn nvmlDeviceGetAttributes_v2(device: Handle, attributes: Out<nvml::nvmlDeviceAttributes_t>) = |live| {
        attributes.put(self::attributes(live, device)?)
    };

    /// CPUs near it: every one of the machine.
    fn nvmlDeviceGetCpuAffinity(device: Handle, size: c_uint, set: Items<c_ulong>) = |live| {
        live.gpu(device)?;
        cpus(size, &set)
    };
    /// The same.
    fn nvmlDeviceGetCpuAffinityWithinScope(device: Handle, size: c_uint, set: Items<c_ulong>, scope: c_uint) = |live| {
        live.gpu(device)?;
        if scope > 1 {
            return Err(Code::InvalidArgument);
        }
        cpus(size, &set)
    };

    /// Memory nodes near it: the first.
    fn nvmlDeviceGetMemoryAffinity(device: Handle, size: c_uint, set: Items<c_ulong>, scope: c_uint) = |live| {
        live.gpu(device)?;
        if scope > 1 || size == 0 {
            return Err(Code::InvalidArgument);
        }
        let words = (0..size).map(|word| c_ulong::from(word == 0)).collect::<Vec<_>>();
        set.put_all(&words)
    };

    /// How far two GPUs are apart: on one host bridge, as the emulated tree of PCI devices has them.
    fn nvmlDeviceGetTopologyCommonAncestor(one: Handle, other: Handle, level: Out<nvml::nvmlGpuTopologyLevel_t>) = |live| {
        let (one, other) = (live.gpu(one)?.uuid, live.gpu(other)?.uuid);
        level.put(if one == other {
            nvml::nvmlGpuLevel_enum_NVML_TOPOLOGY_INTERNAL
        } else {
            nvml::nvmlGpuLevel_enum_NVML_TOPOLOGY_HOSTBRIDGE
        })
    };

    /// The other GPUs at a distance.
    fn nvmlDeviceGetTopologyNearestGpus(device: Handle, level: nvml::nvmlGpuTopologyLevel_t, count: InOut<c_uint>, devices: Items<Handle>) = |live| {
        live.gpu(device)?;
        let far = level == nvml::nvmlGpuLevel_enum_NVML_TOPOLOGY_HOSTBRIDGE;
        let others = live.gpu_handles().into_iter().filter(|other| far && *other != device).collect::<Vec<_>>();
        devices.list_or_length(&count, &others)
    };

    /// Whether two GPUs can copy to each other: not in the emulation.
    fn nvmlDeviceGetP2PStatus(one: Handle, other: Handle, index: nvml::nvmlGpuP2PCapsIndex_t, status: Out<nvml::nvmlGpuP2PStatus_t>) = |live| {
        let _ = index;
        live.gpu(one)?;
        live.gpu(other)?;
        status.put(nvml::nvmlGpuP2PStatus_enum_NVML_P2P_STATUS_NOT_SUPPORTED)
    };
}

fn count(live: &mut Live, count: Out<c_uint>) -> Done {
    count.put(c_uint::try_from(live.state().gpus.len()).map_err(|_| Code::Unknown)?)
}

fn by_index(live: &mut Live, index: c_uint, device: Out<Handle>) -> Done {
    device.check()?;
    let state = live.state();
    let gpu = usize::try_from(index).ok().and_then(|index| state.gpus.get(index));
    let uuid = gpu.ok_or(Code::InvalidArgument)?.uuid.clone();
    live.gpu_of(&uuid)?;
    device.put(live.handle(Thing::Gpu(uuid)))
}

fn by(live: &mut Live, device: Out<Handle>, is: impl Fn(&Gpu) -> bool) -> Done {
    device.check()?;
    let uuid = live.state().gpus.iter().find(|gpu| is(gpu)).ok_or(Code::NotFound)?.uuid.clone();
    live.gpu_of(&uuid)?;
    device.put(live.handle(Thing::Gpu(uuid)))
}

/// Addresses are taken with and without domain, with four or eight digits of it, and in either case, as NVML does.
fn by_pci(live: &mut Live, address: &Text, device: Out<Handle>) -> Done {
    let wanted = Address::read(&address.get()?).ok_or(Code::InvalidArgument)?;
    by(live, device, |gpu| Address::read(&gpu.pci).as_ref() == Some(&wanted))
}

/// A PCI address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Address {
    pub(crate) domain: u32,
    pub(crate) bus: u32,
    pub(crate) device: u32,
}

impl Address {
    /// `domain:bus:device.function`, hexadecimal; the domain may be absent.
    pub(crate) fn read(text: &str) -> Option<Self> {
        let (front, function) = text.split_once('.')?;
        let hex = |part: &str| {
            let digits = !part.is_empty() && part.bytes().all(|b| b.is_ascii_hexdigit());
            if digits { u32::from_str_radix(part, 16).ok() } else { None }
        };
        hex(function)?;
        match front.split(':').collect::<Vec<_>>()[..] {
            [bus, device] => Some(Self { domain: 0, bus: hex(bus)?, device: hex(device)? }),
            [domain, bus, device] => {
                Some(Self { domain: hex(domain)?, bus: hex(bus)?, device: hex(device)? })
            }
            _ => None,
        }
    }
}

fn address(gpu: &Gpu) -> Result<Address, Code> {
    Address::read(&gpu.pci).ok_or(Code::Unknown)
}

fn pci_info(live: &mut Live, gpu: &Gpu) -> Result<nvml::nvmlPciInfo_t, Code> {
    let Address { domain, bus, device } = address(gpu)?;
    let identity = live.identity_of(&gpu.uuid)?;
    Ok(nvml::nvmlPciInfo_t {
        busIdLegacy: chars(&format!("{domain:04X}:{bus:02X}:{device:02X}.0")),
        domain,
        bus,
        device,
        pciDeviceId: identity.pci_device_id,
        pciSubSystemId: identity.pci_subsystem_id,
        busId: chars(&format!("{domain:08X}:{bus:02X}:{device:02X}.0")),
    })
}

/// The layout of NVML's UUID struct, with the value as bytes.
#[repr(C)]
#[derive(Clone, Copy)]
struct Uuid {
    version: c_uint,
    kind: c_uint,
    value: [c_char; nvml::NVML_DEVICE_UUID_ASCII_LEN as usize],
}

const _: () = assert!(size_of::<Uuid>() == size_of::<nvml::nvmlUUID_v1_t>());

/// A UUID in text (kind 1) or binary form (kind 2: the UUID of a GPU).
fn uuid_of(uuid: &Uuid) -> Result<String, Code> {
    let bytes = uuid.value.map(|c| c.to_ne_bytes()[0]);
    match uuid.kind {
        1 => {
            let text = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
            String::from_utf8(text.to_vec()).map_err(|_| Code::InvalidArgument)
        }
        2 => {
            let hex = bytes[..16].iter().map(|byte| format!("{byte:02x}")).collect::<String>();
            Ok(format!("GPU-{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]))
        }
        _ => Err(Code::InvalidArgument),
    }
}

fn attributes(live: &mut Live, device: Handle) -> Result<nvml::nvmlDeviceAttributes_t, Code> {
    let Device::Mig { gpu, mig } = live.device(device)? else {
        // nvml.h: of MIG devices only.
        return Err(Code::NotSupported);
    };
    mig_attributes(live, &gpu, &mig)
}

fn mig_attributes(
    live: &mut Live,
    gpu: &GpuUuid,
    mig: &MigUuid,
) -> Result<nvml::nvmlDeviceAttributes_t, Code> {
    let found = live.mig_device(gpu, mig)?;
    let board = live.board_of(gpu)?;
    let state = live.gpu_of(gpu)?;
    let instance = state.instances.iter().find(|i| i.id == found.gpu_instance).ok_or(Code::NotFound)?;
    let compute = instance.compute.iter().find(|c| c.id == found.compute_instance).ok_or(Code::NotFound)?;
    let profile = board.profile(instance.profile).ok_or(Code::NotFound)?;
    let part = profile.compute_profile(compute.profile).ok_or(Code::NotFound)?;
    let engines = profile.engines;
    Ok(nvml::nvmlDeviceAttributes_t {
        multiprocessorCount: part.sms,
        sharedCopyEngineCount: engines.copy.unwrap_or(0),
        sharedDecoderCount: engines.decoder.unwrap_or(0),
        sharedEncoderCount: engines.encoder.unwrap_or(0),
        sharedJpegCount: engines.jpeg.unwrap_or(0),
        sharedOfaCount: engines.ofa.unwrap_or(0),
        gpuInstanceSliceCount: profile.slices,
        computeInstanceSliceCount: part.slices,
        memorySizeMB: profile.memory_mib,
    })
}

/// A bit for each CPU, as many words as the caller has room for.
fn cpus(size: c_uint, set: &Items<c_ulong>) -> Done {
    if size == 0 {
        return Err(Code::InvalidArgument);
    }
    let all = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let bits = usize::try_from(c_ulong::BITS).unwrap_or(64);
    let word = |index: usize| {
        let left = all.saturating_sub(index * bits);
        if left >= bits { c_ulong::MAX } else { (1 << left) - 1 }
    };
    let words = (0..usize::try_from(size).unwrap_or(0)).map(word).collect::<Vec<_>>();
    set.put_all(&words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_in_every_form_that_programs_use() {
        let same = Address { domain: 0, bus: 0x3b, device: 0 };
        for text in ["00000000:3B:00.0", "0000:3b:00.0", "0:3b:0.0", "3B:00.0"] {
            assert_eq!(Address::read(text), Some(same), "{text}");
        }
        for text in ["", "3B:00", "x:3B:00.0", "1:2:3:4.0", "3B:.0", "+3B:00.0"] {
            assert_eq!(Address::read(text), None, "{text}");
        }
    }

    #[test]
    fn a_uuid_in_binary_form_is_that_of_a_gpu() {
        let mut value = [0; 41];
        value[15] = c_char::from_ne_bytes([0xff]);
        let uuid = Uuid { version: 0, kind: 2, value };
        assert_eq!(uuid_of(&uuid).as_deref(), Ok("GPU-00000000-0000-0000-0000-0000000000ff"));
        assert_eq!(uuid_of(&Uuid { kind: 3, ..uuid }), Err(Code::InvalidArgument));
    }
}
