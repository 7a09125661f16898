//! Any sequence of NVML calls, with any handles, numbers and sizes of buffers: each ends with a code of NVML's, and
//! nothing is read or written beyond what the caller gave. Buffers are exactly as long as they are said to be, so
//! AddressSanitizer, with which this is built, sees one byte too many.
#![no_main]

use std::ffi::{c_char, c_int, c_uint, c_ulonglong, c_void};
use std::path::Path;
use std::sync::Once;

use libfuzzer_sys::fuzz_target;
// The functions below are its own.
use nvml_sim as _;

type Handle = *mut c_void;
type Code = c_uint;

unsafe extern "C" {
    fn nvmlInit_v2() -> Code;
    fn nvmlErrorString(code: Code) -> *const c_char;
    fn nvmlSystemGetDriverVersion(text: *mut c_char, length: c_uint) -> Code;
    fn nvmlSystemGetProcessName(pid: c_uint, text: *mut c_char, length: c_uint) -> Code;
    fn nvmlDeviceGetHandleByIndex_v2(index: c_uint, device: *mut Handle) -> Code;
    fn nvmlDeviceGetHandleByUUID(uuid: *const c_char, device: *mut Handle) -> Code;
    fn nvmlDeviceGetHandleByPciBusId_v2(address: *const c_char, device: *mut Handle) -> Code;
    fn nvmlDeviceGetHandleByUUIDV(uuid: *mut c_void, device: *mut Handle) -> Code;
    fn nvmlDeviceGetMigDeviceHandleByIndex(device: Handle, index: c_uint, mig: *mut Handle) -> Code;
    fn nvmlDeviceGetName(device: Handle, text: *mut c_char, length: c_uint) -> Code;
    fn nvmlDeviceGetUUID(device: Handle, text: *mut c_char, length: c_uint) -> Code;
    fn nvmlDeviceGetMigMode(device: Handle, current: *mut c_uint, pending: *mut c_uint) -> Code;
    fn nvmlDeviceSetMigMode(device: Handle, mode: c_uint, status: *mut Code) -> Code;
    fn nvmlDeviceGetMemoryInfo_v2(device: Handle, memory: *mut c_void) -> Code;
    fn nvmlDeviceGetTemperatureV(device: Handle, temperature: *mut c_void) -> Code;
    fn nvmlDeviceGetPciInfoExt(device: Handle, info: *mut c_void) -> Code;
    fn nvmlDeviceGetGpuInstanceProfileInfoV(device: Handle, profile: c_uint, info: *mut c_void) -> Code;
    fn nvmlDeviceGetGpuInstancePossiblePlacements_v2(
        device: Handle,
        profile: c_uint,
        places: *mut c_void,
        count: *mut c_uint,
    ) -> Code;
    fn nvmlDeviceCreateGpuInstance(device: Handle, profile: c_uint, instance: *mut Handle) -> Code;
    fn nvmlGpuInstanceCreateComputeInstance(instance: Handle, profile: c_uint, made: *mut Handle) -> Code;
    fn nvmlGpuInstanceDestroy(instance: Handle) -> Code;
    fn nvmlComputeInstanceDestroy(instance: Handle) -> Code;
    fn nvmlGpuInstanceGetComputeInstanceProfileInfoV(
        instance: Handle,
        profile: c_uint,
        engines: c_uint,
        info: *mut c_void,
    ) -> Code;
    fn nvmlDeviceGetComputeRunningProcesses_v3(
        device: Handle,
        count: *mut c_uint,
        infos: *mut c_void,
    ) -> Code;
    fn nvmlDeviceGetComputeRunningProcesses(device: Handle, count: *mut c_uint, infos: *mut c_void) -> Code;
    fn nvmlDeviceGetRunningProcessDetailList(device: Handle, list: *mut c_void) -> Code;
    fn nvmlDeviceGetProcessesUtilizationInfo(device: Handle, info: *mut c_void) -> Code;
    fn nvmlDeviceGetProcessUtilization(
        device: Handle,
        samples: *mut c_void,
        count: *mut c_uint,
        since: c_ulonglong,
    ) -> Code;
    fn nvmlDeviceGetFieldValues(device: Handle, count: c_int, values: *mut c_void) -> Code;
    fn nvmlDeviceGetCpuAffinity(device: Handle, size: c_uint, set: *mut c_void) -> Code;
    fn nvmlEventSetCreate(set: *mut Handle) -> Code;
    fn nvmlDeviceRegisterEvents(device: Handle, kinds: c_ulonglong, set: Handle) -> Code;
    fn nvmlEventSetWait_v2(set: Handle, data: *mut c_void, timeout: c_uint) -> Code;
    fn nvmlEventSetFree(set: Handle) -> Code;
    fn nvmlGpmSampleAlloc(sample: *mut Handle) -> Code;
    fn nvmlGpmSampleFree(sample: Handle) -> Code;
    fn nvmlGpmSampleGet(device: Handle, sample: Handle) -> Code;
    fn nvmlGpmMigSampleGet(device: Handle, gpu_instance: c_uint, sample: Handle) -> Code;
    fn nvmlGpmMetricsGet(metrics: *mut c_void) -> Code;
}

