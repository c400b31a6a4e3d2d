//! `lsim solve`: solves one problem from a file, so that a solver can be compared with others.

mod assignment;
mod plan;

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, anyhow, ensure};
use serde::de::DeserializeOwned;

/// Longest file, in bytes.
const FILE_LIMIT: u64 = 1 << 30;

#[derive(Debug, clap::Subcommand)]
pub enum Solve {
    /// Assign jobs to nodes, each to one of its own, with the least energy
    ///
    /// FILE is {"weights_mj": [[...], ...]}: a list for each job, with its energy on each node in millijoules, or null
    /// where it cannot run. A job that does not fit beside those before it gets null.
    Assignment(Arguments),
    /// Schedule jobs that all wait, with the least sum of weighted waits
    ///
    /// FILE is {"capacity": [...], "power_w": W, "jobs": [{"weight": N, "duration_s": S, "needs": [...], "power_w": W},
    /// ...]}. Up to 10 jobs, the schedule is optimal.
    Plan(plan::PlanArguments),
}

#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Problem in JSON
    file: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub fn run(solve: &Solve) -> Result<ExitCode> {
    match solve {
        Solve::Assignment(arguments) => assignment::run(arguments),
        Solve::Plan(arguments) => plan::run(arguments),
    }
}

/// Reads a problem.
fn problem<T: DeserializeOwned>(path: &Path) -> Result<T> {
    let file = File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
    let bytes = file.metadata().with_context(|| format!("cannot read {}", path.display()))?.len();
    ensure!(bytes <= FILE_LIMIT, "{}: the file has {bytes} bytes: at most {FILE_LIMIT}", path.display());
    serde_json::from_reader(BufReader::new(file.take(FILE_LIMIT)))
        .map_err(|error| anyhow!("{}: {error}", path.display()))
}
