//! Repeated measurements: median, outliers, confidence interval, and when there are enough. Pure.
//!
//! A run that hung is an outlier: it stays in the results, but does not count. All others do, also those that a user
//! would like to see gone: at most a fifth of the runs may be outliers.

use serde::{Deserialize, Serialize};

/// Distance from the median, in median absolute deviations scaled to standard deviations, above which a value is an
/// outlier.
const OUTLIER: f64 = 5.0;

/// Standard deviation of a normal distribution with the median absolute deviation 1 (Rousseeuw and Croux 1993).
const SCALE: f64 = 1.4826;

/// A value within this part of the median from it is not an outlier. The deviation of five values may be small by
/// chance, and leaving out good values makes intervals too narrow.
const NEAR: f64 = 0.05;

/// Least number of runs.
pub const LEAST_RUNS: usize = 5;

/// Most runs.
pub const MOST_RUNS: usize = 30;

/// Most outliers, as a part of the runs.
const MOST_OUTLIERS: f64 = 0.2;

/// Widest interval on each side of the mean, as a part of the mean, for energies.
pub const ENERGY_LIMIT: f64 = 0.02;

/// The same for durations.
pub const TIME_LIMIT: f64 = 0.01;

/// Number of successive runs after which the intervals must be narrow.
const IN_A_ROW: u32 = 2;

/// 97.5 % quantiles of Student's t distribution for 1 to 29 degrees of freedom.
const T: [f64; 29] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120,
    2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045,
];

/// The 97.5 % quantile of the normal distribution, for more degrees of freedom.
const T_OF_MANY: f64 = 1.96;

/// Returns the middle value, or the mean of the two middle ones; `None` without values.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let upper = *sorted.get(sorted.len() / 2)?;
    Some(if sorted.len() % 2 == 1 { upper } else { sorted[sorted.len() / 2 - 1].midpoint(upper) })
}

/// Returns true for each value that is an outlier.
pub fn outliers(values: &[f64]) -> Vec<bool> {
    let Some(middle) = median(values) else { return Vec::new() };
    let deviations: Vec<f64> = values.iter().map(|value| (value - middle).abs()).collect();
    let deviation = median(&deviations).unwrap_or_default();
    let limit = (OUTLIER * SCALE * deviation).max(NEAR * middle.abs());
    deviations.into_iter().map(|deviation| deviation > limit).collect()
}

/// Confidence interval of 95 % around a mean.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// Mean of the values.
    pub mean: f64,
    /// Distance of both ends from the mean.
    pub half: f64,
}

impl Interval {
    /// Returns the interval by Student's t distribution; `None` with fewer than two values.
    pub fn of(values: &[f64]) -> Option<Self> {
        if values.len() < 2 {
            return None;
        }
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1.0);
        let quantile = T.get(values.len() - 2).copied().unwrap_or(T_OF_MANY);
        Some(Self { mean, half: quantile * (variance / count).sqrt() })
    }

    /// Returns the distance of the ends as a part of the mean; infinite around zero.
    pub fn relative(self) -> f64 {
        if self.mean == 0.0 { f64::INFINITY } else { self.half / self.mean.abs() }
    }

    /// Returns true if the intervals have no value in common.
    pub fn is_apart_from(self, other: Self) -> bool {
        (self.mean - other.mean).abs() > self.half + other.half
    }
}

/// Duration and energy of one run. The energy is that above idle.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pair {
    /// Duration, in seconds.
    pub time_s: f64,
    /// Energy above idle, in joules.
    pub energy_j: f64,
}

/// Summary of repeated runs.
#[derive(Debug, Clone, PartialEq)]
pub struct Repeated {
    /// By run: true if its duration or its energy is an outlier.
    pub is_outlier: Vec<bool>,
    /// Interval of the durations of the others.
    pub time: Interval,
    /// Interval of their energies.
    pub energy: Interval,
}

