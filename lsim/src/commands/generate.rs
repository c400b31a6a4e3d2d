//! `lsim generate`: makes a synthetic workload from a named recipe or a file, in the Standard Workload Format, or the year
//! of a pool.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use limo_model::Span;
use limo_trace::generate::{Recipe, generate};
use limo_trace::pool::PoolYear;
use limo_trace::{Workload, swf};

#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct Arguments {
    #[command(subcommand)]
    pool: Option<PoolRecipe>,
    #[command(flatten)]
    synthetic: Option<Synthetic>,
}

#[derive(Debug, clap::Subcommand)]
enum PoolRecipe {
    /// The groups, sessions and jobs of a pool like that of Newcastle University in 2010
    #[command(name = "newcastle-2010")]
    Newcastle2010(Newcastle),
}

#[derive(Debug, clap::Args)]
struct Newcastle {
    /// Seed; other seeds make other years of the same kind
    #[arg(long, value_name = "N")]
    seed: u64,
    /// Factor for the number of jobs, up to 178; 10.68 makes six million
    #[arg(long, value_name = "X", default_value = "1")]
    scale: f64,
    /// Also write the dumps of logins and logouts, with duplicates and in no order
    #[arg(long)]
    raw: bool,
    /// Folder for groups.toml, sessions.csv.gz and jobs.csv.gz
    #[arg(short, long, value_name = "DIR")]
    output: PathBuf,
}

/// Arguments without a subcommand.
#[derive(Debug, clap::Args)]
struct Synthetic {
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
    match (&arguments.pool, &arguments.synthetic) {
        (Some(PoolRecipe::Newcastle2010(arguments)), _) => newcastle(arguments)?,
        (None, Some(arguments)) => synthesise(arguments)?,
        (None, None) => bail!("give a recipe: see `lsim generate --help`"),
    }
    Ok(ExitCode::SUCCESS)
}

fn newcastle(arguments: &Newcastle) -> Result<()> {
    let Newcastle { seed, scale, raw, output } = arguments;
    let Some(year) = PoolYear::new(*seed, *scale) else {
        bail!("--scale is {scale}, but must be above 0 and at most 178");
    };
    let validation = year.write(output, *raw)?;
    print!("{validation}");
    println!("{}: a year of the pool newcastle-2010 (seed {seed})", output.display());
    if !validation.is_met() {
        eprintln!("lsim: note: a figure is outside of its bounds: the year does not look like that of the paper");
    }
    Ok(())
}

fn synthesise(arguments: &Synthetic) -> Result<()> {
    let Some(output) = arguments.output.as_deref().filter(|_| !arguments.print) else {
        print!("{}", Recipe::text(&arguments.recipe)?);
        return Ok(());
    };
    let recipe = chosen(arguments)?;
    let workload = generate(&recipe)?;
    swf::write(output, &workload)?;
    println!("{}", told(&workload, &recipe, output));
    Ok(())
}

fn chosen(arguments: &Synthetic) -> Result<Recipe> {
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
