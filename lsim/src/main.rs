//! `lsim`: runs policies over traces, in simulated time, on the scheduling core of the master.

use std::process::ExitCode;

use clap::Parser;
use clap::error::ErrorKind;
use limo_model::{WRONG_USAGE, plain_words, with_causes};
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
    let arguments = match Arguments::parsed() {
        Ok(arguments) => arguments,
        Err(error) => {
            if !error.use_stderr() {
                let _ = error.print();
                return ExitCode::SUCCESS;
            }
            eprint!("{}", plain_words(&error.render().to_string()));
            return ExitCode::from(WRONG_USAGE);
        }
    };
    match arguments.command.run() {
        Ok(code) => code,
        Err(error) => {
            eprintln!("lsim: {}", with_causes(&*error));
            ExitCode::FAILURE
        }
    }
}
