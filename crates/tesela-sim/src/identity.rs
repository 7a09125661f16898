//! Names that a driver makes up: drawn from a seed, so that the same machine file gives the same names.

use tesela_model::driver::{GpuUuid, MigUuid};

/// What a drawn number is for, so that two uses of one seed do not meet.
#[derive(Clone, Copy)]
pub(crate) enum Use {
    Gpu = 1,
    Serial = 2,
    Mig = 3,
}

/// A number drawn from a seed and a path of further numbers: SplitMix64 (Steele, Lea, Flood, "Fast splittable
/// pseudorandom number generators", 2014), folded over the path.
pub(crate) fn draw(seed: u64, purpose: Use, path: &[u64]) -> u64 {
    let mut state = mix(seed ^ mix(purpose as u64));
    for step in path {
        state = mix(state ^ mix(*step));
    }
    state
}

fn mix(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

/// The UUID of the GPU at an index.
pub(crate) fn gpu_uuid(seed: u64, index: u64) -> GpuUuid {
    GpuUuid::new(format!("GPU-{}", uuid(seed, Use::Gpu, &[index], 4)))
}

/// The UUID of the `created`-th MIG device of a GPU.
pub(crate) fn mig_uuid(seed: u64, gpu: u64, created: u64) -> MigUuid {
    // Real ones are of version 5.
    MigUuid::new(format!("MIG-{}", uuid(seed, Use::Mig, &[gpu, created], 5)))
}

fn uuid(seed: u64, purpose: Use, path: &[u64], version: u64) -> String {
    let half = |which: u64| draw(seed, purpose, &[path, &[which]].concat());
    let (high, low) = (half(0), half(1));
    let high = (high & !0xf000) | (version << 12);
    let low = (low & !(0b11 << 62)) | (0b10 << 62);
    format!(
        "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
        high >> 32,
        (high >> 16) & 0xffff,
        high & 0xffff,
        low >> 48,
        low & 0xffff_ffff_ffff
    )
}

/// A serial number of 13 digits, as NVIDIA's are.
pub(crate) fn serial(seed: u64, index: u64) -> String {
    format!("16{:011}", draw(seed, Use::Serial, &[index]) % 100_000_000_000)
}

/// The PCI address of the GPU at an index: bus numbers apart, as behind switches.
pub(crate) fn pci(index: u64) -> String {
    format!("00000000:{:02X}:00.0", 7 + 3 * index)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_their_shape_and_differ() {
        let uuid = gpu_uuid(7, 0);
        assert_eq!(uuid.as_str().len(), "GPU-5f2c0a3e-7d1b-4c6e-9a58-0b6f1e2d3c4a".len());
        assert_eq!(uuid.as_str().as_bytes()[18], b'4');
        assert!(b"89ab".contains(&uuid.as_str().as_bytes()[23]));
        assert_ne!(uuid, gpu_uuid(7, 1));
        assert_ne!(uuid, gpu_uuid(8, 0));
        assert_eq!(uuid, gpu_uuid(7, 0));
        assert_ne!(mig_uuid(7, 0, 0), mig_uuid(7, 0, 1));
        assert_eq!(serial(7, 3).len(), 13);
        assert_eq!((pci(0), pci(63)), ("00000000:07:00.0".to_owned(), "00000000:C4:00.0".to_owned()));
    }
}
