//! Tasks of the workspace: `cargo xtask test` runs CI's checks, `cargo xtask demo` shows the purpose of Limo, `cargo
//! xtask response` measures the time until a limit is kept, and `cargo xtask bench` measures all other speeds.
//!
//! Not installed.

mod bench;
mod checks;
mod demo;
mod fuzz;
mod package;
mod postgres;
mod ptx;
mod response;
mod sanitize;
mod skips;
mod soak;
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
    /// Replay an hour of limo-2018, section 4.4, in four minutes: without regard to power, under Limo, and under Limo
    /// without a forecast
    Demo(demo::Arguments),
    /// Write docs/environment.md from the list of the variables that a job gets
    Environment,
    /// Write the table of the policies in docs/policies.md from the list of the presets
    Policies,
    /// Compile the kernels of lud-cuda to lprof/src/apps/lud/lud.ptx, by clang-15
    Ptx,
    /// Measure the speed of commands, arrays, submissions, streams, rounds and nodes, next to their bounds and to
    /// other programs
    Bench(bench::Arguments),
    /// Make the packages of an installation
    Package(package::Arguments),
    /// Start a PostgreSQL server of the system's packages in a directory, without root and without a port, and print
    /// its address for tests
    Postgres(postgres::Arguments),
    /// Measure the time that the draw is above the upper limit after a limit falls or a draw rises
    Response(response::Arguments),
    /// Give mutated inputs to the readers of files, messages and answers, guided by coverage (libFuzzer)
    Fuzz(fuzz::Arguments),
    /// Run the tests of crates with unsafe code under AddressSanitizer, and under Miri if it is installed
    Sanitize,
    /// Run random worlds of the real master and nodes, with many seeds, in search of one that breaks a rule
    Soak(soak::Arguments),
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
        Task::Fuzz(arguments) => fuzz::run(&arguments),
        Task::Sanitize => sanitize::run(),
        Task::Soak(arguments) => soak::run(&arguments),
        Task::Package(arguments) => package::run(&arguments),
        Task::Postgres(arguments) => postgres::run(&arguments),
        Task::Ptx => ptx::run(),
        Task::Environment => workspace::write("docs/environment.md", &limo_model::environment::page()),
        Task::Policies => workspace::rewrite("docs/policies.md", limo_model::preset_page::renewed),
    }
}
