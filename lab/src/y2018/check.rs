//! Compares simulations with the rows and schedules of the published program, and counts those that agree.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context, Result};
use clap::ValueEnum;
use lsim::workers::spread;
use serde_json::{Value, json};

use super::instance::{self, Instance};
use super::measures::Status;
use super::oracle::{self, OracleRow, OracleSchedule};
use super::resources::NodeList;
use super::{Parameters, Policy, SimulationEnd, simulate};

/// Most differences that are listed.
const LISTED: usize = 20;
/// Statuses of rows whose result is not known.
const UNKNOWN: &str = "timeout";

/// Extent of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    All,
    /// The row with the shortest makespan of each folder, algorithm, factor, percentage and status; and the schedules of the
    /// instances with at most 100 jobs.
    Sample,
}

/// Most jobs of an instance whose schedules are in a sample.
const SAMPLED_JOBS: usize = 100;

/// Rows of an algorithm and a factor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Count {
    rows: usize,
    agree: usize,
    unknown: usize,
}

/// The results.
#[derive(Debug, Default)]
pub struct Check {
    /// By name of the algorithm with its factor.
    counts: BTreeMap<(Policy, String), Count>,
    runs: usize,
    /// Number of jobs in the schedules, and of those with the same start, end and nodes.
    jobs: usize,
    agreeing_jobs: usize,
    /// A line for each row and schedule that differs.
    differences: Vec<String>,
}

/// Simulates all rows and schedules below `folder` again, or a sample.
///
/// # Errors
/// If a file is missing or invalid.
pub fn check(folder: &Path, nodes: &NodeList, extent: Extent, workers: usize) -> Result<Check> {
    let (mut rows, mut schedules) = (oracle::rows(folder)?, oracle::schedules(folder)?);
    let paths = oracle::instances(folder)?;
    if extent == Extent::Sample {
        let place = |row: &OracleRow| paths.get(&row.instance).and_then(|path| path.parent().map(Path::to_owned));
        rows = sample(rows, place);
        schedules.retain(|schedule| schedule.jobs.len() <= SAMPLED_JOBS);
    }
    // The longest simulations come first, so that no worker starts a long one at the end.
    rows.sort_by_key(|row| std::cmp::Reverse(row.makespan_s().saturating_mul(row.jobs as i64)));
    let named = rows.iter().map(|row| &row.instance).chain(schedules.iter().map(|schedule| &schedule.instance));
    let names: BTreeSet<&String> = named.collect();
    let read = |name: &String| -> Result<(String, Instance)> {
        let path = paths.get(name).with_context(|| format!("{}: it has no instance {name}", folder.display()))?;
        Ok((name.clone(), instance::read(path)?))
    };
    let instances = names.into_iter().map(read).collect::<Result<BTreeMap<_, _>>>()?;
    let mut check = Check::default();
    let simulated = spread(rows.len(), workers, |index| {
        let row = &rows[index];
        // All are read above.
        Status::of(&instances[&row.instance], nodes, row.parameters).cells()
    });
    for (row, cells) in rows.iter().zip(simulated) {
        check.add_row(row, &cells);
    }
    let simulated = spread(schedules.len(), workers, |index| {
        let schedule = &schedules[index];
        simulate(&instances[&schedule.instance], nodes, schedule.parameters)
    });
    for (schedule, outcome) in schedules.iter().zip(simulated) {
        check.add_schedule(schedule, &outcome);
    }
    Ok(check)
}

/// Returns the shortest row of each cell, in order of the cells.
fn sample<P: Ord>(rows: Vec<OracleRow>, place: impl Fn(&OracleRow) -> P) -> Vec<OracleRow> {
    let mut cells = BTreeMap::new();
    for row in rows.into_iter().filter(|row| row.cells[0] != UNKNOWN) {
        let (policy, factor) = key(row.parameters);
        let key = (place(&row), policy, factor, row.cap_pct.clone(), row.cells[0].clone());
        let shortest = cells.entry(key).or_insert_with(|| row.clone());
        if row.makespan_s() < shortest.makespan_s() {
            *shortest = row;
        }
    }
    cells.into_values().collect()
}

/// Returns the algorithm, and the factor as text; empty without one.
fn key(parameters: Parameters) -> (Policy, String) {
    let factor = if parameters.policy.has_factor() { parameters.factor.to_string() } else { String::new() };
    (parameters.policy, factor)
}

