//! From requests to activity: who was at work in which window.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::io::Read;

use tesela_model::activity::{Activity, Series, SeriesName, Window};

use super::{Request, Work, read};
use crate::diagnostic::{Diagnostic, shown};

/// Shortest window, in milliseconds.
pub const SHORTEST_WINDOW_MS: u32 = 1_000;
/// Longest window, in milliseconds.
pub const LONGEST_WINDOW_MS: u32 = 10_000;
/// Windows of all workloads together; 8 bytes each are held.
const MOST_WINDOWS: usize = 8_000_000;
/// Workloads of all logs together.
const MOST_OWNERS: usize = 20_000;
/// Requests of one workload that are at work at the same time.
const MOST_AT_ONCE: usize = 65_535;
/// A coefficient of the service time is at most this, in nanoseconds: an hour.
const MOST_NS: u64 = 3_600 * 1_000_000_000;

/// How long a request takes when its workload has the device to itself: a base, and so much per token. Requests of
/// one workload do not wait for each other (servers batch them).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServiceTime {
    /// For each request, in nanoseconds.
    pub base_ns: u64,
    /// For each token of the prompt, in nanoseconds.
    pub input_ns: u64,
    /// For each token of the answer, in nanoseconds.
    pub output_ns: u64,
}

impl ServiceTime {
    /// Reads `BASE_MS,US_PER_INPUT_TOKEN,US_PER_OUTPUT_TOKEN`, decimals of up to three places allowed: `10,30,4000`.
    ///
    /// # Errors
    /// When it is not three such numbers, one is beyond an hour, or all are 0.
    pub fn parse(flag: &str) -> Result<Self, Diagnostic> {
        let wrong = |message: String| {
            Diagnostic::error("--service-time", "invalid-value", message).value(shown(flag)).fix(
                "write BASE_MS,US_PER_INPUT_TOKEN,US_PER_OUTPUT_TOKEN, such as 10,30,4000: 10 ms for each request, \
                 30 µs for each token read and 4,000 µs for each token written",
            )
        };
        let parts = flag.split(',').collect::<Vec<_>>();
        let [base, input, output] = parts[..] else {
            return Err(wrong(format!("`{}` is not three numbers", shown(flag))));
        };
        let number = |text: &str, unit: u64| {
            let value = thousandths(text).and_then(|n| n.checked_mul(unit / 1000)).filter(|n| *n <= MOST_NS);
            value.ok_or_else(|| wrong(format!("`{}` is no number between 0 and an hour", shown(text))))
        };
        let found = Self {
            base_ns: number(base, 1_000_000)?,
            input_ns: number(input, 1_000)?,
            output_ns: number(output, 1_000)?,
        };
        if found == (Self { base_ns: 0, input_ns: 0, output_ns: 0 }) {
            return Err(wrong("requests that take no time are never at work".to_owned()));
        }
        Ok(found)
    }

    /// Microseconds of a request with these tokens, rounded up.
    #[must_use]
    pub fn micros(&self, input: u32, output: u32) -> u64 {
        let tokens =
            u128::from(self.input_ns) * u128::from(input) + u128::from(self.output_ns) * u128::from(output);
        u64::try_from((u128::from(self.base_ns) + tokens).div_ceil(1000)).unwrap_or(u64::MAX)
    }
}

/// A decimal number with at most three places, in thousandths.
fn thousandths(text: &str) -> Option<u64> {
    let (whole, places) = text.trim().split_once('.').unwrap_or((text.trim(), "0"));
    let digits = |t: &str| !t.is_empty() && t.bytes().all(|b| b.is_ascii_digit());
    if !digits(whole) || !digits(places) || places.len() > 3 {
        return None;
    }
    let padded = format!("{places:0<3}");
    whole.parse::<u64>().ok()?.checked_mul(1000)?.checked_add(padded.parse().ok()?)
}

/// One workload while its requests come in.
struct Track {
    name: SeriesName,
    /// When those at work now will be done.
    ends: BinaryHeap<Reverse<u64>>,
    /// Up to when everything is counted, in microseconds.
    clock: u64,
    /// Number of the first window.
    first: u64,
    /// Most at work, and microseconds at work, from the first window on.
    windows: Vec<(u16, u32)>,
    /// First and last time of the logs that it occurs in.
    covered: (u64, u64),
    /// The log of its last request.
    log: usize,
}

/// Collects logs into one [`Activity`].
///
/// Series are compared over the time that the logs of all workloads cover: a log covers the time from its first
/// request to its last for each workload in it, and a workload in several logs is covered from the first to the last.
pub struct Recorder {
    window_us: u64,
    service: Option<ServiceTime>,
    tracks: Vec<Track>,
    by_name: BTreeMap<String, usize>,
    logs: usize,
    held: usize,
}

