//! `cargo xtask demo`: replays limo-2018, section 4.4, against real daemons on loopback, an hour in a minute, once blind to
//! power, once under Limo, and once more where nobody tells Limo what the limits will be. All figures come from the emulated meters, as the journals of the two masters hold them.

mod cluster;
mod hardware;
mod measure;
mod pace;
mod prices;
mod record;
mod replay;
mod report;
mod simulate;
mod svg;
mod workload;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use tempfile::TempDir;
use tokio::signal::unix::{SignalKind, signal};

pub use cluster::{Cluster, Programs};
use measure::measure;
use prices::Prices;
use record::Record;
use replay::Stage;
use report::{Report, RunReport};

use crate::workspace;

/// The machines and units of limo-2018, below the workspace.
const MACHINES: &str = "power/examples/limo-2018.toml";

#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Print the figures as JSON
    #[arg(long)]
    json: bool,
    /// Where the picture goes [default: demo/demo.svg in the target directory]
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Simulate the hour with lsim in place of running it
    #[arg(long)]
    simulate: bool,
    /// Keep the journals and logs of the daemons in this directory, which must not exist yet
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
}

/// A run: a policy, and how many of the execution units its jobs can use.
#[derive(Debug, Clone, Copy)]
struct Run {
    name: &'static str,
    policy: &'static str,
    /// Whether the limits of the whole hour are known from its begin; else each comes when it is in force.
    forecast: bool,
    /// Whether jobs bring commands for the accelerators, too.
    accelerators: bool,
    units: usize,
}

const LIMO: Run = Run { name: "limo", policy: "limo", forecast: true, accelerators: true, units: 6 };

/// As section 4.4 compares them: SLURM knows the four machines, Limo their six units; and Limo as it was there, told of a
/// limit when it changes.
const RUNS: [Run; 3] = [
    Run { name: "fifo", policy: "fifo", forecast: true, accelerators: false, units: 4 },
    LIMO,
    Run { name: "limo, unwarned", forecast: false, ..LIMO },
];

/// # Errors
/// Where the programs cannot be built, a daemon fails, or a job does not end well.
pub fn run(arguments: &Arguments) -> Result<()> {
    let prices = Prices::find()?;
    eprintln!("demo: prices: {}", prices.source);
    let place = Place::new(arguments.keep.as_deref())?;
    let name = if arguments.simulate { "demo/simulated.svg" } else { "demo/demo.svg" };
    let svg = match &arguments.svg {
        Some(svg) => svg.clone(),
        None => workspace::target_dir()?.join(name),
    };
    let records = if arguments.simulate {
        simulate::simulate_all(&simulate::build()?, place.path(), &prices)?
    } else {
        live(place.path(), &prices)?
    };
    let report = report(&records, &prices, &svg)?;
    let report = if arguments.simulate { report.simulated() } else { report };
    if arguments.json {
        println!("{}", report.json()?);
    } else {
        print!("{}", report.table());
    }
    Ok(())
}

/// Runs both on real daemons.
fn live(dir: &Path, prices: &Prices) -> Result<Vec<(Run, Record)>> {
    eprintln!("demo: building the programs in release");
    let programs = Programs::build()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut terminate = signal(SignalKind::terminate())?;
        // Dropping the replay ends its daemons.
        tokio::select! {
            records = replay_all(&programs, dir, prices) => records,
            _ = interrupt.recv() => bail!("interrupted; the daemons are stopped"),
            _ = terminate.recv() => bail!("told to end; the daemons are stopped"),
        }
    })
}

async fn replay_all(programs: &Programs, dir: &Path, prices: &Prices) -> Result<Vec<(Run, Record)>> {
    let machines = dir.join("machines.toml");
    let profiles = dir.join("profiles.csv");
    let hardware = hardware::prepare(&workspace::root()?.join(MACHINES), &machines, &profiles)?;
    let nodes = hardware.machines.iter().map(|machine| machine.spec.name.clone()).collect::<Vec<_>>();
    let mut records = Vec::new();
    for run in RUNS {
        let dir = dir.join(run.name.replace(", ", "-"));
        fs::create_dir(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
        let stage = Stage { programs, dir, machines: &machines, profiles: &profiles, nodes: &nodes, prices };
        records
            .push((run, replay::replay(&stage, run).await.with_context(|| format!("the run `{}` failed", run.name))?));
    }
    Ok(records)
}

fn report(records: &[(Run, Record)], prices: &Prices, svg: &Path) -> Result<Report> {
    let (limits, charged) = (workload::limits()?, prices.charged()?);
    let mut runs = Vec::new();
    let mut lines = Vec::new();
    for (run, record) in records {
        let figures = measure(record, &limits, &charged);
        let in_band = figures.in_band_share * 100.0;
        lines.push(svg::Line {
            label: format!("{} on {} units: {in_band:.1} % inside", run.name, run.units),
            draw: &record.draw,
        });
        runs.push(RunReport::new(run.name, run.units, record.jobs.len(), &figures));
    }
    if let Some(dir) = svg.parent() {
        fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
    }
    fs::write(svg, svg::draw(&lines, &limits, &prices.known()?, &prices.source))
        .with_context(|| format!("cannot write {}", svg.display()))?;
    Ok(Report::new(runs, prices.source.clone(), svg.display().to_string()))
}

/// Where the daemons keep their files.
enum Place {
    Temporary(TempDir),
    Kept(PathBuf),
}

impl Place {
    fn new(keep: Option<&Path>) -> Result<Self> {
        let Some(dir) = keep else {
            return Ok(Self::Temporary(tempfile::Builder::new().prefix("limo-demo-").tempdir()?));
        };
        ensure!(!dir.exists(), "{} exists already: name a directory that does not", dir.display());
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
