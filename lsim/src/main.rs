//! `lsim`: runs policies over traces, in simulated time, on the scheduling core of the master.

mod commands;
mod engine;
mod output;
mod record;

use std::process::ExitCode;

use clap::Parser;

/// Runs scheduling policies over workload traces, in simulated time.
#[derive(Debug, Parser)]
#[command(version)]
struct Arguments {
    #[command(subcommand)]
    command: commands::Command,
}

fn main() -> ExitCode {
    match Arguments::parse().command.run() {
        Ok(code) => code,
        Err(error) => {
            eprintln!("lsim: {error:#}");
            ExitCode::FAILURE
        }
    }
}
