//! The energy of a run from the samples of a meter: an integral over the padded run, above a baseline that drifts
//! linearly between the idle times before and after it. Pure.
//!
//! A meter shows the past: a mean over its window, some lag ago. An integral over the run alone therefore begins with
//! idle draw and misses the end of the run: at one sample a second and one second of lag half the energy of a run of
//! two seconds. With a pad of at least window, lag and one sample on both sides, nothing of the run is outside, and the
//! pads themselves add nothing above the baseline.
//!
//! Times are seconds on one monotonic clock, draws are watts, energies joules.

use serde::{Deserialize, Serialize};

/// Mean draw over the time before `at_s`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// Time of the sample.
    pub at_s: f64,
    /// Duration before `at_s` for which the draw counts; not negative.
    pub over_s: f64,
    /// Draw of everything that the meter measures.
    pub draw_w: f64,
    /// Draw that the meter shows beside its energy counter, if it has both.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shown_w: Option<f64>,
}

/// Part of the time axis.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct TimeRange {
    /// Begin.
    pub begin_s: f64,
    /// End, not before the begin.
    pub end_s: f64,
}

impl TimeRange {
    /// Returns its length.
    pub fn length_s(self) -> f64 {
        self.end_s - self.begin_s
    }

    /// Returns its middle.
    fn middle_s(self) -> f64 {
        self.begin_s.midpoint(self.end_s)
    }

    /// Returns the range with a pad on both sides.
    pub fn padded(self, pad_s: f64) -> Self {
        Self { begin_s: self.begin_s - pad_s, end_s: self.end_s + pad_s }
    }

    /// Returns how much of the sample's time is inside.
    fn overlap_s(self, sample: &Sample) -> f64 {
        (sample.at_s.min(self.end_s) - (sample.at_s - sample.over_s).max(self.begin_s)).max(0.0)
    }
}

/// Integral of the draw over a range.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Integral {
    /// Energy of the covered time.
    pub energy_j: f64,
    /// Time for which there are samples.
    pub covered_s: f64,
    /// Number of samples that end in the range.
    pub looks: usize,
}

/// Integrates `samples` over `range`. Time without samples is not filled in.
pub fn integral(samples: &[Sample], range: TimeRange) -> Integral {
    let mut sum = Integral { energy_j: 0.0, covered_s: 0.0, looks: 0 };
    for sample in samples {
        let inside_s = range.overlap_s(sample);
        sum.energy_j += sample.draw_w * inside_s;
        sum.covered_s += inside_s;
        sum.looks += usize::from(sample.at_s > range.begin_s && sample.at_s <= range.end_s);
    }
    sum
}

/// Joins neighbouring samples until there are at most `most`, which is above 0. The integral stays the same.
pub fn thinned(samples: &[Sample], most: usize) -> Vec<Sample> {
    let joined = |group: &[Sample]| {
        let over_s: f64 = group.iter().map(|sample| sample.over_s).sum();
        let mean = |of: fn(&Sample) -> Option<f64>| {
            let weighted: Option<f64> = group.iter().map(|sample| Some(of(sample)? * sample.over_s)).sum();
            weighted.filter(|_| over_s > 0.0).map(|weighted| weighted / over_s)
        };
        let last = group.last()?;
        let draw_w = mean(|sample| Some(sample.draw_w)).unwrap_or(last.draw_w);
        Some(Sample { at_s: last.at_s, over_s, draw_w, shown_w: mean(|sample| sample.shown_w) })
    };
    if samples.len() <= most {
        return samples.to_vec();
    }
    samples.chunks(samples.len().div_ceil(most)).filter_map(joined).collect()
}

/// Draw of the machine without the command, around one time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Idle {
    /// Middle of the idle time.
    pub at_s: f64,
    /// Mean draw, weighted by time.
    pub draw_w: f64,
    /// Standard error of the mean.
    pub error_w: f64,
}

