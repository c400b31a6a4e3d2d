//! The subcommands, each in a file of its own.

mod policies;

use std::process::ExitCode;

use anyhow::Result;

#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// The policies, each with its source and options
    Policies(policies::Arguments),
}

impl Command {
    pub fn run(self) -> Result<ExitCode> {
        match self {
            Self::Policies(arguments) => policies::run(&arguments),
        }
    }
}
