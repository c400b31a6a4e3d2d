//! The committed draw of the cluster from now on. Tests if one more load fits under power limits and into energy
//! budgets.
//!
//! It applies three rules of energy-budget-2017. Rule 2 of IV-B is "never have energy debts", over past, present and
//! future draw of the whole cluster. Algorithm 2 is the reservation for the first job, and V-C the power cap.
//!
//! Exact: times are whole ms, draws whole mW, energies µJ. Independent of nodes, jobs and release rules.

use limo_model::{Energy, Power, Span, Time};

use super::SOON;
use super::balance::Balance;
use super::line::{Ceiling, PowerLine};
use crate::budget::{UJ_PER_MJ, narrow};

/// Reason why a load does not fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Obstacle {
    /// The load exceeds the lowest power that the limits leave.
    Power { needs: Power, left: Power },
    /// Up to some time the load uses `needs` (rounded up), but the budget then has only `left` (rounded down). `left`
    /// is negative if the budget is already in debt.
    Energy { needs: Energy, left: Energy },
}

/// The committed draw of the cluster over time. Made anew in each round: `new`, then the budgets, then questions and
/// commitments in any order.
///
/// Let n be the number of expected ends and of steps of limits and releases. A commitment costs O(n), and so does the
/// first question about a period after it. Other questions cost O(log n), and O(√n) under limits. [`Ledger::earliest`]
/// costs O(n) for each period before the result.
///
/// Within each period, budgets are checked until the end of the load in question or until the **horizon**, whichever
/// is later. The horizon is the last end of all committed loads. So no debt arises while a job runs (IV-B). A debt
/// after the last known end arises because less is released than the cluster's believed draw without jobs. It blocks
/// no job.
#[derive(Debug, Clone)]
pub(crate) struct Ledger {
    now: Time,
    line: PowerLine,
    /// End of the last committed load with a known end, in ms.
    last_end: i64,
    /// True if a committed load has no known end: the horizon is then the end of each period.
    endless: bool,
    /// True to ignore debts after the end of the tested load.
    short: bool,
    balances: Vec<Balance>,
}

impl Ledger {
    /// Makes a ledger. `draw` is the believed draw of the cluster now; it falls by each of `falls` at its time, when a
    /// load ends. An overdue end is expected for the next millisecond. Ascending times are fastest, any order is
    /// allowed. Loads without a known end are not in `falls`: see [`Ledger::endless`]. All limits hold at the same
    /// time.
    pub fn new(now: Time, draw: Power, falls: impl Iterator<Item = (Time, Power)>, limits: &[Ceiling]) -> Self {
        let mut last_end = now.unix_ms();
        let falls = falls.map(|(at, fall)| {
            let at = at.max(now + SOON);
            last_end = last_end.max(at.unix_ms());
            (at, fall.mw().saturating_neg())
        });
        let falls = falls.collect();
        let line = PowerLine::new(draw, falls, &Ceiling::lowest(limits));
        Self { now, line, last_end, endless: false, short: false, balances: Vec::new() }
    }

    /// Declares that some load has no known end: the horizon is then the end of each period.
    pub fn endless(&mut self) {
        self.endless = true;
        self.balances.iter_mut().for_each(Balance::forget);
    }

    /// Checks budgets only until the end of the load in question: other loads may be left in debt.
    pub fn short(&mut self) {
        self.short = true;
        self.balances.iter_mut().for_each(Balance::forget);
    }

    /// Adds a period: the released minus the used energy must never be negative up to the horizon. It starts with
    /// `available` µJ at the later of now and `from`, and grows by the mW of `release` from then on. Nothing is
    /// released before the first step; the times ascend. May be called for successive periods, in ascending order;
    /// unused energy is not carried over.
    pub fn budget(&mut self, (from, until): (Time, Time), available: i128, release: Vec<(Time, Power)>) {
        self.balances.push(Balance::new((from.max(self.now), until), available, release));
    }