/// Returns the idle draw in `range`; `None` with fewer than two samples that lie within it.
pub fn idle(samples: &[Sample], range: TimeRange) -> Option<Idle> {
    let inside = |sample: &&Sample| sample.at_s <= range.end_s && sample.at_s - sample.over_s >= range.begin_s;
    let inside: Vec<&Sample> = samples.iter().filter(inside).collect();
    let covered_s: f64 = inside.iter().map(|sample| sample.over_s).sum();
    if inside.len() < 2 || covered_s <= 0.0 {
        return None;
    }
    let count = inside.len() as f64;
    let draw_w = inside.iter().map(|sample| sample.draw_w * sample.over_s).sum::<f64>() / covered_s;
    let variance = inside.iter().map(|sample| (sample.draw_w - draw_w).powi(2)).sum::<f64>() / (count - 1.0);
    Some(Idle { at_s: range.middle_s(), draw_w, error_w: (variance / count).sqrt() })
}

/// Energy of a run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RunEnergy {
    /// Energy above the baseline.
    pub above_j: f64,
    /// Mean draw of the baseline during the run.
    pub idle_w: f64,
    /// Standard error of the baseline's mean.
    pub idle_error_w: f64,
    /// Covered part of the padded run, 0 to 1.
    pub coverage: f64,
    /// Number of samples in the run itself.
    pub looks: usize,
}

/// Returns the energy of the run in `run`, with a pad of `pad_s` on both sides. `before` and `after` are the idle draws
/// around it. Uncovered time counts like the mean of the covered time. `None` if nothing is covered.
pub fn above_idle(samples: &[Sample], run: TimeRange, pad_s: f64, (before, after): (Idle, Idle)) -> Option<RunEnergy> {
    let padded = run.padded(pad_s);
    let found = integral(samples, padded);
    if found.covered_s <= 0.0 {
        return None;
    }
    let coverage = (found.covered_s / padded.length_s()).min(1.0);
    // The mean of a line over a range is its value in the middle; both ranges have the same middle.
    let span_s = after.at_s - before.at_s;
    let part = if span_s > 0.0 { ((run.middle_s() - before.at_s) / span_s).clamp(0.0, 1.0) } else { 0.5 };
    let idle_w = before.draw_w + (after.draw_w - before.draw_w) * part;
    let idle_error_w = ((before.error_w * (1.0 - part)).powi(2) + (after.error_w * part).powi(2)).sqrt();
    let above_j = (found.energy_j / found.covered_s - idle_w) * padded.length_s();
    Some(RunEnergy { above_j, idle_w, idle_error_w, coverage, looks: integral(samples, run).looks })
}

