//! `lsim sweep`: runs all configurations of a file, over all cores or on a cluster, and summarizes them.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result, bail};
use limo_files::Outlasts;

use crate::record::WriteError;
use crate::sweep::cluster::LimoCluster;
use crate::sweep::configuration::{Configuration, all};
use crate::sweep::file::Plan;
use crate::sweep::local::{Checked, Local, check, named};
use crate::sweep::measures::index;
use crate::sweep::page;
use crate::sweep::progress::Progress;
use crate::sweep::results::{FILE as RESULTS, Results, Row};
use crate::sweep::table::Table;
use crate::sweep::workers::{locked, spread};

/// Default number of jobs on a cluster at once.
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
    /// Run each simulation as a job of this Limo cluster, with lrun; FILE, its input files and lsim must be on a file
    /// system that all nodes share
    #[arg(long, value_name = "HOST:PORT")]
    on: Option<String>,
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
    let cluster = arguments.on.as_deref().map(|master| LimoCluster::new(master, &arguments.file)).transpose()?;
    let workers = at_once.unwrap_or(if cluster.is_some() { AT_ONCE } else { cores });
    let checked = look(&plan, &configurations, at_once.unwrap_or(cores).min(cores), arguments.keep_going)?;
    let mut results = Results::open(out)?;
    let missing: Vec<usize> =
        (0..configurations.len()).filter(|index| results.row(&configurations[*index].key).is_none()).collect();
    let (there, count) = (configurations.len() - missing.len(), configurations.len());
    eprintln!("lsim: {count} configurations: {there} done, {} to run, {workers} at once", missing.len());
    let sweep = Sweep { plan: &plan, configurations: &configurations, checked: &checked, workers, cluster };
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
    let result = Local::new(plan, [configuration]).run(configuration);
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
    cluster: Option<LimoCluster>,
}

/// State that the workers share.
struct Kept<'r> {
    results: &'r mut Results,
    progress: Progress,
    failure: Option<WriteError>,
}

impl Sweep<'_> {
    fn work(&self, index: usize) -> u64 {
        self.checked[index].as_ref().map_or(1, |checked| 1 + checked.jobs as u64)
    }

    /// Runs the missing configurations and writes each row at once. Returns those without a row, with the reason.
    fn run(&self, missing: &[usize], results: &mut Results) -> Result<Vec<String>> {
        let runnable = missing.iter().filter(|index| self.checked[**index].is_ok());
        let local = Local::new(self.plan, runnable.map(|index| &self.configurations[*index]));
        let progress = Progress::new(missing.len(), missing.iter().map(|index| self.work(*index)).sum());
        let kept = Mutex::new(Kept { results, progress, failure: None });
        let stopped = AtomicBool::new(false);
        let lost = spread(missing.len(), self.workers, |at| {
            if stopped.load(Ordering::Relaxed) {
                return None;
            }
            let index = missing[at];
            let row = self.row(&local, index);
            let mut kept = locked(&kept);
            kept.progress.step(self.work(index));
            match row {
                Ok(row) => {
                    if let Err(error) = kept.results.add(row) {
                        stopped.store(true, Ordering::Relaxed);
                        kept.failure.get_or_insert(error);
                    }
                    None
                }
                Err(error) => Some(format!("{}: {error}", self.configurations[index].labels.told())),
            }
        });
        let kept = kept.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
        kept.progress.end();
        match kept.failure {
            Some(error) => Err(error).context("the sweep is stopped; run it again to continue from here"),
            None => Ok(lost.into_iter().flatten().collect()),
        }
    }

    fn row(&self, local: &Local<'_>, index: usize) -> Result<Row, String> {
        let configuration = &self.configurations[index];
        let row = |result| Row { key: configuration.key.clone(), labels: configuration.labels.clone(), result };
        match (&self.checked[index], &self.cluster) {
            (Err(error), _) => Ok(row(Err(error.clone()))),
            (Ok(_), Some(cluster)) => cluster.run(configuration),
            (Ok(_), None) => Ok(row(local.run(configuration))),
        }
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