    /// Checks that one more load of `extra` may run from now until `to`, or without a known end. A load runs for at
    /// least a millisecond, and a load without draw is always admitted. ¶ A period does not matter for loads that end
    /// before it. A debt up to the horizon rejects all loads in its period, a debt after the horizon only loads that
    /// run then.
    ///
    /// # Errors
    /// The first [`Obstacle`]: limits come before budgets, earlier budgets before later ones.
    pub fn admits(&mut self, extra: Power, to: Option<Time>) -> Result<(), Obstacle> {
        if extra <= Power::ZERO {
            return Ok(());
        }
        let to = to.map_or(Time::MAX, |to| to.max(self.now + SOON));
        let left = self.line.least_left(self.now, to);
        if extra > left {
            return Err(Obstacle::Power { needs: extra, left: left.at_least_zero() });
        }
        let (to, horizon) = (to.unix_ms(), self.horizon());
        for balance in &mut self.balances {
            if balance.start() >= to {
                break;
            }
            balance.prepare(&self.line.draw, horizon);
            if let Some(debt) = balance.debt(extra.mw(), to) {
                let needs = Energy::from_mj(narrow(debt.needs.saturating_add(UJ_PER_MJ - 1).div_euclid(UJ_PER_MJ)));
                let left = Energy::from_mj(narrow(debt.left.div_euclid(UJ_PER_MJ)));
                return Err(Obstacle::Energy { needs, left });
            }
        }
        Ok(())
    }

    /// Adds a load from `from` (now, or later for a reservation) until `to`, or without end. Does not test if it fits.
    /// The horizon is not before its end from then on.
    pub fn commit(&mut self, extra: Power, from: Time, to: Option<Time>) {
        let from = from.max(self.now);
        let to = to.map(|to| to.max(from + SOON));
        self.line.add((from, to.unwrap_or(Time::MAX)), extra);
        match to {
            Some(to) => self.last_end = self.last_end.max(to.unix_ms()),
            None => self.endless = true,
        }
        self.balances.iter_mut().for_each(Balance::forget);
    }

    /// Returns the first time from `not_before` (at least now) on at which a load of `extra` would be admitted for
    /// `span`, or without a known end. The draw until then is the committed one. Debts before the start do not
    /// matter; neither do debts after both its end and the horizon. After the last period and the last limit every
    /// load is admitted. Returns `None` only if a limit without end forbids the load.
    pub fn earliest(&mut self, extra: Power, span: Option<Span>, not_before: Time) -> Option<Time> {
        let mut at = not_before.max(self.now);
        let span = span.map_or(Span::MAX, |span| span.max(SOON));
        if extra <= Power::ZERO {
            return Some(at);
        }
        let horizon = self.horizon();
        // A start is impossible before the time of each step below, so the first time that needs no step is the result.
        loop {
            let from = self.line.earliest(extra, (at, Time::MAX), span)?.unix_ms();
            let end = from.saturating_add(span.ms());
            let touched = self.balances.iter_mut().filter(|balance| from < balance.until() && balance.start() < end);
            let next = touched.fold(from, |next, balance| {
                balance.prepare(&self.line.draw, horizon);
                next.max(if balance.start() <= from {
                    balance.clear_from(extra.mw(), span.ms(), from)
                } else if balance.debt(extra.mw(), end).is_some() {
                    // The later the load starts before the period, the more of it falls into the period.
                    balance.start()
                } else {
                    from
                })
            });
            at = Time::from_unix_ms(next);
            if next == from {
                return Some(at);
            }
            if at == Time::MAX {
                return None;
            }
        }
    }

    fn horizon(&self) -> i64 {
        if self.short {
            return self.now.unix_ms();
        }
        if self.endless { i64::MAX } else { self.last_end }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: i64) -> Time {
        Time::from_unix_ms(ms)
    }

    fn watts(watts: i64) -> Power {
        Power::from_watts(watts)
    }

    fn limited(limits: &[Ceiling]) -> Ledger {
        Ledger::new(at(0), watts(500), [(at(50_000), watts(100))].into_iter(), limits)
    }

    /// Makes a cluster with four nodes of 100 W idle and 200 W computing, one of them computing until 50 s: 500 W, then
    /// 400 W.
    fn cluster() -> Ledger {
        limited(&[])
    }