impl Recorder {
    /// Windows of this length, 1,000 to 10,000 ms. Logs of tokens need a service time.
    ///
    /// # Errors
    /// When the window is shorter or longer.
    pub fn new(window_ms: u32, service: Option<ServiceTime>) -> Result<Self, Diagnostic> {
        if !(SHORTEST_WINDOW_MS..=LONGEST_WINDOW_MS).contains(&window_ms) {
            let message = format!("a window of {window_ms} ms is not between 1 and 10 seconds");
            return Err(Diagnostic::error("--window", "number-range", message).fix("take 1 second"));
        }
        let window_us = u64::from(window_ms) * 1000;
        Ok(Self { window_us, service, tracks: Vec::new(), by_name: BTreeMap::new(), logs: 0, held: 0 })
    }

    /// Reads one log. `owner` is whose it is where the log has no such columns.
    ///
    /// # Errors
    /// What is wrong with the log; a log without owner; tokens without a service time; a workload whose requests go
    /// back in time from one log to the next; more than can be held.
    pub fn log<R: Read>(
        &mut self,
        file: &str,
        reader: R,
        owner: Option<(&str, &str)>,
    ) -> Result<u64, Diagnostic> {
        let log = self.logs;
        self.logs += 1;
        let mut range: Option<(u64, u64)> = None;
        let count = read(file, reader, |request| {
            range = Some((range.map_or(request.at_us, |r| r.0), request.at_us));
            self.take(file, log, &request, owner)
        })?;
        let (first, last) = range.unwrap_or_default();
        for track in self.tracks.iter_mut().filter(|t| t.log == log) {
            track.covered = (track.covered.0.min(first), track.covered.1.max(last));
        }
        Ok(count)
    }

    fn take(
        &mut self,
        file: &str,
        log: usize,
        request: &Request<'_>,
        owner: Option<(&str, &str)>,
    ) -> Result<(), Diagnostic> {
        let wrong = |rule, message: String| Diagnostic::error(file, rule, message).at(request.at);
        let named = request.owner.or_else(|| owner.map(|(namespace, workload)| (namespace, None, workload)));
        let Some((namespace, kind, workload)) = named else {
            return Err(wrong("no-workload", "the log does not say whose requests these are".to_owned())
                .fix("add the columns namespace and workload"));
        };
        let duration = match (request.work, self.service) {
            (Work::Micros(micros), _) => micros,
            (Work::Tokens { input, output }, Some(service)) => service.micros(input, output),
            (Work::Tokens { .. }, None) => {
                return Err(wrong("no-service-time", "the log counts tokens, not time".to_owned())
                    .fix("say how long they take: --service-time 10,30,4000"));
            }
        };
        let which = self.track(file, log, request, (namespace, kind, workload))?;
        let track = &mut self.tracks[which];
        if request.at_us < track.clock {
            return Err(wrong("wrong-order", format!("{} has later requests in an earlier log", track.name))
                .fix("name the logs in the order of time"));
        }
        track.log = log;
        let held = track.windows.len();
        let end = request.at_us.saturating_add(duration.max(1));
        // Counted up to its own window at least, so that memory is bounded before the end is known.
        track.advance(request.at_us, self.window_us, MOST_WINDOWS - self.held)?;
        track.ends.push(Reverse(end));
        let at_once = track.ends.len();
        track.count(request.at_us, request.at_us + 1, self.window_us, MOST_WINDOWS - self.held, 0)?;
        self.held += track.windows.len() - held;
        if at_once > MOST_AT_ONCE {
            return Err(wrong(
                "too-many-at-once",
                format!("more than {MOST_AT_ONCE} requests are at work at once"),
            )
            .fix("check the service time: it is longer than the requests can have taken"));
        }
        Ok(())
    }

    fn track(
        &mut self,
        file: &str,
        log: usize,
        request: &Request<'_>,
        (namespace, kind, workload): (&str, Option<&str>, &str),
    ) -> Result<usize, Diagnostic> {
        let key = format!("{namespace}/{}/{workload}", kind.unwrap_or(""));
        if let Some(&which) = self.by_name.get(&key) {
            return Ok(which);
        }
        if self.tracks.len() == MOST_OWNERS {
            let message = format!("there are more than {MOST_OWNERS} workloads");
            return Err(Diagnostic::error(file, "too-many-workloads", message).at(request.at));
        }
        let name = SeriesName {
            namespace: namespace.to_owned(),
            kind: kind.map(str::to_owned),
            workload: workload.to_owned(),
        };
        self.tracks.push(Track {
            name,
            ends: BinaryHeap::new(),
            clock: request.at_us,
            first: request.at_us / self.window_us,
            windows: Vec::new(),
            covered: (request.at_us, request.at_us),
            log,
        });
        self.by_name.insert(key, self.tracks.len() - 1);
        Ok(self.tracks.len() - 1)
    }

