//! The energy of each of several runs on a machine with one meter.
//!
//! Between two looks at the meter the machine draws its idle draw and what its runs draw on top. That is shared out by
//! their weights, which are what each was expected to draw, and by how long each ran meanwhile. A run that has the machine
//! to itself therefore gets all of it. The idle draw is the mean of what the meter shows while nothing runs, over about the last minute
//! of it; until that was seen, what the operator wrote.
//!
//! How sure an energy is: 1 for a run that was alone, else its mean part of all that was shared out, since an error in what
//! the others draw counts the more the smaller the part is. A meter that showed fewer than [`ENOUGH_LOOKS`] values makes it
//! less sure in proportion. Knows no clock and no meter.

use std::collections::BTreeMap;
use std::time::Duration;

use limo_model::{Energy, Power};

/// Values of a meter from which its noise no longer counts much.
const ENOUGH_LOOKS: u32 = 10;

/// Idle draw is the mean over this much of the newest time in which nothing ran.
const MEMORY: Duration = Duration::from_secs(60);

/// After a run the meter may still show some of it, and the machine cools down.
const SETTLE: Duration = Duration::from_secs(3);

/// In tenths of a run's time: if the meter covered less of it, the run has no energy.
const SEEN: u32 = 9;

/// The energy of the runs of one machine. Times are by a clock that is never set, and do not go back.
#[derive(Debug)]
pub struct Attribution {
    idle: Idle,
    /// The newest look.
    seen_until: Duration,
    runs: BTreeMap<u64, MeteredRun>,
    /// Until then the meter may still show some of the last run, which is over.
    quiet_since: Duration,
}

/// What was attributed to a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attributed {
    /// Above idle.
    pub energy: Energy,
    /// In thousandths.
    pub confidence: u16,
}

#[derive(Debug)]
struct Idle {
    draw: Power,
    /// How long it was seen; not more than [`MEMORY`].
    seen: Duration,
}

#[derive(Debug)]
struct MeteredRun {
    weight: i64,
    /// Since when it runs; `None` while it stands still.
    since: Option<Duration>,
    ended: Option<Duration>,
    /// Time in which it ran, up to `since`.
    active: Duration,
    /// That of it after the newest look.
    unseen: Duration,
    /// That of it which looks cover.
    covered: Duration,
    /// Milliwatts times nanoseconds.
    drawn: i128,
    /// Covered time times the part that was the run's, in thousandths of nanoseconds.
    own: u128,
    looks: u32,
}

impl Idle {
    fn add(&mut self, draw: Power, over: Duration) {
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
    /// How long it ran within these times; what is before them is seen now.
    fn ran(&mut self, from: Duration, to: Duration) -> Duration {
        let before = std::mem::take(&mut self.unseen).min(to - from);
        before
            + self
                .since
                .map_or(Duration::ZERO, |since| to.min(self.ended.unwrap_or(to)).saturating_sub(from.max(since)))
    }
}

impl Attribution {
    /// `idle` is what the operator says that the machine draws if nothing runs.
    pub fn new(idle: Power) -> Self {
        let idle = Idle { draw: idle, seen: Duration::ZERO };
        Self { idle, seen_until: Duration::ZERO, runs: BTreeMap::new(), quiet_since: Duration::ZERO }
    }

    /// What the machine is taken to draw while nothing runs.
    pub fn idle(&self) -> Power {
        self.idle.draw
    }

    /// A run begins. `weight` is what it is expected to draw above idle; at least 1 mW counts.
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
        self.runs.insert(token, run);
    }

    /// A run stands still from then on, or goes on.
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

    /// A run is over; it is kept until it is taken.
    pub fn end(&mut self, token: u64, at: Duration) {
        if let Some(run) = self.runs.get_mut(&token) {
            run.ended = Some(at);
            self.quiet_since = self.quiet_since.max(at + SETTLE);
        }
    }

    /// Whether a look after its end is still to come for a run that has ended.
    pub fn awaits_look(&self, token: u64) -> bool {
        let ended = self.runs.get(&token).and_then(|run| run.ended);
        ended.is_some_and(|ended| self.seen_until < ended)
    }

    /// The meter showed at `at` that the machine drew so much in the time `over` before it.
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
            // In millionths: finer than any meter, and nothing overflows.
            let millionths = part.saturating_mul(1_000_000) / all;
            run.drawn = run.drawn.saturating_add(above.saturating_mul(millionths) / 1_000_000);
            run.own = run.own.saturating_add(ran.as_nanos() * u128::try_from(millionths / 1_000).unwrap_or(0));
            run.covered += ran;
            run.looks = run.looks.saturating_add(1);
        }
    }

    /// Takes a run that is over, or was lost: what it used, if enough of it was seen. What was not seen counts as the rest.
    pub fn take(&mut self, token: u64, now: Duration) -> Option<Attributed> {
        let run = self.runs.remove(&token)?;
        let last = run.since.map_or(Duration::ZERO, |since| run.ended.unwrap_or(now).saturating_sub(since));
        let active = run.active + last;
        if run.covered.is_zero() || run.covered * 10 < active * SEEN {
            return None;
        }
        let (covered, active) = (nanos(run.covered), nanos(active));
        // A picojoule is 1 mW in 1 ns, and a millijoule has a thousand million of them.
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
