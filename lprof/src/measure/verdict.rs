//! Verdict on a measurement: the reasons not to trust it. Pure.

use std::fmt;

use super::gpu_watch::LimitCounts;
use super::statistics::{ENERGY_LIMIT, Interval, LEAST_RUNS, Repeated, TIME_LIMIT};

/// Exit code of a measurement that cannot be trusted.
pub const UNTRUSTED: u8 = 3;

/// Highest uncertainty of the idle draw, and highest change of it across a run, as parts of the draw above idle.
const IDLE_LIMIT: f64 = 0.03;
const DRIFT_LIMIT: f64 = 0.1;

/// Least covered part of a run.
const COVERAGE: f64 = 0.95;

/// Least number of samples in a run if the meter is sampled more rarely than once a window: the error of chance is then
/// one sample.
const LEAST_LOOKS: usize = 25;

/// Largest difference between an energy counter and the integral of the draw.
const COUNTER_LIMIT: f64 = 0.05;

/// Least effect of a cap: a smaller difference is that of the meter, or of the start of processes, which takes a millisecond
/// more or less.
const LEAST_EFFECT: f64 = 0.005;

/// Largest change of a repeated measurement without a cap.
const CHANGE_LIMIT: f64 = 0.02;

/// Reason not to trust a measurement. All parts are 0 to 1.
#[derive(Debug, Clone, PartialEq)]
#[expect(missing_docs, reason = "the texts say what each variant is")]
pub enum Reason {
    UnstableIdle { error_w: f64, above_w: f64 },
    IdleDrift { change_w: f64, above_w: f64 },
    NothingAboveIdle { above_w: f64 },
    OtherLoad { cores: f64, limit: f64 },
    Throttled { events: u64 },
    HotGpu { part: f64 },
    MeterGaps { coverage: f64 },
    TooFewLooks { looks: usize },
    Imprecise { what: &'static str, relative: f64, limit: f64 },
    ManyOutliers { outliers: usize, runs: usize },
    CounterDiffers { counter_j: f64, integral_j: f64 },
    CapNotHeld { error: String },
    CapWithoutEffect { cap: String },
    Changed { relative: f64 },
}

fn percent(part: f64) -> String {
    format!("{:.1} %", part * 100.0)
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnstableIdle { error_w, above_w } => write!(
                f,
                "idle unstable: the idle draw is known only to {error_w:.2} W, at a draw of {above_w:.2} W above it \
                 (limit {}); stop other programs, or set a longer --idle",
                percent(IDLE_LIMIT)
            ),
            Self::IdleDrift { change_w, above_w } => write!(
                f,
                "idle unstable: the idle draw changes by {change_w:.2} W across a run that draws {above_w:.2} W above \
                 it (limit {}); wait until the machine has a steady temperature",
                percent(DRIFT_LIMIT)
            ),
            Self::NothingAboveIdle { above_w } => {
                write!(f, "the command draws {above_w:.2} W above idle, which the meter cannot tell from idle")
            }
            Self::OtherLoad { cores, limit } => write!(
                f,
                "other load: other processes use {cores:.2} cores (limit {limit:.2}); stop them, or set --other-load"
            ),
            Self::Throttled { events } => {
                write!(f, "throttled: the processor was too hot {events} times during the runs; cool it")
            }
            Self::HotGpu { part } => {
                write!(f, "throttled: the GPU was too hot in {} of the samples of the runs; cool it", percent(*part))
            }
            Self::MeterGaps { coverage } => write!(
                f,
                "meter gaps: the meter covers only {} of a run (least {})",
                percent(*coverage),
                percent(COVERAGE)
            ),
            Self::TooFewLooks { looks } => write!(
                f,
                "too few samples: {looks} in a run, more rarely than the window of the meter (least {LEAST_LOOKS}); \
                 set a shorter --interval or a longer --at-least"
            ),
            Self::Imprecise { what, relative, limit } => write!(
                f,
                "imprecise: the interval of the {what} is {} wide on each side (limit {})",
                percent(*relative),
                percent(*limit)
            ),
            Self::ManyOutliers { outliers, runs } => {
                write!(f, "outliers: {outliers} of {runs} runs differ from the others (at most a fifth may)")
            }
            Self::CounterDiffers { counter_j, integral_j } => write!(
                f,
                "counter and draw differ: {counter_j:.1} J by the counter, {integral_j:.1} J by the draw (limit {})",
                percent(COUNTER_LIMIT)
            ),
            Self::CapNotHeld { error } => write!(f, "the cap is not held: {error}"),
            Self::CapWithoutEffect { cap } => {
                write!(f, "the cap of {cap} has no effect: neither energy nor duration differs from a run without it")
            }
            Self::Changed { relative } => write!(
                f,
                "changed: a repetition without a cap differs by {} from the first one (limit {})",
                percent(*relative),
                percent(CHANGE_LIMIT)
            ),
        }
    }
}

