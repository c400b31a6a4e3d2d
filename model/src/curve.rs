//! Values that change at known times: limits and prices, with what is known of their future.

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::time::{Span, Time};
use crate::units::{Power, Price};

/// A step function of time: each value holds from its time until the next one. The first value also holds before its
/// time. After `until`, where it is set, nothing is known: the last value is then only a guess.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "UncheckedCurve<T>")]
pub struct Curve<T> {
    steps: Vec<(Time, T)>,
    until: Option<Time>,
}

/// A curve as it arrives from elsewhere.
#[derive(Deserialize)]
struct UncheckedCurve<T> {
    steps: Vec<(Time, T)>,
    until: Option<Time>,
}

impl<T> TryFrom<UncheckedCurve<T>> for Curve<T> {
    type Error = CurveError;
    fn try_from(curve: UncheckedCurve<T>) -> Result<Self, CurveError> {
        Self::new(curve.steps, curve.until)
    }
}

/// Why steps do not make a curve.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum CurveError {
    #[error("a curve needs at least one value")]
    Empty,
    #[error("step {index} is at {at} ms, not after the step before it at {before} ms")]
    NotAscending { index: usize, at: i64, before: i64 },
    #[error("the curve ends at {until} ms, not after its last step at {last} ms")]
    EndsEarly { until: i64, last: i64 },
}

impl<T> Curve<T> {
    /// One value for all time.
    pub fn constant(value: T) -> Self {
        Self { steps: vec![(Time::from_unix_ms(0), value)], until: None }
    }

    /// From steps in ascending order of time.
    ///
    /// # Errors
    /// [`CurveError`] where there is no step, the times do not ascend, or `until` is not after the last step.
    pub fn new(steps: Vec<(Time, T)>, until: Option<Time>) -> Result<Self, CurveError> {
        let Some((last, _)) = steps.last() else { return Err(CurveError::Empty) };
        if let Some(until) = until.filter(|until| until <= last) {
            return Err(CurveError::EndsEarly { until: until.unix_ms(), last: last.unix_ms() });
        }
        let descent = steps.windows(2).position(|pair| pair[1].0 <= pair[0].0);
        if let Some(index) = descent {
            let (before, at) = (steps[index].0.unix_ms(), steps[index + 1].0.unix_ms());
            return Err(CurveError::NotAscending { index: index + 1, at, before });
        }
        Ok(Self { steps, until })
    }

    /// The same values, each later by `by`.
    pub fn moved(&self, by: Span) -> Self
    where
        T: Clone,
    {
        let steps = self.steps.iter().map(|(at, value)| (at.moved(by), value.clone())).collect();
        Self { steps, until: self.until.map(|until| until.moved(by)) }
    }

    pub fn steps(&self) -> &[(Time, T)] {
        &self.steps
    }

    /// The end of what is known, where it is.
    pub fn until(&self) -> Option<Time> {
        self.until
    }

    /// Index of the step that holds at `at`.
    fn index_at(&self, at: Time) -> usize {
        self.steps.partition_point(|(start, _)| *start <= at).saturating_sub(1)
    }

    /// The value at `at`.
    pub fn at(&self, at: Time) -> &T {
        &self.steps[self.index_at(at)].1
    }

    /// The time of the next step strictly after `at`.
    pub fn next_step(&self, at: Time) -> Option<Time> {
        self.steps.get(self.steps.partition_point(|(start, _)| *start <= at)).map(|(start, _)| *start)
    }

    /// The pieces of `[from, to)`: start, end, value. Empty where `to` is not after `from`.
    pub fn pieces(&self, from: Time, to: Time) -> impl Iterator<Item = (Time, Time, &T)> {
        let first = self.index_at(from);
        let ends = self.steps[first + 1..].iter().map(|(start, _)| *start).chain([Time::MAX]);
        self.steps[first..]
            .iter()
            .zip(ends)
            .enumerate()
            .map(move |(index, ((start, value), end))| (if index == 0 { from } else { *start }, end.min(to), value))
            .take_while(move |(start, end, _)| start < end)
    }
}

impl Curve<Price> {
    /// The mean price over `[from, from + span)`, rounded toward zero; the price at `from` for an empty span.
    pub fn mean(&self, from: Time, span: Span) -> Price {
        if span.ms() <= 0 {
            return *self.at(from);
        }
        let weighted = self
            .pieces(from, from + span)
            .map(|(start, end, price)| i128::from(price.milli_per_mwh()) * i128::from((end - start).ms()))
            .sum::<i128>();
        // The mean of i64 values fits an i64.
        Price::from_milli_per_mwh(i64::try_from(weighted / i128::from(span.ms())).unwrap_or(i64::MAX))
    }
}

