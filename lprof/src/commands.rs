//! The commands of `lprof`, a module each.

mod workload;

use std::process::ExitCode;

/// What `lprof` is asked to do.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// Make, check and show workload files
    #[command(subcommand)]
    Workload(workload::WorkloadCommand),
}

impl Command {
    /// Does what was asked.
    ///
    /// # Errors
    /// If the command fails.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        match self {
            Self::Workload(command) => command.run(),
        }
    }
}
