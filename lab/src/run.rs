//! `lab run`: one simulation by the core of the master, as `lsim run` does it, or by a published scheduler.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use anyhow::Result;
use limo_model::Span;
use limo_trace::swf;
use lsim::commands::run as plain;
use lsim::engine::peak_rss;
use lsim::output::Records;
use lsim::record::{HostUse, JobRow, Sample, Sink, Summary, WriteError};

use crate::{compat, y2017};

#[derive(Debug, clap::Args)]
#[group(id = "lab")]
pub struct Arguments {
    #[command(flatten)]
    run: plain::Arguments,
    /// Simulate like the published code of energy-budget-2017, including its faults
    #[arg(long, value_name = "YEAR", value_parser = ["2017"])]
    compat: Option<String>,
}

/// Runs `lab run`.
///
/// # Errors
/// If a file cannot be read or written, the simulation fails, or the published code does not have an option.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let Some(year) = &arguments.compat else { return plain::run(&arguments.run) };
    let setup = &arguments.run.setup;
    let algorithm = compat::algorithm(setup)?;
    let workload = Arc::new(setup.workload_by(swf::Options::COMPAT_2017)?);
    let loaded = setup.over_unchecked(workload)?;
    let config = compat::config(setup, algorithm, &loaded)?;
    let mut heading = loaded.heading();
    heading.options.insert(0, ("compat".to_owned(), year.clone()));
    let mut row = None;
    arguments.run.write(&loaded.notes, &heading, |records| {
        let mut timed = Timed { records, begun: Instant::now(), host: HostUse::default() };
        let outcome = y2017::simulate(&loaded.workload, &config, &mut timed)?;
        row = Some(outcome.row);
        Ok(Summary { host: timed.host, ..outcome.summary })
    })?;
    if let Some(row) = row.filter(|_| !arguments.run.json) {
        println!("{:<16}{}\n{:<16}{row}", "as published", y2017::COLUMNS, "");
    }
    Ok(ExitCode::SUCCESS)
}

/// Adds the CPU time and memory of the simulation to the summary.
struct Timed<'r> {
    records: &'r mut Records,
    begun: Instant,
    host: HostUse,
}

impl Sink for Timed<'_> {
    fn job(&mut self, job: &JobRow<'_>) -> Result<(), WriteError> {
        self.records.job(job)
    }

    fn sample(&mut self, sample: &Sample) -> Result<(), WriteError> {
        self.records.sample(sample)
    }

    fn finish(&mut self, summary: &Summary) -> Result<(), WriteError> {
        let ms = i64::try_from(self.begun.elapsed().as_millis()).unwrap_or(i64::MAX);
        self.host = HostUse { wall: Span::from_ms(ms), peak_rss_bytes: peak_rss() };
        self.records.finish(&Summary { host: self.host, ..summary.clone() })
    }
}
