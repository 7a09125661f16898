//! How busy workloads were, window by window, aligned in time.
//!
//! Two workloads with the same average may never meet, or always. Only series over the same windows tell, so that is
//! what decides who may take turns on one device (`tesela_plan::activity`). Request logs and usage series both end
//! up here.

use std::fmt;

/// Longest window, one hour: beyond it nothing is left of who worked at the same time.
pub const LONGEST_WINDOW_MS: u32 = 3_600_000;

/// Whose activity a series is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SeriesName {
    /// Namespace of the workload.
    pub namespace: String,
    /// Kind of the workload; `None` = not said, so it is any workload of that name.
    pub kind: Option<String>,
    /// Name of the workload.
    pub workload: String,
}

impl SeriesName {
    /// Whether it names this workload.
    #[must_use]
    pub fn names(&self, key: &crate::demand::WorkloadKey) -> bool {
        self.namespace == key.namespace
            && self.workload == key.name
            && self.kind.as_ref().is_none_or(|kind| *kind == key.kind)
    }
}

impl fmt::Display for SeriesName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(kind) = &self.kind {
            write!(f, "{kind}/")?;
        }
        write!(f, "{}/{}", self.namespace, self.workload)
    }
}

/// What a workload did in one window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Window {
    /// The most of its requests (or pods) that were at work at the same time; 0 = idle throughout. Whoever counts
    /// pods takes no more than the workload has.
    pub active: u16,
    /// Thousandths of the window in which it had work at all, 0 to 1000.
    pub busy_permille: u16,
}

/// The activity of one workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Series {
    /// Whose it is.
    pub name: SeriesName,
    /// One entry per window; the k-th of each series is the same stretch of time.
    pub windows: Vec<Window>,
}

impl Series {
    /// Mean share of the time it had work, in thousandths, rounded up; 0 without windows.
    #[must_use]
    pub fn load_permille(&self) -> u32 {
        let sum: u64 = self.windows.iter().map(|w| u64::from(w.busy_permille)).sum();
        let mean = sum.div_ceil((self.windows.len() as u64).max(1));
        u32::try_from(mean).unwrap_or(u32::MAX)
    }

    /// Share of windows in which it worked at all, in thousandths, rounded up; 0 without windows.
    #[must_use]
    pub fn duty_permille(&self) -> u32 {
        let some = self.windows.iter().filter(|w| w.active > 0).count() as u64;
        u32::try_from((some * 1000).div_ceil((self.windows.len() as u64).max(1))).unwrap_or(u32::MAX)
    }
}

/// Series of several workloads over the same windows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Activity {
    window_ms: u32,
    windows: usize,
    series: Vec<Series>,
}

/// Why series do not go together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ActivityError {
    /// The window is empty or longer than [`LONGEST_WINDOW_MS`].
    Window(u32),
    /// A series has another number of windows than the first.
    Length {
        /// Whose series.
        name: SeriesName,
        /// Its windows.
        found: usize,
        /// Windows of the others.
        expected: usize,
    },
    /// Two series of one name.
    Twice(SeriesName),
    /// A window is busy beyond its length, or busy without work, or works without being busy.
    Busy {
        /// Whose series.
        name: SeriesName,
        /// Which window.
        window: usize,
    },
}

impl fmt::Display for ActivityError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Window(ms) => write!(f, "a window of {ms} ms is not between 1 and {LONGEST_WINDOW_MS} ms"),
            Self::Length { name, found, expected } => {
                write!(f, "{name} has {found} windows, the others have {expected}")
            }
            Self::Twice(name) => write!(f, "{name} has two series"),
            Self::Busy { name, window } => write!(
                f,
                "{name}: window {window} must be busy for 1 to 1000 thousandths when it has work, else for 0"
            ),
        }
    }
}

impl std::error::Error for ActivityError {}

impl Activity {
    /// Series over windows of `window_ms` milliseconds, all of one length, each workload once; kept by name.
    ///
    /// # Errors
    /// A window of no length or beyond an hour, series of different lengths, a name twice, or a window whose two
    /// figures contradict each other.
    pub fn new(window_ms: u32, mut series: Vec<Series>) -> Result<Self, ActivityError> {
        if window_ms == 0 || window_ms > LONGEST_WINDOW_MS {
            return Err(ActivityError::Window(window_ms));
        }
        series.sort_by(|a, b| a.name.cmp(&b.name));
        let windows = series.first().map_or(0, |s| s.windows.len());
        for (k, one) in series.iter().enumerate() {
            if one.windows.len() != windows {
                let (name, found) = (one.name.clone(), one.windows.len());
                return Err(ActivityError::Length { name, found, expected: windows });
            }
            if series[..k].last().is_some_and(|before| before.name == one.name) {
                return Err(ActivityError::Twice(one.name.clone()));
            }
            let wrong = |w: &Window| w.busy_permille > 1000 || (w.active == 0) != (w.busy_permille == 0);
            if let Some(window) = one.windows.iter().position(wrong) {
                return Err(ActivityError::Busy { name: one.name.clone(), window });
            }
        }
        Ok(Self { window_ms, windows, series })
    }

    /// Length of one window in milliseconds, 1 to [`LONGEST_WINDOW_MS`].
    #[must_use]
    pub fn window_ms(&self) -> u32 {
        self.window_ms
    }

    /// Windows of each series.
    #[must_use]
    pub fn windows(&self) -> usize {
        self.windows
    }

    /// The series, by name.
    #[must_use]
    pub fn series(&self) -> &[Series] {
        &self.series
    }

    /// The series of a workload: the one that names its kind before the one that names none.
    #[must_use]
    pub fn of(&self, key: &crate::demand::WorkloadKey) -> Option<&Series> {
        let named = || self.series.iter().filter(|s| s.name.names(key));
        named().find(|s| s.name.kind.is_some()).or_else(|| named().next())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(workload: &str, active: &[u16]) -> Series {
        let name = SeriesName { namespace: "a".into(), kind: None, workload: workload.into() };
        let window = |&active: &u16| Window { active, busy_permille: if active > 0 { 500 } else { 0 } };
        Series { name, windows: active.iter().map(window).collect() }
    }

    #[test]
    fn series_go_together_or_say_why_not() {
        let both = Activity::new(1000, vec![series("y", &[0, 2]), series("x", &[1, 0])]);
        let both = both.expect("they go together");
        assert_eq!(both.series()[0].name.workload, "x");
        assert_eq!((both.series()[0].load_permille(), both.series()[0].duty_permille()), (250, 500));
        let short = Activity::new(1000, vec![series("x", &[0]), series("y", &[0, 1])]);
        assert_eq!(short.unwrap_err().to_string(), "a/y has 2 windows, the others have 1");
        let twice = Activity::new(1000, vec![series("x", &[0]), series("x", &[1])]);
        assert_eq!(twice.unwrap_err().to_string(), "a/x has two series");
        assert!(matches!(Activity::new(0, vec![]), Err(ActivityError::Window(0))));
        let mut odd = series("x", &[0]);
        odd.windows[0].busy_permille = 1;
        assert!(matches!(Activity::new(1000, vec![odd]), Err(ActivityError::Busy { window: 0, .. })));
    }
}
