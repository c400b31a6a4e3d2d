//! The policies over many random hours: the spread of their figures. Runs `lsim` on all cores.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use anyhow::{Context, Result};
use serde::Serialize;

use super::measure::{Figures, end_of_all, measure};
use super::prices::Market;
use super::report::{above, money};
use super::{RUNS, hardware, random, simulate};

/// Figures of a policy over all hours.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PolicySpread {
    pub name: &'static str,
    pub in_band_median: f64,
    /// 5th percentile of the share of time within the limits.
    pub in_band_p5: f64,
    pub in_band_min: f64,
    pub above_upper_max_w: f64,
    pub cost_eur_median: f64,
    /// 95th percentile of the cost.
    pub cost_eur_p95: f64,
    /// Number of hours in which the policy cost less than `fifo`.
    pub cheaper_than_fifo: usize,
}

/// Figures of all policies over all hours. Figures of a single policy are those of `limo`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Spread {
    pub count: usize,
    pub first_seed: u64,
    pub in_band_median: f64,
    pub in_band_p5: f64,
    pub above_upper_max_w: f64,
    pub policies: Vec<PolicySpread>,
}

/// Simulates the hours of these seeds, with all files in `dir`.
///
/// # Errors
/// If an hour cannot be made or simulated, with its seed.
pub fn simulate(lsim: &Path, dir: &Path, market: &Market, seeds: Vec<u64>) -> Result<Spread> {
    let example = hardware::example()?;
    let cores = thread::available_parallelism().map_or(1, usize::from).min(seeds.len());
    eprintln!("demo: simulating {} random hours on {cores} cores", seeds.len());
    let next = AtomicUsize::new(0);
    let hours: Mutex<Vec<Option<Result<Vec<Figures>>>>> = Mutex::new(seeds.iter().map(|_| None).collect());
    let work = || {
        while let Some((index, seed)) =
            Some(next.fetch_add(1, Ordering::Relaxed)).and_then(|at| Some((at, seeds.get(at)?)))
        {
            let done = one(lsim, &dir.join(format!("hour-{seed}")), (*seed, &example), market);
            let done = done.with_context(|| format!("the random hour {seed} failed"));
            hours.lock().unwrap_or_else(PoisonError::into_inner)[index] = Some(done);
        }
    };
    thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(work);
        }
    });
    let hours = hours.into_inner().unwrap_or_else(PoisonError::into_inner);
    let hours = hours.into_iter().flatten().collect::<Result<Vec<_>>>()?;
    fs::write(dir.join("random.csv"), rows(&seeds, &hours)).context("cannot write random.csv")?;
    Ok(Spread::of(seeds.first().copied().unwrap_or_default(), &hours))
}

/// Returns the figures of one hour, in the order of [`RUNS`].
fn one(lsim: &Path, dir: &Path, (seed, example): (u64, &str), market: &Market) -> Result<Vec<Figures>> {
    fs::create_dir(dir).with_context(|| format!("cannot make {}", dir.display()))?;
    let hour = random::hour(seed, example, market)?;
    let records = simulate::simulate_all(lsim, dir, &hour)?;
    let (limits, prices) = (hour.day.limits()?, hour.prices.known()?);
    let end = end_of_all(records.iter().map(|(_, record)| record));
    Ok(records.iter().map(|(_, record)| measure(record, &limits, &prices, end)).collect())
}

/// Formats a line for each run of each hour.
fn rows(seeds: &[u64], hours: &[Vec<Figures>]) -> String {
    let mut text = "seed,policy,in_band_share,above_upper_w,energy_j,cost_eur,makespan_s,mean_wait_s\n".to_owned();
    for (seed, hour) in seeds.iter().zip(hours) {
        for (run, figures) in RUNS.iter().zip(hour) {
            text += &format!(
                "{seed},{},{:.5},{:.3},{:.0},{:.6},{:.0},{:.0}\n",
                run.file_name(),
                figures.in_band_share,
                figures.above_upper.watts(),
                figures.energy.joules(),
                figures.cost.whole(),
                figures.makespan.secs(),
                figures.mean_wait.secs()
            );
        }
    }
    text
}