/// What is known about one run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RunFacts {
    /// Mean draw above idle, in watts.
    pub above_w: f64,
    /// Standard error of the idle draw, in watts.
    pub idle_error_w: f64,
    /// Idle draw after the run minus that before it, in watts.
    pub idle_change_w: f64,
    /// Covered part of the run, 0 to 1.
    pub coverage: f64,
    /// Number of samples.
    pub looks: usize,
    /// Busy cores of other processes; 0 if unknown.
    pub other_cores: f64,
    /// Number of times that the processor was too hot.
    pub throttled: u64,
    /// Clock limits of the GPU.
    pub limits: LimitCounts,
    /// Energy above idle by the counter and by the draw, if the meter has both.
    pub by_both: Option<(f64, f64)>,
}

/// Limits that the meter and the user set.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limits {
    /// Most busy cores of other processes.
    pub other_cores: f64,
    /// True if the meter is sampled more rarely than once a window.
    pub is_sparse: bool,
}

/// Judges runs. Each reason occurs once, with the figures of a typical run.
pub fn of_runs(runs: &[RunFacts], repeated: Option<&Repeated>, limits: Limits) -> Vec<Reason> {
    let mut reasons = Vec::new();
    let middle = |of: fn(&RunFacts) -> f64| {
        super::statistics::median(&runs.iter().map(of).collect::<Vec<_>>()).unwrap_or_default()
    };
    let (above_w, error_w) = (middle(|run| run.above_w), middle(|run| run.idle_error_w));
    if above_w <= 2.0 * error_w {
        reasons.push(Reason::NothingAboveIdle { above_w });
    } else if error_w > IDLE_LIMIT * above_w {
        reasons.push(Reason::UnstableIdle { error_w, above_w });
    }
    let change_w = middle(|run| run.idle_change_w.abs());
    if above_w > 0.0 && change_w > DRIFT_LIMIT * above_w {
        reasons.push(Reason::IdleDrift { change_w, above_w });
    }
    let cores = middle(|run| run.other_cores);
    if cores > limits.other_cores {
        reasons.push(Reason::OtherLoad { cores, limit: limits.other_cores });
    }
    let events = runs.iter().map(|run| run.throttled).sum();
    if events > 0 {
        reasons.push(Reason::Throttled { events });
    }
    let limits_of_all = LimitCounts::sum(runs.iter().map(|run| run.limits));
    if limits_of_all.heat > 0 {
        reasons.push(Reason::HotGpu { part: f64::from(limits_of_all.heat) / f64::from(limits_of_all.looks) });
    }
    let coverage = middle(|run| run.coverage);
    if coverage < COVERAGE {
        reasons.push(Reason::MeterGaps { coverage });
    }
    let looks = runs.iter().map(|run| run.looks).min().unwrap_or_default();
    if limits.is_sparse && looks < LEAST_LOOKS {
        reasons.push(Reason::TooFewLooks { looks });
    }
    let both: Vec<(f64, f64)> = runs.iter().filter_map(|run| run.by_both).collect();
    let sum = both.iter().fold((0.0, 0.0), |sum, both| (sum.0 + both.0, sum.1 + both.1));
    if (sum.0 - sum.1).abs() > COUNTER_LIMIT * sum.0.abs() {
        let count = both.len() as f64;
        reasons.push(Reason::CounterDiffers { counter_j: sum.0 / count, integral_j: sum.1 / count });
    }
    reasons.extend(precision(repeated));
    reasons
}

fn precision(repeated: Option<&Repeated>) -> Vec<Reason> {
    let Some(found) = repeated.filter(|found| found.is_outlier.len() >= LEAST_RUNS) else {
        return vec![Reason::Imprecise { what: "energy", relative: f64::INFINITY, limit: ENERGY_LIMIT }];
    };
    let mut reasons = Vec::new();
    if found.has_many_outliers() {
        reasons.push(Reason::ManyOutliers { outliers: found.outliers(), runs: found.is_outlier.len() });
    }
    for (what, interval, limit) in [("energy", found.energy, ENERGY_LIMIT), ("duration", found.time, TIME_LIMIT)] {
        let relative = interval.relative();
        if relative > limit {
            reasons.push(Reason::Imprecise { what, relative, limit });
        }
    }
    reasons
}

/// Returns true if the runs with a cap differ from those without it, in energy or duration.
pub fn has_effect(capped: &Repeated, uncapped: &Repeated) -> bool {
    let differ = |one: Interval, other: Interval| {
        one.is_apart_from(other) && (one.mean - other.mean).abs() > LEAST_EFFECT * other.mean.abs()
    };
    differ(capped.energy, uncapped.energy) || differ(capped.time, uncapped.time)
}

