//! `lsim solve plan`: stage 1 of DEC on jobs that all wait at time 0.

use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use limo_model::Span;
use limo_sched::solve::plan::{Effort, PlanJob, PlanProblem, WEIGHT};
use serde::{Deserialize, Serialize};

use super::{Arguments, problem};

/// Units of amounts, weights and seconds: thousandths.
const PARTS: f64 = 1_000.0;

#[derive(Debug, clap::Args)]
pub struct PlanArguments {
    #[command(flatten)]
    arguments: Arguments,
    /// Number of schedules to try
    #[arg(long, value_name = "N", default_value_t = 200_000)]
    evaluations: u32,
    /// Seed of the search
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PlanText {
    capacity: Vec<f64>,
    power_w: f64,
    jobs: Vec<PlanJobText>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PlanJobText {
    weight: f64,
    duration_s: f64,
    needs: Vec<f64>,
    power_w: f64,
}

#[derive(Serialize)]
struct PlanSolution {
    weighted_start_s: f64,
    starts_s: Vec<f64>,
}

pub fn run(PlanArguments { arguments, evaluations, seed }: &PlanArguments) -> Result<ExitCode> {
    let effort = Effort { evaluations: *evaluations, seed: *seed };
    let solution = solve(&problem(&arguments.file)?, effort).with_context(|| arguments.file.display().to_string())?;
    if arguments.json {
        println!("{}", serde_json::to_string(&solution)?);
    } else {
        println!("weighted start {} s", solution.weighted_start_s);
        solution.starts_s.iter().enumerate().for_each(|(job, start)| println!("job {job} start {start} s"));
    }
    Ok(ExitCode::SUCCESS)
}

fn solve(problem: &PlanText, effort: Effort) -> Result<PlanSolution> {
    // The draw is the last resource.
    let capacity = problem.capacity.iter().chain([&problem.power_w]);
    let capacity = capacity.map(|value| parts("the capacity", *value)).collect::<Result<Vec<i64>>>()?;
    let plan_job = |job: &PlanJobText| -> Result<PlanJob> {
        let weight = parts("the weight", job.weight)?.try_into();
        let needs = job.needs.iter().chain([&job.power_w]).map(|value| parts("a need", *value));
        Ok(PlanJob {
            weight: weight.ok().filter(|weight| *weight <= WEIGHT).context("the weight is above 1000000")?,
            span: Span::from_ms(parts("the duration", job.duration_s)?),
            needs: needs.collect::<Result<_>>()?,
        })
    };
    let numbered = problem.jobs.iter().enumerate();
    let jobs = numbered.map(|(number, job)| plan_job(job).with_context(|| format!("job {number}")));
    let schedule = PlanProblem::new(&capacity, &jobs.collect::<Result<Vec<_>>>()?)?.solve(effort);
    Ok(PlanSolution {
        weighted_start_s: schedule.cost as f64 / PARTS / PARTS,
        starts_s: schedule.starts.iter().map(|start| start.ms() as f64 / PARTS).collect(),
    })
}

/// Returns a number in thousandths.
fn parts(what: &str, value: f64) -> Result<i64> {
    let most = (1u64 << 50) as f64 / PARTS;
    ensure!((0.0..=most).contains(&value), "{what} is {value}: from 0 to {most} is possible");
    Ok((value * PARTS).round() as i64)
}
