//! Aggregates samples of a meter: time-weighted mean, lowest, highest and newest value.
//!
//! A value counts for the time since the sample before it (a step, not a trapezoid). This is exact for energy
//! counters, because they show the mean of exactly that time. For meters that show an instant it equals the trapezoid
//! to within half an interval at the first and last sample: steps add at a rise and subtract at a fall.
//!
//! Time without samples is not filled in: after a failed read, or a gap, a value counts for no time, and the mean
//! covers the remaining time. The rounding error of one mean is added to the next, so that draw times time, summed over
//! readings, is the integral.

use std::time::Duration;

use limo_model::{Energy, Power};

use super::Reading;

/// Shortest gap, so that a meter that is slow or read every few seconds has none.
const SHORTEST_GAP: Duration = Duration::from_secs(10);

/// Samples since the last reading.
#[derive(Debug)]
pub struct Batch {
    /// Longest interval between two samples without a gap.
    gap: Duration,
    /// Time of the last sample, unless something failed since.
    before: Option<Duration>,
    /// Milliwatts times nanoseconds.
    drawn: i128,
    covered: Duration,
    /// Sum of the values, in milliwatts: their mean counts if no time is covered.
    sum: i128,
    looks: u32,
    low: Power,
    high: Power,
    last: Power,
}

/// Aggregate of some samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Summary {
    /// Mean over the covered time, rounded to milliwatts; the mean of the values if no time is covered.
    pub draw: Power,
    /// Lowest value.
    pub low: Power,
    /// Highest value.
    pub high: Power,
    /// Newest value.
    pub last: Power,
    /// Number of samples, at least 1.
    pub looks: u32,
    /// Covered time.
    pub covered: Duration,
}

impl Summary {
    /// Returns the energy of the covered time.
    pub fn energy(&self) -> Energy {
        let nanos = i128::try_from(self.covered.as_nanos()).unwrap_or(i128::MAX);
        // 1 mW in 1 ns is a picojoule; a millijoule is 10^9 picojoules.
        let mj = divided(i128::from(self.draw.mw()).saturating_mul(nanos), 1_000_000_000);
        Energy::from_mj(i64::try_from(mj).unwrap_or(i64::MAX))
    }
}

impl Batch {
    /// Makes an empty batch. `interval` is the time between samples.
    pub fn new(interval: Duration) -> Self {
        let gap = gap(interval);
        let (low, high, last) = (Power::ZERO, Power::ZERO, Power::ZERO);
        Self { gap, before: None, drawn: 0, covered: Duration::ZERO, sum: 0, looks: 0, low, high, last }
    }

    /// Sets another interval, from the next sample on.
    pub fn set_interval(&mut self, interval: Duration) {
        self.gap = gap(interval);
    }

    /// Adds the meter's answer at `at`, on a monotonic clock. Returns the draw, and for how long before `at` it counts;
    /// `None` without a value.
    pub fn look(&mut self, at: Duration, reading: Reading) -> Option<(Power, Duration)> {
        let since = self.before.map(|before| at.saturating_sub(before)).filter(|since| *since <= self.gap);
        let (draw, over) = match reading {
            Reading::Draw(draw) => (draw, since.unwrap_or_default()),
            Reading::Mean { draw, over } => (draw, over),
            // The next reading carries its own duration.
            Reading::NotYet => return None,
        };
        self.before = Some(at);
        let nanos = i128::try_from(over.as_nanos()).unwrap_or(i128::MAX);
        self.drawn = self.drawn.saturating_add(i128::from(draw.mw()).saturating_mul(nanos));
        self.covered = self.covered.saturating_add(over);
        self.sum = self.sum.saturating_add(i128::from(draw.mw()));
        (self.low, self.high) = if self.looks == 0 { (draw, draw) } else { (self.low.min(draw), self.high.max(draw)) };
        self.last = draw;
        self.looks = self.looks.saturating_add(1);
        Some((draw, over))
    }

    /// Notes a failure: the draw since the last sample is unknown.
    pub fn interrupt(&mut self) {
        self.before = None;
    }

    /// Returns the aggregate since the last call; `None` without samples.
    pub fn close(&mut self) -> Option<Summary> {
        if self.looks == 0 {
            return None;
        }
        let nanos = i128::try_from(self.covered.as_nanos()).unwrap_or(i128::MAX);
        let mw = if nanos == 0 { divided(self.sum, self.looks.into()) } else { divided(self.drawn, nanos) };
        let draw = Power::from_mw(i64::try_from(mw).unwrap_or(i64::MAX));
        let Self { low, high, last, looks, covered, .. } = *self;
        (self.drawn, self.covered) = (self.drawn - mw.saturating_mul(nanos), Duration::ZERO);
        (self.sum, self.looks) = (0, 0);
        Some(Summary { draw, low, high, last, looks, covered })
    }
}

fn gap(interval: Duration) -> Duration {
    SHORTEST_GAP.max(interval.saturating_mul(2))
}