/// Returns the energy above idle by the draws that the meter shows beside its counter, between the idle times `around`.
/// `None` if it does not show both.
pub fn above_idle_by_draw(
    samples: &[Sample],
    run: TimeRange,
    pad_s: f64,
    around: (TimeRange, TimeRange),
) -> Option<f64> {
    let shown: Option<Vec<Sample>> =
        samples.iter().map(|sample| Some(Sample { draw_w: sample.shown_w?, ..*sample })).collect();
    let shown = shown?;
    let around = (idle(&shown, around.0)?, idle(&shown, around.1)?);
    above_idle(&shown, run, pad_s, around).map(|found| found.above_j)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine that draws `idle_w + drift * t`, and 46 W more from 20 s on for `run_s`.
    struct Modelled {
        drift_w_per_s: f64,
        run_s: f64,
    }

    const BEGIN_S: f64 = 20.0;

    impl Modelled {
        /// Returns the mean draw from `begin_s` to `end_s`.
        fn mean_w(&self, begin_s: f64, end_s: f64) -> f64 {
            let idle_w = 14.0 + self.drift_w_per_s * begin_s.midpoint(end_s);
            let overlap_s = (end_s.min(BEGIN_S + self.run_s) - begin_s.max(BEGIN_S)).max(0.0);
            idle_w + 46.0 * overlap_s / (end_s - begin_s)
        }

        fn run(&self) -> TimeRange {
            TimeRange { begin_s: BEGIN_S, end_s: BEGIN_S + self.run_s }
        }

        /// Returns the samples of a meter that shows the mean over `window_s`, `lag_s` ago, every `every_s` from
        /// `phase_s` on.
        fn samples(&self, (window_s, lag_s, every_s): (f64, f64, f64), phase_s: f64) -> Vec<Sample> {
            let shown = |look: u32| {
                let at_s = phase_s + f64::from(look) * every_s;
                let draw_w = self.mean_w(at_s - lag_s - window_s, at_s - lag_s);
                Sample { at_s, over_s: every_s, draw_w, shown_w: None }
            };
            (0..).map(shown).take_while(|sample| sample.at_s < 2.0 * BEGIN_S + self.run_s).collect()
        }

        /// Returns the measured energy above idle with this pad.
        fn measured_j(&self, meter: (f64, f64, f64), phase_s: f64, pad_s: f64) -> f64 {
            let samples = self.samples(meter, phase_s);
            let idle_of = |begin_s, end_s| idle(&samples, TimeRange { begin_s, end_s }).expect("samples");
            let end_s = self.run().end_s;
            let around = (idle_of(BEGIN_S - 12.0, BEGIN_S - 0.01), idle_of(end_s + 4.0, end_s + 16.0));
            above_idle(&samples, self.run(), pad_s, around).expect("covered").above_j
        }
    }

    /// The meters of the table: MCP39F511, a plug with 1 Hz and 1 s of lag, NVML.
    const METERS: [(f64, f64, f64); 3] = [(0.32, 0.0, 0.32), (1.0, 1.0, 1.0), (1.0, 0.0, 1.0)];

    #[test]
    fn energy_is_unbiased_for_each_meter_and_phase() {
        for run_s in [2.0, 10.0, 60.0] {
            for meter @ (window_s, lag_s, every_s) in METERS {
                for step in 0..20 {
                    let phase_s = every_s * f64::from(step) / 20.0;
                    let modelled = Modelled { drift_w_per_s: 0.0, run_s };
                    let found_j = modelled.measured_j(meter, phase_s, window_s + lag_s + every_s);
                    assert!((found_j / (46.0 * run_s) - 1.0).abs() < 1e-9, "{meter:?} {run_s} {step}: {found_j} J");
                }
            }
        }
    }

    /// Without the pad, the plug misses half of a run of 2 s and a tenth of one of 10 s.
    #[test]
    fn a_window_without_a_pad_is_biased() {
        for (run_s, lost) in [(2.0, 0.5), (10.0, 0.1)] {
            let modelled = Modelled { drift_w_per_s: 0.0, run_s };
            let found: f64 = (0..20).map(|step| modelled.measured_j(METERS[1], f64::from(step) / 20.0, 0.0)).sum();
            let lost_part = 1.0 - found / 20.0 / (46.0 * run_s);
            assert!((lost_part - lost).abs() < 0.01, "{run_s} s: {lost_part}");
        }
    }

    /// The idle draw rises from 14 W to 16 W within the time of the test.
    #[test]
    fn a_drift_of_the_idle_draw_does_not_count() {
        for run_s in [2.0, 10.0] {
            let modelled = Modelled { drift_w_per_s: 2.0 / (2.0 * BEGIN_S + run_s), run_s };
            for meter @ (window_s, lag_s, every_s) in METERS {
                let found_j = modelled.measured_j(meter, 0.3 * every_s, window_s + lag_s + every_s);
                assert!((found_j / (46.0 * run_s) - 1.0).abs() < 0.02, "{meter:?} {run_s}: {found_j} J");
            }
        }
    }

    #[test]
    fn gaps_are_seen_and_count_like_the_rest() {
        let whole: Vec<Sample> =
            (1..=40).map(|at| Sample { at_s: f64::from(at), over_s: 1.0, draw_w: 30.0, shown_w: None }).collect();
        let holed: Vec<Sample> =
            whole.iter().copied().filter(|sample| !(sample.at_s as u32).is_multiple_of(4)).collect();
        let run = TimeRange { begin_s: 10.0, end_s: 30.0 };
        let around = (Idle { at_s: 5.0, draw_w: 9.0, error_w: 0.3 }, Idle { at_s: 35.0, draw_w: 11.0, error_w: 0.4 });
        let found = above_idle(&holed, run, 0.0, around).expect("covered");
        // 30 W above a baseline that is 10 W in the middle, for 20 s; five of twenty samples are missing.
        assert!((found.above_j - 400.0).abs() < 1e-9 && (found.coverage - 0.75).abs() < 1e-9, "{found:?}");
        assert_eq!(found.looks, 15);
        assert!((found.idle_error_w - 0.25).abs() < 1e-9, "{found:?}");
        assert_eq!(above_idle(&holed, TimeRange { begin_s: 90.0, end_s: 91.0 }, 0.0, around), None);
    }

    #[test]
    fn idle_counts_only_samples_within_its_time() {
        let samples: Vec<Sample> = [(1.0, 90.0), (2.0, 90.0), (3.0, 10.0), (4.0, 14.0), (5.0, 90.0)]
            .map(|(at_s, draw_w)| Sample { at_s, over_s: 1.0, draw_w, shown_w: None })
            .to_vec();
        let found = idle(&samples, TimeRange { begin_s: 2.0, end_s: 4.5 }).expect("two samples");
        // Draws 10 and 14: the standard deviation is sqrt(8), the error of the mean 2.
        assert!((found.draw_w - 12.0).abs() < 1e-9 && (found.error_w - 2.0).abs() < 1e-9, "{found:?}");
        assert_eq!(idle(&samples, TimeRange { begin_s: 2.5, end_s: 4.5 }), None);
    }

    #[test]
    fn a_meter_with_a_counter_and_a_draw_has_two_energies() {
        // The counter shows 60 W under load, the draw 55 W; both 14 W in idle times.
        let at_work = |at: u32| (11..=30).contains(&at);
        let sample = |at: u32| {
            let (draw_w, shown_w) = if at_work(at) { (60.0, 55.0) } else { (14.0, 14.0) };
            Sample { at_s: f64::from(at), over_s: 1.0, draw_w, shown_w: Some(shown_w) }
        };
        let mut samples: Vec<Sample> = (1..=40).map(sample).collect();
        let range = |begin_s, end_s| TimeRange { begin_s, end_s };
        let (run, around) = (range(10.0, 30.0), (range(0.0, 10.0), range(31.0, 40.0)));
        let found_j = above_idle_by_draw(&samples, run, 1.0, around).expect("both");
        assert!((found_j - 41.0 * 20.0).abs() < 1e-9, "{found_j}");
        samples[20].shown_w = None;
        assert_eq!(above_idle_by_draw(&samples, run, 1.0, around), None);
    }

    #[test]
    fn joined_samples_have_the_same_integral() {
        let sample = |at: u32| Sample { at_s: f64::from(at), over_s: 1.0, draw_w: f64::from(at * at), shown_w: None };
        let samples: Vec<Sample> = (1..=10).map(sample).collect();
        let found = thinned(&samples, 4);
        // Groups of three: 1 4 9, 16 25 36, 49 64 81, 100.
        let figures: Vec<(f64, f64, f64)> =
            found.iter().map(|one| (one.at_s, one.over_s, one.draw_w * one.over_s)).collect();
        assert_eq!(figures, [(3.0, 3.0, 14.0), (6.0, 3.0, 77.0), (9.0, 3.0, 194.0), (10.0, 1.0, 100.0)]);
        assert_eq!(thinned(&samples, 10), samples);
    }
}
