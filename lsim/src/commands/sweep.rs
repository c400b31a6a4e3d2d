//! `lsim sweep`: runs all configurations of a file, over all cores or on a cluster, and summarizes them.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use limo_files::Outlasts;

use crate::record::WriteError;
use crate::sweep::array::{Arrays, Submitter, leftovers};
use crate::sweep::configuration::{Configuration, all};
use crate::sweep::file::Plan;
use crate::sweep::local::{Checked, Local, check, named};
use crate::sweep::measures::{Values, index};
use crate::sweep::page;
use crate::sweep::progress::Progress;
use crate::sweep::results::{FILE as RESULTS, Results, Row};
use crate::sweep::table::Table;
use crate::sweep::timed::{duration_line, scaled};
use crate::sweep::workers::{locked, spread};

/// Default number of tasks on a cluster at once.
const AT_ONCE: usize = 64;
/// Most items that a message lists.
const TOLD: usize = 10;

#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Configurations in TOML (docs/lsim-sweep.md)
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Folder for results.csv, table.csv and plot.html; an interrupted sweep continues there
    #[arg(long, value_name = "DIR", required_unless_present_any = ["only", "dry_run"])]
    out: Option<PathBuf>,
    /// Simulations at once [default: one for each core; 64 with --on]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    jobs: Option<u32>,
    /// Run the simulations as an array of a cluster; FILE, its input files, DIR and lsim must be on a file system that
    /// all nodes share
    #[arg(long, value_name = "PROGRAM", value_enum)]
    on: Option<Submitter>,
    /// Write a row with the error for configurations that cannot run, instead of ending the sweep before it begins
    #[arg(long)]
    keep_going: bool,
    /// Run only the configuration with this key, and print its row of results.csv; writes no file
    #[arg(long, value_name = "KEY", conflicts_with_all = ["out", "on", "json", "dry_run"])]
    only: Option<String>,
    /// Print the keys of all configurations; run none
    #[arg(long, conflicts_with_all = ["out", "on", "json"])]
    dry_run: bool,
    /// Print the table as JSON
    #[arg(long)]
    json: bool,
}

/// Runs a sweep.
///
/// # Errors
/// If the file is wrong, configurations are invalid, or results cannot be written.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let plan = Plan::read(&arguments.file)?;
    let configurations = all(&plan, cores)?;
    if let Some(key) = &arguments.only {
        return Ok(only(&plan, named(&configurations, key)?));
    }
    let Some(out) = arguments.out.as_deref().filter(|_| !arguments.dry_run) else {
        let keys: String = configurations.iter().map(|configuration| format!("{}\n", configuration.key)).collect();
        print!("{keys}");
        return Ok(ExitCode::SUCCESS);
    };
    let at_once = arguments.jobs.map(|jobs| jobs as usize);
    let workers = at_once.unwrap_or(if arguments.on.is_some() { AT_ONCE } else { cores });
    let arrays = arguments.on.map(|submitter| Arrays::new(submitter, &arguments.file, out, workers)).transpose()?;
    let checked = look(&plan, &configurations, at_once.unwrap_or(cores).min(cores), arguments.keep_going)?;
    let mut results = Results::open(out)?;
    for row in leftovers(out) {
        if let Some(configuration) = configurations.iter().find(|configuration| configuration.key == row.key)
            && results.row(&row.key).is_none()
        {
            results.add(Row { labels: configuration.labels.clone(), ..row })?;
        }
    }
    let missing: Vec<usize> =
        (0..configurations.len()).filter(|index| results.row(&configurations[*index].key).is_none()).collect();
    let (there, count) = (configurations.len() - missing.len(), configurations.len());
    eprintln!("lsim: {count} configurations: {there} done, {} to run, {workers} at once", missing.len());
    let sweep = Sweep { plan: &plan, configurations: &configurations, checked: &checked, workers, arrays };
    let lost = sweep.run(&missing, &mut results)?;
    let table = Table::new(&plan, &configurations, &results);
    write(out, "table.csv", &table.csv())?;
    let title = arguments.file.file_stem().unwrap_or(arguments.file.as_os_str()).to_string_lossy();
    write(out, "plot.html", &page::page(&format!("Sweep {title}"), &plan, &table))?;
    if arguments.json {
        println!("{}", table.json()?);
    } else {
        print!("{}", table.text());
    }
    Ok(end(&configurations, &results, &lost, out))
}

