//! The draw over time in at most a thousand buckets.

use limo_model::{Drawn, Power, Span, Time};
use serde::Serialize;

/// Most buckets.
const BUCKETS: i64 = 1_000;

/// Draw of the cluster in one bucket.
#[derive(Debug, Serialize)]
pub struct BucketJson {
    at_unix_ms: i64,
    /// Lowest, mean and highest draw.
    low_w: f64,
    mean_w: f64,
    high_w: f64,
}

/// Returns the width of the buckets of a range, in whole minutes.
pub fn width(from: Time, until: Time) -> Span {
    let minutes = ((until - from).ms() / 60_000 / BUCKETS + 1).max(1);
    Span::from_ms(minutes * 60_000)
}

/// Puts the intervals, in order of time, into buckets. Means are weighted by the time in which the draw is known.
pub fn buckets(intervals: &[Drawn], from: Time, width: Span) -> Vec<BucketJson> {
    let mut made = Vec::new();
    let of = |drawn: &Drawn| (drawn.at - from).ms().div_euclid(width.ms());
    for group in intervals.chunk_by(|a, b| of(a) == of(b)) {
        let Some(first) = group.first() else { continue };
        let seen: i64 = group.iter().map(|drawn| drawn.seen.ms()).sum();
        let weighed = group.iter().map(|drawn| drawn.mean.watts() * drawn.seen.ms() as f64).sum::<f64>();
        let least = group.iter().map(|drawn| drawn.low).min().unwrap_or(Power::ZERO);
        let most = group.iter().map(|drawn| drawn.high).max().unwrap_or(Power::ZERO);
        made.push(BucketJson {
            at_unix_ms: from.unix_ms() + of(first) * width.ms(),
            low_w: least.watts(),
            mean_w: if seen > 0 { weighed / seen as f64 } else { first.mean.watts() },
            high_w: most.watts(),
        });
    }
    made
}

#[cfg(test)]
mod tests {
    use limo_model::Energy;

    use super::*;

    #[test]
    fn buckets_have_extremes_and_means_weighted_by_time() {
        let drawn = |at, [low, mean, high]: [i64; 3], seen| Drawn {
            at: Time::from_unix_ms(at),
            mean: Power::from_watts(mean),
            low: Power::from_watts(low),
            high: Power::from_watts(high),
            energy: Energy::ZERO,
            seen: Span::from_ms(seen),
            looks: 1,
        };
        let intervals =
            [drawn(0, [10, 20, 30], 60_000), drawn(60_000, [5, 50, 60], 20_000), drawn(120_000, [1, 2, 3], 0)];
        let found = buckets(&intervals, Time::from_unix_ms(0), Span::from_ms(120_000));
        let shown: Vec<_> = found.iter().map(|b| (b.at_unix_ms, b.low_w, b.mean_w, b.high_w)).collect();
        // (20 W x 60 s + 50 W x 20 s) / 80 s
        assert_eq!(shown, [(0, 5.0, 27.5, 60.0), (120_000, 1.0, 2.0, 3.0)]);
    }

    #[test]
    fn a_range_has_a_thousand_buckets_at_most() {
        let days = |days: i64| width(Time::from_unix_ms(0), Time::from_unix_ms(days * 86_400_000)).ms() / 60_000;
        assert_eq!([days(0), days(1), days(7), days(366)], [1, 2, 11, 528]);
    }
}
