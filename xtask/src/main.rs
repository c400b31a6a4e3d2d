//! Tasks of the workspace: `cargo xtask test` is what CI runs, `cargo xtask demo` shows what Limo is for.
//!
//! Not part of what is installed.

mod checks;
mod demo;
mod workspace;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Tasks of the Limo workspace")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Run everything that CI runs, up to the first failure
    Test,
    /// Replay an hour of limo-2018, section 4.4, in two minutes: once blind to power, once under Limo
    Demo(demo::Arguments),
}

fn main() -> ExitCode {
    let done = match Arguments::parse().task {
        Task::Test => checks::run(),
        Task::Demo(arguments) => demo::run(&arguments),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}
