//! An honest user's view without failures: `lrun true` within a second, every node up, no escape sequence of another
//! user.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use limo_tests::Person;
use serde_json::Value;

use crate::honest::Work;

/// Limit for another user's command: programs without optimization are several times slower.
const PATIENCE: Duration = Duration::from_secs(if cfg!(debug_assertions) { 10 } else { 1 });

/// Pauses between two probes or checks.
pub fn pause() {
    thread::sleep(Duration::from_millis(300));
}

/// Counter of changes; even while there is no failure.
pub struct Calm {
    changes: AtomicU64,
    probes: AtomicU64,
    slowest_ms: AtomicU64,
}

impl Calm {
    pub fn new() -> Self {
        Self { changes: AtomicU64::new(1), probes: AtomicU64::new(0), slowest_ms: AtomicU64::new(0) }
    }

    /// Notes that a failure begins, or that its effects are over.
    pub fn change(&self) {
        self.changes.fetch_add(1, Ordering::SeqCst);
    }

    /// Returns the result of `look` if there was no failure meanwhile.
    fn during<T>(&self, look: impl FnOnce() -> T) -> Option<T> {
        let before = self.changes.load(Ordering::SeqCst);
        if before % 2 == 1 {
            return None;
        }
        let found = look();
        (self.changes.load(Ordering::SeqCst) == before).then_some(found)
    }

    /// Returns the number of probes, and the time of the slowest.
    pub fn seen(&self) -> (u64, Duration) {
        let slowest = Duration::from_millis(self.slowest_ms.load(Ordering::Relaxed));
        (self.probes.load(Ordering::Relaxed), slowest)
    }
}

pub fn run(person: &Person, calm: &Calm, work: &Work) {
    while !work.is_over() {
        pause();
        let ran = calm.during(|| {
            let begin = Instant::now();
            (person.run("lrun", &["-Q", "true"]), begin.elapsed())
        });
        if let Some((ran, took)) = ran {
            let took_ms = u64::try_from(took.as_millis()).expect("seconds");
            calm.slowest_ms.fetch_max(took_ms, Ordering::Relaxed);
            calm.probes.fetch_add(1, Ordering::Relaxed);
            if ran.code != Some(0) || took >= PATIENCE {
                work.fault(format!("`lrun true` took {took:?} while nothing failed: {ran:?}"));
            }
        }
        let nodes = calm.during(|| person.run("lq", &["nodes", "--json"]));
        let report = nodes.and_then(|ran| serde_json::from_str::<Value>(&ran.stdout).ok());
        for node in report.iter().filter_map(|report| report["nodes"].as_array()).flatten() {
            if node["state"] != "up" {
                work.fault(format!("a node is not up while nothing failed: {node}"));
            }
        }
        if let Some(ran) = calm.during(|| person.run("lq", &["--all"]))
            && ran.stdout.contains(['\u{1b}', '\u{7}'])
        {
            work.fault(format!("another user's escape sequence is shown: {:?}", ran.stdout));
        }
    }
}
