//! From a count of windows to a limit that a longer look would keep.

/// One-sided 95 % of the normal distribution.
const Z: f64 = 1.644_853_626_951_472_6;
/// The resample at this place, in hundredths, is the limit.
const CONFIDENCE_PERCENT: usize = 95;

/// A long series is drawn in so many blocks at most, each longer: bursts of a day's log last longer than those of an
/// hour's, and longer blocks never make a limit surer than it is.
pub(super) const MOST_BLOCKS: usize = 120;

/// How the confidence limit is found. The same input gives the same limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sampling {
    /// Windows are drawn in blocks of this length, so that what lasts several windows stays together; longer where
    /// the series has more than 120 such blocks. Milliseconds.
    pub block_ms: u32,
    /// Times the whole series is drawn anew, at least 1.
    pub resamples: u32,
    /// Where the draws begin.
    pub seed: u64,
}

impl Default for Sampling {
    fn default() -> Self {
        Self { block_ms: 60_000, resamples: 1000, seed: 1 }
    }
}

/// SplitMix64 (Steele, Lea, Flood 2014): small, and the same on every machine.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `n`.
    fn below(&mut self, n: usize) -> usize {
        // The high half of the product is below n, which came from a usize.
        usize::try_from((u128::from(self.next()) * n as u128) >> 64).unwrap_or(0)
    }
}

/// How often too many are at work at the same time.
///
/// The limit is the larger of two. The first is the 95 % point of a circular block bootstrap (Politis and Romano
/// 1992), which keeps bursts whole. It says nothing where nothing was seen, and too little where little was; so the
/// second is Wilson's upper limit with continuity correction (Newcombe 1998) for as many independent windows, below
/// which no honest limit can be: 0 of 60 windows leave 5.8 % open, 0 of 2,400 leave 0.15 %.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Risk {
    /// Windows looked at.
    pub windows: u64,
    /// Windows with too many at work.
    pub over: u64,
    /// Upper end of the one-sided 95 % interval of their share, in millionths, rounded up. All without windows.
    pub upper_ppm: u32,
}

impl Risk {
    /// Counts the windows in which more than `together` are at work, and finds the limit.
    #[must_use]
    pub fn of(counts: &[u32], together: u32, window_ms: u32, sampling: &Sampling) -> Self {
        let mut sums = Vec::with_capacity(counts.len() + 1);
        let mut over = 0u64;
        sums.push(over);
        for count in counts {
            over += u64::from(*count > together);
            sums.push(over);
        }
        let windows = counts.len() as u64;
        if windows == 0 {
            return Self { windows, over, upper_ppm: 1_000_000 };
        }
        let block = (sampling.block_ms / window_ms.max(1)).max(1) as usize;
        let block = block.max(counts.len().div_ceil(MOST_BLOCKS));
        let upper = bootstrap(&sums, block, sampling).max(wilson(over, windows));
        Self { windows, over, upper_ppm: upper }
    }

    /// Whether the limit is kept with confidence. What was counted alone is never enough.
    #[must_use]
    pub fn within(&self, risk_ppm: u32) -> bool {
        self.upper_ppm <= risk_ppm
    }

    /// What was counted, in millionths, rounded up; all without windows.
    #[must_use]
    pub fn share_ppm(&self) -> u32 {
        if self.windows == 0 {
            return 1_000_000;
        }
        ppm(u128::from(self.over), u128::from(self.windows))
    }
}

/// Millionths, rounded up, at most all.
fn ppm(part: u128, whole: u128) -> u32 {
    u32::try_from((part * 1_000_000).div_ceil(whole.max(1)).min(1_000_000)).unwrap_or(1_000_000)
}

/// The 95 % point of the mean of blocks drawn anew. `sums[k]` counts what is over before window k.
fn bootstrap(sums: &[u64], block: usize, sampling: &Sampling) -> u32 {
    let windows = sums.len() - 1;
    let block = block.min(windows);
    let all = sums[windows];
    if all == 0 {
        return 0;
    }
    let draws = windows.div_ceil(block);
    let mut dice = Dice(sampling.seed);
    // Blocks wrap round, so that each window is drawn as often as any other.
    let of_block = |start: usize| match (start + block).checked_sub(windows) {
        None | Some(0) => sums[start + block] - sums[start],
        Some(wrapped) => all - sums[start] + sums[wrapped],
    };
    let resamples = sampling.resamples.max(1) as usize;
    let mut found: Vec<u64> =
        (0..resamples).map(|_| (0..draws).map(|_| of_block(dice.below(windows))).sum()).collect();
    found.sort_unstable();
    let place = (resamples * CONFIDENCE_PERCENT).div_ceil(100).clamp(1, resamples);
    ppm(u128::from(found[place - 1]), (draws * block) as u128)
}

/// Wilson's upper limit with continuity correction; only sums, products and roots, so the same on every machine.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "counts are far below 2^52, and the result is clamped to millionths"
)]
fn wilson(over: u64, windows: u64) -> u32 {
    if over >= windows {
        return 1_000_000;
    }
    let (n, p, z2) = (windows as f64, over as f64 / windows as f64, Z * Z);
    let root = (z2 - 1.0 / n + 4.0 * n * p * (1.0 - p) - (4.0 * p - 2.0)).max(0.0).sqrt();
    let upper = (2.0 * n * p + z2 + Z * root + 1.0) / (2.0 * (n + z2));
    (upper * 1e6).ceil().clamp(0.0, 1e6) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn risk(counts: &[u32]) -> Risk {
        Risk::of(counts, 1, 1000, &Sampling::default())
    }

    #[test]
    fn little_data_leaves_much_open() {
        assert_eq!(risk(&[]).upper_ppm, 1_000_000);
        assert_eq!(risk(&[0; 60]).upper_ppm, 57_948);
        assert_eq!(risk(&[0; 2400]).upper_ppm, 1_514);
        assert_eq!(risk(&[2; 50]), Risk { windows: 50, over: 50, upper_ppm: 1_000_000 });
    }

    /// The limit P solves P − k/n − 1/(2n) = z √(P(1 − P)/n); found by bisection for Newcombe's 81 of 263.
    #[test]
    fn the_limit_of_independent_windows() {
        assert_eq!(wilson(81, 263), 358_527);
    }

    #[test]
    fn what_comes_in_bursts_is_less_sure() {
        let scattered: Vec<u32> = (0..3000).map(|k| if k % 50 == 0 { 2 } else { 0 }).collect();
        let burst: Vec<u32> = (0..3000).map(|k| if k < 60 { 2 } else { 0 }).collect();
        let (scattered, burst) = (risk(&scattered), risk(&burst));
        assert_eq!((scattered.over, burst.over), (60, 60));
        assert_eq!(scattered.share_ppm(), 20_000);
        assert!(burst.upper_ppm > scattered.upper_ppm + 10_000, "{burst:?} {scattered:?}");
    }
}
