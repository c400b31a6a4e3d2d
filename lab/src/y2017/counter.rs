//! The counter of available energy and the tests of a job against the cap.
//!
//! Uses the draws that the published scheduler believed, not those of the platform. Energies are in uJ (mW x ms) in 128
//! bits: the energy of a whole cluster over a window exceeds 64 bits.

use super::queue::Request;

/// The scheduler's assumed draw of a node, in mW.
const BELIEVED_IDLE_MW: i64 = 100_000;
const BELIEVED_BUSY_MW: i64 = 203_120;
/// Extra draw of a busy node, in mW.
const BUSY_MORE_MW: i64 = BELIEVED_BUSY_MW - BELIEVED_IDLE_MW;
/// Time between two answers of the meter, in ms.
pub const STAGE_MS: i64 = 600_000;

/// The algorithms of energy-budget-2017.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Algorithm {
    /// Section II: EASY backfilling without energy.
    Easy,
    /// Power capping, section V-C.
    PowerCap,
    /// Reduced power cap, section IV-D.
    ReducePc,
    /// Energy budget, Algorithm 2.
    EnergyBud,
}

impl Algorithm {
    /// Returns true if saved energy may pay for a job above the cap.
    pub fn spends(self) -> bool {
        matches!(self, Self::ReducePc | Self::EnergyBud)
    }
}

/// The window of the budget, in ms from the start of the workload, and its cap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    pub from: i64,
    pub until: i64,
    /// Cap: the budget divided by its duration, in mW.
    pub cap_mw: i64,
}

/// A job at a time with a number of free processors.
#[derive(Debug, Clone, Copy)]
pub struct Trial {
    pub request: Request,
    pub start: i64,
    pub free: u32,
}

/// Terms under which a job may run.
#[derive(Debug, Clone, Copy, Default)]
pub struct Terms {
    /// True if saved energy may pay.
    pub spends: bool,
    /// True if the cost is reserved.
    pub reserves: bool,
    /// Energy that is expected to be saved by the time of the trial.
    pub expected: i128,
    /// Energy subtracted from the cap, and its time in ms, which may be negative (before the window) but not 0.
    pub lowered: Option<(i128, i64)>,
}

/// The counter; see the module.
#[derive(Debug)]
pub struct Counter {
    pub algorithm: Algorithm,
    pub window: Window,
    nodes: i64,
    pub saved: i128,
    /// Energy reserved in this pass for the head of the queue. With `EnergyBud`, also for backfilled jobs.
    pub reserved: i128,
    /// Time of the last answer, and the energy that the meter had counted.
    answer: Option<(i64, i128)>,
}

impl Counter {
    pub fn new(nodes: u32, algorithm: Algorithm, window: Window) -> Self {
        Self { algorithm, window, nodes: i64::from(nodes), saved: 0, reserved: 0, answer: None }
    }

    pub fn is_budgeted(&self) -> bool {
        self.algorithm != Algorithm::Easy
    }

    /// Takes the meter's answer; returns the time of the next question.
    pub fn answer(&mut self, now: i64, measured: i128) -> Option<i64> {
        let (time, before) = self.answer.unwrap_or((now, measured));
        self.saved += i128::from(now - time) * i128::from(self.window.cap_mw) - (measured - before);
        self.answer = Some((now, measured));
        (now < self.window.until).then(|| (now + STAGE_MS).min(self.window.until))
    }

    /// Returns the believed draw of the cluster with `free` free nodes, which may be negative. Nodes that are off count
    /// as idle.
    pub fn power_mw(&self, free: i64) -> i64 {
        self.nodes * BELIEVED_BUSY_MW - free * BUSY_MORE_MW
    }

    /// Returns the power below the cap with the whole cluster idle; negative if the cap is below the idle draw.
    pub fn idle_gap_mw(&self) -> i64 {
        self.window.cap_mw - self.nodes * BELIEVED_IDLE_MW
    }

    /// Returns the energy above the cap of a draw from `start` to `end`, within the window.
    pub fn excess(&self, start: i64, end: i64, power_mw: i64) -> i128 {
        let ms = end.min(self.window.until) - start.max(self.window.from);
        if ms <= 0 { 0 } else { i128::from(power_mw - self.window.cap_mw) * i128::from(ms) }
    }

    /// Returns true if the job is subject to the cap. A request that ends exactly at the start of the window counts.
    /// If a request crosses the window, so does a longer one.
    pub fn crosses(&self, start: i64, request_ms: i64) -> bool {
        self.is_budgeted() && start < self.window.until && self.window.from <= start + request_ms
    }

    /// Returns the power below the cap with this number of free nodes, in mW; negative above the cap.
    fn gap_mw(&self, free: i64, lowered: Option<(i128, i64)>) -> i64 {
        let aside = match lowered {
            None | Some((0, _)) => 0,
            Some((energy, ms)) => div_ceil(energy, i128::from(ms)),
        };
        let gap = self.window.cap_mw - self.power_mw(free);
        // Only a reservation over a very short time could exceed 64 bits.
        (i128::from(gap) - aside).clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64
    }

    /// Returns the most processors of `free` that can run without a draw above the cap; negative if even zero exceed
    /// it.
    pub fn most(&self, free: u32, lowered: Option<(i128, i64)>) -> i64 {
        self.gap_mw(i64::from(free), lowered).div_euclid(BUSY_MORE_MW)
    }