impl Spread {
    fn of(first_seed: u64, hours: &[Vec<Figures>]) -> Self {
        let fifo = RUNS.iter().position(|run| run.name == "fifo").unwrap_or_default();
        let spread = |(index, name): (usize, &'static str)| {
            let of = |figure: fn(&Figures) -> f64| hours.iter().map(|hour| figure(&hour[index])).collect::<Vec<f64>>();
            let (shares, costs) = (of(|figures| figures.in_band_share), of(|figures| figures.cost.whole()));
            PolicySpread {
                name,
                in_band_median: quantile(&shares, 0.5),
                in_band_p5: quantile(&shares, 0.05),
                in_band_min: quantile(&shares, 0.0),
                above_upper_max_w: quantile(&of(|figures| figures.above_upper.watts()), 1.0),
                cost_eur_median: quantile(&costs, 0.5),
                cost_eur_p95: quantile(&costs, 0.95),
                cheaper_than_fifo: hours.iter().filter(|hour| hour[index].cost < hour[fifo].cost).count(),
            }
        };
        let policies: Vec<PolicySpread> = RUNS.iter().map(|run| run.name).enumerate().map(spread).collect();
        let limo = policies.iter().find(|policy| policy.name == "limo");
        Self {
            count: hours.len(),
            first_seed,
            in_band_median: limo.map_or(0.0, |limo| limo.in_band_median),
            in_band_p5: limo.map_or(0.0, |limo| limo.in_band_p5),
            above_upper_max_w: limo.map_or(0.0, |limo| limo.above_upper_max_w),
            policies,
        }
    }

    pub fn table(&self) -> String {
        type Cell = fn(&PolicySpread) -> String;
        let rows: [(&str, Cell); 7] = [
            ("in the band, median", |of| percent(of.in_band_median)),
            ("  5th percentile", |of| percent(of.in_band_p5)),
            ("  least", |of| percent(of.in_band_min)),
            ("above the upper limit", |of| above(of.above_upper_max_w)),
            ("cost, median", |of| money(of.cost_eur_median)),
            ("  95th percentile", |of| money(of.cost_eur_p95)),
            ("cheaper than fifo", |of| format!("in {} hours", of.cheaper_than_fifo)),
        ];
        let last = self.first_seed + self.count as u64 - 1;
        let mut table = format!("\n{} random hours, seeds {} to {last}, simulated:\n", self.count, self.first_seed);
        table += &format!("{:<24}", "run");
        table.extend(self.policies.iter().map(|policy| format!("  {:>30}", policy.name)));
        for (title, cell) in rows {
            table += &format!("\n{title:<24}");
            table.extend(self.policies.iter().map(|policy| format!("  {:>30}", cell(policy))));
        }
        table + "\n"
    }
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// Returns a quantile, with linear interpolation; 0 without values.
fn quantile(values: &[f64], part: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let Some(last) = sorted.len().checked_sub(1) else { return 0.0 };
    let place = part * last as f64;
    let (below, above) = (sorted[place.floor() as usize], sorted[place.ceil() as usize]);
    below + (above - below) * place.fract()
}

#[cfg(test)]
mod tests {
    use super::*;
    use limo_model::{Energy, Money, Power, Span};

    fn figures(share: f64, above: i64, cost: i64) -> Figures {
        Figures {
            in_band_share: share,
            above_upper: Power::from_watts(above),
            energy: Energy::ZERO,
            cost: Money::from_micro(cost),
            makespan: Span::ZERO,
            mean_wait: Span::ZERO,
        }
    }

    #[test]
    fn quantiles_by_hand() {
        let values: Vec<f64> = (0..=20).rev().map(f64::from).collect();
        assert_eq!((quantile(&values, 0.5), quantile(&values, 0.05), quantile(&values, 1.0)), (10.0, 1.0, 20.0));
        assert_eq!((quantile(&[4.0, 2.0], 0.5), quantile(&[], 0.5)), (3.0, 0.0));
    }

    #[test]
    fn a_single_policy_is_limo() {
        let hour = |share: f64, cost| {
            let limo = figures(share, 0, cost);
            vec![figures(0.2, 40, 50), figures(0.9, 7, 20), limo, figures(share / 2.0, 1, 60)]
        };
        let spread = Spread::of(1_001, &[hour(0.8, 10), hour(1.0, 70), hour(0.9, 30)]);
        let json: serde_json::Value = serde_json::to_value(&spread).expect("JSON");
        assert_eq!((&json["count"], &json["first_seed"]), (&3.into(), &1_001.into()));
        assert_eq!((&json["in_band_median"], &json["above_upper_max_w"]), (&0.9.into(), &0.0.into()));
        assert!((spread.in_band_p5 - 0.81).abs() < 1e-9, "{spread:?}");
        assert_eq!(spread.policies[2].cheaper_than_fifo, 2);
        assert_eq!(spread.policies[0].above_upper_max_w, 40.0);
        let table = spread.table();
        assert!(table.contains("3 random hours, seeds 1001 to 1003"), "{table}");
        assert!(table.contains("in 2 hours"), "{table}");
    }
}
