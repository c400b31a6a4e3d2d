//! The commands of `lprof`, a module each.

mod diff;
mod export;
mod laboratory;
mod measure;
mod probe;
mod subject;
mod sweep;

use std::process::ExitCode;

use crate::interrupt::Interrupted;

/// What `lprof` is asked to do.
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
}

impl Command {
    /// Does what was asked.
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
