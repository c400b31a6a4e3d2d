//! Values that change at known times: limits and prices, with their known future.

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::time::{Span, Time};
use crate::units::{Power, Price};

/// A step function of time. Each value holds until the time of the next one. The last value holds until `until`, or
/// without a limit if that is not set. There is no value before the first step and after the end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "UncheckedCurve<T>")]
pub struct Curve<T> {
    steps: Vec<(Time, T)>,
    until: Option<Time>,
}

/// An unchecked curve from elsewhere.
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

/// Errors in the steps of a curve.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[expect(missing_docs, reason = "the messages say what each variant is")]
pub enum CurveError {
    #[error("a curve needs at least one value")]
    Empty,
    #[error("step {index} is at {at} ms, not after the step before it at {before} ms")]
    NotAscending { index: usize, at: i64, before: i64 },
    #[error("the curve ends at {until} ms, not after its last step at {last} ms")]
    EndsEarly { until: i64, last: i64 },
}

impl<T> Curve<T> {
    /// Returns a curve with one value for all time.
    pub fn constant(value: T) -> Self {
        Self { steps: vec![(Time::from_unix_ms(0), value)], until: None }
    }

    /// Makes a curve of steps in ascending order of time.
    ///
    /// # Errors
    /// [`CurveError`] if the list is empty, the times do not ascend, or `until` is not after the last step.
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

    /// Returns the same values with an end. If the end is missing, the last of several values holds as long as the one
    /// before it.
    pub fn closed(mut self) -> Self {
        if let (None, [.., (before, _), (last, _)]) = (self.until, &self.steps[..]) {
            self.until = Some(*last + (*last - *before));
        }
        self
    }

    /// Returns the same values, each moved later by `by`.
    pub fn moved(&self, by: Span) -> Self
    where
        T: Clone,
    {
        let steps = self.steps.iter().map(|(at, value)| (at.moved(by), value.clone())).collect();
        Self { steps, until: self.until.map(|until| until.moved(by)) }
    }

    /// Returns the steps, at least one; each value holds until the next step, and times ascend.
    pub fn steps(&self) -> &[(Time, T)] {
        &self.steps
    }

    /// Returns the end, if any.
    pub fn until(&self) -> Option<Time> {
        self.until
    }

    /// Returns the end if it is not after `now`.
    pub fn ended(&self, now: Time) -> Option<Time> {
        self.until.filter(|until| *until <= now)
    }

    /// Returns the number of steps that begin at `at` or before.
    fn begun(&self, at: Time) -> usize {
        self.steps.partition_point(|(start, _)| *start <= at)
    }

    /// Returns the value at `at`; `None` before the first step and after the end.
    pub fn at(&self, at: Time) -> Option<&T> {
        let step = self.steps.get(self.begun(at).checked_sub(1)?)?;
        self.until.is_none_or(|until| at < until).then_some(&step.1)
    }

    /// Returns the changes strictly after `at`, in order; the end is a change to `None`.
    pub fn changes(&self, at: Time) -> impl Iterator<Item = (Time, Option<&T>)> {
        let steps = self.steps[self.begun(at)..].iter().map(|(start, value)| (*start, Some(value)));
        steps.chain(self.until.filter(|until| *until > at).map(|until| (until, None)))
    }

    /// Returns the time of the next change strictly after `at`: a step or the end.
    pub fn next_change(&self, at: Time) -> Option<Time> {
        self.changes(at).next().map(|(time, _)| time)
    }

    /// Returns the pieces of `[from, to)` that have a value: start, end, value. Empty if `to` is not after `from`.
    pub fn pieces(&self, from: Time, to: Time) -> impl Iterator<Item = (Time, Time, &T)> {
        let first = self.begun(from).saturating_sub(1);
        let last = self.until.unwrap_or(Time::MAX);
        let ends = self.steps[first + 1..].iter().map(|(start, _)| *start).chain([last]);
        self.steps[first..]
            .iter()
            .zip(ends)
            .map(move |((start, value), end)| ((*start).max(from), end.min(to), value))
            .take_while(move |(start, end, _)| start < end)
    }
}

impl Curve<Price> {
    /// Returns the mean of the prices in `[from, from + span)`, weighted by time and rounded toward zero, and the
    /// time with a price. For an empty span, returns the price at `from`. `None` if no price is known.
    pub fn mean(&self, from: Time, span: Span) -> Option<(Price, Span)> {
        if span.ms() <= 0 {
            return self.at(from).map(|price| (*price, Span::ZERO));
        }
        let (weighted, known) = self.pieces(from, from + span).fold((0, 0), |(sum, known), (start, end, price)| {
            let ms = i128::from((end - start).ms());
            (sum + i128::from(price.milli_per_mwh()) * ms, known + ms)
        });
        // The mean of i64 values fits an i64, and so does a part of the span.
        let narrow = |value: i128| i64::try_from(value).unwrap_or(i64::MAX);
        (known > 0).then(|| (Price::from_milli_per_mwh(narrow(weighted / known)), Span::from_ms(narrow(known))))
    }
}

impl Curve<Band> {
    /// Returns the band at `at`; no limits before the first step and after the end.
    pub fn band(&self, at: Time) -> Band {
        self.at(at).copied().unwrap_or(Band::UNLIMITED)
    }

    /// Returns the changes of the band strictly after `at`, in order; at the end to no limits.
    pub fn bands(&self, at: Time) -> impl Iterator<Item = (Time, Band)> {
        self.changes(at).map(|(time, band)| (time, band.copied().unwrap_or(Band::UNLIMITED)))
    }

