//! The pace of a run under a cap, and its remaining work. The caller knows the units, and each run's share of a cap.
//!
//! A cap that lowers a run's draw makes its duration D' instead of D, by a law ([`Slowdown`]). No cap speeds a run up.
//! Work is done at a pace, which may change at any time: D / D'.

use crate::slowdown::Slowdown;
use crate::time::Span;
use crate::units::Power;

/// One, in steps of a [`Pace`]. An error of one step makes a millisecond in 30 years.
const ONE: i64 = 1_000_000_000_000;

/// Work done per time, compared with a run without a cap: 0 (none) to 1 (all), in steps of 1e-12.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pace(i64);

/// An exact amount of work: its duration at full pace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Work(i128);

/// Returns the draw and the pace of a run under the share `cap` of a cap. `full` is its draw without a cap. The pace
/// is rounded up to a step, so that a pace such as 1/3 costs no extra millisecond.
pub fn pace(full: Power, cap: Option<Power>, law: Slowdown) -> (Power, Pace) {
    let Some(cap) = cap.map(Power::at_least_zero).filter(|cap| *cap < full) else { return (full, Pace::FULL) };
    let (longer, free) = law.durations(full, cap);
    if free >= longer {
        return (cap, Pace::FULL);
    }
    let steps = divided_up(free * i128::from(ONE), longer);
    (cap, Pace(i64::try_from(steps).map_or(ONE, |steps| steps.min(ONE))))
}

impl Pace {
    /// The pace without an effective cap.
    pub const FULL: Self = Self(ONE);
    /// The pace of a suspended job.
    pub const STOPPED: Self = Self(0);

    /// Returns the pace of a unit at this pace, of which the work takes `own` instead of `longest`; at most full. Both are
    /// without a cap.
    pub fn of_longest(self, own: Span, longest: Span) -> Self {
        if own >= longest || own <= Span::ZERO {
            return self;
        }
        let steps = divided_up(i128::from(self.0) * i128::from(longest.ms()), i128::from(own.ms()));
        Self(i64::try_from(steps).map_or(ONE, |steps| steps.min(ONE)))
    }

    /// Returns the work done at this pace in `span`; none if it is negative.
    pub fn over(self, span: Span) -> Work {
        Work(i128::from(self.0) * i128::from(span.ms().max(0)))
    }
}

impl Work {
    /// No remaining work.
    pub const ZERO: Self = Self(0);

    /// Returns the work that takes `span` at full pace.
    pub fn lasting(span: Span) -> Self {
        Pace::FULL.over(span)
    }

    /// Returns the work that remains after `done`; at least zero.
    pub fn less(self, done: Self) -> Self {
        Self((self.0 - done.0).max(0))
    }

    /// Returns the work that this is after a change by which all of it takes `after` instead of `before`.
    pub fn taking(self, after: Span, before: Span) -> Self {
        Self(divided_up(self.0.saturating_mul(i128::from(after.ms().max(0))), i128::from(before.ms().max(1))))
    }

    /// Returns true if no work remains.
    pub fn is_done(self) -> bool {
        self.0 == 0
    }

    /// Returns the duration at `pace`, rounded up to a millisecond. `None` if the work never ends.
    pub fn takes(self, pace: Pace) -> Option<Span> {
        if self.is_done() {
            return Some(Span::ZERO);
        }
        let ms = (pace.0 > 0).then(|| divided_up(self.0, i128::from(pace.0)))?;
        Some(i64::try_from(ms).map_or(Span::MAX, Span::from_ms))
    }
}