impl Repeated {
    /// Summarises runs; `None` if fewer than two are left without the outliers.
    pub fn of(runs: &[Pair]) -> Option<Self> {
        let times: Vec<f64> = runs.iter().map(|run| run.time_s).collect();
        let energies: Vec<f64> = runs.iter().map(|run| run.energy_j).collect();
        let is_outlier: Vec<bool> =
            outliers(&times).into_iter().zip(outliers(&energies)).map(|(time, energy)| time || energy).collect();
        let kept = |values: &[f64]| -> Vec<f64> {
            values.iter().zip(&is_outlier).filter(|(_, is_outlier)| !**is_outlier).map(|(value, _)| *value).collect()
        };
        let (time, energy) = (Interval::of(&kept(&times))?, Interval::of(&kept(&energies))?);
        Some(Self { is_outlier, time, energy })
    }

    /// Returns true if both intervals are narrow enough.
    pub fn is_precise(&self) -> bool {
        self.energy.relative() <= ENERGY_LIMIT && self.time.relative() <= TIME_LIMIT
    }

    /// Returns the number of outliers.
    pub fn outliers(&self) -> usize {
        self.is_outlier.iter().filter(|is_outlier| **is_outlier).count()
    }

    /// Returns true if there are more outliers than a profile may leave out.
    pub fn has_many_outliers(&self) -> bool {
        self.outliers() as f64 > MOST_OUTLIERS * self.is_outlier.len() as f64
    }
}

/// Decides when there are enough runs.
#[derive(Debug, Clone, Default)]
pub struct StopRule {
    runs: Vec<Pair>,
    precise: u32,
}

impl StopRule {
    /// Adds a run. Returns true if no further one is needed: at least [`LEAST_RUNS`], and intervals that were narrow
    /// twice in a row without too many outliers, or [`MOST_RUNS`].
    pub fn add(&mut self, run: Pair) -> bool {
        self.runs.push(run);
        let is_good = |found: Repeated| found.is_precise() && !found.has_many_outliers();
        let is_precise = self.runs.len() >= LEAST_RUNS && Repeated::of(&self.runs).is_some_and(is_good);
        self.precise = if is_precise { self.precise + 1 } else { 0 };
        self.precise >= IN_A_ROW || self.runs.len() >= MOST_RUNS
    }
}

#[cfg(test)]
mod tests {
    use limo_model::{Energy, Power, Span, Time};
    use limo_power::{Emulated, Hardware, Noise, Share};

    use super::*;

