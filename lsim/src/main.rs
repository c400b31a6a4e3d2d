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
            eprintln!("lsim: {}", told(&error));
            ExitCode::FAILURE
        }
    }
}

/// The error with its causes, but for those that stand in the text before them already.
fn told(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain().map(ToString::to_string) {
        match text.is_empty() {
            true => text = cause,
            false if text.contains(&cause) => {}
            false => text = format!("{text}: {cause}"),
        }
    }
    text
}
