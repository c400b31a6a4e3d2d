//! Synthetic nodes with the published ranges of the system ITO-A (heterogeneity paper, sections 3.1.1 and 3.2.1). The
//! measured table is not public.

use crate::random::Random;
use limo_model::{Factor, NodeId, UnitId, Variation, VariationKey, ratio};
use limo_trace::platform::Quality;

/// Mean draw of an application on a node in W, and its duration in s.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Run {
    pub pkg: f64,
    pub dram: f64,
    pub seconds: f64,
}

impl Run {
    pub fn power(&self) -> f64 {
        self.pkg + self.dram
    }
}

/// An application and its runs, by node.
pub struct OnNodes {
    pub application: &'static str,
    pub runs: Vec<Run>,
}

/// Correlation of the DRAM power of the two applications, "tendencies are similar".
const DRAM_CORRELATION: f64 = 0.9;

/// Returns HPCG and STREAM on nodes without a cap. Their PKG power has no strong relation, and none to the DRAM power.
/// Percentages of the text decide where it contradicts itself.
pub fn uncapped(count: u32, seed: u64) -> [OnNodes; 2] {
    let mut random = Random::new(seed, 0);
    let (mut hpcg, mut stream) = (Vec::new(), Vec::new());
    for _ in 0..count {
        let dram = Quality::draw(|| random.unit());
        let other_dram = dram.like(|| random.unit(), DRAM_CORRELATION);
        let pkg = [Quality::draw(|| random.unit()), Quality::draw(|| random.unit())];
        hpcg.push(Run { pkg: pkg[0].within((107.0, 124.0)), dram: dram.within((30.6, 39.4)), seconds: 300.0 });
        stream.push(Run { pkg: pkg[1].within((119.0, 123.0)), dram: other_dram.within((60.0, 76.0)), seconds: 180.0 });
    }
    [OnNodes { application: "hpcg", runs: hpcg }, OnNodes { application: "stream", runs: stream }]
}

/// Returns HPCG (104-104-104) on nodes under a cap of 40 W: the PKG power is the cap, and the duration differs.
pub fn capped(count: u32, seed: u64) -> OnNodes {
    let mut random = Random::new(seed, 0);
    let each = |_| {
        let gamma: f64 = (0..5).map(|_| 9.0 * random.exponential()).sum();
        let dram = Quality::draw(|| random.unit()).within((30.0, 40.0));
        Run { pkg: 40.0, dram, seconds: (250.0 + gamma).min(400.0) }
    };
    OnNodes { application: "hpcg", runs: (0..count).map(each).collect() }
}

/// Returns the durations of HPCG (104-104-104) without a cap, which have no relation to the power.
pub fn uncapped_durations(count: u32, seed: u64) -> Vec<f64> {
    let mut random = Random::new(seed, 1);
    (0..count).map(|_| 130.0 + 21.0 * random.unit()).collect()
}

/// Returns the difference of the largest and the smallest value, relative to the mean.
pub fn spread(values: impl Iterator<Item = f64> + Clone) -> f64 {
    let (low, high) = values.clone().fold((f64::MAX, f64::MIN), |(low, high), value| (low.min(value), high.max(value)));
    (high - low) / mean(values)
}

pub fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = values.fold((0.0, 0.0), |(sum, count), value| (sum + value, count + 1.0));
    sum / count
}

impl OnNodes {
    pub fn mean_power(&self) -> f64 {
        mean(self.runs.iter().map(Run::power))
    }

    pub fn mean_seconds(&self) -> f64 {
        mean(self.runs.iter().map(|run| run.seconds))
    }

    /// Returns the table that tests on all nodes give: the mean of ten runs, each with errors of these relative
    /// deviations in power and duration.
    pub fn tested(&self, seed: u64, (power, seconds): (f64, f64)) -> Self {
        const RUNS: u32 = 10;
        let mut random = Random::new(seed, 2);
        let mut with_error = |value: f64, deviation: f64| {
            mean((0..RUNS).map(|_| value * (1.0 + deviation * random.normal())).collect::<Vec<_>>().into_iter())
        };
        let runs = self.runs.iter().map(|run| Run {
            pkg: with_error(run.pkg, power),
            dram: with_error(run.dram, power),
            seconds: with_error(run.seconds, seconds),
        });
        Self { application: self.application, runs: runs.collect() }
    }

    /// Adds the factors of the nodes under this name. They refer to these means, in W and s. `constant` is the part of the
    /// duration that does not depend on the node.
    pub fn add_to(&self, variation: &mut Variation, name: &str, (power, seconds): (f64, f64), constant: f64) {
        let millionths = |value: f64, typical: f64| ratio((value * 1e9) as i64, (typical * 1e9) as i64);
        for (node, run) in (0..).zip(&self.runs) {
            let duration = (run.seconds / seconds + constant) / (1.0 + constant);
            let (power, duration) = (millionths(run.power(), power), millionths(duration, 1.0));
            let (Some(power), Some(duration)) = (power, duration) else { continue };
            let unit = UnitId { node: NodeId(node), unit: 0 };
            let key = VariationKey { application: name.to_owned(), unit, cap: None };
            variation.set(&key, Some(Factor { power, duration, runs: 0 }));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The ranges of Figure 6: 14.4 % and 3.3 % of the PKG power, 25.0 % and 23.5 % of the DRAM power.
    #[test]
    fn nodes_have_the_published_ranges() {
        let [hpcg, stream] = uncapped(2_000, 7);
        let check = |of: &OnNodes, field: fn(&Run) -> f64, percent: f64| {
            let found = 100.0 * spread(of.runs.iter().map(field));
            assert!((percent - 1.5..percent + 0.6).contains(&found), "{}: {found}", of.application);
        };
        check(&hpcg, |run| run.pkg, 14.7);
        check(&stream, |run| run.pkg, 3.3);
        check(&hpcg, |run| run.dram, 25.1);
        check(&stream, |run| run.dram, 23.5);
    }

    #[test]
    fn the_dram_power_of_both_applications_is_correlated() {
        let [hpcg, stream] = uncapped(20_000, 3);
        let correlation = |a: fn(&Run) -> f64, b: fn(&Run) -> f64| {
            let (mean_a, mean_b) = (mean(hpcg.runs.iter().map(a)), mean(stream.runs.iter().map(b)));
            let pairs = || hpcg.runs.iter().map(a).zip(stream.runs.iter().map(b));
            let sum = |term: &dyn Fn(f64, f64) -> f64| pairs().map(|(x, y)| term(x - mean_a, y - mean_b)).sum::<f64>();
            sum(&|x, y| x * y) / (sum(&|x, _| x * x) * sum(&|_, y| y * y)).sqrt()
        };
        assert!((correlation(|run| run.dram, |run| run.dram) - DRAM_CORRELATION).abs() < 0.01);
        assert!(correlation(|run| run.pkg, |run| run.pkg).abs() < 0.03);
    }
}
