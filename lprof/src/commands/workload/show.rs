//! `lprof workload show`: figures of a file or a recipe.

use std::process::ExitCode;

use anyhow::Result;

use super::source::Source;
use crate::quantity::si;
use crate::workload::recipe::{Job, Recipe};
use crate::workload::summary::{Figures, WorkloadSums};

#[derive(Debug, clap::Args)]
#[command(mut_arg("file", |file| file.value_name("FILE|RECIPE").help(
    "Workload file, or name of a recipe such as m256_i50; - is standard input, and ./m256_i50 is a file"
)))]
pub struct Show {
    #[command(flatten)]
    source: Source,
    /// Seed of the recipe
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Prints the figures.
///
/// # Errors
/// If the file cannot be read, or is not a workload.
pub fn run(arguments: &Show) -> Result<ExitCode> {
    let recipe = arguments.source.path().to_str().and_then(|name| name.parse::<Recipe>().ok());
    let figures = match recipe {
        Some(recipe) => of_recipe(recipe.jobs(arguments.seed)),
        None => arguments.source.summary()?.figures(),
    };
    if arguments.json {
        println!("{}", serde_json::to_string_pretty(&figures)?);
    } else {
        print!("{}", told(&figures));
    }
    Ok(ExitCode::SUCCESS)
}

fn of_recipe(jobs: impl Iterator<Item = Job>) -> Figures {
    let mut summary = WorkloadSums::default();
    jobs.for_each(|job| summary.add(job.delay, 4 * (job.dimension() as u64).pow(2)));
    summary.figures()
}

fn told(figures: &Figures) -> String {
    let [all, least, most] =
        [figures.content_bytes, figures.smallest_bytes, figures.largest_bytes].map(|bytes| si(bytes as f64, "B"));
    let mut text = format!("packages   {}\n", figures.packages);
    text += &format!("content    {all}, from {least} to {most} each\n");
    text += &format!("last due   {:.6} s\n", figures.last_due_s);
    if let Some(lud) = &figures.lud {
        text += &format!("dimension  {:.1} in the mean, if these are matrices\n", lud.mean_dimension);
        let work = |of_one, all, unit| format!("{} each, {} in all", si(of_one, unit), si(all, unit));
        text += &format!("op         {} (limo-2018, Equation 4.1)\n", work(lud.mean_op, lud.total_op, "Op"));
        text += &format!("flop       {} (2/3 n^3)\n", work(lud.mean_flop, lud.total_flop, "FLOP"));
    }
    text
}
