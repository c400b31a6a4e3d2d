//! `lsim`: runs policies over traces, in simulated time, on the scheduling core of the master.

mod bench;
mod commands;
mod engine;
mod history;
mod output;
mod record;
mod reproduce;
mod setup;
mod sweep;
mod y2017;

use std::process::ExitCode;

use clap::Parser;
use limo_model::{WRONG_USAGE, plain_words, with_causes};

/// Runs scheduling policies over workload traces, in simulated time.
#[derive(Debug, Parser)]
#[command(version)]
struct Arguments {
    #[command(subcommand)]
    command: commands::Command,
}

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
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
