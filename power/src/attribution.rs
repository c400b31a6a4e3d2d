//! Attributes the energy of a machine with one meter to its runs.
//!
//! Between two samples the machine draws its idle draw and the draw of its runs. The latter is divided by the runs'
//! weights, which are their expected draws, and by their running times in the interval. A run that is alone gets all of
//! it. The idle draw is the mean of the samples without runs over about the last minute; before that, the operator's
//! value counts. A sample without runs counts once the next one is there and no run was reported in between: a run draws
//! power before its beginning is known.
//!
//! The confidence of an energy is 1 for a run that was alone, else its mean share of the attributed energy: an error in
//! the draw of others weighs more if the share is small. With fewer than [`ENOUGH_LOOKS`] samples the confidence is
//! lower in proportion. Has no clock and no meter.

use std::collections::BTreeMap;
use std::time::Duration;

use limo_model::{Energy, Power};

/// Number of samples after which their noise matters little.
const ENOUGH_LOOKS: u32 = 10;

/// Length of the newest idle time whose mean is the idle draw.
const MEMORY: Duration = Duration::from_secs(60);

/// Time after a run until the machine has cooled down and the meter no longer shows the run.
const SETTLE: Duration = Duration::from_secs(3);

/// Tenths of a run's time that samples must cover. Otherwise the energy of the run is unknown.
const SEEN: u32 = 9;

/// Energy of the runs of one machine. Times are on a monotonic clock.
#[derive(Debug)]
pub struct Attribution {
    idle: Idle,
    /// Time of the newest sample.
    seen_until: Duration,
    runs: BTreeMap<u64, MeteredRun>,
    /// Until this time samples may still include a finished run.
    quiet_since: Duration,
}

/// Energy attributed to a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attributed {
    /// Above idle.
    pub energy: Energy,
    /// Confidence in thousandths.
    pub confidence: u16,
}

#[derive(Debug)]
struct Idle {
    draw: Power,
    /// Length of the samples; not more than [`MEMORY`].
    seen: Duration,
    /// Newest sample, which does not count yet, with its length.
    newest: Option<(Power, Duration)>,
}

#[derive(Debug)]
struct MeteredRun {
    weight: i64,
    /// Start of the current running time; `None` while suspended.
    since: Option<Duration>,
    ended: Option<Duration>,
    /// Running time up to `since`.
    active: Duration,
    /// Running time after the newest sample.
    unseen: Duration,
    /// Part of the running time that samples cover.
    covered: Duration,
    /// Milliwatts times nanoseconds.
    drawn: i128,
    /// Covered time, weighted with the run's share in thousandths; in nanoseconds.
    own: u128,
    looks: u32,
}

impl Idle {
    fn add(&mut self, draw: Power, over: Duration) {
        let Some((draw, over)) = self.newest.replace((draw, over)) else { return };
        let (seen, over) = (nanos(self.seen), nanos(over));
        if seen + over > 0 {
            let mean = (i128::from(self.draw.mw()) * seen + i128::from(draw.mw()) * over) / (seen + over);
            self.draw = Power::from_mw(i64::try_from(mean).unwrap_or(i64::MAX));
        }
        self.seen = MEMORY.min(self.seen + Duration::from_nanos(u64::try_from(over).unwrap_or(u64::MAX)));
    }
}

fn nanos(span: Duration) -> i128 {
    i128::try_from(span.as_nanos()).unwrap_or(i128::MAX)
}

impl MeteredRun {
    /// Returns the run's time in this interval, and marks it as sampled.
    fn ran(&mut self, from: Duration, to: Duration) -> Duration {
        let before = std::mem::take(&mut self.unseen).min(to - from);
        before
            + self
                .since
                .map_or(Duration::ZERO, |since| to.min(self.ended.unwrap_or(to)).saturating_sub(from.max(since)))
    }
}

impl Attribution {
    /// Makes the attribution for a machine with the operator's value `idle`.
    pub fn new(idle: Power) -> Self {
        let idle = Idle { draw: idle, seen: Duration::ZERO, newest: None };
        Self { idle, seen_until: Duration::ZERO, runs: BTreeMap::new(), quiet_since: Duration::ZERO }
    }

    /// Returns the idle draw.
    pub fn idle(&self) -> Power {
        self.idle.draw
    }

