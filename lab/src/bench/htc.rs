//! Many single-processor jobs on 1,400 nodes, from generation to the written results, and the growth of time and
//! memory.

use std::path::PathBuf;

use anyhow::{Context, Result};
use limo_model::{Budgets, Preset, Time};
use limo_sched::Options;
use limo_trace::Platform;
use limo_trace::generate::{Recipe, generate};

use super::figure::{Figure, Limit};
use super::host::Watch;
use super::part::Report;
use lsim::engine::{Scenario, simulate};
use lsim::output::{Output, beside};
use lsim::record::Heading;

/// Numbers of jobs between which the growth is measured.
pub const COUNTS: [u32; 3] = [100_000, 600_000, 6_000_000];
const NODES: u32 = 1_400;
pub const WALL: &str = "wall time in all";
pub const PEAK: &str = "peak memory";
pub const MIB: f64 = 1_048_576.0;
/// Upper limit for the largest count, in seconds.
const WALL_S: f64 = 15.0;
const PEAK_MIB: f64 = 1_024.0;
/// Upper limit of the exponent of growth. The machine's caches make larger runs slightly slower.
pub const EXPONENT: f64 = 1.1;

/// Generates, simulates and writes in this process, which should do no other work.
///
/// # Errors
/// If the results cannot be written.
pub fn measure(jobs: u32) -> Result<Report> {
    let all = Watch::start()?;
    let mut recipe = Recipe::named("htc")?;
    recipe.jobs = Some(jobs);
    recipe.machine = NODES;
    let workload = generate(&recipe)?;
    let generated = all.taken()?;
    let platform = Platform::taurus(NODES);
    let scenario = Scenario {
        workload: &workload,
        platform: &platform,
        preset: Preset::Easy,
        options: Options::default(),
        budgets: Budgets::default(),
        limits: None,
        unwarned: false,
        prices: None,
        profiles: &[],
        variation: None,
        mispredict: None,
        predict: false,
        explore: limo_model::JobShare::NONE,
        queues: limo_model::Queues::default(),
        groups: limo_model::Groups::default(),
        visits: None,
        until: None,
    };
    let heading = Heading {
        workload: "htc".to_owned(),
        platform: format!("{NODES} nodes of energy-budget-2017"),
        processors: NODES,
        policy: Preset::Easy.name().to_owned(),
        options: Vec::new(),
        seed: Some(recipe.seed),
        start: Time::from_unix_ms(0),
        window: None,
    };
    let scratch = tempfile::tempdir().context("a folder for the results")?;
    let out: PathBuf = scratch.path().join("out");
    let mut output = Output::create(&out, false, heading).context("the results")?;
    let summary = beside(&mut output, |records| simulate(&scenario, records))?;
    let taken = all.taken()?;
    let largest = Some(&jobs) == COUNTS.last();
    let within = |figure: Figure, most| if largest { figure.within(Limit::AtMost(most)) } else { figure };
    let simulated = taken.cpu_s - generated.cpu_s;
    let peers = "HTC-Sim: 183 s and 802 MB for 561,851 jobs";
    Ok(Report::of(vec![
        Figure::new("jobs", f64::from(jobs), ""),
        Figure::new("plans refused by the checker", summary.violations as f64, "").within(Limit::AtMost(0.0)),
        Figure::new("CPU time of the generation", generated.cpu_s, "s"),
        Figure::new("CPU time of the rest", simulated, "s"),
        Figure::new("jobs per second of CPU time", f64::from(jobs) / simulated, "/s"),
        within(Figure::new(WALL, taken.wall_s, "s").beside(peers), WALL_S),
        within(Figure::new(PEAK, taken.peak_rss_bytes / MIB, "MiB"), PEAK_MIB),
    ]))
}

/// Returns the exponents with which time and memory grow from one count to the next.
pub fn growth(reports: &[(u32, Report)]) -> Vec<Figure> {
    let value = |report: &Report, name: &str| report.figures.iter().find(|figure| figure.name == name).map(|f| f.value);
    let mut figures = Vec::new();
    for pair in reports.windows(2) {
        let [(few, less), (many, more)] = pair else { continue };
        for name in [WALL, PEAK] {
            let (Some(less), Some(more)) = (value(less, name), value(more, name)) else { continue };
            let exponent = (more / less).ln() / (f64::from(*many) / f64::from(*few)).ln();
            let figure = Figure::new(&format!("{name}, {few} to {many}"), exponent, "");
            figures.push(figure.within(Limit::AtMost(EXPONENT)).beside("linear is 1"));
        }
    }
    figures
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks that ten times the jobs in ten times the time is linear growth, and in a hundred times the time
    /// quadratic growth.
    #[test]
    fn exponents() {
        let report = |wall, peak| Report::of(vec![Figure::new(WALL, wall, "s"), Figure::new(PEAK, peak, "MiB")]);
        let reports = [(100, report(1.0, 8.0)), (1_000, report(10.0, 8.0)), (10_000, report(1_000.0, 80.0))];
        let rounded: Vec<i64> = growth(&reports).iter().map(|f| (f.value * 1_000.0).round() as i64).collect();
        assert_eq!(rounded, [1_000, 0, 2_000, 1_000]);
        assert_eq!(growth(&reports)[2].reached, Some(false));
    }
}