/// Divides and rounds up. No number is negative, and `denominator` is above 0.
fn divided_up(numerator: i128, denominator: i128) -> i128 {
    numerator / denominator + i128::from(numerator % denominator != 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Checks 40 s of work at 40 W under a cap in watts: the draw in watts and the duration in milliseconds.
    fn check(cap: Option<i64>, factor: u32, draw: i64, ms: Option<i64>) {
        let (drawn, pace) = pace(Power::from_watts(40), cap.map(Power::from_watts), Slowdown::Factor(factor));
        let takes = Work::lasting(Span::from_secs(40)).takes(pace);
        assert_eq!((drawn, takes), (Power::from_watts(draw), ms.map(Span::from_ms)), "{cap:?} {factor}");
    }

    #[test]
    fn as_in_the_paper() {
        check(None, 1000, 40, Some(40_000));
        check(Some(40), 1000, 40, Some(40_000));
        check(Some(50), 1000, 40, Some(40_000));
        // M = 1/2 takes twice as long with F = 1, F times that below, and never less than without a cap.
        check(Some(20), 1000, 20, Some(80_000));
        check(Some(20), 750, 20, Some(60_000));
        check(Some(20), 500, 20, Some(40_000));
        check(Some(20), 250, 20, Some(40_000));
        check(Some(20), 0, 20, Some(40_000));
        // M = 3/40 gives whole milliseconds even if the pace has no exact decimal form: 40 s * 40 / 3.
        check(Some(3), 1000, 3, Some(533_334));
        check(Some(30), 1000, 30, Some(53_334));
        check(Some(0), 1000, 0, None);
        check(Some(-5), 1000, 0, None);
    }

    /// Halves the draw at CPI 2: the duration is 1 - 1/2 + 1 times as long.
    #[test]
    fn waiting_for_memory_hides_a_part_of_the_slowdown() {
        let (drawn, pace) = pace(Power::from_watts(40), Some(Power::from_watts(20)), Slowdown::Cpi(2000));
        assert_eq!(drawn, Power::from_watts(20));
        assert_eq!(Work::lasting(Span::from_secs(40)).takes(pace), Some(Span::from_secs(60)));
    }

    #[test]
    fn a_third_costs_no_extra_millisecond() {
        let (_, third) = pace(Power::from_watts(60), Some(Power::from_watts(20)), Slowdown::Factor(1000));
        assert_eq!(Work::lasting(Span::from_secs(30)).takes(third), Some(Span::from_secs(90)));
    }

    #[test]
    fn times_of_work_are_clamped() {
        assert_eq!(Work::lasting(Span::from_ms(5)).less(Pace::FULL.over(Span::from_ms(7))), Work::ZERO);
        assert_eq!(Work::ZERO.takes(Pace::STOPPED), Some(Span::ZERO));
        assert_eq!(Work::lasting(Span::from_ms(1)).takes(Pace::STOPPED), None);
        assert_eq!(Pace::FULL.over(Span::from_ms(-3)), Work::ZERO);
        assert_eq!(Work::lasting(Span::MAX).takes(Pace(1)), Some(Span::MAX));
    }

    proptest! {
        #[test]
        fn of_two_caps_the_lower_one_is_not_faster(
            full in 0..=i64::MAX, a in any::<i64>(), b in any::<i64>(), value in any::<u32>(), by_cpi in any::<bool>(),
        ) {
            let law = if by_cpi { Slowdown::Cpi(value) } else { Slowdown::Factor(value % 1001) };
            let of = |cap| pace(Power::from_mw(full), Some(Power::from_mw(cap)), law);
            let ((low, slow), (high, fast)) = (of(a.min(b)), of(a.max(b)));
            prop_assert!(low <= high && slow <= fast && fast <= Pace::FULL && slow >= Pace::STOPPED);
            prop_assert!(low >= Power::ZERO && high <= Power::from_mw(full));
        }

        /// Checks that splitting the work loses and gains nothing.
        #[test]
        fn work_adds_up(pieces in proptest::collection::vec(0_i64..1_000_000_000, 0..50), cap in 1_i64..100) {
            let (_, pace) = pace(Power::from_mw(97), Some(Power::from_mw(cap)), Slowdown::Factor(1000));
            let total: i64 = pieces.iter().sum();
            let whole = pace.over(Span::from_ms(total + 1));
            let left = pieces.iter().fold(whole, |left, ms| left.less(pace.over(Span::from_ms(*ms))));
            prop_assert_eq!(left, pace.over(Span::from_ms(1)));
        }
    }
}
