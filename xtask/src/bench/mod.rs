//! `cargo xtask bench`: measures the speed of Limo with real daemons on loopback. Each figure is shown with its limit
//! and with the figures of other programs, measured alternately in the same run, because the speed of a machine varies.
//! The benchmark is not a test: it prints a missed target without failing.
//!
//! [`crowd`], [`idle`], [`meters`] and [`page`] have nodes without machines, [`submissions`] and [`compat`] a master without nodes,
//! [`commands`] and [`watching`] whole clusters.

mod caller;
mod commands;
mod compat;
mod crowd;
mod figure;
mod idle;
mod meters;
mod page;
mod relay;
mod site;
mod slurm;
mod submissions;
mod watching;

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::thread;

use anyhow::{Context, Result, ensure};
use clap::ValueEnum;
use serde_json::json;

use crate::demo::Programs;
use figure::Part;
use site::Site;
use slurm::Slurm;

#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Measure only this part
    name: Option<Name>,
    /// Print the figures as JSON
    #[arg(long)]
    json: bool,
    /// Run smaller measurements, enough to see that they work
    #[arg(long)]
    quick: bool,
    /// Also measure a Slurm, which this script starts
    #[arg(long, value_name = "START_SH", env = "LIMO_BENCH_SLURM")]
    slurm: Option<PathBuf>,
    /// Connect over TLS; only for `true`, `submissions`, `arrays` and `stdio`
    #[arg(long)]
    tls: bool,
    /// Policy of the parts `round`, `large-round` and `page`
    #[arg(long, value_name = "NAME", default_value = "limo")]
    policy: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Name {
    /// A command that does nothing
    True,
    /// Jobs accepted per second
    #[value(alias = "detach")]
    Submissions,
    /// Tasks of an array per second
    Arrays,
    /// Bytes through a command
    Stdio,
    /// An array of a million tasks
    Million,
    /// Rounds with 1,000 nodes and 100,000 jobs
    Round,
    /// Rounds with 10,000 nodes and 1,000,000 jobs
    LargeRound,
    /// 10,000 idle nodes
    Idle,
    /// 10,000 nodes with meters
    Meters,
    /// Nodes that watch for their owners
    Watching,
    /// The page with 10,000 nodes and 100,000 jobs
    Page,
    /// Slurm's commands beside Limo's
    Compat,
    /// Acknowledged jobs that survive a crash
    Survive,
}

/// Runs `cargo xtask bench`.
///
/// # Errors
/// If the programs cannot be built, a daemon fails, or a measured event never happens.
pub fn run(arguments: &Arguments) -> Result<()> {
    let credentials = std::env::var_os(CREDENTIALS).map(PathBuf::from);
    if arguments.tls && credentials.is_none() {
        return again_with_credentials();
    }
    eprintln!("bench: building the programs in release");
    let programs = Programs::build()?;
    let slurm = arguments.slurm.as_deref().map(Slurm::start).transpose()?;
    let tls = credentials.filter(|_| arguments.tls);
    let site = Site { programs, quick: arguments.quick, slurm, tls, policy: arguments.policy.clone() };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let mut names = arguments.name.map_or_else(|| Name::value_variants().to_vec(), |name| vec![name]);
    names.retain(|name| !arguments.tls || name.is_for_tls());
    ensure!(!names.is_empty(), "this part has no figures over TLS");
    let conditions = Conditions::now();
    if !arguments.json {
        println!("{}\n", conditions.in_words(&site));
    }
    let mut parts = Vec::new();
    for name in names {
        let part = match runtime.block_on(measure(&site, name)) {
            Ok(part) => part,
            // The results of the other parts are still useful.
            Err(error) if arguments.name.is_none() => {
                eprintln!("bench: {name:?} was not measured: {error:#}");
                continue;
            }
            Err(error) => return Err(error),
        };
        if !arguments.json {
            println!("{}", part.text());
        }
        parts.push(part.json());
    }
    if arguments.json {
        let Conditions { cores, load } = conditions;
        let slurm = site.slurm.as_ref().map(|slurm| slurm.version.as_str());
        let all = json!({ "schema": 1, "tls": site.tls.is_some(), "cores": cores, "load_before": load, "slurm": slurm, "parts": parts });
        println!("{}", serde_json::to_string_pretty(&all)?);
    }
    Ok(())
}

/// Variable with the directory of the certificate, in the process that measures over TLS.
const CREDENTIALS: &str = "LIMO_BENCH_CREDENTIALS";

/// Runs this program again, with a directory for its certificate.
fn again_with_credentials() -> Result<()> {
    let dir = site::place()?;
    let mut again = Command::new(std::env::current_exe().context("this program has no path")?);
    again.args(std::env::args_os().skip(1)).env(CREDENTIALS, dir.path()).env("LIMO_TLS_DIR", dir.path());
    let status = again.status().context("cannot run this program again")?;
    ensure!(status.success(), "the measurement over TLS failed ({status})");
    Ok(())
}

impl Name {
    fn is_for_tls(self) -> bool {
        matches!(self, Self::True | Self::Submissions | Self::Arrays | Self::Stdio)
    }
}

async fn measure(site: &Site, name: Name) -> Result<Part> {
    match name {
        Name::True => commands::one(site).await,
        Name::Submissions => submissions::submissions(site).await,
        Name::Arrays => commands::arrays(site).await,
        Name::Stdio => commands::stdio(site).await,
        Name::Million => submissions::million(site).await,
        Name::Round => crowd::round(site, crowd::ROUND).await,
        Name::LargeRound => crowd::round(site, crowd::LARGE_ROUND).await,
        Name::Idle => idle::idle(site).await,
        Name::Meters => meters::meters(site).await,
        Name::Watching => watching::watching(site).await,
        Name::Page => page::page(site).await,
        Name::Compat => compat::compat(site).await,
        Name::Survive => submissions::survive(site).await,
    }
}

/// Conditions of the figures, without which they mean little.
struct Conditions {
    cores: usize,
    /// Processes that ran or were ready to run, averaged over the last minute.
    load: f64,
}

impl Conditions {
    fn now() -> Self {
        let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
        let load = load.split(' ').next().and_then(|first| first.parse().ok()).unwrap_or(0.0);
        Self { cores: thread::available_parallelism().map_or(1, usize::from), load }
    }

    fn in_words(&self, site: &Site) -> String {
        let slurm = match &site.slurm {
            Some(slurm) => format!("{} is measured in turns", slurm.version),
            None => "Slurm is not measured (--slurm START_SH starts it): published figures are quoted".into(),
        };
        let tls = if site.tls.is_some() { "; over TLS" } else { "" };
        format!("{} cores, load {:.2} before{tls}; {slurm}", self.cores, self.load)
    }
}
