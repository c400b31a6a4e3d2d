//! Tasks of the workspace: `cargo xtask test` runs CI's checks, `cargo xtask demo` shows the purpose of Limo, `cargo
//! xtask response` measures how fast limits are kept, and `cargo xtask bench` measures the speed of everything else.
//!
//! Not installed.

mod bench;
mod checks;
mod demo;
mod response;
mod skips;
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
    /// Replay an hour of limo-2018, section 4.4, in four minutes: blind to power, under Limo, and under Limo without warning
    Demo(demo::Arguments),
    /// Write docs/environment.md from the list of the variables that a job gets
    Environment,
    /// Measure how fast commands, arrays, submissions, streams, rounds and nodes are, beside what limits each and beside others
    Bench(bench::Arguments),
    /// Measure how long the draw is above the upper limit after a limit falls or a draw rises
    Response(response::Arguments),
}

fn main() -> ExitCode {
    limo_program::run("xtask", Arguments::try_parse(), |arguments| run(arguments.task).map(|()| ExitCode::SUCCESS))
}

fn run(task: Task) -> anyhow::Result<()> {
    match task {
        Task::Test => checks::run(),
        Task::Demo(arguments) => demo::run(&arguments),
        Task::Bench(arguments) => bench::run(&arguments),
        Task::Response(arguments) => response::run(&arguments),
        Task::Environment => workspace::write("docs/environment.md", &limo_model::environment::page()),
    }
}
