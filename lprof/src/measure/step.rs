//! The time behaviour of a meter, from its answer to a load that begins and ends at known times. Pure.
//!
//! A meter that shows the mean over a window W, with a lag L, answers a step by a ramp from L to L + W. The times at
//! which the ramp crosses 10 %, 50 % and 90 % of the step therefore give both.

use serde::Serialize;

use super::statistics::median;
use super::window::{Sample, TimeRange};

/// Part of the load, at its middle, whose draw counts as steady.
const STEADY: f64 = 0.5;

/// Least height of a step, in standard deviations of the idle draw.
const LEAST_STEP: f64 = 10.0;

/// Least number of changes from which the period follows.
const LEAST_CHANGES: usize = 10;

/// What a meter is like.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct StepAnswer {
    /// Typical time between two different values; `None` if the values hardly change.
    pub period_s: Option<f64>,
    /// Time over which it averages.
    pub window_s: f64,
    /// Age of the end of that time.
    pub lag_s: f64,
    /// Standard deviation of the idle draw.
    pub noise_w: f64,
    /// Change of the idle draw from before to after the load.
    pub drift_w: f64,
    /// Median idle draw before the load.
    pub idle_w: f64,
    /// Median draw of the load.
    pub load_w: f64,
}

/// Returns the answer of a meter to a load in `load`. `idle_s` is the time before and after it that is idle, without
/// the pad after it. `None` if the samples show no step.
pub fn answer(samples: &[Sample], load: TimeRange, idle_s: f64) -> Option<StepAnswer> {
    let before = draws(samples, TimeRange { begin_s: load.begin_s - idle_s, end_s: load.begin_s });
    let last_s = samples.last()?.at_s;
    let after = draws(samples, TimeRange { begin_s: last_s - idle_s, end_s: last_s });
    let (idle_w, load_w, after_w) = (median(&before)?, steady_w(samples, load)?, median(&after)?);
    let noise_w = deviation(&before, idle_w);
    if load_w - idle_w.max(after_w) <= LEAST_STEP * noise_w {
        return None;
    }
    let rise = crossings(samples, load.begin_s, (idle_w, load_w));
    let fall = crossings(samples, load.end_s, (load_w, after_w));
    let [early, middle, late] = match (rise, fall) {
        (Some(rise), Some(fall)) => [0, 1, 2].map(|at| f64::midpoint(rise[at], fall[at])),
        (Some(one), None) | (None, Some(one)) => one,
        (None, None) => return None,
    };
    let window_s = ((late - early) / 0.8).max(0.0);
    let lag_s = (middle - window_s / 2.0).max(0.0);
    Some(StepAnswer { period_s: period(samples), window_s, lag_s, noise_w, drift_w: after_w - idle_w, idle_w, load_w })
}

/// Returns the median draw in the middle of the load; `None` without samples there.
pub fn steady_w(samples: &[Sample], load: TimeRange) -> Option<f64> {
    median(&draws(samples, load.padded(-(1.0 - STEADY) / 2.0 * load.length_s())))
}

fn draws(samples: &[Sample], range: TimeRange) -> Vec<f64> {
    let inside = samples.iter().filter(|sample| sample.at_s > range.begin_s && sample.at_s <= range.end_s);
    inside.map(|sample| sample.draw_w).collect()
}

fn deviation(values: &[f64], middle: f64) -> f64 {
    let squares: f64 = values.iter().map(|value| (value - middle).powi(2)).sum();
    (squares / values.len().max(1) as f64).sqrt()
}

/// Returns the times from `begin_s` until the draw has passed 10 %, 50 % and 90 % of the way from one level to the
/// other, interpolated between samples.
fn crossings(samples: &[Sample], begin_s: f64, (from_w, to_w): (f64, f64)) -> Option<[f64; 3]> {
    let part = |sample: &Sample| (sample.draw_w - from_w) / (to_w - from_w);
    let cross = |level: f64| {
        let at = samples.iter().position(|sample| sample.at_s >= begin_s && part(sample) >= level)?;
        let (now, before) = (samples[at], samples[at.checked_sub(1)?]);
        let (high, low) = (part(&now), part(&before));
        let inside = if high > low { ((level - low) / (high - low)).clamp(0.0, 1.0) } else { 1.0 };
        Some((before.at_s + (now.at_s - before.at_s) * inside - begin_s).max(0.0))
    };
    Some([cross(0.1)?, cross(0.5)?, cross(0.9)?])
}

/// Returns the median time between two different values; `None` with fewer than [`LEAST_CHANGES`].
fn period(samples: &[Sample]) -> Option<f64> {
    let changes: Vec<f64> = samples
        .windows(2)
        .filter(|pair| (pair[0].draw_w - pair[1].draw_w).abs() > f64::EPSILON)
        .map(|pair| pair[1].at_s)
        .collect();
    if changes.len() < LEAST_CHANGES {
        return None;
    }
    median(&changes.windows(2).map(|pair| pair[1] - pair[0]).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOAD: TimeRange = TimeRange { begin_s: 10.0, end_s: 20.0 };

    /// Samples every 20 ms of a meter with a window and a lag that has a new value each period. Draws 14 W, and 60 W
    /// under load. The noise makes each value differ.
    fn samples(window_s: f64, lag_s: f64, period_s: f64) -> Vec<Sample> {
        let draw = |at_s: f64| {
            let shown_s = (at_s / period_s).floor() * period_s - lag_s;
            let loaded_s = (shown_s.min(LOAD.end_s) - (shown_s - window_s).max(LOAD.begin_s)).max(0.0);
            let noise_w = ((at_s / period_s).floor() * 7.0).sin() / 100.0;
            14.0 + 46.0 * loaded_s / window_s + noise_w
        };
        (1..1500)
            .map(|look| f64::from(look) * 0.02)
            .map(|at_s| Sample { at_s, over_s: 0.02, draw_w: draw(at_s), shown_w: None })
            .collect()
    }

    fn check(window_s: f64, lag_s: f64, period_s: f64, within_s: f64) {
        let found = answer(&samples(window_s, lag_s, period_s), LOAD, 5.0).expect("a step");
        let near = |found: f64, expected: f64, within: f64| (found - expected).abs() <= within;
        assert!(near(found.window_s, window_s, within_s) && near(found.lag_s, lag_s, within_s), "{found:?}");
        assert!(near(found.period_s.expect("changes"), period_s, 0.02), "{found:?}");
        assert!(near(found.idle_w, 14.0, 0.1) && near(found.load_w, 60.0, 0.1) && found.noise_w < 0.02, "{found:?}");
        assert!(near(found.drift_w, 0.0, 0.1), "{found:?}");
    }

    #[test]
    fn window_lag_and_period_of_modelled_meters() {
        check(0.32, 0.0, 0.02, 0.03);
        check(1.0, 1.0, 0.02, 0.03);
        check(2.0, 0.5, 0.02, 0.03);
        // A value each second: the times are known to a second.
        check(1.0, 1.0, 1.0, 1.0);
    }

    #[test]
    fn a_load_that_the_meter_does_not_show_has_no_answer() {
        let flat: Vec<Sample> =
            samples(1.0, 0.0, 0.02).into_iter().map(|s| Sample { draw_w: s.at_s.sin(), ..s }).collect();
        assert_eq!(answer(&flat, LOAD, 5.0), None);
        assert_eq!(answer(&[], LOAD, 5.0), None);
    }
}
