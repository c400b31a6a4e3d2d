//! `lsim solve assignment`: COA on a matrix of energies.

use std::process::ExitCode;

use anyhow::{Context, Result};
use limo_model::Energy;
use limo_sched::solve::assignment::{JobRow, Weights};
use serde::{Deserialize, Serialize};

use super::{Arguments, problem};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AssignmentText {
    weights_mj: Vec<Vec<Option<i64>>>,
}

#[derive(Serialize)]
struct AssignmentSolution {
    total_mj: i64,
    /// The node of each job, from 0.
    nodes: Vec<Option<usize>>,
}

pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let problem: AssignmentText = problem(&arguments.file)?;
    let solution = solve(&problem).with_context(|| arguments.file.display().to_string())?;
    if arguments.json {
        println!("{}", serde_json::to_string(&solution)?);
    } else {
        println!("total {} mJ", solution.total_mj);
        for (job, node) in solution.nodes.iter().enumerate() {
            let node = node.map_or_else(|| "-".to_owned(), |node| node.to_string());
            println!("job {job} node {node}");
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn solve(problem: &AssignmentText) -> Result<AssignmentSolution> {
    let of_job = |weights: &Vec<Option<i64>>| weights.iter().map(|mj| mj.map(Energy::from_mj)).collect();
    let rows: Vec<Vec<Option<Energy>>> = problem.weights_mj.iter().map(of_job).collect();
    let weights = Weights::new(vec![1; rows.first().map_or(0, Vec::len)], &rows)?;
    let jobs: Vec<JobRow> = (0..rows.len()).map(|row| JobRow { row, nodes: 1 }).collect();
    let assigned = weights.assign(&jobs);
    let total_mj = weights.sum(&jobs, &assigned).mj();
    let nodes = assigned.into_iter().map(|columns| columns.and_then(|columns| columns.first().copied())).collect();
    Ok(AssignmentSolution { total_mj, nodes })
}
