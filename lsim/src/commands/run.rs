//! `lsim run`: runs one simulation, writes its folder of results, and prints a summary.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use limo_model::{Span, decimal};

use crate::engine::simulate;
use crate::output::{Metrics, Output, Records, beside, pool};
use crate::record::{Heading, PredictionErrors, Steering, Summary, Window};
use crate::setup::Setup;

#[derive(Debug, clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    pub setup: Setup,
    /// Folder for jobs.csv, draw.csv, schedule.json and report.html
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Replace the result in the folder
    #[arg(long)]
    replace: bool,
    /// Shortest time between two rows of draw.csv, instead of a row for each change
    #[arg(long, value_name = "SPAN")]
    samples: Option<Span>,
    /// Print schedule.json instead of the summary
    #[arg(long)]
    pub json: bool,
}

/// Runs a simulation.
///
/// # Errors
/// If something cannot be read, simulated or written.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let loaded = arguments.setup.load()?;
    let heading = loaded.heading();
    arguments.write(&loaded.notes, &heading, |records| Ok(simulate(&loaded.scenario(), records)?))?;
    Ok(ExitCode::SUCCESS)
}

impl Arguments {
    /// Prints `notes`, writes the results of `simulate`, and prints the summary that it returns.
    ///
    /// # Errors
    /// If something cannot be written, and errors of `simulate`.
    pub fn write(
        &self,
        notes: &[String],
        heading: &Heading,
        simulate: impl FnOnce(&mut Records) -> Result<Summary>,
    ) -> Result<()> {
        for note in notes {
            eprintln!("lsim: note: {note}");
        }
        let mut output = Output::create(&self.out, self.replace, heading.clone())?;
        output.thin(self.samples.unwrap_or(Span::ZERO));
        let summary = beside(&mut output, simulate)?;
        if summary.violations > 0 {
            eprintln!("lsim: warning: the checker refused {} plans: please report this", summary.violations);
        }
        match output.schedule() {
            Some(schedule) if self.json => print!("{schedule}"),
            _ => print!("{}", table(heading, output.metrics(), &summary)),
        }
        eprintln!("lsim: simulated in {}; the results are in {}", summary.host.wall, self.out.display());
        Ok(())
    }
}

/// Describes the errors of predictions.
fn predictions(errors: &PredictionErrors) -> String {
    let Some(error) = errors.error_millionths() else { return format!("{} jobs", errors.jobs) };
    let (error, covered) = (shown(error * 100, 1), shown(errors.covered_millionths() * 100, 1));
    format!("{} jobs, mean error {error} % of the mean draw, {covered} % at most the 90 % quantile", errors.jobs)
}

/// Formats the main figures, one a line.
fn table(heading: &Heading, metrics: &Metrics, summary: &Summary) -> String {
    let mut table = String::new();
    let mut line = |name: &str, value: String| table.push_str(&format!("{name:<16}{value}\n"));
    let counts = metrics.counts;
    let outcomes = [
        (counts.completed, "completed"),
        (counts.killed, "ended at their requested time"),
        (counts.refused, "refused"),
        (counts.unfinished, "unfinished"),
    ];
    let outcomes = outcomes.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}"));
    line("policy", heading.policy.clone());
    line("workload", heading.workload.clone());
    line("platform", format!("{}, {} processors", heading.platform, heading.processors));
    line("jobs", format!("{} ({})", metrics.jobs(), outcomes.collect::<Vec<_>>().join(", ")));
    let within = heading.window.map_or_else(String::new, |Window { from, until }| {
        format!(" from {} to {}", from - heading.start, until - heading.start)
    });
    line("utilisation", format!("{} %{within}", shown(metrics.utilisation_millionths() * 100, 2)));
    line("AVEbsld", shown(metrics.avebsld_millionths(), 4));
    line("mean wait", format!("{} s", shown(metrics.mean_wait_us(), 1)));
    line("max wait", metrics.max_wait().to_string());
    line("makespan", metrics.makespan().to_string());
    line("energy", metrics.energy().to_string());
    if let Some(cost) = metrics.cost() {
        line("cost", cost.to_string());
    }
    if heading.options.iter().any(|(key, _)| key == "limits") {
        line("outside limits", format!("{} % of the time", shown(metrics.outside_limits_millionths() * 100, 2)));
    }
    for period in &summary.budgets {
        let (from, until) = (period.window.from - heading.start, period.window.until - heading.start);
        let kept = if period.spent <= period.energy { "kept" } else { "overspent" };
        line("budget", format!("{} of {} spent from {from} to {until}: {kept}", period.spent, period.energy));
    }
    if summary.switches.on + summary.switches.off > 0 {
        line("switches", format!("{} on, {} off", summary.switches.on, summary.switches.off));
    }
    let Steering { caps, suspended, requeued, .. } = summary.steering;
    if caps + suspended + requeued > 0 {
        line("steering", format!("{caps} changes of a node's caps, {suspended} suspended, {requeued} requeued"));
    }
    if let Some(errors) = &summary.predictions {
        line("predictions", predictions(errors));
    }
    for (name, value) in summary.pool.iter().flat_map(pool::lines) {
        line(&name, value);
    }
    table
}

/// Formats millionths with this many places, rounded half away from zero.
fn shown(millionths: i128, places: u32) -> String {
    decimal::fixed(decimal::rescale(millionths, 6, places), places)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals() {
        assert_eq!(shown(1_234_567, 2), "1.23");
        assert_eq!(shown(1_235_000, 2), "1.24");
        assert_eq!(shown(-4_999, 2), "0.00");
        assert_eq!(shown(-50_000, 1), "-0.1");
    }
}
