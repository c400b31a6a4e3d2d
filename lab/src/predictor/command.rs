//! `lab predictor`: prints the figures of the predictor next to their targets.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use limo_model::{Confidence, Span};
use limo_requirements::{TRACES, traces};

use super::generator::{RECIPE, Recipe, generate};
use super::walk::{Walk, split, training, walk};
use super::{eurora, rows};
use crate::bench::figure::{Figure, Limit};

/// A test of the predictor.
#[derive(Debug, clap::Subcommand)]
pub enum PredictorTest {
    /// Predict the published draws of jobs of Eurora (power-capping-2018, section 4.1), without the names of users
    Eurora(EuroraArguments),
    /// Predict generated jobs, whose draws are known up to their noise
    Generated(GeneratedArguments),
}

#[derive(Debug, clap::Args)]
pub struct EuroraArguments {
    /// Folder with `power-capping-2018/` [default: the one next to the workspace]
    #[arg(long, value_name = "DIR", env = TRACES)]
    traces: Option<PathBuf>,
    /// Use only the first jobs, in per cent: for choices that must not depend on the others
    #[arg(long, value_name = "PERCENT", default_value_t = 100, value_parser = clap::value_parser!(u8).range(10..=100))]
    first: u8,
    #[command(flatten)]
    output: Output,
}

#[derive(Debug, clap::Args)]
pub struct GeneratedArguments {
    /// Number of jobs
    #[arg(long, value_name = "N", default_value_t = RECIPE.jobs, value_parser = clap::value_parser!(u32).range(1_000..=1_000_000))]
    jobs: u32,
    /// Number of users
    #[arg(long, value_name = "N", default_value_t = RECIPE.users, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    users: u32,
    /// Seed of the jobs
    #[arg(long, value_name = "N", default_value_t = RECIPE.seed)]
    seed: u64,
    #[command(flatten)]
    output: Output,
}

#[derive(Debug, clap::Args)]
struct Output {
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Also write features and draws of all jobs to this file as CSV, for other predictors
    #[arg(long, value_name = "FILE")]
    rows: Option<PathBuf>,
}

/// Seed of the models.
const SEED: u64 = 1;
/// Per cent of the jobs of Eurora after which further learning models begin. The coverage of one varies by several per cent,
/// since bursts of equal jobs are below the quantile or above it together.
const BEGINS: [usize; 9] = [30, 35, 40, 45, 50, 55, 60, 65, 70];
/// Confidence of the margins, in thousandths.
const CONFIDENCE: u32 = 990;

/// Runs a test.
///
/// # Errors
/// If a file cannot be read or written. A missed target is not an error.
pub fn run(test: &PredictorTest) -> Result<ExitCode> {
    let (title, figures, output) = match test {
        PredictorTest::Eurora(arguments) => {
            let folder = arguments.traces.clone().unwrap_or_else(traces).join("power-capping-2018");
            let (title, figures) = of_eurora(&folder, arguments.first, arguments.output.rows.as_deref())?;
            (title, figures, &arguments.output)
        }
        PredictorTest::Generated(arguments) => {
            let recipe = Recipe { jobs: arguments.jobs, users: arguments.users, seed: arguments.seed, ..RECIPE };
            let (title, figures) = of_generated(&recipe, arguments.output.rows.as_deref())?;
            (title, figures, &arguments.output)
        }
    };
    if output.json {
        println!("{}", serde_json::to_string_pretty(&serde_json::json!({ "title": title, "figures": figures }))?);
    } else {
        println!("{title}");
        figures.iter().for_each(|figure| println!("  {figure}"));
    }
    Ok(ExitCode::SUCCESS)
}

fn write_rows(cases: &[super::KnownJob], file: Option<&Path>) -> Result<()> {
    let Some(file) = file else { return Ok(()) };
    let written = std::fs::write(file, rows::csv(cases, training(cases.len())));
    written.with_context(|| format!("{} cannot be written", file.display()))
}

