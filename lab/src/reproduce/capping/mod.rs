//! `lab reproduce power-capping-2018`: the evaluation of section 5 on the core of the master. Each figure is the mean over
//! instances; caps are percentages of the highest draw that LS has without a cap.

mod cells;
mod claims;
mod instances;
mod simulate;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use anyhow::{Result, anyhow, ensure};
use limo_model::Power;
use limo_requirements::{TRACES, traces};
use limo_trace::log_crypt::{self, LoggedJob};
use serde_json::{Value, json};

use super::claim_row::ClaimRow;
use cells::{Cell, LS, Source, cells};
use instances::Published;
use simulate::{CappedRun, Conditions, MethodVariant, run};

#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Folder with `power-capping-2018/`, which has the instances [default: the one next to the workspace]
    #[arg(long, value_name = "DIR", env = TRACES)]
    traces: Option<PathBuf>,
    /// Number of simulations at a time [default: the number of cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1_024))]
    jobs: Option<u16>,
    /// Most instances of a cell
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..=1_000))]
    instances: u16,
    /// Number of jobs that one round of DEC may place in its search
    #[arg(long, value_name = "N", default_value_t = 20_000, value_parser = clap::value_parser!(u32).range(1..=100_000_000))]
    plan_steps: u32,
    /// Run only cells whose names begin with this
    #[arg(long, value_name = "PREFIX")]
    only: Vec<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// The sum of the roundings of draws, at most.
const ROUNDINGS: Power = Power::from_mw(100);

/// A simulation of a cell.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CellRun {
    pub variant: MethodVariant,
    /// Percentage of the highest draw.
    pub cap: u32,
    pub result: CappedRun,
    /// The upper limit.
    pub limit: Power,
}

/// The results of a cell, by instance.
pub struct CellResults {
    pub cell: Cell,
    pub instances: Vec<Vec<CellRun>>,
}

/// Runs `lab reproduce power-capping-2018`.
///
/// # Errors
/// If a trace cannot be read, or a simulation fails.
pub fn reproduce(arguments: &Arguments) -> Result<ExitCode> {
    let begun = Instant::now();
    let wanted =
        |cell: &Cell| arguments.only.is_empty() || arguments.only.iter().any(|prefix| cell.name.starts_with(prefix));
    let cells: Vec<Cell> = cells().into_iter().filter(wanted).collect();
    ensure!(!cells.is_empty(), "no cell begins with {}", arguments.only.join(" or "));
    let published = Published::read(&arguments.traces.clone().unwrap_or_else(traces))?;
    let results = run_all(&cells, &published, arguments)?;
    let rows = claims::rows(&results, &published.folder)?;
    let wall_s = begun.elapsed().as_secs_f64();
    if arguments.json {
        let cells: Vec<Value> = results.iter().map(CellResults::json).collect();
        let rows: Vec<Value> = rows.iter().map(ClaimRow::json).collect();
        let paper = "power-capping-2018";
        println!("{:#}", json!({ "schema": 1, "paper": paper, "wall_s": wall_s, "cells": cells, "rows": rows }));
    } else {
        let simulations: usize = results.iter().flat_map(|cell| &cell.instances).map(Vec::len).sum();
        println!("power-capping-2018: {simulations} simulations in {wall_s:.0} s");
        results.iter().for_each(|cell| print!("{}", cell.text()));
        print!("\n{}", ClaimRow::table(&rows));
    }
    Ok(ExitCode::SUCCESS)
}

/// Runs all instances of the cells on several threads.
fn run_all(cells: &[Cell], published: &Published, arguments: &Arguments) -> Result<Vec<CellResults>> {
    let mut tasks: Vec<(usize, usize, Vec<LoggedJob>)> = Vec::new();
    for (index, cell) in cells.iter().enumerate() {
        for (number, jobs) in instances_of(cell, published, usize::from(arguments.instances))?.into_iter().enumerate() {
            tasks.push((index, number, jobs));
        }
    }
    // The longest simulations come first, so that no worker starts a long one at the end.
    tasks.sort_by_key(|(_, _, jobs)| std::cmp::Reverse(jobs.len()));
    let workers =
        arguments.jobs.map_or_else(|| std::thread::available_parallelism().map_or(1, usize::from), usize::from);
    let (next, found) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let work = || -> Result<()> {
        while let Some((cell, number, jobs)) = tasks.get(next.fetch_add(1, Ordering::Relaxed)) {
            let runs = runs_of(&cells[*cell], published, jobs, (*number as u64, arguments.plan_steps))?;
            // No thread panics while it holds the lock.
            found.lock().expect("a sound lock").push((*cell, *number, runs));
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        workers.into_iter().try_for_each(|worker| worker.join().map_err(|_| anyhow!("a worker panicked"))?)
    })?;
    // No thread panics while it holds the lock.
    let mut found = found.into_inner().expect("a sound lock");
    found.sort_by_key(|(cell, number, _)| (*cell, *number));
    let of = |index: usize| found.iter().filter(move |(cell, ..)| *cell == index).map(|(_, _, runs)| runs.clone());
    Ok(cells
        .iter()
        .enumerate()
        .map(|(index, cell)| CellResults { cell: cell.clone(), instances: of(index).collect() })
        .collect())
}

