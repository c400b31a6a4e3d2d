//! Measured times, and the bounds that they must keep.

use std::collections::BTreeMap;
use std::fs;
use std::sync::Mutex;
use std::time::Duration;

use crate::{EVICT_AFTER, GRACE};

/// Time of the test between two samples, on a quiet machine.
const SAMPLE: Duration = Duration::from_millis(100);

/// Time around an arrival or a failure in which an attempt may be cut off between its line and its end, in seconds.
const CUT_S: f64 = 0.3;

/// Bounds of a run.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Time from the first event of an arrival to the stop of all processes, at the 99th percentile.
    stopped: Duration,
    /// Time after which a process that is due is gone.
    late: Duration,
}

impl Bounds {
    /// Bounds for a run by itself.
    pub const QUIET: Self = Self { stopped: Duration::from_millis(200), late: Duration::from_secs(1) };

    /// Bounds beside other tests, which occupy all cores: 50 arrivals have no 99th percentile, and the test itself may
    /// not run for a second.
    pub const BUSY: Self = Self { stopped: Duration::from_secs(2), late: Duration::from_secs(4) };
}

/// Observations of one visit. Times are since its first event.
#[derive(Debug, Clone, Default)]
pub struct Visit {
    pub node: &'static str,
    /// Time until all processes stood still; `None` if none was running.
    pub stopped: Option<Duration>,
    /// Times at which attempts that stood still were ended.
    pub evicted: Vec<Duration>,
    /// Times at which they were gone.
    pub gone: Vec<Duration>,
    /// True if one was never gone, although the owner stayed.
    pub kept: bool,
    /// True if the daemon of the node was killed meanwhile.
    pub is_disturbed: bool,
}

/// Everything that the threads of a test note.
#[derive(Debug, Default)]
pub struct Notes {
    visits: Mutex<Vec<Visit>>,
    /// Number of beginnings and ends of failures, by node.
    disturbances: Mutex<BTreeMap<String, u64>>,
    /// Arrivals and failures of a node, by the clock of [`uptime`].
    cuts: Mutex<Vec<(String, f64)>>,
}

/// Returns the time since boot in seconds, as jobs read it.
fn uptime() -> f64 {
    let text = fs::read_to_string("/proc/uptime").expect("Linux");
    text.split(' ').next().and_then(|seconds| seconds.parse().ok()).expect("a time")
}

impl Notes {
    pub fn visited(&self, visit: Visit) {
        self.visits.lock().expect("whole").push(visit);
    }

    pub fn came(&self, node: &str) {
        self.cuts.lock().expect("whole").push((node.to_owned(), uptime()));
    }

    /// Notes the beginning or the end of a failure of a node.
    pub fn disturbed(&self, node: &str) {
        *self.disturbances.lock().expect("whole").entry(node.to_owned()).or_default() += 1;
        self.came(node);
    }

    /// Returns the number of beginnings and ends of failures: it is odd during one.
    pub fn disturbances(&self, node: &str) -> u64 {
        self.disturbances.lock().expect("whole").get(node).copied().unwrap_or(0)
    }

    /// Returns true if an owner or a failure may have cut off the last instruction of a job at this time.
    pub fn may_cut(&self, node: &str, up: f64) -> bool {
        let cuts = self.cuts.lock().expect("whole");
        cuts.iter().any(|(of, at)| of == node && (at - up).abs() < CUT_S)
    }

    pub fn check(&self, arrivals: u64, bounds: Bounds) {
        let visits = self.visits.lock().expect("whole");
        assert_eq!(visits.len() as u64, arrivals);
        let calm: Vec<&Visit> = visits.iter().filter(|visit| !visit.is_disturbed).collect();
        let mut stopped: Vec<Duration> = calm.iter().filter_map(|visit| visit.stopped).collect();
        let evicted: Vec<Duration> = calm.iter().flat_map(|visit| visit.evicted.iter().copied()).collect();
        let gone: Vec<Duration> = calm.iter().flat_map(|visit| visit.gone.iter().copied()).collect();
        let quantile = |times: &mut [Duration], percent: usize| {
            times.sort_unstable();
            // The smallest time that `percent` of all times do not exceed.
            (times.len() * percent).div_ceil(100).checked_sub(1).map_or(Duration::ZERO, |index| times[index])
        };
        let [p50, p99, longest] = [50, 99, 100].map(|percent| quantile(&mut stopped, percent));
        let [first, last] = [evicted.iter().min(), evicted.iter().max()].map(|time| time.copied().unwrap_or_default());
        let slowest = gone.iter().max().copied().unwrap_or_default();
        println!(
            "{arrivals} arrivals, {} of them while the daemon worked; {} stopped jobs: p50 {p50:.1?}, p99 {p99:.1?}, longest \
             {longest:.1?}; {} evictions {first:.2?} to {last:.2?} after an arrival, the last process was gone after {slowest:.2?}",
            calm.len(),
            stopped.len(),
            evicted.len(),
        );
        let due = |after: Duration| after + bounds.late + SAMPLE;
        let is_wrong = |visit: &&&Visit| {
            let early = visit.evicted.iter().any(|at| *at + SAMPLE < EVICT_AFTER);
            let late = visit.evicted.iter().any(|at| *at > due(EVICT_AFTER));
            early || late || visit.kept || visit.gone.iter().any(|at| *at > due(EVICT_AFTER + GRACE))
        };
        let wrong: Vec<_> =
            calm.iter().filter(is_wrong).map(|visit| (visit.node, &visit.evicted, &visit.gone)).collect();
        assert!(wrong.is_empty(), "evicted too early or too late: {wrong:?}");
        assert!(p99 <= bounds.stopped, "{p99:?} until all processes stood still");
        let least = arrivals / 10;
        assert!(stopped.len() as u64 > least && evicted.len() as u64 > least, "too little was tested");
    }
}
