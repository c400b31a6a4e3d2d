//! `lprof`: measures how long applications run and what energy they use.

use std::process::ExitCode;

use clap::{CommandFactory, Parser};
use limo_program::generate::{Section, requested};
use lprof::commands::Command;

/// Measures the time and energy of applications, at caps that are given or searched for.
#[derive(Debug, Parser)]
#[command(version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

fn main() -> ExitCode {
    if let Some(code) = requested("lprof", Section::Commands, Arguments::command()) {
        return code;
    }
    limo_program::run("lprof", Arguments::try_parse(), |arguments| arguments.command.run())
}