fn of_eurora(folder: &Path, percent: u8, file: Option<&Path>) -> Result<(String, Vec<Figure>)> {
    let mut cases = eurora::cases(folder)?;
    cases.truncate(cases.len() * usize::from(percent) / 100);
    write_rows(&cases, file)?;
    let first = training(cases.len());
    let plan = Walk { first, again: 500, seed: SEED, every: None, confidence: Confidence::new(CONFIDENCE)? };
    let (fixed, found) = (split(&cases, SEED), walk(&cases, &plan));
    let walked = &found.errors;
    let begins = BEGINS.map(|percent| Walk { first: cases.len() * percent / 100, ..plan });
    let covered: Vec<f64> = begins.iter().map(|begin| walk(&cases, begin).errors.covered_percent()).collect();
    let title = format!("{} jobs of Eurora; {first} for the training, {} predicted", cases.len(), fixed.jobs);
    let figures = vec![
        Figure::new("fixed model: MAE/mean", fixed.distance(), "").within(Limit::AtMost(0.47)),
        Figure::new("  naive guess", fixed.naive_distance(), ""),
        Figure::new("  summed watts off by", fixed.sum_percent(), "%").within(Limit::AtMost(3.0)),
        quantile(fixed.covered_percent()),
        Figure::new("learning model: jobs", f64::from(walked.jobs), ""),
        Figure::new("  MAE/mean", walked.distance(), "").within(Limit::AtMost(0.47)),
        Figure::new("  naive guess", walked.naive_distance(), ""),
        Figure::new("  summed watts off by", walked.sum_percent(), "%").within(Limit::AtMost(3.0)),
        quantile(walked.covered_percent()),
        Figure::new("learning models, begun after 30 to 70 % of the jobs", BEGINS.len() as f64, ""),
        quantile(covered.iter().sum::<f64>() / covered.len() as f64),
        Figure::new("  covered at least", covered.iter().copied().fold(f64::INFINITY, f64::min), "%"),
        Figure::new("  covered at most", covered.iter().copied().fold(f64::NEG_INFINITY, f64::max), "%"),
    ];
    Ok((title, figures))
}

/// Returns the figure of the 90 % quantile, which is to cover 88 to 92 %.
fn quantile(covered: f64) -> Figure {
    let figure = Figure::new("  quantile: distance from 90 %", (covered - 90.0).abs(), "%").within(Limit::AtMost(2.0));
    figure.beside(&format!("covers {covered:.1} %"))
}

fn of_generated(recipe: &Recipe, file: Option<&Path>) -> Result<(String, Vec<Figure>)> {
    let cases = generate(recipe);
    write_rows(&cases, file)?;
    let plan = plan(recipe.jobs as usize)?;
    let found = walk(&cases, &plan);
    let errors = &found.errors;
    let title = format!("{} jobs of {} users, {} of them predicted", recipe.jobs, recipe.users, errors.jobs);
    let figures = vec![
        Figure::new("MAPE", 100.0 * errors.mape(), "%"),
        Figure::new("  noise floor", 100.0 * errors.floor(), "%"),
        Figure::new("  MAPE / noise floor", errors.mape() / errors.floor(), "").within(Limit::AtMost(1.1)),
        Figure::new("  naive guess", 100.0 * errors.naive_mape(), "%"),
        Figure::new("summed watts off by", errors.sum_percent(), "%"),
        quantile(errors.covered_percent()),
        Figure::new("intervals", f64::from(found.looks), ""),
        Figure::new("  within the margin of 99 %", found.kept_percent(), "%").within(Limit::AtLeast(99.0)),
        Figure::new("  mean margin", found.margin_percent(), "%"),
        Figure::new("trainings", f64::from(found.trainings), ""),
    ];
    Ok((title, figures))
}

/// The first fifth of the jobs is only learned, and a model is trained anew after each further tenth. The sum is looked at
/// every ten minutes.
fn plan(jobs: usize) -> Result<Walk> {
    let confidence = Confidence::new(CONFIDENCE)?;
    Ok(Walk { first: jobs / 5, again: jobs / 10, seed: SEED, every: Some(Span::from_secs(600)), confidence })
}
