//! `lsim generate`: makes a synthetic workload from a named recipe or a file, in the Standard Workload Format.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use limo_model::Span;
use limo_trace::generate::{Recipe, generate};
use limo_trace::{Workload, swf};

#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Name of a recipe (burst, htc, left-skewed, lublin, steady, uniform) or a recipe's file in TOML
    #[arg(value_name = "RECIPE|FILE")]
    recipe: String,
    /// File to write; gzipped if its name ends in .gz
    #[arg(short, long, value_name = "FILE", required_unless_present = "print")]
    output: Option<PathBuf>,
    /// Print the recipe instead, to start a file with
    #[arg(long, conflicts_with = "output")]
    print: bool,
    /// Number of jobs, instead of the recipe's
    #[arg(long, value_name = "N")]
    jobs: Option<u32>,
    /// Seed, instead of the recipe's; other seeds make other workloads of the same kind
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Processors of the machine, instead of the recipe's
    #[arg(long, value_name = "N")]
    machine: Option<u32>,
    /// Time in which jobs are submitted, such as 7d, instead of the recipe's
    #[arg(long, value_name = "SPAN")]
    span: Option<Span>,
    /// Offered load, such as 0.7, instead of the recipe's
    #[arg(long, value_name = "LOAD")]
    utilisation: Option<f64>,
}

/// Writes the workload.
///
/// # Errors
/// If the recipe is unknown or impossible, or a file cannot be read or written.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let Some(output) = arguments.output.as_deref().filter(|_| !arguments.print) else {
        print!("{}", Recipe::text(&arguments.recipe)?);
        return Ok(ExitCode::SUCCESS);
    };
    let recipe = chosen(arguments)?;
    let workload = generate(&recipe)?;
    swf::write(output, &workload)?;
    println!("{}", told(&workload, &recipe, output));
    Ok(ExitCode::SUCCESS)
}

fn chosen(arguments: &Arguments) -> Result<Recipe> {
    let name = &arguments.recipe;
    let is_file = Path::new(name).components().count() > 1 || name.ends_with(".toml");
    let mut recipe = if is_file {
        let text = std::fs::read_to_string(name).with_context(|| format!("{name}: the file cannot be read"))?;
        Recipe::from_toml(&text).with_context(|| name.clone())?
    } else {
        Recipe::named(name)?
    };
    recipe.seed = arguments.seed.unwrap_or(recipe.seed);
    recipe.machine = arguments.machine.unwrap_or(recipe.machine);
    recipe.jobs = arguments.jobs.or(recipe.jobs);
    recipe.span = arguments.span.or(recipe.span);
    recipe.utilisation = arguments.utilisation.or(recipe.utilisation);
    Ok(recipe)
}

fn told(workload: &Workload, recipe: &Recipe, output: &Path) -> String {
    let last = workload.jobs.last().map_or(Span::ZERO, |job| job.submit);
    format!(
        "{}: {} jobs, the last submitted after {last}, for {} processors (seed {})",
        output.display(),
        workload.jobs.len(),
        recipe.machine,
        recipe.seed
    )
}