    /// Makes a budget of 500 W for 100 s: the balance is constant until 50 s and then grows by 100 W, 5,000 J in total.
    fn with_budget(joules: i128) -> Ledger {
        let mut ledger = cluster();
        ledger.budget((at(0), at(100_000)), joules * 1_000_000, vec![(at(0), watts(500))]);
        ledger
    }

    #[test]
    fn a_load_is_never_in_debt() {
        let check = |at_hand, load, to: Option<i64>, debt: Option<(i64, i64)>| {
            let expected = debt.map_or(Ok(()), |(needs, left)| {
                let (needs, left) = (Energy::from_joules(needs), Energy::from_joules(left));
                Err(Obstacle::Energy { needs, left })
            });
            assert_eq!(with_budget(at_hand).admits(watts(load), to.map(at)), expected, "{at_hand} J {load} W {to:?}");
        };
        // The balance is zero until 50 s, although 5,000 J are left at 100 s.
        check(0, 100, Some(30_000), Some((3_000, 0)));
        check(0, 100, None, Some((5_000, 0)));
        check(0, 0, None, None);
        check(3_000, 100, Some(30_000), None);
        check(2_999, 100, Some(30_000), Some((3_000, 2_999)));
        // 5,000 J are used at 50 s; from then on the release equals the draw.
        check(5_000, 100, None, None);
        check(5_000, 101, None, Some((5_050, 5_000)));
        // A budget in debt starts nothing.
        check(-1, 1, Some(1_000), Some((0, -1)));
        check(-1, -1, Some(1_000), None);
    }

    #[test]
    fn the_first_time_at_which_a_load_fits() {
        let check = |at_hand, load, secs: i64, expected| {
            let found = with_budget(at_hand).earliest(watts(load), Some(Span::from_secs(secs)), at(0));
            assert_eq!(found, Some(at(expected)), "{at_hand} J {load} W {secs} s");
        };
        // From 50 s on, the release exceeds the draw by 100 W.
        check(0, 100, 30, 50_000);
        check(3_000, 100, 30, 0);
        // 2,000 J are needed for 200 W over 10 s: 1,000 J are available at 60 s, and 1,000 J are added while the load
        // runs.
        check(0, 200, 10, 60_000);
        // 6,000 J never become available, but the period ends: 300 W from 83.334 s on use 4,999.8 J of 5,000 J.
        check(0, 300, 20, 83_334);
        // A debt of 1 J is paid at 50.01 s.
        check(-1, 100, 30, 50_010);
        // A debt of 6,000 J is never paid in the period.
        check(-6_000, 100, 30, 100_000);
        assert_eq!(with_budget(0).earliest(watts(100), None, at(70_000)), Some(at(70_000)));
    }

    /// The release is 300 W, and the idle cluster draws 400 W. Of 12,000 J, 2,000 J are left at 50 s, the last known
    /// end. None are left at 70 s, and 3,000 J would be missing at 100 s.
    fn below_rest(endless: bool) -> Ledger {
        let mut ledger = cluster();
        if endless {
            ledger.endless();
        }
        ledger.budget((at(0), at(100_000)), 12_000_000_000, vec![(at(0), watts(300))]);
        ledger
    }

    #[test]
    fn a_debt_after_the_last_load_rejects_no_load() {
        let mut ledger = below_rest(false);
        let mut check = |load, to: Option<i64>, debt: Option<(i64, i64)>| {
            let expected = debt.map_or(Ok(()), |(needs, left)| {
                let (needs, left) = (Energy::from_joules(needs), Energy::from_joules(left));
                Err(Obstacle::Energy { needs, left })
            });
            assert_eq!(ledger.admits(watts(load), to.map(at)), expected, "{load} W {to:?}");
        };
        // The running load keeps its energy until 50 s.
        check(100, Some(20_000), None);
        check(100, Some(21_000), Some((2_100, 2_000)));
        check(10, Some(60_000), None);
        check(10, Some(70_000), Some((700, 0)));
        check(1, None, Some((100, -3_000)));
        // A load without a known end runs to the end of the period, so no other load may start.
        let missing = Energy::from_joules(-3_000);
        let obstacle = Obstacle::Energy { needs: Energy::from_joules(1), left: missing };
        assert_eq!(below_rest(true).admits(watts(1), Some(at(1_000))), Err(obstacle));
    }