    /// The activity of all workloads over the time that all logs cover.
    ///
    /// # Errors
    /// When there is no log, or no time that the logs of all workloads cover.
    pub fn finish(self) -> Result<Activity, Diagnostic> {
        let wrong = |rule, message: String| Diagnostic::error("--requests", rule, message);
        let window_us = self.window_us;
        let Some(from) = self.tracks.iter().map(|t| t.covered.0 / window_us).max() else {
            return Err(wrong("no-requests", "there is no log of requests".to_owned()));
        };
        let to = self.tracks.iter().map(|t| t.covered.1 / window_us).min().unwrap_or(from);
        let name = |pick: &dyn Fn(&Track) -> bool| {
            self.tracks.iter().find(|t| pick(t)).map_or(String::new(), |t| t.name.to_string())
        };
        if to < from {
            let early = name(&|t| t.covered.1 / window_us == to);
            let late = name(&|t| t.covered.0 / window_us == from);
            return Err(wrong(
                "no-common-time",
                format!("the log of {early} ends before that of {late} begins"),
            )
            .fix("take logs of the same hours: only then they tell who works when the other does"));
        }
        let length = usize::try_from(to - from + 1).unwrap_or(usize::MAX);
        if length.saturating_mul(self.tracks.len()) > MOST_WINDOWS {
            return Err(too_long());
        }
        let mut series = Vec::with_capacity(self.tracks.len());
        for mut track in self.tracks {
            let end = track.ends.iter().map(|e| e.0).max().unwrap_or(0).min((to + 1) * window_us);
            track.advance(end.max(track.clock), window_us, MOST_WINDOWS)?;
            series.push(track.series(from, length, window_us));
        }
        let window_ms = u32::try_from(window_us / 1000).unwrap_or(LONGEST_WINDOW_MS);
        Activity::new(window_ms, series).map_err(|error| wrong("no-activity", error.to_string()))
    }
}

fn too_long() -> Diagnostic {
    let message = format!("the logs span more than {MOST_WINDOWS} windows of all workloads together");
    Diagnostic::error("--requests", "too-many-windows", message)
        .fix("take longer windows (--window 10), or fewer hours")
}

impl Track {
    /// Counts what is at work up to a time, and lets go of what is done by then.
    fn advance(&mut self, to: u64, window_us: u64, room: usize) -> Result<(), Diagnostic> {
        while let Some(&Reverse(end)) = self.ends.peek() {
            let until = end.min(to);
            if until > self.clock {
                let busy = until - self.clock;
                self.count(self.clock, until, window_us, room, busy)?;
                self.clock = until;
            }
            if end > to {
                break;
            }
            self.ends.pop();
        }
        self.clock = self.clock.max(to);
        Ok(())
    }

    /// Notes that all in `ends` are at work from one time to another, `busy` microseconds of which are new.
    fn count(
        &mut self,
        from: u64,
        to: u64,
        window_us: u64,
        room: usize,
        busy: u64,
    ) -> Result<(), Diagnostic> {
        let index = |us: u64| usize::try_from(us / window_us - self.first).unwrap_or(usize::MAX);
        let (begin, last) = (index(from), index(to - 1));
        if last >= self.windows.len().saturating_add(room) {
            return Err(too_long());
        }
        if self.windows.len() <= last {
            self.windows.resize(last + 1, (0, 0));
        }
        let at_work = u16::try_from(self.ends.len()).unwrap_or(u16::MAX);
        for (k, window) in self.windows[begin..=last].iter_mut().enumerate() {
            window.0 = window.0.max(at_work);
            if busy > 0 {
                let start = (self.first + (begin + k) as u64) * window_us;
                let part = to.min(start + window_us) - from.max(start);
                window.1 += u32::try_from(part).unwrap_or(u32::MAX);
            }
        }
        Ok(())
    }

    fn series(&self, from: u64, length: usize, window_us: u64) -> Series {
        let window = |number: u64| {
            let at = number.checked_sub(self.first).and_then(|k| usize::try_from(k).ok());
            let Some(&(active, busy)) = at.and_then(|k| self.windows.get(k)) else {
                return Window::default();
            };
            let share = (u64::from(busy) * 1000).div_ceil(window_us).clamp(u64::from(active > 0), 1000);
            Window { active, busy_permille: u16::try_from(share).unwrap_or(1000) }
        };
        let windows = (0..length as u64).map(|k| window(from + k)).collect();
        Series { name: self.name.clone(), windows }
    }
}