/// Divides, rounded half away from zero. `divisor` is positive.
fn divided(number: i128, divisor: i128) -> i128 {
    let half = divisor / 2;
    if number < 0 { number.saturating_sub(half) / divisor } else { number.saturating_add(half) / divisor }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn batch(looks: &[(u64, i64)]) -> Batch {
        let mut batch = Batch::new(ms(100));
        for (at, mw) in looks {
            batch.look(ms(*at), Reading::Draw(Power::from_mw(*mw)));
        }
        batch
    }

    fn check(batch: &mut Batch, draw_mw: i64, covered_ms: u64, looks: u32) -> Summary {
        let summary = batch.close().expect("looks");
        assert_eq!((summary.draw.mw(), summary.covered, summary.looks), (draw_mw, ms(covered_ms), looks));
        assert_eq!(batch.close(), None, "it is empty now");
        summary
    }

    #[test]
    fn the_mean_is_weighted_by_time() {
        // 20 W for 100 ms and 50 W for 300 ms: 17 J in 400 ms.
        let mut batch = batch(&[(0, 10_000), (100, 20_000), (400, 50_000)]);
        let summary = check(&mut batch, 42_500, 400, 3);
        assert_eq!((summary.low.mw(), summary.high.mw(), summary.last.mw()), (10_000, 50_000, 50_000));
        assert_eq!(summary.energy(), Energy::from_joules(17));
        // The next reading begins here, with its own lowest value.
        batch.look(ms(500), Reading::Draw(Power::from_mw(30_000)));
        let summary = check(&mut batch, 30_000, 100, 1);
        assert_eq!(summary.low, Power::from_watts(30));
    }

    #[test]
    fn one_sample_is_its_own_mean() {
        check(&mut batch(&[(700, 41_500)]), 41_500, 0, 1);
        assert_eq!(Batch::new(ms(1)).close(), None);
    }

    #[test]
    fn unseen_time_is_not_filled_in() {
        let mut failed = batch(&[(0, 10_000), (100, 10_000)]);
        failed.interrupt();
        failed.look(ms(5000), Reading::Draw(Power::from_watts(90)));
        failed.look(ms(5100), Reading::Draw(Power::from_watts(30)));
        let summary = check(&mut failed, 20_000, 200, 4);
        assert_eq!(summary.high, Power::from_watts(90));
        check(&mut batch(&[(0, 10_000), (100, 10_000), (10_101, 90_000), (10_201, 30_000)]), 20_000, 200, 4);
        // A sample every ten seconds is a slow meter, not a gap.
        check(&mut batch(&[(0, 10_000), (10_000, 30_000)]), 30_000, 10_000, 2);
        let mut rare = Batch::new(Duration::from_secs(60));
        for at in [0, 90] {
            rare.look(Duration::from_secs(at), Reading::Draw(Power::from_watts(5)));
        }
        check(&mut rare, 5_000, 90_000, 2);
    }

    #[test]
    fn a_counter_says_how_long_it_counted() {
        let mut batch = Batch::new(ms(100));
        batch.look(ms(0), Reading::NotYet);
        assert_eq!(batch.close(), None);
        batch.interrupt();
        batch.look(ms(30_000), Reading::Mean { draw: Power::from_watts(8), over: ms(30_000) });
        batch.look(ms(30_100), Reading::NotYet);
        batch.look(ms(30_200), Reading::Mean { draw: Power::from_watts(311), over: ms(100) });
        // 240 J and 31.1 J in 30.1 s.
        let summary = check(&mut batch, 9_007, 30_100, 2);
        assert_eq!(summary.last, Power::from_watts(311));
    }

    #[test]
    fn absurd_numbers_do_not_wrap() {
        let mut batch = batch(&[(0, i64::MAX), (10_000, i64::MAX), (5, i64::MAX)]);
        check(&mut batch, i64::MAX, 10_000, 3);
        batch.look(Duration::MAX, Reading::Mean { draw: Power::MAX, over: Duration::MAX });
        assert_eq!(batch.close().map(|summary| summary.looks), Some(1));
    }

    proptest! {
        /// Checks that draw times time, summed over all readings, is the integral to half a milliwatt of the last
        /// one, however samples are divided.
        #[test]
        fn samples_add_up_to_the_integral(
            looks in prop::collection::vec((1_u64..3_000_000_000, 1_i64..100_000_000, any::<bool>()), 1..200),
        ) {
            let mut batch = Batch::new(ms(100));
            let (mut at, mut integral, mut summed) = (0, 0_i128, 0_i128);
            batch.look(Duration::ZERO, Reading::Draw(Power::from_watts(1)));
            let mut add = |summary: Option<Summary>| {
                let part = summary.map_or((0, 0), |part| (i128::from(part.draw.mw()), part.covered.as_nanos() as i128));
                summed += part.0 * part.1;
                part.1
            };
            let last = looks.len() - 1;
            let mut longest = 0;
            for (index, (nanos, mw, close)) in looks.into_iter().enumerate() {
                at += nanos;
                integral += i128::from(mw) * i128::from(nanos);
                batch.look(Duration::from_nanos(at), Reading::Draw(Power::from_mw(mw)));
                if close || index == last {
                    longest = add(batch.close());
                }
            }
            prop_assert!((integral - summed).abs() * 2 <= longest, "{integral} and {summed}");
        }
    }
}
