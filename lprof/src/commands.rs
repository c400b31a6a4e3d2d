//! The commands of `lprof`, a module each.

use std::process::ExitCode;

/// What `lprof` is asked to do.
#[derive(Debug, clap::Subcommand)]
pub enum Command {}

impl Command {
    /// Does what was asked.
    ///
    /// # Errors
    /// If the command fails.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        match self {}
    }
}
