//! `lconf profile measure` and `lconf variation measure`: run an application on nodes of the cluster (limo-2018, section
//! 3.3.3). Each run is a job that has its node alone, and the master learns profiles and variation from them.

use std::ffi::OsString;
use std::num::NonZeroU32;

use limo_client::{Failure, Master, ReconnectArg, answer, exit, lrun, tell, until_over};
use limo_model::{JobId, Meter, PlacementRule, Power, Span};
use limo_proto::{JobReport, NodeReport, NodeState, Selection, Selector, Status};
use tokio::signal::ctrl_c;

use crate::PROGRAM;
use crate::args::{application, not_negative, size_class};
use crate::profiles::table;
use crate::service::{Nodes, nodes};
use crate::variation;

/// Most runs of one sweep.
const RUNS: usize = 1_000;

#[derive(Debug, clap::Args)]
pub struct ProfileMeasure {
    /// Name of the application
    #[arg(value_parser = application)]
    app: String,
    /// Nodes, e.g. n[1-4,7]; each runs the command at each cap
    #[arg(long, value_name = "NODES", value_parser = nodes)]
    nodes: Nodes,
    /// Caps, e.g. 12W,16W,30W
    #[arg(long, value_name = "POWER,..", value_delimiter = ',', required = true, value_parser = not_negative::<Power>)]
    caps: Vec<Power>,
    /// Runs at each cap on each node; a learned profile is used from 3 runs on
    #[arg(long, value_name = "N", default_value = "3")]
    runs: NonZeroU32,
    /// Start runs only while the draw is below the lower limit, and stop them first: lrun --filler
    #[arg(long)]
    filler: bool,
    #[command(flatten)]
    of: RunArguments,
}

#[derive(Debug, clap::Args)]
pub struct VariationMeasure {
    /// Name of the application
    #[arg(value_parser = application)]
    app: String,
    /// Nodes, e.g. n[1-4,7] [default: all nodes with a meter that are free now]
    #[arg(long, value_name = "NODES", value_parser = nodes)]
    nodes: Option<Nodes>,
    /// Caps, e.g. 30W,40W [default: no cap]
    #[arg(long, value_name = "POWER,..", value_delimiter = ',', value_parser = not_negative::<Power>)]
    caps: Vec<Power>,
    /// Runs on each node at each cap; the first four on a type of hardware only make its profile
    #[arg(long, value_name = "N", default_value = "5")]
    runs: NonZeroU32,
    #[command(flatten)]
    of: RunArguments,
}

/// The runs of a sweep, apart from nodes and caps.
#[derive(Debug, clap::Args)]
struct RunArguments {
    /// Size class
    #[arg(long, value_name = "CLASS", value_parser = size_class, default_value = "", hide_default_value = true)]
    size: String,
    /// End a run after this time
    #[arg(short, long, value_name = "SPAN", value_parser = not_negative::<Span>)]
    time: Option<Span>,
    /// Run in this reservation, which keeps other jobs off the nodes
    #[arg(long, value_name = "NAME", requires = "time")]
    reservation: Option<String>,
    #[command(flatten)]
    reconnect: ReconnectArg,
    /// Command, with its arguments; its output is dropped
    #[arg(value_name = "COMMAND", required = true, trailing_var_arg = true)]
    command: Vec<OsString>,
}

/// Runs of an application, each on one node at one cap or without a cap.
struct Sweep<'a> {
    app: &'a str,
    nodes: Vec<String>,
    caps: Vec<Option<Power>>,
    runs: u32,
    filler: bool,
    of: &'a RunArguments,
}

/// Measures at several caps, and prints the profiles of the application.
///
/// # Errors
/// If a run cannot be submitted, all of them then being cancelled, or some fail.
pub async fn profiles(measure: ProfileMeasure, master: &Master) -> Result<u8, Failure> {
    let ProfileMeasure { app, nodes, caps, runs, filler, of } = measure;
    if filler {
        has_fillers(&master.status().await?)?;
    }
    let caps = caps.into_iter().map(Some).collect();
    let sweep = Sweep { app: &app, nodes: nodes.0, caps, runs: runs.get(), filler, of: &of };
    let ended = sweep.run(master).await?;
    let profiles = master.profiles().await?;
    let own: Vec<_> = profiles.into_iter().filter(|(key, _)| key.application == app).collect();
    answer(&table(&own))?;
    all_done(&ended)
}

/// Measures on several nodes, and prints the factors of the application.
///
/// # Errors
/// If a node has no meter or no node is free, a run cannot be submitted, all of them then being cancelled, or some fail.
pub async fn variation(measure: VariationMeasure, master: &Master) -> Result<u8, Failure> {
    let VariationMeasure { app, nodes, caps, runs, of } = measure;
    let known = master.nodes().await?;
    let nodes = match nodes {
        Some(nodes) => nodes.0,
        None => known.iter().filter(|node| is_free(node)).map(|node| node.name.clone()).collect(),
    };
    let blind = known.iter().find(|node| node.meter == Meter::None && nodes.contains(&node.name));
    if let Some(node) = blind {
        return Err(Failure::new(format_args!("node `{}` has no meter: nothing can be learned of it", node.name)));
    }
    if nodes.is_empty() {
        let failure = Failure::new("no node with a meter is free now");
        return Err(failure.hint("--nodes names nodes, and the runs wait for them"));
    }
    let caps = if caps.is_empty() { vec![None] } else { caps.into_iter().map(Some).collect() };
    let sweep = Sweep { app: &app, nodes, caps, runs: runs.get(), filler: false, of: &of };
    let ended = sweep.run(master).await?;
    let factors = master.variation().await?;
    let own: Vec<_> = factors.into_iter().filter(|(key, _)| key.application == app).collect();
    answer(&variation::table(&own))?;
    all_done(&ended)
}