impl Curve<Band> {
    /// Whether there is an upper limit at any time.
    pub fn is_limited(&self) -> bool {
        self.steps.iter().any(|(_, band)| !band.high().is_unlimited())
    }
}

/// The lower and upper power limit of the cluster. A lower limit of zero is none; an upper one of [`Power::MAX`] is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "UncheckedBand")]
pub struct Band {
    low: Power,
    high: Power,
}

/// A band as it arrives from elsewhere.
#[derive(Deserialize)]
struct UncheckedBand {
    low: Power,
    high: Power,
}

impl TryFrom<UncheckedBand> for Band {
    type Error = BandError;
    fn try_from(band: UncheckedBand) -> Result<Self, BandError> {
        Self::new(band.low, band.high)
    }
}

/// Why two limits do not make a band.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum BandError {
    #[error("the lower limit {low} is above the upper limit {high}")]
    Crossed { low: Power, high: Power },
    #[error("the lower limit {low} is negative")]
    Negative { low: Power },
}

impl Band {
    pub const UNLIMITED: Self = Self { low: Power::ZERO, high: Power::MAX };

    /// # Errors
    /// [`BandError`] where `low` is negative or above `high`.
    pub fn new(low: Power, high: Power) -> Result<Self, BandError> {
        if low < Power::ZERO {
            return Err(BandError::Negative { low });
        }
        if low > high {
            return Err(BandError::Crossed { low, high });
        }
        Ok(Self { low, high })
    }

    pub fn low(self) -> Power {
        self.low
    }

    pub fn high(self) -> Power {
        self.high
    }

    pub fn contains(self, draw: Power) -> bool {
        self.low <= draw && draw <= self.high
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: i64) -> Time {
        Time::from_unix_ms(ms)
    }

    fn curve() -> Curve<Price> {
        let steps = [(10, 80), (20, -20), (40, 50)];
        let steps = steps.map(|(ms, price)| (at(ms), Price::from_milli_per_mwh(price))).to_vec();
        Curve::new(steps, Some(at(50))).expect("ascending")
    }

    #[test]
    fn a_value_holds_until_the_next() {
        let check = |ms, expected| assert_eq!(curve().at(at(ms)).milli_per_mwh(), expected, "at {ms}");
        check(0, 80);
        check(10, 80);
        check(19, 80);
        check(20, -20);
        check(1000, 50);
        assert_eq!(curve().next_step(at(10)), Some(at(20)));
        assert_eq!(curve().next_step(at(40)), None);
    }

    #[test]
    fn pieces_cover_the_range_once() {
        let pieces = |from, to| {
            curve()
                .pieces(at(from), at(to))
                .map(|(s, e, p)| (s.unix_ms(), e.unix_ms(), p.milli_per_mwh()))
                .collect::<Vec<_>>()
        };
        assert_eq!(pieces(0, 30), [(0, 20, 80), (20, 30, -20)]);
        assert_eq!(pieces(45, 60), [(45, 60, 50)]);
        assert_eq!(pieces(30, 30), []);
        assert_eq!(pieces(35, 5), []);
    }

    #[test]
    fn mean_is_weighted_by_time() {
        // 10 ms at 80 and 10 ms at -20.
        assert_eq!(curve().mean(at(10), Span::from_ms(20)).milli_per_mwh(), 30);
        assert_eq!(curve().mean(at(25), Span::ZERO).milli_per_mwh(), -20);
    }

    #[test]
    fn refusals() {
        let build = |steps: &[i64], until: Option<i64>| {
            Curve::new(steps.iter().map(|ms| (at(*ms), ())).collect(), until.map(at))
        };
        assert_eq!(build(&[], None), Err(CurveError::Empty));
        assert_eq!(build(&[5, 5], None), Err(CurveError::NotAscending { index: 1, at: 5, before: 5 }));
        assert_eq!(build(&[5], Some(5)), Err(CurveError::EndsEarly { until: 5, last: 5 }));
        let crossed = Band::new(Power::from_watts(90), Power::from_watts(60)).map_err(|e| e.to_string());
        assert_eq!(crossed, Err("the lower limit 90.0 W is above the upper limit 60.0 W".into()));
    }
}