    /// Starts a run. `weight` is its expected draw above idle; at least 1 mW counts.
    pub fn start(&mut self, token: u64, weight: Power, at: Duration) {
        let run = MeteredRun {
            weight: weight.mw().max(1),
            since: Some(at),
            ended: None,
            active: Duration::ZERO,
            unseen: Duration::ZERO,
            covered: Duration::ZERO,
            drawn: 0,
            own: 0,
            looks: 0,
        };
        self.idle.newest = None;
        self.runs.insert(token, run);
    }

    /// Suspends or resumes a run.
    pub fn set_paused(&mut self, token: u64, paused: bool, at: Duration) {
        let Some(run) = self.runs.get_mut(&token).filter(|run| run.ended.is_none()) else { return };
        match (paused, run.since) {
            (true, Some(since)) => {
                run.active += at.saturating_sub(since);
                run.unseen += at.saturating_sub(since.max(self.seen_until));
                run.since = None;
            }
            (false, None) => run.since = Some(at),
            _ => {}
        }
    }

    /// Ends a run; it is kept until it is taken.
    pub fn end(&mut self, token: u64, at: Duration) {
        if let Some(run) = self.runs.get_mut(&token) {
            run.ended = Some(at);
            self.quiet_since = self.quiet_since.max(at + SETTLE);
        }
    }

    /// Returns true if the first sample after a run's end is missing.
    pub fn awaits_look(&self, token: u64) -> bool {
        let ended = self.runs.get(&token).and_then(|run| run.ended);
        ended.is_some_and(|ended| self.seen_until < ended)
    }

    /// Adds a sample: the mean draw during the time `over` before `at`.
    pub fn look(&mut self, at: Duration, draw: Power, over: Duration) {
        let from = at.saturating_sub(over);
        self.seen_until = at;
        let parts: Vec<(u64, Duration, i128)> = self
            .runs
            .iter_mut()
            .map(|(token, run)| (*token, run.ran(from, at), i128::from(run.weight)))
            .filter(|(_, ran, _)| !ran.is_zero() && !over.is_zero())
            .map(|(token, ran, weight)| (token, ran, weight.saturating_mul(nanos(ran))))
            .collect();
        if parts.is_empty() {
            if from >= self.quiet_since {
                self.idle.add(draw, over);
            }
            return;
        }
        let above = i128::from((draw - self.idle.draw).at_least_zero().mw()).saturating_mul(nanos(over));
        let all = parts.iter().fold(0_i128, |sum, (.., part)| sum.saturating_add(*part)).max(1);
        for (token, ran, part) in parts {
            let Some(run) = self.runs.get_mut(&token) else { continue };
            // The share is in millionths: finer than any meter, and without overflow.
            let millionths = part.saturating_mul(1_000_000) / all;
            run.drawn = run.drawn.saturating_add(above.saturating_mul(millionths) / 1_000_000);
            run.own = run.own.saturating_add(ran.as_nanos() * u128::try_from(millionths / 1_000).unwrap_or(0));
            run.covered += ran;
            run.looks = run.looks.saturating_add(1);
        }
    }

    /// Removes a finished or lost run; returns its energy, if samples cover enough of it. Uncovered time counts like
    /// the rest.
    pub fn take(&mut self, token: u64, now: Duration) -> Option<Attributed> {
        let run = self.runs.remove(&token)?;
        let last = run.since.map_or(Duration::ZERO, |since| run.ended.unwrap_or(now).saturating_sub(since));
        let active = run.active + last;
        if run.covered.is_zero() || run.covered * 10 < active * SEEN {
            return None;
        }
        let (covered, active) = (nanos(run.covered), nanos(active));
        // 1 mW in 1 ns is a picojoule; a millijoule is 10^9 picojoules.
        let mj = run.drawn.saturating_mul(active.max(1)) / covered / 1_000_000_000;
        let share = run.own / run.covered.as_nanos().max(1);
        let confidence = share * u128::from(run.looks.min(ENOUGH_LOOKS)) / u128::from(ENOUGH_LOOKS);
        Some(Attributed {
            energy: Energy::from_mj(i64::try_from(mj).unwrap_or(i64::MAX)),
            confidence: u16::try_from(confidence.min(1_000)).unwrap_or(1_000),
        })
    }
}

#[cfg(test)]
mod tests;