const MACHINE: &str = "
gpus:
  - product: h100-sxm-80gb
    processes: [{pid: 1, memory_mib: 100, busy: 10%}, {pid: 2, memory_mib: 100}]
  - product: a100-40gb
    mig: [{profile: 1g.5gb, start: 0}, {profile: 2g.10gb, start: 2}]
    processes: [{pid: 4321, name: python, memory_mib: 2000, instance: 0}]
";

/// The node that all inputs share.
fn start() {
    static STARTED: Once = Once::new();
    STARTED.call_once(|| {
        let folder = std::env::temp_dir().join(format!("tesela-fuzz-nvml-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder for the node");
        let file = folder.join("node.yaml");
        std::fs::write(&file, MACHINE).expect("a machine file");
        set("TESELA_SIM", &file);
        // SAFETY: takes nothing.
        assert_eq!(unsafe { nvmlInit_v2() }, 0, "the emulated driver starts");
    });
}

fn set(name: &str, value: &Path) {
    // SAFETY: called once, before anything here reads the environment.
    unsafe { std::env::set_var(name, value) };
}

/// The input, read from its begin; zeros behind its end.
struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    fn number(&mut self) -> u32 {
        match self.byte() {
            byte @ 0..=200 => u32::from(byte),
            201..=230 => u32::from_le_bytes(std::array::from_fn(|_| self.byte())),
            byte => u32::MAX - u32::from(u8::MAX - byte),
        }
    }

    /// Bytes of exactly this length, from the input.
    fn bytes(&mut self, length: usize) -> Vec<u8> {
        (0..length).map(|_| self.byte()).collect()
    }

    /// A text with its zero.
    fn text(&mut self) -> Vec<u8> {
        let length = usize::from(self.byte());
        let mut text = self.bytes(length);
        text.retain(|byte| *byte != 0);
        text.push(0);
        text
    }
}

/// Where a call writes: null now and then, else exactly so many bytes.
fn place(input: &mut Input<'_>, bytes: &mut [u8]) -> *mut c_void {
    if input.byte() == 255 { std::ptr::null_mut() } else { bytes.as_mut_ptr().cast() }
}

/// A struct with a version: its size and number, right or not.
fn versioned(input: &mut Input<'_>, size: usize, number: u32) -> Vec<u8> {
    let mut bytes = input.bytes(size);
    let right = u32::try_from(size).unwrap_or(0) | number << 24;
    let version = match input.byte() {
        0..=200 => right,
        201..=220 => number,
        // A version that promises more than the buffer holds would be the caller's lie: no smaller number is one.
        _ => right & 0xff00_0000,
    };
    bytes[..4].copy_from_slice(&version.to_ne_bytes());
    bytes
}

fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    bytes[at..at + value.len()].copy_from_slice(value);
}

struct Node {
    handles: Vec<Handle>,
}

impl Node {
    /// A handle that was given, or one that never was.
    fn handle(&self, input: &mut Input<'_>) -> Handle {
        let byte = usize::from(input.byte());
        match byte {
            250.. => std::ptr::without_provenance_mut(byte * 64),
            _ => self.handles.get(byte % self.handles.len().max(1)).copied().unwrap_or(std::ptr::null_mut()),
        }
    }

    fn keep(&mut self, handle: Handle) {
        if !handle.is_null() && self.handles.len() < 64 {
            self.handles.push(handle);
        }
    }