/// Runs one configuration and prints its row.
fn only(plan: &Plan, configuration: &Configuration) -> ExitCode {
    let begin = Instant::now();
    let result = Local::new(plan, [configuration]).run(configuration);
    eprintln!("{}", duration_line(begin.elapsed()));
    let code = if result.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    println!("{}", Row { key: configuration.key.clone(), labels: configuration.labels.clone(), result }.line());
    code
}

/// Checks all configurations. An error ends the sweep, unless it is to continue.
fn look(
    plan: &Plan,
    configurations: &[Configuration],
    workers: usize,
    keep_going: bool,
) -> Result<Vec<Result<Checked, String>>> {
    let checked = check(plan, &configurations.iter().collect::<Vec<_>>(), workers);
    let mut notes: BTreeSet<String> = BTreeSet::new();
    // An error of many configurations is reported once, with the first of them.
    let mut broken: Vec<(&str, String, usize)> = Vec::new();
    for (configuration, found) in configurations.iter().zip(&checked) {
        let workload = &configuration.labels.workload;
        match (found, broken.iter_mut().find(|(error, ..)| found.as_ref().is_err_and(|found| found == error))) {
            (Ok(found), _) => notes.extend(found.notes.iter().map(|note| format!("{workload}: {note}"))),
            (Err(_), Some((.., more))) => *more += 1,
            (Err(error), None) => broken.push((error, configuration.labels.told(), 0)),
        }
    }
    for note in notes.iter().take(TOLD) {
        eprintln!("lsim: note: {note}");
    }
    if notes.len() > TOLD {
        eprintln!("lsim: note: and {} more notes: `lsim run` prints those of one configuration", notes.len() - TOLD);
    }
    if broken.is_empty() || keep_going {
        return Ok(checked);
    }
    let count: usize = broken.iter().map(|(.., more)| 1 + more).sum();
    let mut lines = String::new();
    for (error, labels, more) in broken.iter().take(TOLD) {
        let more = if *more > 0 { format!(" and {more} more") } else { String::new() };
        lines.push_str(&format!("\n  {labels}{more}: {error}"));
    }
    if broken.len() > TOLD {
        lines.push_str(&format!("\n  and {} more errors", broken.len() - TOLD));
    }
    bail!(
        "{count} of {} configurations cannot run, and none was run (--keep-going runs the others):{lines}",
        configurations.len()
    )
}

struct Sweep<'a> {
    plan: &'a Plan,
    configurations: &'a [Configuration],
    checked: &'a [Result<Checked, String>],
    workers: usize,
    arrays: Option<Arrays>,
}

/// Results so far, which the workers share.
struct Kept<'r> {
    results: &'r mut Results,
    progress: Progress,
    failure: Option<WriteError>,
    /// Configurations without a row, with the reason.
    lost: Vec<String>,
    /// Durations of the simulations, in sum.
    took: Duration,
}