    #[test]
    fn medians_and_outliers() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
        // Median 10.2, deviations 0.2 0.1 0 0.1 0.2 20: the limit is 5 * 1.4826 * 0.15.
        assert_eq!(outliers(&[10.0, 10.1, 10.2, 10.3, 10.4, 30.0]), [false, false, false, false, false, true]);
        // Equal values have no deviation: the limit is five percent.
        assert_eq!(outliers(&[10.0, 10.0, 10.0, 10.0, 10.4, 10.6]), [false, false, false, false, false, true]);
    }

    #[test]
    fn intervals_by_hand() {
        // Mean 10, variance 2.5, error sqrt(0.5), t = 2.776 at 4 degrees of freedom.
        let found = Interval::of(&[8.0, 9.0, 10.0, 11.0, 12.0]).expect("values");
        assert!((found.mean - 10.0).abs() < 1e-9 && (found.half - 1.962_93).abs() < 1e-4, "{found:?}");
        assert!((found.relative() - 0.196_293).abs() < 1e-5);
        assert_eq!(Interval::of(&[1.0]), None);
        let at = |mean| Interval { mean, half: 1.0 };
        assert!(at(10.0).is_apart_from(at(12.1)) && !at(10.0).is_apart_from(at(11.9)));
    }

    #[test]
    fn the_rule_stops_after_two_narrow_intervals_or_thirty_runs() {
        let runs_until_stop = |mut energy: Box<dyn FnMut(usize) -> f64>| {
            let mut rule = StopRule::default();
            (1..).find(|run| rule.add(Pair { time_s: 10.0, energy_j: energy(*run) })).expect("an end")
        };
        assert_eq!(runs_until_stop(Box::new(|_| 460.0)), 6);
        assert_eq!(runs_until_stop(Box::new(|run| if run % 2 == 0 { 400.0 } else { 520.0 })), MOST_RUNS);
    }

    #[test]
    fn more_than_a_fifth_of_outliers_is_too_many() {
        let runs = |hung: usize| -> Vec<Pair> {
            (0..10).map(|run| Pair { time_s: if run < hung { 30.0 } else { 10.0 }, energy_j: 460.0 }).collect()
        };
        let two = Repeated::of(&runs(2)).expect("runs");
        let three = Repeated::of(&runs(3)).expect("runs");
        assert!((two.outliers(), two.has_many_outliers()) == (2, false), "{two:?}");
        assert!((three.outliers(), three.has_many_outliers()) == (3, true), "{three:?}");
    }

    const DURATION_S: f64 = 40.0;
    const POWER_W: f64 = 45.0;

    /// Returns an emulated machine with noise of 1 % and this seed.
    fn machine(seed: u64) -> Emulated {
        let text = format!(
            r#"
            [[machine]]
            name = "m"
            cores = 8
            memory = "1 GiB"
            idle = "14 W"
            seed = {seed}
            [[machine.unit]]
            name = "cpu"
            hardware = "x"
            kind = "cpu"
            nameplate = "60 W"
            power_noise = "1%"
            duration_noise = "1%"
            [machine.unit.application.ft]
            power = "{POWER_W} W"
            duration = "{DURATION_S}s"
            "#
        );
        Emulated::new(Hardware::parse("m.toml".as_ref(), &text).expect("a machine").machines[0].clone())
    }

    /// Runs the application in the model; a run that hangs takes three times as long.
    fn run(model: &mut Emulated, hangs: bool) -> Pair {
        let begin = Time::from_unix_ms(0);
        let plan = model.plan("ft", "", &[Share { unit: 0, cores: 8, cap: None }]).expect("a plan");
        let span = plan.work.expect("a known application").scaled(if hangs { 3 } else { 1 }, 1);
        model.start(1, plan, begin);
        let energy: Energy = model.end_after(1, span, begin.moved(span)).expect("a run");
        let (span, energy): (Span, Power) = (span, Power::from_mw(energy.mj()));
        Pair { time_s: span.secs(), energy_j: energy.watts() }
    }

    fn measure(seed: u64, hangs: impl Fn(&mut Noise) -> bool) -> (Vec<Pair>, Vec<bool>) {
        let (mut model, mut noise, mut rule) = (machine(seed), Noise::new(seed), StopRule::default());
        let (mut runs, mut hung) = (Vec::new(), Vec::new());
        loop {
            let is_hung = hangs(&mut noise);
            let run = run(&mut model, is_hung);
            runs.push(run);
            hung.push(is_hung);
            if rule.add(run) {
                return (runs, hung);
            }
        }
    }

    /// Check of the reference: the truth is inside the interval in at least 90 % of 200 measurements.
    #[test]
    fn intervals_contain_the_truth() {
        let (mut times, mut energies) = (0, 0);
        for seed in 0..200 {
            let (runs, _) = measure(seed, |_| false);
            let found = Repeated::of(&runs).expect("runs");
            times += u32::from((found.time.mean - DURATION_S).abs() <= found.time.half);
            energies += u32::from((found.energy.mean - POWER_W * DURATION_S).abs() <= found.energy.half);
        }
        assert!(times >= 180 && energies >= 180, "{times} durations, {energies} energies of 200");
    }

    /// Check of the reference: a tenth of the runs takes three times as long; all of them are named, and the medians
    /// of the others stay within 1 %.
    #[test]
    fn hung_runs_are_named_and_do_not_count() {
        let mut refused = 0;
        for seed in 0..200 {
            let (runs, hung) = measure(seed, |noise| noise.next_u64().is_multiple_of(10));
            let found = Repeated::of(&runs).expect("runs");
            if found.has_many_outliers() {
                refused += 1;
                continue;
            }
            assert_eq!(found.is_outlier, hung, "seed {seed}");
            let kept: Vec<f64> =
                runs.iter().zip(&hung).filter(|(_, hung)| !**hung).map(|(run, _)| run.time_s).collect();
            let middle = median(&kept).expect("runs");
            assert!((middle / DURATION_S - 1.0).abs() < 0.01, "seed {seed}: {middle} s");
        }
        // With 30 runs, more than six hang by chance in 2.6 % of the cases; most stop earlier.
        assert!(refused <= 4, "{refused} of 200 had too many");
    }
}