    /// Returns true if the energy allows the job. Reserves its energy if saved energy pays for it and the terms require
    /// this.
    pub fn admits(&mut self, trial: Trial, terms: Terms) -> bool {
        let Trial { request, start, free } = trial;
        if !self.crosses(start, request.ms) {
            return true;
        }
        if free < request.processors {
            return false;
        }
        if self.algorithm != Algorithm::EnergyBud {
            if self.gap_mw(i64::from(free) - i64::from(request.processors), terms.lowered) >= 0 {
                return true;
            }
            if !terms.spends {
                return false;
            }
        }
        let power = self.power_mw(i64::from(free) - i64::from(request.processors));
        let excess = self.excess(start, start + request.ms, power);
        let admitted = excess <= terms.expected + self.saved - self.reserved;
        if admitted && terms.reserves {
            self.reserved += excess;
        }
        admitted
    }

    /// Returns true if the remaining energy could admit some job that crosses the window and requests at least `least`.
    pub fn could_admit(&self, least: Request, now: i64, free: u32) -> bool {
        if free < least.processors {
            return false;
        }
        let over = self.power_mw(i64::from(free) - i64::from(least.processors)) - self.window.cap_mw;
        let longest = self.window.until - now.max(self.window.from);
        let shortest = now.saturating_add(least.ms).min(self.window.until) - now.max(self.window.from);
        let ms = if over > 0 { shortest.max(0) } else { longest };
        i128::from(over) * i128::from(ms) <= self.saved - self.reserved
    }
}

/// Divides, rounded up; `divisor` may be negative, but not 0.
pub fn div_ceil(dividend: i128, divisor: i128) -> i128 {
    let (dividend, divisor) = if divisor < 0 { (-dividend, -divisor) } else { (dividend, divisor) };
    dividend.div_euclid(divisor) + i128::from(dividend.rem_euclid(divisor) != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes a counter of ten nodes, with a window from 100 s to 200 s and a cap of 1,515.6 W: five busy nodes, as
    /// believed.
    fn counter(algorithm: Algorithm) -> Counter {
        Counter::new(10, algorithm, Window { from: 100_000, until: 200_000, cap_mw: 1_515_600 })
    }

    fn trial(processors: u32, ms: i64, start: i64, free: u32) -> Trial {
        Trial { request: Request { processors, ms }, start, free }
    }

    #[test]
    fn a_cap_counts_within_the_window_only() {
        let mut capped = counter(Algorithm::PowerCap);
        let mut check = |processors, ms, start, expected| {
            assert_eq!(capped.admits(trial(processors, ms, start, 10), Terms::default()), expected);
        };
        check(5, 1_000, 150_000, true);
        check(6, 1_000, 150_000, false);
        // The jobs end before the window, meet its start, or start at its end.
        check(6, 1_000, 98_999, true);
        check(6, 1_000, 99_000, false);
        check(6, 1_000, 200_000, true);
        assert!(counter(Algorithm::Easy).admits(trial(6, 1_000, 150_000, 10), Terms::default()));
    }

    #[test]
    fn reserved_energy_lowers_the_cap() {
        let counter = counter(Algorithm::ReducePc);
        assert_eq!(counter.most(10, None), 5);
        assert_eq!(counter.most(3, None), -2);
        // This is exactly one node for 10 s, then 1 uJ more. A negative time raises the result.
        assert_eq!(counter.most(10, Some((1_031_200_000, 10_000))), 4);
        assert_eq!(counter.most(10, Some((1_031_200_001, 10_000))), 3);
        assert_eq!(counter.most(10, Some((1_031_200_000, -10_000))), 6);
    }

    #[test]
    fn energy_is_saved_spent_and_set_aside() {
        let mut counter = counter(Algorithm::EnergyBud);
        assert_eq!(counter.answer(100_000, 7_000_000), Some(200_000));
        assert_eq!(counter.saved, 0);
        // In 20 s, 1,000 W are drawn of 1,515.6 W.
        assert_eq!(counter.answer(120_000, 7_000_000 + 20_000_000_000), Some(200_000));
        assert_eq!(counter.saved, 10_312_000_000);
        let reserves = Terms { spends: true, reserves: true, ..Terms::default() };
        // Two nodes above the cap for 50 s need 206.24 W x 50 s, which is all of the saved energy.
        assert!(!counter.admits(trial(7, 50_001, 120_000, 10), reserves));
        assert!(counter.could_admit(Request { processors: 7, ms: 50_000 }, 120_000, 10));
        assert!(!counter.could_admit(Request { processors: 7, ms: 50_001 }, 120_000, 10));
        assert!(counter.admits(trial(7, 50_000, 120_000, 10), reserves));
        assert_eq!(counter.reserved, 10_312_000_000);
        assert!(!counter.admits(trial(6, 1, 120_000, 10), reserves));
        // One node below the cap leaves energy for another.
        assert!(counter.admits(trial(4, 1_000, 120_000, 10), reserves));
        assert_eq!(counter.reserved, 10_312_000_000 - 103_120_000);
        assert_eq!(counter.answer(200_000, 7_000_000), None);
    }

    #[test]
    fn quotients_are_rounded_up() {
        for (dividend, divisor, expected) in [(7, 2, 4), (-7, 2, -3), (7, -2, -3), (-7, -2, 4), (6, -2, -3)] {
            assert_eq!(div_ceil(dividend, divisor), expected);
        }
    }
}
