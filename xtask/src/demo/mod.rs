//! `cargo xtask demo`: replays limo-2018, section 4.4, with real daemons on loopback, an hour in a minute. One run
//! ignores power. The others are under the algorithm of limo-2018, under Limo, and under Limo without a forecast of
//! the limits. With `--slurm` the same jobs also run under Slurm. All figures come from emulated machines: from the
//! journals of the masters, and under Slurm from the logs of jobs and power programs.

mod cluster;
mod hardware;
mod measure;
mod pace;
mod prices;
mod random;
mod record;
mod replay;
mod report;
mod simulate;
mod slurm;
mod spread;
mod svg;
mod workload;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use tempfile::TempDir;
use tokio::signal::unix::{SignalKind, signal};

pub use cluster::{Cluster, Programs};
use measure::{end_of_all, measure};
use pace::{FACTOR, shortened};
use prices::{Market, Prices};
use record::Record;
use replay::Stage;
use report::{Report, RunReport};
use workload::{BEGIN, Day, END};

use crate::workspace;

#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Print the figures as JSON
    #[arg(long)]
    json: bool,
    /// Write the picture here [default: demo/demo.svg in the target directory]
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Simulate the hour with lsim instead of running it
    #[arg(long)]
    simulate: bool,
    /// Also simulate this many random hours, with other machines, jobs, limits and prices
    #[arg(long, value_name = "N", requires = "simulate", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    random: Option<u32>,
    /// Seed of the first random hour; each further hour has the next number
    #[arg(long, value_name = "SEED", requires = "random", default_value_t = random::FIRST_SEED)]
    first_seed: u64,
    /// Also run the same jobs under the Slurm that this program starts; all runs then take six minutes for the hour
    #[arg(long, value_name = "START_SH", conflicts_with = "simulate")]
    slurm: Option<PathBuf>,
    /// Keep the journals and logs of the daemons in this directory, which must not exist yet
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
}

/// A run: a policy, and the number of execution units for its jobs.
#[derive(Debug, Clone, Copy)]
struct Run {
    name: &'static str,
    policy: &'static str,
    /// True if the limits of the whole hour are known from its beginning. Otherwise each limit becomes known when it
    /// comes into force.
    forecast: bool,
    /// True if jobs also have commands for the accelerators.
    accelerators: bool,
    units: usize,
}

const LIMO: Run = Run { name: "limo", policy: "limo", forecast: true, accelerators: true, units: 6 };

/// The comparison of section 4.4. SLURM knows the machines, and Limo all of their units. The paper's Limo is
/// `limo-prototype` here, and learned a limit only at its change.
const RUNS: [Run; 4] = [
    Run { name: "fifo", policy: "fifo", forecast: true, accelerators: false, units: 4 },
    Run { name: "limo-prototype", policy: "limo-prototype", ..LIMO },
    LIMO,
    Run { name: "limo, unwarned", forecast: false, ..LIMO },
];

/// Slurm itself, which runs only with `--slurm`.
const SLURM: Run = Run { name: "slurm", policy: "slurm", forecast: false, accelerators: false, units: 4 };

impl Run {
    fn file_name(self) -> String {
        self.name.replace(", ", "-")
    }
}

/// The hour over which policies are compared.
struct Hour {
    /// An emulated hardware file with its original durations.
    machines: String,
    day: Day,
    prices: Prices,
}

impl Hour {
    /// The hour of limo-2018, section 4.4.
    fn of_2018(market: &Market) -> Result<Self> {
        Ok(Self { machines: hardware::example()?, day: Day::of_2018(), prices: market.of_2018() })
    }
}

/// Runs `cargo xtask demo`.
///
/// # Errors
/// If the programs cannot be built, a daemon fails, or a job does not end well.
pub fn run(arguments: &Arguments) -> Result<()> {
    let market = Market::find()?;
    eprintln!("demo: prices: {}", market.source);
    let hour = Hour::of_2018(&market)?;
    let slurm = arguments.slurm.as_deref().map(slurm::Scripts::find).transpose()?;
    let factor = if slurm.is_some() { slurm::FACTOR } else { FACTOR };
    let place = Place::new(arguments.keep.as_deref())?;
    let name = if arguments.simulate { "demo/simulated.svg" } else { "demo/demo.svg" };
    let svg = match &arguments.svg {
        Some(svg) => svg.clone(),
        None => workspace::target_dir()?.join(name),
    };
    let mut spread = None;
    let records = if arguments.simulate {
        let lsim = simulate::build()?;
        let records = simulate::simulate_all(&lsim, place.path(), &hour)?;
        if let Some(count) = arguments.random {
            let seeds = (0..u64::from(count)).map(|index| arguments.first_seed.wrapping_add(index)).collect();
            spread = Some(spread::simulate(&lsim, place.path(), &market, seeds)?);
        }
        records
    } else {
        live(place.path(), &hour, slurm.as_ref(), factor)?
    };
    let report = report(&records, &hour, factor, &svg)?.beside(spread);
    let report = if arguments.simulate { report.simulated() } else { report };
    if arguments.json {
        println!("{}", report.json()?);
    } else {
        print!("{}", report.table());
    }
    Ok(())
}