/// Compares a repetition without a cap with the first one.
pub fn changed(first: &Repeated, last: &Repeated) -> Option<Reason> {
    let change = |one: Interval, other: Interval| {
        let relative = (one.mean - other.mean).abs() / one.mean.abs();
        (relative > CHANGE_LIMIT && one.is_apart_from(other)).then_some(relative)
    };
    let found = change(first.energy, last.energy).into_iter().chain(change(first.time, last.time));
    found.max_by(f64::total_cmp).map(|relative| Reason::Changed { relative })
}

#[cfg(test)]
mod tests {
    use super::super::statistics::Pair;
    use super::*;

    const LIMITS: Limits = Limits { other_cores: 0.1, is_sparse: false };

    fn good() -> RunFacts {
        RunFacts {
            above_w: 46.0,
            idle_error_w: 0.2,
            idle_change_w: 2.0,
            coverage: 1.0,
            looks: 30,
            other_cores: 0.05,
            throttled: 0,
            limits: LimitCounts { looks: 10, power: 10, heat: 0 },
            by_both: Some((460.0, 450.0)),
        }
    }

    fn repeated(energy_j: f64) -> Repeated {
        let pairs: Vec<Pair> =
            (0..6).map(|run| Pair { time_s: 10.0, energy_j: energy_j * (1.0 + f64::from(run) / 1000.0) }).collect();
        Repeated::of(&pairs).expect("runs")
    }

    fn check(change: impl Fn(&mut RunFacts), expected: &[&str]) {
        let mut run = good();
        change(&mut run);
        let found: Vec<String> =
            of_runs(&[run; 6], Some(&repeated(460.0)), LIMITS).iter().map(ToString::to_string).collect();
        let begins = found.len() == expected.len()
            && found.iter().zip(expected).all(|(found, expected)| found.starts_with(expected));
        assert!(begins, "{found:?} is not {expected:?}");
    }

    #[test]
    fn each_fault_has_its_reason() {
        check(|_| {}, &[]);
        check(
            |run| run.idle_error_w = 1.4,
            &["idle unstable: the idle draw is known only to 1.40 W, at a draw of 46.00 W"],
        );
        check(|run| run.idle_change_w = -4.7, &["idle unstable: the idle draw changes by 4.70 W"]);
        check(|run| (run.above_w, run.idle_change_w) = (0.3, 0.0), &["the command draws 0.30 W above idle"]);
        check(|run| run.other_cores = 0.2, &["other load: other processes use 0.20 cores (limit 0.10)"]);
        check(|run| run.throttled = 2, &["throttled: the processor was too hot 12 times"]);
        check(|run| run.limits.heat = 1, &["throttled: the GPU was too hot in 10.0 % of the samples of the runs"]);
        check(|run| run.coverage = 0.94, &["meter gaps: the meter covers only 94.0 %"]);
        check(|run| run.by_both = Some((460.0, 436.0)), &["counter and draw differ: 460.0 J by the counter, 436.0 J"]);
        // Few samples matter only if the meter is sampled more rarely than once a window.
        check(|run| run.looks = 3, &[]);
        let sparse = Limits { is_sparse: true, ..LIMITS };
        let found = of_runs(&[RunFacts { looks: 24, ..good() }; 6], Some(&repeated(460.0)), sparse);
        assert_eq!(found, [Reason::TooFewLooks { looks: 24 }]);
    }

    #[test]
    fn imprecise_and_scattered_runs_have_their_reasons() {
        let runs = |values: &[f64]| {
            let pairs: Vec<Pair> = values.iter().map(|energy_j| Pair { time_s: 10.0, energy_j: *energy_j }).collect();
            of_runs(&vec![good(); values.len()], Repeated::of(&pairs).as_ref(), LIMITS)
        };
        // The error of 400 and 520 J in turn is far above 2 %.
        let wide = runs(&[400.0, 520.0, 400.0, 520.0, 400.0, 520.0]);
        assert!(matches!(wide[..], [Reason::Imprecise { what: "energy", .. }]), "{wide:?}");
        let hung = runs(&[460.0, 461.0, 462.0, 463.0, 464.0, 900.0, 900.0]);
        assert_eq!(hung, [Reason::ManyOutliers { outliers: 2, runs: 7 }]);
        let few = runs(&[460.0; 4]);
        assert!(matches!(few[..], [Reason::Imprecise { .. }]), "{few:?}");
    }

    #[test]
    fn effects_and_changes_are_those_that_the_intervals_show() {
        assert!(has_effect(&repeated(450.0), &repeated(460.0)));
        assert!(!has_effect(&repeated(459.8), &repeated(460.0)));
        let (less, more) = (repeated(457.9), repeated(460.0));
        assert!(less.energy.is_apart_from(more.energy) && !has_effect(&less, &more), "0.46 % less is not an effect");
        assert_eq!(changed(&repeated(460.0), &repeated(467.0)), None);
        let Some(Reason::Changed { relative }) = changed(&repeated(460.0), &repeated(483.0)) else {
            panic!("no change")
        };
        assert!((relative - 0.05).abs() < 1e-9);
    }
}
