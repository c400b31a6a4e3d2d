//! Synthetic workloads from named distributions with a seed. Equal recipes give equal jobs on every machine: numbers
//! come from a portable generator and portable functions, and times are rounded to whole seconds at the end.
//!
//! A recipe is text or a value, and the result is a [`Workload`]. Accesses no files.

mod arrivals;
mod bodies;
mod check;
mod draw;
mod error;
mod recipe;
#[cfg(test)]
mod refusals;
#[cfg(test)]
mod tests;

use limo_model::Span;

use crate::{Job, Workload};
use arrivals::Until;
use bodies::Bodies;
use draw::Stream;

pub use draw::Dice;
pub use error::RecipeError;
pub use recipe::{
    Arrivals, Length, LublinArrivals, LublinRuntimes, LublinSizes, Popular, Recipe, Runtimes, Sizes, Users, Walltimes,
};

/// Most jobs: 7.2 GB, more than one machine simulates.
const MAX_JOBS: u32 = 100_000_000;

/// Longest span, a century: times and work stay far from overflow.
const MAX_SPAN_S: i64 = 36_525 * 86_400;

/// Largest deviation of the offered load from `utilisation`, relative to it.
const TOLERANCE: f64 = 0.01;

/// Most attempts to draw a last job that fits. If none is small enough, the workload is too short.
const LAST_TRIES: u32 = 10_000;

/// Combination of `jobs`, `span` and `utilisation`.
enum Extent {
    /// Arrivals at their own rate.
    Own(Until),
    Fitted {
        jobs: u32,
        span_s: i64,
    },
    /// The span follows from the work of the jobs.
    Loaded {
        jobs: u32,
        utilisation: f64,
    },
    /// The jobs follow from the span.
    Filled {
        span_s: i64,
        utilisation: f64,
    },
}

/// Generates the jobs of a recipe, numbered from 1 in order of submission. Takes time and memory in proportion to their
/// number.
///
/// # Errors
/// [`RecipeError`], which names the key and its value. Reasons are a value out of range, too few or too many of
/// `jobs`, `span` and `utilisation`, more than 100,000,000 jobs, or a load that whole jobs cannot meet within 1 %.
pub fn generate(recipe: &Recipe) -> Result<Workload, RecipeError> {
    check::recipe(recipe)?;
    let mut bodies = Bodies::new(recipe);
    let mut dice = Dice::new(recipe.seed, Stream::Arrivals);
    let mut jobs = match extent(recipe)? {
        Extent::Own(until) => own(recipe, until, &mut bodies, &mut dice)?,
        Extent::Fitted { jobs, span_s } => {
            let mut jobs = take(&mut bodies, jobs);
            arrivals::fit(&recipe.arrivals, &mut jobs, span_s, &mut dice);
            jobs
        }
        Extent::Loaded { jobs, utilisation } => {
            let mut jobs = take(&mut bodies, jobs);
            let span_s = span_for(recipe, &jobs, utilisation)?;
            arrivals::fit(&recipe.arrivals, &mut jobs, span_s, &mut dice);
            jobs
        }
        Extent::Filled { span_s, utilisation } => {
            let mut jobs = fill(recipe, span_s, utilisation, &mut bodies)?;
            arrivals::fit(&recipe.arrivals, &mut jobs, span_s, &mut dice);
            jobs
        }
    };
    for (job, number) in jobs.iter_mut().zip(1..) {
        job.number = number;
    }
    Ok(Workload { jobs, processors: Some(recipe.machine), ..Workload::default() })
}

/// Returns the work in processor seconds: running times x processors.
fn work(job: &Job) -> i128 {
    i128::from(job.run.ms() / 1_000) * i128::from(job.processors)
}

fn extent(recipe: &Recipe) -> Result<Extent, RecipeError> {
    let has_rate = matches!(recipe.arrivals, Arrivals::Exponential { mean_gap: Some(_) } | Arrivals::Lublin(_));
    let is_bound = matches!(recipe.arrivals, Arrivals::Exponential { mean_gap: Some(_) });
    let span_s = recipe.span.map(|span| span.ms() / 1_000);
    match (recipe.jobs, span_s, recipe.utilisation) {
        (Some(jobs), None, None) if has_rate => Ok(Extent::Own(Until::Jobs(jobs))),
        (None, Some(span_s), None) if has_rate => Ok(Extent::Own(Until::End { span_s, limit: MAX_JOBS })),
        (Some(jobs), Some(span_s), None) if !is_bound => Ok(Extent::Fitted { jobs, span_s }),
        (Some(jobs), None, Some(utilisation)) if !is_bound => Ok(Extent::Loaded { jobs, utilisation }),
        (None, Some(span_s), Some(utilisation)) if !is_bound => Ok(Extent::Filled { span_s, utilisation }),
        (jobs, span_s, utilisation) => {
            let count = [jobs.is_some(), span_s.is_some(), utilisation.is_some()].iter().filter(|is| **is).count();
            let hint = match (is_bound, has_rate) {
                (true, _) => "with a `mean-gap` give one of `jobs` and `span`, and no `utilisation`",
                (false, true) => "give `jobs`, `span`, or two of `jobs`, `span` and `utilisation`",
                (false, false) => "give two of `jobs`, `span` and `utilisation`",
            };
            let allowed = if is_bound { 1 } else { 2 };
            let fault = if count > allowed || (is_bound && utilisation.is_some()) {
                "contradict each other"
            } else {
                "do not define the number and the rate of jobs"
            };
            Err(RecipeError::Extent { given: given(recipe), fault, hint })
        }
    }
}