/// Runs everything on real daemons.
fn live(dir: &Path, hour: &Hour, slurm: Option<&slurm::Scripts>, factor: i64) -> Result<Vec<(Run, Record)>> {
    eprintln!("demo: building the programs in release");
    let programs = Programs::build()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut terminate = signal(SignalKind::terminate())?;
        // Dropping the replay ends its daemons.
        tokio::select! {
            records = replay_all(&programs, dir, hour, (slurm, factor)) => records,
            _ = interrupt.recv() => bail!("interrupted; the daemons are stopped"),
            _ = terminate.recv() => bail!("terminated; the daemons are stopped"),
        }
    })
}

async fn replay_all(
    programs: &Programs,
    dir: &Path,
    hour: &Hour,
    (slurm, factor): (Option<&slurm::Scripts>, i64),
) -> Result<Vec<(Run, Record)>> {
    let machines = dir.join("machines.toml");
    let profiles = dir.join("profiles.csv");
    let hardware = hardware::prepare(&hour.machines, factor, &machines, &profiles)?;
    let nodes = hardware.machines.iter().map(|machine| machine.spec.name.clone()).collect::<Vec<_>>();
    let mut records = Vec::new();
    for run in slurm.map(|_| SLURM).into_iter().chain(RUNS) {
        let dir = dir.join(run.file_name());
        fs::create_dir(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
        let stage = Stage { programs, dir, machines: &machines, profiles: &profiles, nodes: &nodes, hour, factor };
        let record = match slurm {
            Some(scripts) if run.name == SLURM.name => slurm::replay(&stage, scripts, &hardware).await,
            _ => replay::replay(&stage, run).await,
        };
        records.push((run, record.with_context(|| format!("the run `{}` failed", run.name))?));
    }
    Ok(records)
}

fn report(records: &[(Run, Record)], hour: &Hour, factor: i64, svg: &Path) -> Result<Report> {
    let (limits, prices) = (hour.day.limits()?, hour.prices.known()?);
    let end = end_of_all(records.iter().map(|(_, record)| record));
    let mut runs = Vec::new();
    let mut lines = Vec::new();
    for (run, record) in records {
        let figures = measure(record, &limits, &prices, end);
        let in_band = figures.in_band_share * 100.0;
        lines.push(svg::Line {
            run: run.name,
            label: format!("{} on {} units: {in_band:.1} % inside", run.name, run.units),
            draw: &record.draw,
        });
        runs.push(RunReport::new(run.name, run.units, record.jobs.len(), &figures));
    }
    if let Some(dir) = svg.parent() {
        fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
    }
    fs::write(svg, svg::draw(&lines, &limits, &prices, &hour.prices.source))
        .with_context(|| format!("cannot write {}", svg.display()))?;
    let hour_s = shortened(END - BEGIN, factor).ms() / 1_000;
    Ok(Report::new(runs, hour_s, hour.prices.source.clone(), svg.display().to_string()))
}

/// Directory of the daemons' files.
enum Place {
    Temporary(TempDir),
    Kept(PathBuf),
}

impl Place {
    fn new(keep: Option<&Path>) -> Result<Self> {
        let Some(dir) = keep else {
            return Ok(Self::Temporary(tempfile::Builder::new().prefix("limo-demo-").tempdir()?));
        };
        ensure!(!dir.exists(), "{} already exists: name a directory that does not", dir.display());
        fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
        Ok(Self::Kept(dir.canonicalize()?))
    }

    fn path(&self) -> &Path {
        match self {
            Self::Temporary(dir) => dir.path(),
            Self::Kept(dir) => dir,
        }
    }
}
