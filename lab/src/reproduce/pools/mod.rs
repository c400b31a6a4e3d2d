//! `lab reproduce htc-sim-2015`: the policies of section IV-E of the paper on generated years of its pool. Its figures
//! have no numbers, so the order of the policies is compared, seed by seed.

mod rows;
mod year;

use std::process::ExitCode;
use std::time::Instant;

use anyhow::Result;
use serde_json::json;

use rows::{rows, table};
use year::{OfPolicy, Year};

use super::claim_row::ClaimRow;
use super::seeds::of_seeds;

#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Number of seeds, from 1 on
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=1_000))]
    seeds: u64,
    /// Number of jobs, in relation to that of the paper
    #[arg(long, value_name = "X", default_value_t = 1.0)]
    scale: f64,
    /// Simulate only the first days of the year
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=365))]
    days: Option<u16>,
    /// Number of years at a time [default: the number of cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1_024))]
    jobs: Option<u16>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Runs `lab reproduce htc-sim-2015`.
///
/// # Errors
/// If the scale is out of range, a file cannot be written, or a simulation fails.
pub fn reproduce(arguments: &Arguments) -> Result<ExitCode> {
    let begun = Instant::now();
    // All policies on the year of each seed.
    let years = of_seeds(arguments.seeds, arguments.jobs, |seed| {
        let year = Year::new(seed, arguments.scale, arguments.days)?.run();
        eprintln!("lab: seed {seed} is done after {:.0} s", begun.elapsed().as_secs_f64());
        year
    })?;
    let rows = rows(&years);
    let wall_s = begun.elapsed().as_secs_f64();
    if arguments.json {
        let rows: Vec<_> = rows.iter().map(ClaimRow::json).collect();
        let years: Vec<_> = years.iter().map(|year| year.iter().map(OfPolicy::json).collect::<Vec<_>>()).collect();
        println!(
            "{:#}",
            json!({ "schema": 1, "paper": "htc-sim-2015", "wall_s": wall_s, "years": years, "rows": rows })
        );
    } else {
        println!("htc-sim-2015: {} seeds in {wall_s:.0} s; means over the seeds:", years.len());
        print!("{}\n{}", table(&years), ClaimRow::table(&rows));
    }
    Ok(ExitCode::SUCCESS)
}
