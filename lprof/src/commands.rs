//! The commands of `lprof`, a module each.

mod apps;
mod serve;
mod workload;

use std::process::ExitCode;

/// What `lprof` is asked to do.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// List the applications, whether they work here, and what is missing
    Apps(apps::Apps),
    /// Process the packages of generators with an application, one session after the other
    Serve(serve::Serve),
    /// Make, check, show and send workload files
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
            Self::Apps(arguments) => apps::run(&arguments),
            Self::Serve(arguments) => serve::run(&arguments),
            Self::Workload(command) => command.run(),
        }
    }
}
