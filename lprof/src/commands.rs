//! The commands of `lprof`, a module each.

mod apps;
mod diff;
mod export;
mod laboratory;
mod measure;
mod probe;
mod report;
mod serve;
mod subject;
mod sweep;
mod workload;

use std::process::ExitCode;

use crate::interrupt::Interrupted;

/// Command of `lprof`.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// Measure the meter and the caps of this machine
    Probe(probe::Arguments),
    /// Measure a command until the result can be trusted
    Measure(measure::Arguments),
    /// Measure a command at several caps, and find the best one
    Sweep(sweep::Arguments),
    /// Print profiles for `lconf profile import`
    Export(export::Arguments),
    /// Compare two sets of results
    Diff(diff::Arguments),
    /// Make a page with figures and tables of results
    Report(report::Arguments),
    /// List the applications, whether they work here, and what is missing
    Apps(apps::Apps),
    /// Process the packages of generators with an application, one session after the other
    Serve(serve::Serve),
    /// Make, check, show and send workload files
    #[command(subcommand)]
    Workload(workload::WorkloadCommand),
}

impl Command {
    /// Runs the command.
    ///
    /// # Errors
    /// If the command fails.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let result = match self {
            Self::Probe(arguments) => probe::run(&arguments),
            Self::Measure(arguments) => measure::run(&arguments),
            Self::Sweep(arguments) => sweep::run(&arguments),
            Self::Export(arguments) => export::run(&arguments),
            Self::Diff(arguments) => diff::run(&arguments),
            Self::Report(arguments) => report::run(&arguments),
            Self::Apps(arguments) => apps::run(&arguments),
            Self::Serve(arguments) => serve::run(&arguments),
            Self::Workload(command) => command.run(),
        };
        result.or_else(|error| match error.downcast_ref::<Interrupted>() {
            Some(interrupted) => {
                eprintln!("lprof: {interrupted}");
                Ok(interrupted.exit_code())
            }
            None => Err(error),
        })
    }
}
