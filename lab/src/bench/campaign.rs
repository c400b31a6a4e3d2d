//! Estimates the duration of the campaign of energy-budget-2017 (1,470 simulations) on this machine, from a few of
//! them.

use std::path::Path;

use anyhow::{Context, Result};

use super::figure::{Figure, Limit};
use super::host::{Machine, child};
use super::part::Report;

/// One week of each of the three traces. Its simulation takes an average time.
const WEEKS: [&str; 3] = ["sdscblue_1w_43207292", "metacentrum_1w_1362700000", "curie_1w_48889200"];
const KEEPERS: [&str; 3] = ["powercap", "reducepc", "energybud"];
/// Number of weeks of each trace (section V-B).
const WEEKS_EACH: f64 = 10.0;
/// Number of budgets, 100 to 30 %. The benchmark runs one of them.
const BUDGETS: f64 = 8.0;
/// Limit for the whole campaign on the cores of this machine, in seconds.
const CAMPAIGN_S: f64 = 600.0;

/// Runs one week of each trace, and estimates the whole campaign from them.
///
/// # Errors
/// If a run fails.
pub fn measure(traces: &Path, quick: bool) -> Result<Report> {
    let scratch = tempfile::tempdir().context("a folder for the results")?;
    let out = scratch.path().join("out").display().to_string();
    let weeks = if quick { &WEEKS[..1] } else { &WEEKS[..] };
    let mut figures = Vec::new();
    let mut total = 0.0;
    for week in weeks {
        let trace = traces.join("energy-budget-2017").join(format!("{week}.swf.gz"));
        if !trace.exists() {
            return Ok(Report::skipped(format!("{} does not exist: give --traces", trace.display())));
        }
        let trace = trace.display().to_string();
        let mut seconds = |policy: &str, rest: bool| -> Result<f64> {
            let common = ["run", "--trace", &trace, "--policy", policy, "--out", &out, "--replace"];
            let mut arguments = common.to_vec();
            arguments.extend(["--set", "allocation=contiguous", "--budget", "70%", "--from", "2d", "--until", "5d"]);
            if rest {
                arguments.extend(["--set", "rest=idle-in-budget"]);
            }
            let taken = child(&arguments)?;
            let how = if rest { "nodes sleep" } else { "nodes stay on" };
            figures.push(Figure::new(&format!("{week}, {policy}, {how}"), taken.cpu_s, "s of CPU time"));
            Ok(taken.cpu_s)
        };
        total += WEEKS_EACH * seconds("easy", false)?;
        for policy in KEEPERS {
            total += WEEKS_EACH * BUDGETS * (seconds(policy, false)? + seconds(policy, true)?);
        }
    }
    // The quick variant runs only one trace, so it cannot estimate the whole campaign.
    if !quick {
        let cores = Machine::now().cores as f64;
        figures.push(Figure::new("1,470 simulations, CPU time", total, "s"));
        let wall = Figure::new(&format!("1,470 simulations on {cores} cores"), total / cores, "s");
        figures.push(wall.within(Limit::AtMost(CAMPAIGN_S)).beside("its authors: two weeks on 256 cores"));
    }
    Ok(Report::of(figures))
}
