//! `cargo xtask soak`: the random worlds of the master and its nodes, with as many seeds as one likes.

use std::time::Instant;

use anyhow::{Context, Result, ensure};

use crate::workspace::cargo;

/// The tests that run worlds.
const TESTS: [&str; 6] =
    ["chaos::no_job", "chaos::whatever", "chaos::owners", "chaos::sleepers", "chaos::talkers", "chaos::power"];

#[derive(clap::Args)]
pub struct Arguments {
    /// Number of seeds of each kind of world
    #[arg(long, value_name = "NUMBER", default_value_t = 4_000, value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    seeds: u64,
    /// The first seed
    #[arg(long, value_name = "SEED", default_value_t = 1, value_parser = clap::value_parser!(u64).range(..=1_000_000_000))]
    from: u64,
}

/// Runs the worlds; they print their numbers.
///
/// # Errors
/// If they cannot be run, or one breaks a rule.
pub fn run(arguments: &Arguments) -> Result<()> {
    let begin = Instant::now();
    let seeds = format!("{}..{}", arguments.from, arguments.from + arguments.seeds);
    let mut command = cargo(&["test", "--workspace", "--bin", "lmaster", "--", "--nocapture"])?;
    let status = command.args(TESTS).env("LIMO_WORLDS", &seeds).status().context("cannot run the worlds")?;
    ensure!(status.success(), "a world of the seeds {seeds} broke a rule");
    eprintln!("xtask: the worlds of the seeds {seeds} kept all rules, {:.1} s", begin.elapsed().as_secs_f64());
    Ok(())
}