/// Formats the keys that determine the amount, with their values.
fn given(recipe: &Recipe) -> String {
    let jobs = recipe.jobs.map(|jobs| format!("`jobs` {jobs}"));
    let span = recipe.span.map(|span| format!("`span` {span}"));
    let load = recipe.utilisation.map(|load| format!("`utilisation` {load}"));
    let gap = match &recipe.arrivals {
        Arrivals::Exponential { mean_gap: Some(gap) } => Some(format!("`exponential.mean-gap` {gap}")),
        _ => None,
    };
    let given: Vec<String> = [gap, jobs, span, load].into_iter().flatten().collect();
    if given.is_empty() { "none of `jobs`, `span` and `utilisation`".to_owned() } else { given.join(" and ") }
}

fn take(bodies: &mut Bodies, jobs: u32) -> Vec<Job> {
    (0..jobs).map(|_| bodies.draw()).collect()
}

fn own(recipe: &Recipe, until: Until, bodies: &mut Bodies, dice: &mut Dice) -> Result<Vec<Job>, RecipeError> {
    let submits = arrivals::at_own_rate(&recipe.arrivals, until, dice);
    if submits.len() > MAX_JOBS as usize {
        return Err(RecipeError::TooMany { given: given(recipe), limit: MAX_JOBS });
    }
    if submits.last().is_some_and(|last| *last > MAX_SPAN_S) {
        return Err(RecipeError::TooLong { given: given(recipe) });
    }
    let at = |submit: i64| Job { submit: Span::from_secs(submit), ..bodies.draw() };
    Ok(submits.into_iter().map(at).collect())
}

/// Returns the span in seconds over which the jobs give the requested load.
fn span_for(recipe: &Recipe, jobs: &[Job], utilisation: f64) -> Result<i64, RecipeError> {
    let total: i128 = jobs.iter().map(work).sum();
    let exact = total as f64 / (f64::from(recipe.machine) * utilisation);
    let span_s = (exact + 0.5).floor().max(1.0) as i64;
    if span_s > MAX_SPAN_S {
        return Err(RecipeError::TooLong { given: given(recipe) });
    }
    if (exact / span_s as f64 - 1.0).abs() > TOLERANCE {
        return Err(RecipeError::Load { utilisation: utilisation.to_string(), span_s });
    }
    if let Arrivals::Burst { count, width } = &recipe.arrivals {
        check::burst_fits(*count, *width, Span::from_secs(span_s))?;
    }
    Ok(span_s)
}

/// Draws jobs until their work is the requested load over the span. Towards the end, jobs that would exceed it are
/// skipped.
fn fill(recipe: &Recipe, span_s: i64, utilisation: f64, bodies: &mut Bodies) -> Result<Vec<Job>, RecipeError> {
    let goal = f64::from(recipe.machine) * utilisation * span_s as f64;
    let (least, most) = (goal * (1.0 - TOLERANCE), goal * (1.0 + TOLERANCE));
    let mut jobs = Vec::new();
    let mut total: i128 = 0;
    let mut tries = 0;
    // Adds jobs up to the goal; once within the tolerance, stops at the first job that does not fit.
    while (total as f64) < goal && tries < LAST_TRIES {
        let job = bodies.draw();
        let with = total + work(&job);
        if with as f64 > most {
            if total as f64 >= least {
                break;
            }
            tries += 1;
            continue;
        }
        if jobs.len() >= MAX_JOBS as usize {
            return Err(RecipeError::TooMany { given: given(recipe), limit: MAX_JOBS });
        }
        total = with;
        jobs.push(job);
    }
    if (total as f64) < least {
        return Err(RecipeError::Load { utilisation: utilisation.to_string(), span_s });
    }
    Ok(jobs)
}
