//! `lab compat 2018`: simulates instances with the published program, or checks simulations against its rows.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use lsim::workers::spread;
use serde_json::{Value, json};

use super::check::{self, Extent};
use super::instance::{self, Instance};
use super::measures::{Measures, Status};
use super::resources::NodeList;
use super::{NO_CAP_W, Parameters, Policy};

/// Name of the published file of nodes.
const NODES: &str = "nodes_64";

/// A limit of the power.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cap {
    Watts(i64),
    /// Per cent of the peak of the instance under LS without cap.
    Percent(i64),
}

#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Instances: rndm_*.log_crypt.gz and hist_*.log_crypt.gz
    #[arg(value_name = "FILE", required_unless_present = "check")]
    files: Vec<PathBuf>,
    /// Algorithm of the published program
    #[arg(long, value_name = "NAME", required_unless_present = "check")]
    algorithm: Option<Policy>,
    /// Slowdown of jobs with less power, 0 to 1; for DVFS, DynShare and DynShare3
    #[arg(long, value_name = "F")]
    factor: Option<f64>,
    /// Power cap: watts, or a percentage of the instance's peak under LS without cap, such as 50% [default: 1000000 W]
    #[arg(long, value_name = "WATTS", value_parser = cap)]
    cap: Option<Cap>,
    /// File of nodes [default: nodes_64 next to the instance or in the nearest folder above it]
    #[arg(long, value_name = "FILE")]
    nodes: Option<PathBuf>,
    /// Simulate the rows of oracle.csv and the schedules in this folder again, and count those that agree
    #[arg(long, value_name = "DIR", conflicts_with_all = ["files", "algorithm", "factor", "cap"])]
    check: Option<PathBuf>,
    /// Check one row of each folder, algorithm, factor and cap, and the schedules of small instances
    #[arg(long, requires = "check")]
    sample: bool,
    /// Number of simulations at a time [default: the number of cores]
    #[arg(long, value_name = "N")]
    jobs: Option<usize>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

fn cap(text: &str) -> Result<Cap, String> {
    let (number, percent) = text.strip_suffix('%').map_or((text, false), |number| (number, true));
    let limit = if percent { 100 } else { NO_CAP_W };
    match number.parse() {
        Ok(number) if (1..=limit).contains(&number) => {
            Ok(if percent { Cap::Percent(number) } else { Cap::Watts(number) })
        }
        _ => Err(format!("write whole watts from 1 to {NO_CAP_W}, or a percentage from 1% to 100%")),
    }
}

/// A simulated instance.
#[derive(Debug)]
struct Simulated {
    name: String,
    jobs: usize,
    /// `None` if the percentage has no peak to refer to.
    cap_w: Option<i64>,
    status: Status,
}

/// Runs `lab compat 2018`.
///
/// # Errors
/// If a file is missing or invalid, or an option does not suit the algorithm. The exit code is 1 if a check finds a
/// difference.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let workers = arguments.jobs.unwrap_or(cores);
    if let Some(folder) = &arguments.check {
        return arguments.check(folder, workers);
    }
    let Some(policy) = arguments.algorithm else { bail!("no algorithm: name one with --algorithm") };
    let factor = arguments.factor_of(policy)?;
    let inputs: Vec<(Instance, NodeList)> =
        arguments.files.iter().map(|path| arguments.read(path)).collect::<Result<_>>()?;
    let simulated = spread(inputs.len(), workers, |index| {
        let (instance, nodes) = &inputs[index];
        arguments.simulate(instance, nodes, policy, factor)
    });
    if arguments.json {
        let rows: Vec<Value> = simulated.iter().map(|row| arguments.json(row, policy)).collect();
        println!("{:#}", json!({ "schema": 1, "rows": rows }));
    } else {
        print!("{}", table(&simulated));
    }
    Ok(ExitCode::SUCCESS)
}

