//! `lsim`: runs policies over traces, in simulated time, on the scheduling core of the master.

use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser};
use limo_program::generate::{Section, requested};
use lsim::commands::Command;

/// Runs scheduling policies over workload traces, in simulated time.
#[derive(Debug, Parser)]
#[command(version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

impl Arguments {
    /// Parses the command line.
    ///
    /// # Errors
    /// If the command line is wrong, or the command moved to another program.
    fn parsed() -> Result<Self, clap::Error> {
        let arguments = Self::try_parse()?;
        match arguments.command.moved() {
            Some(told) => Err(clap::Error::raw(ErrorKind::InvalidSubcommand, told)),
            None => Ok(arguments),
        }
    }
}

fn main() -> ExitCode {
    if let Some(code) = requested("lsim", Section::Commands, Arguments::command()) {
        return code;
    }
    limo_program::run("lsim", Arguments::parsed(), |arguments| arguments.command.run())
}