    #[test]
    fn a_commitment_moves_the_horizon() {
        let mut ledger = below_rest(false);
        ledger.commit(watts(10), at(55_000), Some(at(65_000)));
        // At 65 s 500 J are left without that load, and 400 J with it.
        assert_eq!(ledger.admits(watts(10), Some(at(40_000))), Ok(()));
        let (needs, left) = (Energy::from_joules(500), Energy::from_joules(400));
        let obstacle = Obstacle::Energy { needs, left };
        assert_eq!(ledger.admits(watts(10), Some(at(50_000))), Err(obstacle));
        ledger.commit(watts(10), at(0), None);
        assert!(ledger.admits(watts(1), Some(at(1_000))).is_err());
    }

    #[test]
    fn below_rest_a_later_start_may_be_worse() {
        let check = |load, secs: i64, from, expected| {
            let found = below_rest(false).earliest(watts(load), Some(Span::from_secs(secs)), at(from));
            assert_eq!(found, Some(at(expected)), "{load} W {secs} s from {from}");
        };
        // 2,000 J are left at 50 s and 1,000 J at 60 s. A load that ends a millisecond later lacks 0.1 J, and one that
        // starts later lacks more.
        check(100, 20, 0, 0);
        check(100, 20, 30_000, 30_000);
        check(100, 20, 30_001, 100_000);
        check(100, 21, 0, 100_000);
        check(100, 10, 50_000, 50_000);
        check(100, 10, 50_001, 100_000);
    }

    #[test]
    fn a_load_that_crosses_into_the_next_period_must_fit_there_too() {
        // The second period releases 450 W: the balance begins at 0, not at the 5,000 J left over, and grows by 50 W.
        let mut ledger = with_budget(0);
        ledger.budget((at(100_000), at(200_000)), 0, vec![(at(100_000), watts(450))]);
        let mut check = |load, secs, expected| {
            let found = ledger.earliest(watts(load), Some(Span::from_secs(secs)), at(0));
            assert_eq!(found, Some(at(expected)), "{load} W {secs} s");
        };
        check(50, 80, 50_000);
        check(100, 30, 50_000);
        // At 83.334 s the load would fit the first period but not the second, which has 5,000 J at its end.
        check(300, 20, 183_334);
    }

    #[test]
    fn the_first_jobs_energy_is_not_stolen() {
        let mut ledger = with_budget(0);
        // 200 W for 10 s from 60 s on leave nothing at 70 s.
        ledger.commit(watts(200), at(60_000), Some(at(70_000)));
        let found = ledger.earliest(watts(100), Some(Span::from_secs(30)), at(0));
        assert_eq!(found, Some(at(70_000)));
    }

    #[test]
    fn a_limit_holds_in_its_window_only() {
        let window = Ceiling { steps: vec![(at(20_000), watts(600))], until: at(70_000) };
        let mut ledger = limited(std::slice::from_ref(&window));
        assert_eq!(ledger.admits(watts(150), Some(at(20_000))), Ok(()));
        let obstacle = Obstacle::Power { needs: watts(150), left: watts(100) };
        assert_eq!(ledger.admits(watts(150), Some(at(20_001))), Err(obstacle));
        let mut check = |load, secs, expected| {
            let found = ledger.earliest(watts(load), Some(Span::from_secs(secs)), at(0));
            assert_eq!(found, Some(at(expected)), "{load} W {secs} s");
        };
        check(150, 20, 0);
        check(150, 21, 50_000);
        check(250, 21, 70_000);
        let always = Ceiling { steps: vec![(at(0), watts(400))], until: Time::MAX };
        assert_eq!(limited(&[window, always]).earliest(watts(1), Some(Span::from_secs(1)), at(0)), None);
    }

    #[test]
    fn an_overdue_end_is_expected_at_once() {
        let falls = [(at(3), watts(1)), (at(10), watts(1))];
        let limit = Ceiling { steps: vec![(at(0), watts(2))], until: at(100) };
        let mut ledger = Ledger::new(at(10), watts(2), falls.into_iter(), &[limit]);
        assert_eq!(ledger.earliest(watts(2), Some(Span::from_secs(1)), at(0)), Some(at(11)));
    }
}