impl Arguments {
    fn check(&self, folder: &Path, workers: usize) -> Result<ExitCode> {
        let nodes = self.nodes.clone().unwrap_or_else(|| folder.join(NODES));
        let nodes = instance::read_nodes(&nodes)?;
        let extent = if self.sample { Extent::Sample } else { Extent::All };
        let begun = Instant::now();
        let check = check::check(folder, &nodes, extent, workers)?;
        if self.json {
            println!("{:#}", check.json());
        } else {
            print!("{}", check.text());
            println!("{:.0} s on {workers} workers", begun.elapsed().as_secs_f64());
        }
        Ok(if check.agrees() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    fn factor_of(&self, policy: Policy) -> Result<f64> {
        let name = check::name(policy);
        match self.factor {
            None if policy.has_factor() => bail!("--algorithm {name} needs --factor, from 0 to 1"),
            None => Ok(0.0),
            Some(factor) if !policy.has_factor() => bail!("--factor {factor} has no effect under {name}; omit it"),
            Some(factor) => {
                ensure!((0.0..=1.0).contains(&factor), "--factor is {factor}: write a number from 0 to 1");
                Ok(factor)
            }
        }
    }

    fn read(&self, path: &Path) -> Result<(Instance, NodeList)> {
        let nodes = match &self.nodes {
            Some(nodes) => nodes.clone(),
            None => nodes_near(path)?,
        };
        Ok((instance::read(path)?, instance::read_nodes(&nodes)?))
    }

    fn simulate(&self, instance: &Instance, nodes: &NodeList, policy: Policy, factor: f64) -> Simulated {
        let (name, jobs) = (instance.name.clone(), instance.jobs.len());
        let cap_w = match self.cap {
            None => Some(NO_CAP_W),
            Some(Cap::Watts(watts)) => Some(watts),
            Some(Cap::Percent(percent)) => {
                let uncapped = Parameters { policy: Policy::Ls, factor: 0.0, cap_w: NO_CAP_W };
                let uncapped = Status::of(instance, nodes, uncapped);
                uncapped.measures().map(|measures| measures.peak_w * percent / 100)
            }
        };
        let simulated = |cap_w| Status::of(instance, nodes, Parameters { policy, factor, cap_w });
        Simulated { name, jobs, cap_w, status: cap_w.map_or(Status::Infeasible, simulated) }
    }

    fn json(&self, row: &Simulated, policy: Policy) -> Value {
        let percent = match self.cap {
            Some(Cap::Percent(percent)) => Some(percent),
            _ => None,
        };
        let measures = row.status.measures();
        let whole = |value: fn(&Measures) -> i64| measures.map(value);
        json!({
            "instance": row.name, "algorithm": check::name(policy), "F": self.factor, "cap_pct": percent, "cap_w": row.cap_w,
            "jobs": row.jobs, "status": row.status.name(), "total_wait_s": whole(|of| of.total_wait_s),
            "bsld": measures.map(|of| of.bsld), "peak_w": whole(|of| of.peak_w),
            "makespan_s": whole(|of| of.makespan_s), "slowed_pct": measures.map(|of| of.slowed_pct),
        })
    }
}

/// Returns the file of nodes in the nearest folder at or above that of the instance.
fn nodes_near(path: &Path) -> Result<PathBuf> {
    let whole = path.canonicalize().with_context(|| format!("cannot read {}", path.display()))?;
    let found = whole.ancestors().skip(1).map(|folder| folder.join(NODES)).find(|file| file.is_file());
    found.with_context(|| format!("no folder above {} has a file {NODES}: name one with --nodes", path.display()))
}

fn table(rows: &[Simulated]) -> String {
    let heads = ["cap_w", "jobs", "status", "total_wait_s", "bsld", "peak_w", "makespan_s", "slowed_pct"];
    let line = |name: &str, cells: &[String]| {
        let cells: String = cells.iter().map(|cell| format!("{cell:>14}")).collect();
        format!("{name:<26}{cells}\n")
    };
    let mut text = line("instance", &heads.map(str::to_owned));
    for row in rows {
        let cap_w = row.cap_w.map_or_else(|| "-".to_owned(), |watts| watts.to_string());
        text += &line(&row.name, &[&[cap_w, row.jobs.to_string()][..], &row.status.cells()[..]].concat());
    }
    text
}