    /// Returns true if an upper limit holds at any time.
    pub fn is_limited(&self) -> bool {
        self.steps.iter().any(|(_, band)| !band.high().is_unlimited())
    }
}

/// The lower and upper power limit of the cluster. A lower limit of zero and an upper limit of [`Power::MAX`] do not
/// limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "UncheckedBand")]
pub struct Band {
    low: Power,
    high: Power,
}

/// An unchecked band from elsewhere.
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

/// Errors in the limits of a band.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[expect(missing_docs, reason = "the messages say what each variant is")]
pub enum BandError {
    #[error("the lower limit {low} is above the upper limit {high}")]
    Crossed { low: Power, high: Power },
    #[error("the lower limit {low} is negative")]
    Negative { low: Power },
}

impl Band {
    /// The band that contains every draw.
    pub const UNLIMITED: Self = Self { low: Power::ZERO, high: Power::MAX };

    /// Makes a band.
    ///
    /// # Errors
    /// [`BandError`] if `low` is negative or above `high`.
    pub fn new(low: Power, high: Power) -> Result<Self, BandError> {
        if low < Power::ZERO {
            return Err(BandError::Negative { low });
        }
        if low > high {
            return Err(BandError::Crossed { low, high });
        }
        Ok(Self { low, high })
    }

    /// Returns the lower limit, which is not negative and at most [`Band::high`].
    pub fn low(self) -> Power {
        self.low
    }

    /// Returns the upper limit.
    pub fn high(self) -> Power {
        self.high
    }

    /// Returns true for a draw between both limits, or equal to one of them.
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
        let check = |ms, expected| {
            assert_eq!(curve().at(at(ms)).map(|price| price.milli_per_mwh()), expected, "at {ms}");
        };
        check(9, None);
        check(10, Some(80));
        check(19, Some(80));
        check(20, Some(-20));
        check(49, Some(50));
        check(50, None);
        check(1000, None);
        assert_eq!(Curve::constant(()).at(at(i64::MAX)), Some(&()));
    }

    #[test]
    fn changes_are_the_steps_and_the_end() {
        let changes = |ms| {
            curve()
                .changes(at(ms))
                .map(|(at, price)| (at.unix_ms(), price.map(|p| p.milli_per_mwh())))
                .collect::<Vec<_>>()
        };
        assert_eq!(changes(9), [(10, Some(80)), (20, Some(-20)), (40, Some(50)), (50, None)]);
        assert_eq!(changes(40), [(50, None)]);
        assert_eq!(changes(50), []);
        assert_eq!((curve().next_change(at(10)), curve().next_change(at(50))), (Some(at(20)), None));
        assert_eq!((curve().ended(at(49)), curve().ended(at(50))), (None, Some(at(50))));
    }

    #[test]
    fn there_is_no_limit_before_the_first_and_after_the_end() {
        let band = Band::new(Power::from_watts(40), Power::from_watts(60)).expect("a band");
        let limits = Curve::new(vec![(at(10), band)], Some(at(20))).expect("a curve");
        let bands = [9, 10, 19, 20].map(|ms| limits.band(at(ms)));
        assert_eq!(bands, [Band::UNLIMITED, band, band, Band::UNLIMITED]);
        assert_eq!(limits.bands(at(0)).collect::<Vec<_>>(), [(at(10), band), (at(20), Band::UNLIMITED)]);
    }

    #[test]
    fn pieces_cover_what_has_a_value_once() {
        let pieces = |from, to| {
            curve()
                .pieces(at(from), at(to))
                .map(|(s, e, p)| (s.unix_ms(), e.unix_ms(), p.milli_per_mwh()))
                .collect::<Vec<_>>()
        };
        assert_eq!(pieces(0, 30), [(10, 20, 80), (20, 30, -20)]);
        assert_eq!(pieces(15, 30), [(15, 20, 80), (20, 30, -20)]);
        assert_eq!(pieces(45, 60), [(45, 50, 50)]);
        assert_eq!(pieces(50, 60), []);
        assert_eq!(pieces(0, 10), []);
        assert_eq!(pieces(30, 30), []);
        assert_eq!(pieces(35, 5), []);
    }

    #[test]
    fn mean_is_weighted_by_time() {
        let mean = |from, span| {
            let found = curve().mean(at(from), Span::from_ms(span));
            found.map(|(price, known)| (price.milli_per_mwh(), known.ms()))
        };
        // The span has 10 ms at 80 and 10 ms at -20.
        assert_eq!(mean(10, 20), Some((30, 20)));
        assert_eq!(mean(25, 0), Some((-20, 0)));
        // The first span has 10 ms at 50, then 40 ms without a price; the second has 5 ms without one, then 10 ms at
        // 80.
        assert_eq!(mean(40, 50), Some((50, 10)));
        assert_eq!(mean(5, 15), Some((80, 10)));
        assert_eq!((mean(50, 10), mean(50, 0), mean(0, 10)), (None, None, None));
    }

    #[test]
    fn a_last_value_without_an_end_lasts_as_long_as_the_one_before() {
        let until = |ms: &[i64], until: Option<i64>| {
            let steps = ms.iter().map(|ms| (at(*ms), ())).collect();
            Curve::new(steps, until.map(at)).expect("a curve").closed().until().map(Time::unix_ms)
        };
        assert_eq!(until(&[0, 10, 40], None), Some(70));
        assert_eq!((until(&[0, 10], Some(11)), until(&[0], None)), (Some(11), None));
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
