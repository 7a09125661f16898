//! What programs ask of a GPU that the simulation has no state for.
//!
//! Each value is from NVIDIA's documents where they say it, and otherwise one choice that stands here alone.

use tesela_sim::board::Board;

/// Lanes of the PCI link: all of these products have sixteen.
pub(crate) const PCIE_LANES: u32 = 16;
/// Used of the window into memory on an idle GPU, as `nvidia-smi -q` shows on data-centre GPUs (about 1 MiB).
pub(crate) const BAR1_USED: u64 = 1 << 20;
/// Traffic on the PCI link for each percent of memory activity, in KB/s. A choice: work on resident data hardly uses
/// the link.
pub(crate) const PCIE_KBPS_PER_PERCENT: u32 = 1000;
/// Banks with spare rows. A100 and H100 report 640 (`nvidia-smi -q`, "Bank Remap Availability Histogram").
pub(crate) const MEMORY_BANKS: u32 = 640;
/// Period that utilisation of engines is sampled over, in µs.
pub(crate) const SAMPLING_PERIOD_US: u32 = 100_000;
/// Memory activity for each busy multiprocessor. A choice: half.
pub(crate) const MEMORY_PER_BUSY: f64 = 0.5;

/// NVML's number of a generation (nvml.h, NVML_DEVICE_ARCH_*).
pub(crate) fn architecture(board: &Board) -> u32 {
    match board.product().architecture.as_str() {
        "ampere" => 7,
        "ada" | "ada-lovelace" => 8,
        "hopper" => 9,
        "blackwell" => 10,
        _ => u32::MAX,
    }
}

/// CUDA cores: 64 in a multiprocessor of compute capability 8.0, 128 in later ones (CUDA programming guide).
pub(crate) fn cores(board: &Board) -> Option<u32> {
    let per = if board.compute_capability()? == (8, 0) { 64 } else { 128 };
    board.product().sms.map(|sms| sms * per)
}

/// The window into memory: the next power of two, as data-centre GPUs have it.
pub(crate) fn bar1_bytes(board: &Board) -> u64 {
    (board.memory_mib() << 20).next_power_of_two()
}

/// Generation of the PCI link: 4 of Ampere, 5 of what came later (data sheets).
pub(crate) fn pcie_generation(board: &Board) -> u32 {
    if board.product().architecture == "ampere" { 4 } else { 5 }
}

/// Transfers of one lane in a second, in millions: 16,000 of the fourth generation, twice that of the fifth.
pub(crate) fn pcie_lane_mbps(board: &Board) -> u32 {
    1000 << pcie_generation(board)
}

/// Whether it has performance counters for programs: Hopper and later (nvml.h).
pub(crate) fn has_gpm(board: &Board) -> bool {
    board.compute_capability().is_some_and(|capability| capability >= (9, 0))
}
