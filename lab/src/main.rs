//! `lab`: runs the campaigns of papers again, simulates with schedulers that papers published, and measures speed. It
//! uses the simulator as a library. It is not installed: `cargo lab` builds and runs it.

mod bench;
mod compat;
mod predictor;
mod random;
mod reproduce;
mod run;
mod y2017;
mod y2018;

use std::process::ExitCode;

use clap::Parser;

/// Reproduces papers and measures speed, in simulated time.
#[derive(Debug, Parser)]
#[command(version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Simulate one workload as `lsim run` does, or as a published scheduler did
    Run(Box<run::Arguments>),
    /// Simulate instances of a paper with its published program, including its faults
    #[command(subcommand)]
    Compat(PublishedProgram),
    /// Run the campaign of a paper again, and show its figures next to the published ones
    #[command(subcommand)]
    Reproduce(reproduce::command::Paper),
    /// Test the predictor of draws on jobs that it has not seen
    #[command(subcommand)]
    Predictor(predictor::command::PredictorTest),
    /// Measure speed and memory, and show them next to limits and other simulators
    Bench(bench::command::Arguments),
}

#[derive(Debug, clap::Subcommand)]
enum PublishedProgram {
    /// The simulator of power-capping-2018: LS, EASY backfilling, DVFS and DynShare
    #[command(name = "2018")]
    PowerCapping2018(y2018::command::Arguments),
}

fn main() -> ExitCode {
    limo_program::run("lab", Arguments::try_parse(), |arguments| match arguments.command {
        Command::Run(arguments) => run::run(&arguments),
        Command::Compat(PublishedProgram::PowerCapping2018(arguments)) => y2018::command::run(&arguments),
        Command::Reproduce(paper) => reproduce::command::run(&paper),
        Command::Predictor(test) => predictor::command::run(&test),
        Command::Bench(arguments) => bench::command::run(&arguments),
    })
}
