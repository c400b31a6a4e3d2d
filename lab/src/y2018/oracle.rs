//! Reads the rows and schedules that were made with the published program: `oracle.csv` and `schedules/` (FORMAT.md).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use clap::ValueEnum;
use limo_trace::{input, log_crypt};

use super::{NO_CAP_W, Parameters, Policy};

/// Most unpacked bytes of a table.
const FILE_LIMIT: u64 = 64 << 20;
/// Deepest folder in which instances are looked for.
const DEPTH: usize = 5;
const ROWS: &str = "instance,algorithm,F,cap_pct,cap_w,jobs,status,total_wait_s,bsld,peak_w,makespan_s,slowed_pct";
const SCHEDULES: &str = "algorithm,F,cap_w,job,start_s,end_s,nodes";

/// A row of `oracle.csv`.
#[derive(Debug, Clone, PartialEq)]
pub struct OracleRow {
    pub instance: String,
    pub parameters: Parameters,
    pub cap_pct: String,
    pub jobs: usize,
    /// Status, total wait, BSLD, peak, makespan and slowed jobs, as written.
    pub cells: [String; 6],
}

impl OracleRow {
    /// Returns the makespan in seconds; 0 for rows without one.
    pub fn makespan_s(&self) -> i64 {
        self.cells[4].parse().unwrap_or(0)
    }
}

/// A schedule of the published program.
#[derive(Debug, Clone, PartialEq)]
pub struct OracleSchedule {
    pub instance: String,
    pub parameters: Parameters,
    /// Start, end and nodes by job.
    pub jobs: Vec<(i64, i64, Vec<usize>)>,
}

/// Reads the rows below `folder`.
///
/// # Errors
/// If the table is missing or has an invalid line.
pub fn rows(folder: &Path) -> Result<Vec<OracleRow>> {
    table(&folder.join("oracle.csv"), ROWS, |cells: &[&str; 12]| {
        let [name, algorithm, factor, cap_pct, cap, jobs, cells @ ..] = cells;
        Ok(OracleRow {
            instance: (*name).to_owned(),
            parameters: parameters(algorithm, factor, cap)?,
            cap_pct: (*cap_pct).to_owned(),
            jobs: number(jobs)?,
            cells: cells.map(str::to_owned),
        })
    })
}

/// Reads the schedules below `folder`, sorted by instance; none if it has no `schedules/`.
///
/// # Errors
/// If a file cannot be read or has an invalid line.
pub fn schedules(folder: &Path) -> Result<Vec<OracleSchedule>> {
    let folder = folder.join("schedules");
    let mut all = Vec::new();
    for path in if folder.is_dir() { entries(&folder)? } else { Vec::new() } {
        let file = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let Some(name) = file.strip_suffix(".csv.gz") else { continue };
        all.extend(schedules_of(name, &path)?);
    }
    Ok(all)
}

fn schedules_of(name: &str, path: &Path) -> Result<Vec<OracleSchedule>> {
    let mut runs: Vec<OracleSchedule> = Vec::new();
    let lines = table(path, SCHEDULES, |cells: &[&str; 7]| {
        let [algorithm, factor, cap, job, start, end, nodes] = cells;
        let (job, nodes) = (number::<usize>(job)?, nodes.split(' ').map(number).collect::<Result<Vec<usize>>>()?);
        Ok((parameters(algorithm, factor, cap)?, job, (number(start)?, number(end)?, nodes)))
    })?;
    for (parameters, job, record) in lines {
        if runs.last().is_none_or(|run| run.parameters != parameters) {
            runs.push(OracleSchedule { instance: name.to_owned(), parameters, jobs: Vec::new() });
        }
        // The line before pushed a run if there was none.
        let Some(run) = runs.last_mut() else { continue };
        ensure!(job == run.jobs.len(), "{}: job {job} follows {} jobs of its run", path.display(), run.jobs.len());
        run.jobs.push(record);
    }
    Ok(runs)
}

/// Returns the instances below `folder` by name.
///
/// # Errors
/// If a folder cannot be read.
pub fn instances(folder: &Path) -> Result<BTreeMap<String, PathBuf>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![(folder.to_owned(), 0)];
    while let Some((folder, depth)) = folders.pop() {
        for path in entries(&folder)? {
            if let Some(name) = log_crypt::name(&path) {
                found.insert(name, path);
            } else if path.is_dir() && depth < DEPTH {
                folders.push((path, depth + 1));
            }
        }
    }
    Ok(found)
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(folder).and_then(|entries| entries.map(|entry| Ok(entry?.path())).collect());
    let mut paths: Vec<PathBuf> = entries.with_context(|| format!("cannot read {}", folder.display()))?;
    paths.sort();
    Ok(paths)
}

/// Parses the lines of a table after its header.
fn table<const N: usize, T>(path: &Path, header: &str, parse: impl Fn(&[&str; N]) -> Result<T>) -> Result<Vec<T>> {
    let text = input::text(path, FILE_LIMIT).with_context(|| format!("cannot read {}", path.display()))?;
    let mut lines = text.lines();
    ensure!(lines.next() == Some(header), "{}:1: the header must be `{header}`", path.display());
    let parsed = lines.enumerate().map(|(index, line)| {
        let cells: Vec<&str> = line.split(',').collect();
        let cells = <[&str; N]>::try_from(cells).map_err(|cells| anyhow::anyhow!("{} cells of {N}", cells.len()));
        cells.and_then(|cells| parse(&cells)).with_context(|| format!("{}:{}", path.display(), index + 2))
    });
    parsed.collect()
}

fn parameters(algorithm: &str, factor: &str, cap: &str) -> Result<Parameters> {
    let names = "LS, BF, DVFS, DynShare, DynShare3";
    let policy = Policy::from_str(algorithm, false);
    let policy = policy.map_err(|_| anyhow::anyhow!("`{algorithm}` is not an algorithm: {names}"))?;
    let factor = if policy.has_factor() { number(factor)? } else { 0.0 };
    let cap_w = number(cap)?;
    ensure!((0.0..=1.0).contains(&factor), "F is {factor}: it must be from 0 to 1");
    ensure!((1..=NO_CAP_W).contains(&cap_w), "cap_w is {cap_w}: it must be from 1 to {NO_CAP_W}");
    Ok(Parameters { policy, factor, cap_w })
}

fn number<T: std::str::FromStr>(text: &str) -> Result<T> {
    text.parse().map_err(|_| anyhow::anyhow!("`{}` is not a number", input::shown(text.as_bytes())))
}
