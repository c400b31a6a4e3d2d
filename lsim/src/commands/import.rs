//! `lsim import`: reads a workload, reports repaired and omitted lines, and writes it, or its best weeks, in the
//! Standard Workload Format. Its subcommands read the files of pools.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Result, anyhow, bail};
use limo_trace::filter::{Carried, Window};
use limo_trace::{Week, Workload, swf};

use super::pool::{self, PoolImport};
use crate::setup::{Date, Extent, Ratio, Setup, files};

#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct Arguments {
    #[command(subcommand)]
    pool: Option<PoolImport>,
    #[command(flatten)]
    cleaning: Option<Cleaning>,
}

/// Arguments without a subcommand.
#[derive(Debug, clap::Args)]
struct Cleaning {
    /// Standard Workload Format or Batsim's JSON, plain or gzipped
    #[arg(value_name = "FILE")]
    trace: PathBuf,
    /// File to write; gzipped if its name ends in .gz
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Rules for lines: plain, or 2017 as for the inputs of energy-budget-2017
    #[arg(long, value_name = "RULES", default_value = "plain")]
    rules: SwfRules,
    /// SimGrid's XML with the speed of the hosts, which some Batsim profiles need
    #[arg(long, value_name = "FILE")]
    platform: Option<PathBuf>,
    /// Number of disjoint weeks, the busiest first, each in its own file: NAME-1.swf, NAME-2.swf; includes jobs that
    /// run or wait when a week begins
    #[arg(long, value_name = "K")]
    weeks: Option<usize>,
    /// Processors of the machine, for the choice of weeks [default: MaxProcs of the trace]
    #[arg(long, value_name = "N")]
    nodes: Option<u32>,
    /// Calendar time of the trace's zero, e.g. 2017-10-26T00:00:00Z [default: UnixStartTime of the trace]
    #[arg(long, value_name = "TIME", help_heading = "Jobs")]
    start: Option<Date>,
    /// Keep only jobs submitted in this part of the trace, e.g. 2d..5d; its begin becomes the start of the workload
    #[arg(long, value_name = "FROM..UNTIL", help_heading = "Jobs")]
    window: Option<Extent>,
    /// Keep only jobs of these users
    #[arg(long, value_name = "N", value_delimiter = ',', help_heading = "Jobs")]
    users: Vec<i32>,
    /// Keep only the first N jobs
    #[arg(long, value_name = "N", help_heading = "Jobs")]
    first: Option<usize>,
    /// Factor of the load: times between submissions are divided by it
    #[arg(long, value_name = "FACTOR", help_heading = "Jobs")]
    load: Option<Ratio>,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum SwfRules {
    Plain,
    #[value(name = "2017")]
    Compat2017,
}

/// Writes the workload.
///
/// # Errors
/// If a file cannot be read or written, or the workload has fewer weeks than requested.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    match (&arguments.pool, &arguments.cleaning) {
        (Some(import), _) => pool::import(import)?,
        (None, Some(arguments)) => clean(arguments)?,
        (None, None) => bail!("give a workload, or one of `htcondor`, `logins` and `fta`: see `lsim import --help`"),
    }
    Ok(ExitCode::SUCCESS)
}

fn clean(arguments: &Cleaning) -> Result<()> {
    let speed = arguments.platform.as_deref().map(files::platform).transpose()?.and_then(|cluster| cluster.speed);
    let rules = match arguments.rules {
        SwfRules::Plain => swf::Options::default(),
        SwfRules::Compat2017 => swf::Options::COMPAT_2017,
    };
    let workload = files::workload(&arguments.trace, rules, speed)?;
    let part = Setup {
        start: arguments.start,
        window: arguments.window,
        users: arguments.users.clone(),
        first: arguments.first,
        load: arguments.load,
        ..Setup::default()
    };
    let workload = part.part(workload);
    for note in &workload.notes {
        eprintln!("lsim: note: {note}");
    }
    let moldable = workload.jobs.iter().filter(|job| job.moldable.is_some()).count();
    if moldable > 0 {
        eprintln!("lsim: note: the ranges of nodes of {moldable} jobs are left out: the format has only processors");
    }
    if workload.jobs.is_empty() {
        bail!("no job is left to write: widen --window, --users or --first");
    }
    match arguments.weeks {
        None => {
            swf::write(&arguments.output, &workload)?;
            println!("{}: {} jobs", arguments.output.display(), workload.jobs.len());
        }
        Some(count) => write_weeks(arguments, &workload, count)?,
    }
    Ok(())
}

fn write_weeks(arguments: &Cleaning, workload: &Workload, count: usize) -> Result<()> {
    let processors = arguments.nodes.or(workload.processors).ok_or_else(|| {
        anyhow!("the trace does not say how many processors its machine has (MaxProcs): give --nodes N")
    })?;
    let weeks = workload.busiest_weeks(count, processors);
    if weeks.len() < count {
        bail!("the workload has {} disjoint weeks, but --weeks asks for {count}", weeks.len());
    }
    for (index, week) in weeks.iter().enumerate() {
        let path = numbered(&arguments.output, index + 1);
        let jobs = write_week(&path, workload, week)?;
        let share = 100.0 * week.utilisation();
        println!("{}: {jobs} jobs from {} on, {share:.2} % used", path.display(), week.from);
    }
    Ok(())
}

/// Writes a week; returns the number of its jobs.
fn write_week(path: &Path, workload: &Workload, week: &Week) -> Result<usize> {
    let window = Window { from: week.from, until: week.until, rebased: true, carried: Carried::Running };
    let part = workload.clone().window(window);
    swf::write(path, &part)?;
    Ok(part.jobs.len())
}

/// Inserts the number: `a/trace.swf.gz` with the number 2 is `a/trace-2.swf.gz`.
fn numbered(path: &Path, number: usize) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let (stem, extensions) = name.split_once('.').unwrap_or((&name, "swf"));
    path.with_file_name(format!("{stem}-{number}.{extensions}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_weeks() {
        let check = |path: &str, expected: &str| assert_eq!(numbered(Path::new(path), 2), Path::new(expected));
        check("a.b/trace.swf.gz", "a.b/trace-2.swf.gz");
        check("trace", "trace-2.swf");
    }
}