impl Check {
    fn add_row(&mut self, row: &OracleRow, cells: &[String; 6]) {
        let count = self.counts.entry(key(row.parameters)).or_default();
        count.rows += 1;
        if row.cells[0] == UNKNOWN {
            count.unknown += 1;
        } else if *cells == row.cells {
            count.agree += 1;
        } else {
            let [published, here] = [&row.cells, cells].map(|cells| cells.join(","));
            self.differ(&row.instance, row.parameters, &format!("{here} (published {published})"));
        }
    }

    fn add_schedule(&mut self, schedule: &OracleSchedule, outcome: &SimulationEnd) {
        let none = Vec::new();
        let records = match outcome {
            SimulationEnd::Done(schedule) => &schedule.records,
            SimulationEnd::Infeasible { .. } | SimulationEnd::Stuck => &none,
        };
        self.runs += 1;
        self.jobs += schedule.jobs.len();
        let mut first = None;
        for (job, (start_s, end_s, places)) in schedule.jobs.iter().enumerate() {
            let record = records.get(job);
            let agrees = record
                .is_some_and(|record| (record.start_s, record.end_s, &record.places) == (*start_s, *end_s, places));
            self.agreeing_jobs += usize::from(agrees);
            if !agrees && first.is_none() {
                first = Some((job, record.map(|record| record.start_s), start_s));
            }
        }
        if let Some((job, here, published)) = first {
            let here = here.map_or("no start".to_owned(), |start| format!("start {start} s"));
            let difference =
                format!("schedule: job {job} has {here} (published {published} s), or other nodes or another end");
            self.differ(&schedule.instance, schedule.parameters, &difference);
        } else if records.len() > schedule.jobs.len() {
            let difference = format!("schedule: {} jobs (published {})", records.len(), schedule.jobs.len());
            self.differ(&schedule.instance, schedule.parameters, &difference);
        }
    }

    fn differ(&mut self, instance: &str, parameters: Parameters, difference: &str) {
        let (policy, factor) = (name(parameters.policy), key(parameters).1);
        let factor = if factor.is_empty() { factor } else { format!(" F={factor}") };
        self.differences.push(format!("{instance} {policy}{factor} {} W: {difference}", parameters.cap_w));
    }

    /// Returns true if all known rows and all schedules agree.
    pub fn agrees(&self) -> bool {
        self.differences.is_empty()
    }

    fn total(&self) -> Count {
        self.counts.values().fold(Count::default(), |sum, count| Count {
            rows: sum.rows + count.rows,
            agree: sum.agree + count.agree,
            unknown: sum.unknown + count.unknown,
        })
    }

    /// Formats a line for each algorithm and factor, the schedules and the first differences.
    pub fn text(&self) -> String {
        let mut text =
            format!("{:<12}{:<6}{:>8}{:>8}{:>8}{:>10}\n", "algorithm", "F", "rows", "agree", "differ", "unknown");
        let line = |name: &str, factor: &str, count: Count| {
            let Count { rows, agree, unknown } = count;
            format!("{name:<12}{factor:<6}{rows:>8}{agree:>8}{:>8}{unknown:>10}\n", rows - agree - unknown)
        };
        for ((policy, factor), count) in &self.counts {
            text += &line(&name(*policy), factor, *count);
        }
        text += &line("all", "", self.total());
        text += &format!(
            "schedules: {} of {} jobs in {} runs have the published start, end and nodes\n",
            self.agreeing_jobs, self.jobs, self.runs
        );
        let listed = self.differences.iter().take(LISTED).map(|difference| format!("differs: {difference}\n"));
        text += &listed.collect::<String>();
        if let Some(more) = self.differences.len().checked_sub(LISTED).filter(|more| *more > 0) {
            text += &format!("and {more} more\n");
        }
        text
    }

    pub fn json(&self) -> Value {
        let total = self.total();
        let count = |((policy, factor), count): (&(Policy, String), &Count)| {
            let factor: Option<f64> = factor.parse().ok();
            json!({ "algorithm": name(*policy), "F": factor, "rows": count.rows, "agree": count.agree, "unknown": count.unknown })
        };
        json!({
            "schema": 1,
            "rows": total.rows,
            "agree": total.agree,
            "unknown": total.unknown,
            "by_algorithm": self.counts.iter().map(count).collect::<Vec<_>>(),
            "schedules": { "runs": self.runs, "jobs": self.jobs, "agree": self.agreeing_jobs },
            "differences": self.differences,
        })
    }
}

/// Returns the name of an algorithm as in the rows.
pub fn name(policy: Policy) -> String {
    policy.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
}