impl Sweep<'_> {
    fn work(&self, index: usize) -> u64 {
        self.checked[index].as_ref().map_or(1, |checked| 1 + checked.jobs as u64)
    }

    /// Runs the missing configurations and writes each row at once. Returns those without a row, with the reason.
    fn run(&self, missing: &[usize], results: &mut Results) -> Result<Vec<String>> {
        let progress = Progress::new(missing.len(), missing.iter().map(|index| self.work(*index)).sum());
        let kept = Mutex::new(Kept { results, progress, failure: None, lost: Vec::new(), took: Duration::ZERO });
        let begin = Instant::now();
        let (mut runnable, mut broken) = (Vec::new(), Vec::new());
        for index in missing {
            match &self.checked[*index] {
                Ok(_) => runnable.push(*index),
                Err(error) => broken.push((*index, error)),
            }
        }
        for (index, error) in broken {
            self.keep(&kept, index, Ok(self.row(index, Err(error.clone()))), Duration::ZERO);
        }
        match &self.arrays {
            Some(arrays) if !runnable.is_empty() => {
                let keys: Vec<&str> = runnable.iter().map(|index| self.configurations[*index].key.as_str()).collect();
                arrays.run(&keys, |done| self.keep(&kept, runnable[done.index], done.row, done.took))?;
            }
            _ => self.run_here(&runnable, &kept),
        }
        let mut kept = kept.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
        kept.lost.sort_unstable();
        kept.progress.end();
        if !runnable.is_empty() {
            eprintln!("lsim: {}", scaled(runnable.len(), kept.took, begin.elapsed(), self.workers));
        }
        match kept.failure {
            Some(error) => Err(error).context("the sweep is stopped; run it again to continue from here"),
            None => Ok(kept.lost),
        }
    }

    fn run_here(&self, runnable: &[usize], kept: &Mutex<Kept<'_>>) {
        let local = Local::new(self.plan, runnable.iter().map(|index| &self.configurations[*index]));
        let stopped = AtomicBool::new(false);
        spread(runnable.len(), self.workers, |at| {
            if stopped.load(Ordering::Relaxed) {
                return;
            }
            let (index, begin) = (runnable[at], Instant::now());
            let row = self.row(index, local.run(&self.configurations[index]));
            if !self.keep(kept, index, Ok(row), begin.elapsed()) {
                stopped.store(true, Ordering::Relaxed);
            }
        });
    }

    /// Keeps the result of a configuration. Returns false if it could not be written.
    fn keep(&self, kept: &Mutex<Kept<'_>>, index: usize, row: Result<Row, String>, took: Duration) -> bool {
        let (mut kept, labels) = (locked(kept), &self.configurations[index].labels);
        kept.progress.step(self.work(index));
        kept.took += took;
        let added = match row {
            Ok(row) => kept.results.add(Row { labels: labels.clone(), ..row }),
            Err(error) => {
                kept.lost.push(format!("{}: {error}", labels.told()));
                Ok(())
            }
        };
        if let Err(error) = added {
            kept.failure.get_or_insert(error);
        }
        kept.failure.is_none()
    }

    fn row(&self, index: usize, result: Result<Values, String>) -> Row {
        let configuration = &self.configurations[index];
        Row { key: configuration.key.clone(), labels: configuration.labels.clone(), result }
    }
}

/// Writes a file of the folder atomically.
fn write(folder: &Path, name: &str, text: &str) -> Result<(), WriteError> {
    let path = folder.join(name);
    let written = limo_files::replace(&path, 0o666, Outlasts::Process, |file| file.write_all(text.as_bytes()));
    written.map_err(|source| WriteError::new(&path, source))
}

/// Reports failures, and the place of the results.
fn end(configurations: &[Configuration], results: &Results, lost: &[String], out: &Path) -> ExitCode {
    let failed = configurations.iter().filter_map(|configuration| {
        let error = results.row(&configuration.key)?.result.as_ref().err()?;
        Some(format!("{}: {error}", configuration.labels.told()))
    });
    let failed: Vec<String> = failed.collect();
    let unfinished = configurations.iter().filter_map(|configuration| {
        let values = results.row(&configuration.key)?.result.as_ref().ok()?;
        let [left, jobs] = [values[index("jobs_unfinished")?]?, values[index("jobs")?]?];
        (left > 0).then(|| format!("{}: {left} of {jobs} jobs", configuration.labels.told()))
    });
    let unfinished: Vec<String> = unfinished.collect();
    for (what, list) in [
        ("failed", failed.as_slice()),
        ("gave no result and runs again next time", lost),
        ("left unfinished, so that its figures are for less work", &unfinished),
    ] {
        for one in list.iter().take(TOLD) {
            eprintln!("lsim: {what}: {one}");
        }
        if list.len() > TOLD {
            eprintln!("lsim: {what}: and {} more", list.len() - TOLD);
        }
    }
    let others = results.len() - configurations.iter().filter(|of| results.row(&of.key).is_some()).count();
    if others > 0 {
        let rows =
            if others == 1 { "1 row of another sweep".to_owned() } else { format!("{others} rows of other sweeps") };
        eprintln!("lsim: note: {RESULTS} has {rows}; table.csv and plot.html show only this sweep");
    }
    eprintln!("lsim: the results are in {}", out.display());
    if failed.is_empty() && lost.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