    /// A call with a text and its length.
    fn text(&self, input: &mut Input<'_>, call: impl Fn(*mut c_char, c_uint) -> Code) -> Code {
        let length = usize::from(input.byte());
        let mut buffer = vec![1; length];
        let code = call(place(input, &mut buffer).cast(), u32::try_from(length).unwrap_or(0));
        assert!(code != 0 || buffer.contains(&0), "a text has its zero");
        code
    }

    /// A call with a list and its length.
    fn list(
        &self,
        input: &mut Input<'_>,
        size: usize,
        call: impl Fn(*mut c_uint, *mut c_void) -> Code,
    ) -> Code {
        let room = usize::from(input.byte() % 32);
        let mut buffer = vec![1; room * size];
        let mut count = u32::try_from(room).unwrap_or(0);
        let buffer = place(input, &mut buffer);
        call(&raw mut count, buffer)
    }

    /// One call.
    #[expect(clippy::too_many_lines, reason = "one arm for each function")]
    fn call(&mut self, input: &mut Input<'_>) -> Code {
        let which = input.byte() % 36;
        let device = self.handle(input);
        let mut made: Handle = std::ptr::null_mut();
        // SAFETY of every call below: pointers are null, or to buffers of exactly the length that is said, or to
        // variables of the type that NVML's header gives.
        let code = match which {
            0 => self.text(input, |text, length| unsafe { nvmlSystemGetDriverVersion(text, length) }),
            1 => {
                let pid = input.number();
                self.text(input, |text, length| unsafe { nvmlSystemGetProcessName(pid, text, length) })
            }
            2 => unsafe { nvmlDeviceGetHandleByIndex_v2(input.number(), &raw mut made) },
            3 => {
                let text = input.text();
                unsafe { nvmlDeviceGetHandleByUUID(text.as_ptr().cast(), &raw mut made) }
            }
            4 => {
                let text = input.text();
                unsafe { nvmlDeviceGetHandleByPciBusId_v2(text.as_ptr().cast(), &raw mut made) }
            }
            5 => {
                let mut uuid = versioned(input, 52, 1);
                unsafe { nvmlDeviceGetHandleByUUIDV(uuid.as_mut_ptr().cast(), &raw mut made) }
            }
            6 => unsafe { nvmlDeviceGetMigDeviceHandleByIndex(device, input.number(), &raw mut made) },
            7 => self.text(input, |text, length| unsafe { nvmlDeviceGetName(device, text, length) }),
            8 => self.text(input, |text, length| unsafe { nvmlDeviceGetUUID(device, text, length) }),
            9 => {
                let (mut current, mut pending) = (0, 0);
                unsafe { nvmlDeviceGetMigMode(device, &raw mut current, &raw mut pending) }
            }
            10 => {
                let mut status = 0;
                unsafe { nvmlDeviceSetMigMode(device, input.number(), &raw mut status) }
            }
            11 => {
                let mut memory = versioned(input, 40, 2);
                unsafe { nvmlDeviceGetMemoryInfo_v2(device, place(input, &mut memory)) }
            }
            12 => {
                let mut temperature = versioned(input, 12, 1);
                unsafe { nvmlDeviceGetTemperatureV(device, place(input, &mut temperature)) }
            }
            13 => {
                let mut info = versioned(input, 64, 1);
                unsafe { nvmlDeviceGetPciInfoExt(device, place(input, &mut info)) }
            }
            14 => {
                let mut info = versioned(input, 152, 2);
                unsafe {
                    nvmlDeviceGetGpuInstanceProfileInfoV(device, input.number(), place(input, &mut info))
                }
            }
            15 => {
                let profile = input.number();
                self.list(input, 8, |count, places| unsafe {
                    nvmlDeviceGetGpuInstancePossiblePlacements_v2(device, profile, places, count)
                })
            }
            16 => unsafe { nvmlDeviceCreateGpuInstance(device, input.number(), &raw mut made) },
            17 => unsafe { nvmlGpuInstanceCreateComputeInstance(device, input.number(), &raw mut made) },
            18 => unsafe { nvmlGpuInstanceDestroy(device) },
            19 => unsafe { nvmlComputeInstanceDestroy(device) },
            20 => {
                let mut info = versioned(input, 136, 2);
                let (profile, engines) = (input.number(), input.number());
                let info = place(input, &mut info);
                unsafe { nvmlGpuInstanceGetComputeInstanceProfileInfoV(device, profile, engines, info) }
            }
            21 => self.list(input, 24, |count, infos| unsafe {
                nvmlDeviceGetComputeRunningProcesses_v3(device, count, infos)
            }),
            22 => self.list(input, 16, |count, infos| unsafe {
                nvmlDeviceGetComputeRunningProcesses(device, count, infos)
            }),
            23 => {
                let room = usize::from(input.byte() % 8);
                let mut array = vec![0_u8; room * 32];
                let mut list = versioned(input, 24, 1);
                put(&mut list, 8, &u32::try_from(room).unwrap_or(0).to_ne_bytes());
                put(&mut list, 16, &place(input, &mut array).addr().to_ne_bytes());
                // The address alone would lose where it comes from.
                let _ = array.as_mut_ptr().expose_provenance();
                unsafe { nvmlDeviceGetRunningProcessDetailList(device, list.as_mut_ptr().cast()) }
            }
            24 => {
                let room = usize::from(input.byte() % 8);
                let mut array = vec![0_u8; room * 40];
                let mut info = versioned(input, 24, 1);
                put(&mut info, 4, &u32::try_from(room).unwrap_or(0).to_ne_bytes());
                put(&mut info, 16, &place(input, &mut array).addr().to_ne_bytes());
                let _ = array.as_mut_ptr().expose_provenance();
                unsafe { nvmlDeviceGetProcessesUtilizationInfo(device, info.as_mut_ptr().cast()) }
            }
            25 => {
                let since = u64::from(input.number());
                self.list(input, 32, |count, samples| unsafe {
                    nvmlDeviceGetProcessUtilization(device, samples, count, since)
                })
            }
            26 => {
                let room = usize::from(input.byte() % 16);
                let mut values = input.bytes(room * 40);
                let count = if input.byte() == 255 { -1 } else { c_int::try_from(room).unwrap_or(0) };
                unsafe { nvmlDeviceGetFieldValues(device, count, place(input, &mut values)) }
            }
            27 => {
                let words = usize::from(input.byte() % 16);
                let mut set = vec![0; words * 8];
                let size = u32::try_from(words).unwrap_or(0);
                unsafe { nvmlDeviceGetCpuAffinity(device, size, place(input, &mut set)) }
            }
            28 => unsafe { nvmlEventSetCreate(&raw mut made) },
            29 => {
                let set = self.handle(input);
                unsafe { nvmlDeviceRegisterEvents(device, u64::from(input.number()), set) }
            }
            30 => {
                let mut data = vec![0; 32];
                unsafe { nvmlEventSetWait_v2(device, place(input, &mut data), 0) }
            }
            31 => unsafe { nvmlEventSetFree(device) },
            32 => unsafe { nvmlGpmSampleAlloc(&raw mut made) },
            33 => {
                let sample = self.handle(input);
                match input.byte() % 3 {
                    0 => unsafe { nvmlGpmSampleFree(sample) },
                    1 => unsafe { nvmlGpmSampleGet(device, sample) },
                    _ => unsafe { nvmlGpmMigSampleGet(device, input.number(), sample) },
                }
            }
            34 => {
                let room = usize::from(input.byte() % 8);
                let mut metrics = input.bytes(24 + room * 40);
                put(&mut metrics, 0, &u32::from(input.byte() % 3).to_ne_bytes());
                put(&mut metrics, 4, &u32::try_from(room).unwrap_or(0).to_ne_bytes());
                for at in [8, 16] {
                    put(&mut metrics, at, &self.handle(input).addr().to_ne_bytes());
                }
                unsafe { nvmlGpmMetricsGet(metrics.as_mut_ptr().cast()) }
            }
            _ => {
                let text = unsafe { nvmlErrorString(input.number()) };
                assert!(!text.is_null());
                0
            }
        };
        if code == 0 {
            self.keep(made);
        }
        code
    }
}

fuzz_target!(|bytes: &[u8]| {
    start();
    let mut node = Node { handles: Vec::new() };
    for index in 0..2 {
        let mut device: Handle = std::ptr::null_mut();
        // SAFETY: writes one handle.
        assert_eq!(unsafe { nvmlDeviceGetHandleByIndex_v2(index, &raw mut device) }, 0);
        node.keep(device);
    }
    let mut input = Input(bytes);
    for _ in 0..64 {
        if input.0.is_empty() {
            break;
        }
        let code = node.call(&mut input);
        assert!(code <= 30 || code == 999, "a code of NVML's: {code}");
        assert_ne!(code, 999, "nothing here is unknown");
    }
});