/// Returns true if a node has a meter, takes jobs and has none.
fn is_free(node: &NodeReport) -> bool {
    let is_idle = node.units.iter().all(|unit| unit.cores_used == 0);
    node.meter != Meter::None && node.state == NodeState::Up && node.sleep.is_none() && is_idle
}

/// Returns the exit code, or the failure if some runs failed.
fn all_done(ended: &[JobReport]) -> Result<u8, Failure> {
    match ended.iter().filter(|job| has_failed(job)).map(|job| job.job).collect::<Vec<_>>()[..] {
        [] => Ok(exit::DONE),
        [first, ref others @ ..] => {
            let (failed, all) = (others.len() + 1, ended.len());
            let failure = Failure::new(format_args!("{failed} of {all} runs failed, the first of them job {first}"));
            Err(failure.hint(format_args!("`lq show {first}` shows why; failed runs are not learned")))
        }
    }
}

/// Checks that fillers wait for the lower limit, which they do only under policies that choose by price.
fn has_fillers(status: &Status) -> Result<(), Failure> {
    if status.parts.placement == PlacementRule::ByPrice {
        return Ok(());
    }
    let policy = crate::show::policy(status);
    let failure = Failure::new(format_args!("the policy {policy} starts fillers like other jobs, at any draw"));
    Err(failure.hint("lconf set policy limo"))
}

impl Sweep<'_> {
    /// Submits all runs and waits for them.
    async fn run(&self, master: &Master) -> Result<Vec<JobReport>, Failure> {
        let count = (self.runs as usize).saturating_mul(self.nodes.len()).saturating_mul(self.caps.len());
        if count > RUNS {
            return Err(Failure::new(format_args!("{count} runs are more than {RUNS}")));
        }
        let mut jobs = Vec::new();
        for (node, cap) in self.order() {
            match self.submit((node, cap), master) {
                Ok(job) => jobs.push(job),
                Err(failure) => {
                    cancel(&jobs, master).await;
                    return Err(failure);
                }
            }
        }
        tell(&format!("{PROGRAM}: {} runs are submitted\n", jobs.len()));
        let patience = self.of.reconnect.reconnect_timeout;
        tokio::select! {
            ended = until_over(PROGRAM, jobs.clone(), master, patience) => ended,
            _ = ctrl_c() => {
                cancel(&jobs, master).await;
                Err(Failure::new("interrupted; the runs are cancelled"))
            }
        }
    }

    /// Returns node and cap of each run, in order of submission: each round begins with another cap, so that a drift does
    /// not count for one of them alone.
    fn order(&self) -> impl Iterator<Item = (&str, Option<Power>)> {
        let caps = &self.caps;
        let round = move |round: usize| (0..caps.len()).map(move |at| caps[(at + round) % caps.len()]);
        let rounds = (0..self.runs as usize).flat_map(round);
        rounds.flat_map(|cap| self.nodes.iter().map(move |node| (node.as_str(), cap)))
    }

    fn submit(&self, (node, cap): (&str, Option<Power>), master: &Master) -> Result<JobId, Failure> {
        let mut command = lrun(master);
        command.args(["--detach", "-o", "none", "--app", self.app, "-w", node]);
        match cap {
            Some(cap) => command.args(["--cap", &format!("{}mW", cap.mw())]),
            None => command.arg("--exclusive"),
        };
        if !self.of.size.is_empty() {
            command.args(["--size", &self.of.size]);
        }
        if self.filler {
            command.arg("--filler");
        }
        if let Some(time) = self.of.time {
            command.args(["--time", &format!("{}ms", time.ms())]);
        }
        if let Some(reservation) = &self.of.reservation {
            command.args(["--reservation", reservation]);
        }
        command.arg("--").args(&self.of.command);
        let ran = command.output();
        let program = command.get_program().display();
        let ran = ran.map_err(|error| Failure::new(format_args!("cannot run {program}: {error}")))?;
        let printed = String::from_utf8_lossy(&ran.stdout);
        match printed.trim().parse() {
            Ok(number) if ran.status.success() => Ok(JobId(number)),
            _ => {
                let reason = String::from_utf8_lossy(&ran.stderr);
                let at = cap.map(|cap| format!(" at {cap}")).unwrap_or_default();
                Err(Failure::new(format_args!("the run{at} on {node} cannot be submitted: {}", reason.trim())))
            }
        }
    }
}

async fn cancel(jobs: &[JobId], master: &Master) {
    let which: Vec<Selector> = jobs.iter().map(|job| Selector::Job(*job)).collect();
    // Those that are over already cannot be cancelled.
    let _ = if which.is_empty() { Ok(Vec::new()) } else { master.cancel(Selection::from(which), None).await };
}

fn has_failed(job: &JobReport) -> bool {
    job.end.as_ref().is_none_or(|end| exit::of_end(end) != exit::DONE)
}