fn instances_of(cell: &Cell, published: &Published, most: usize) -> Result<Vec<Vec<LoggedJob>>> {
    match &cell.source {
        Source::Drawn { jobs, window, spreading } => {
            Ok((0..most).map(|seed| published.drawn((*jobs, *window), *spreading, seed as u64)).collect())
        }
        Source::Folder(folder) => {
            let files = published.files(folder)?;
            files.iter().take(most).map(|file| Ok(log_crypt::read(file)?)).collect()
        }
    }
}

/// Runs all methods of a cell on an instance.
fn runs_of(
    cell: &Cell,
    published: &Published,
    jobs: &[LoggedJob],
    (seed, plan_steps): (u64, u32),
) -> Result<Vec<CellRun>> {
    let load = published.load(jobs, cell.filled, seed)?;
    let conditions = |variant, cap| Conditions { variant, cap, plan_steps };
    let peak = run(&load, conditions(LS, None))?.peak;
    let mut runs = Vec::new();
    for cap in &cell.caps {
        let limit = peak.scaled(i64::from(*cap), 100);
        for variant in &cell.variants {
            let result = run(&load, conditions(*variant, Some(limit)))?;
            runs.push(CellRun { variant: *variant, cap: *cap, result, limit });
        }
    }
    Ok(runs)
}

impl CellResults {
    /// Returns the mean of a value over the instances.
    pub fn mean(&self, variant: MethodVariant, cap: u32, value: impl Fn(&CellRun) -> f64) -> f64 {
        let of = self.instances.iter().flatten().filter(|run| (run.variant, run.cap) == (variant, cap));
        let (sum, count) = of.fold((0.0, 0), |(sum, count), run| (sum + value(run), count + 1));
        sum / f64::from(count.max(1))
    }

    /// Returns the mean bounded slowdown.
    pub fn bsld(&self, variant: MethodVariant, cap: u32) -> f64 {
        self.mean(variant, cap, |run| run.result.bsld)
    }

    fn text(&self) -> String {
        let Cell { name, what, caps, variants, .. } = &self.cell;
        let mut out = format!("\n{name}: {what} ({} instances), mean BSLD\n{:<18}", self.instances.len(), "cap");
        caps.iter().for_each(|cap| out += &format!("{:>9}", format!("{cap} %")));
        for variant in variants {
            out += &format!("\n{:<18}", variant.name());
            caps.iter().for_each(|cap| out += &format!("{:>9.3}", self.bsld(*variant, *cap)));
        }
        out + "\n"
    }

    fn json(&self) -> Value {
        let of = |variant: &MethodVariant| {
            let caps = self.cell.caps.iter().map(|cap| {
                let mean = |value: fn(&CellRun) -> f64| self.mean(*variant, *cap, value);
                json!({
                    "cap_percent": cap,
                    "bsld": mean(|run| run.result.bsld),
                    "wait_s": mean(|run| run.result.wait_s),
                    "not_run": mean(|run| run.result.not_run as f64),
                    "above_cap": mean(|run| f64::from(u8::from(run.is_above()))),
                    "excess_w": mean(|run| (run.result.peak - run.limit).at_least_zero().mw() as f64 / 1e3),
                })
            });
            json!({ "method": variant.name(), "caps": caps.collect::<Vec<_>>() })
        };
        let methods: Vec<Value> = self.cell.variants.iter().map(of).collect();
        json!({ "cell": self.cell.name, "what": self.cell.what, "instances": self.instances.len(), "methods": methods })
    }
}

impl CellRun {
    /// Returns true if the draw was above the cap at some time, by more than roundings.
    pub fn is_above(&self) -> bool {
        self.result.peak > self.limit + ROUNDINGS
    }
}
