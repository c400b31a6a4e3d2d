//! `lconf profile measure`: runs an application at several caps on nodes of the cluster (limo-2018, section 3.3.3). Each
//! run is a job that has its node alone, and the master learns the profiles from them.

use std::ffi::OsString;
use std::num::NonZeroU32;

use limo_client::{Failure, Master, ReconnectArg, answer, exit, lrun, tell, until_over};
use limo_model::{JobId, PlacementRule, Power, Span};
use limo_proto::{JobReport, Selection, Selector, Status};
use tokio::signal::ctrl_c;

use crate::PROGRAM;
use crate::args::{application, not_negative, size_class};
use crate::profiles::table;
use crate::service::{Nodes, nodes};

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
    /// Size class
    #[arg(long, value_name = "CLASS", value_parser = size_class, default_value = "", hide_default_value = true)]
    size: String,
    /// End a run after this time
    #[arg(short, long, value_name = "SPAN", value_parser = not_negative::<Span>)]
    time: Option<Span>,
    /// Start runs only while the draw is below the lower limit, and stop them first: lrun --filler
    #[arg(long)]
    filler: bool,
    /// Run in this reservation, which keeps other jobs off the nodes
    #[arg(long, value_name = "NAME", requires = "time")]
    reservation: Option<String>,
    #[command(flatten)]
    reconnect: ReconnectArg,
    /// Command, with its arguments; its output is dropped
    #[arg(value_name = "COMMAND", required = true, trailing_var_arg = true)]
    command: Vec<OsString>,
}

/// Submits all runs, waits for them, and prints the profiles of the application.
///
/// # Errors
/// If a run cannot be submitted, all of them then being cancelled, or some fail.
pub async fn run(measure: ProfileMeasure, master: &Master) -> Result<u8, Failure> {
    let count = (measure.runs.get() as usize).saturating_mul(measure.nodes.0.len()).saturating_mul(measure.caps.len());
    if count > RUNS {
        return Err(Failure::new(format_args!("{count} runs are more than {RUNS}")));
    }
    if measure.filler {
        has_fillers(&master.status().await?)?;
    }
    let mut jobs = Vec::new();
    for (node, cap) in order(&measure) {
        match submit(&measure, (node, cap), master) {
            Ok(job) => jobs.push(job),
            Err(failure) => {
                cancel(&jobs, master).await;
                return Err(failure);
            }
        }
    }
    tell(&format!("{PROGRAM}: {} runs are submitted\n", jobs.len()));
    let patience = measure.reconnect.reconnect_timeout;
    let ended = tokio::select! {
        ended = until_over(PROGRAM, jobs.clone(), master, patience) => ended?,
        _ = ctrl_c() => {
            cancel(&jobs, master).await;
            return Err(Failure::new("interrupted; the runs are cancelled"));
        }
    };
    let profiles = master.profiles().await?;
    let own: Vec<_> = profiles.into_iter().filter(|(key, _)| key.application == measure.app).collect();
    answer(&table(&own))?;
    match ended.iter().filter(|job| has_failed(job)).map(|job| job.job).collect::<Vec<_>>()[..] {
        [] => Ok(exit::DONE),
        [first, ..] => {
            let failed = ended.iter().filter(|job| has_failed(job)).count();
            let failure =
                Failure::new(format_args!("{failed} of {} runs failed, the first of them job {first}", ended.len()));
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

/// Returns node and cap of each run, in order of submission: each round begins with another cap, so that a drift does
/// not count for one of them alone.
fn order(measure: &ProfileMeasure) -> impl Iterator<Item = (&str, Power)> {
    let caps = &measure.caps;
    let round = move |round: usize| (0..caps.len()).map(move |at| caps[(at + round) % caps.len()]);
    let rounds = (0..measure.runs.get() as usize).flat_map(round);
    rounds.flat_map(|cap| measure.nodes.0.iter().map(move |node| (node.as_str(), cap)))
}

fn submit(measure: &ProfileMeasure, (node, cap): (&str, Power), master: &Master) -> Result<JobId, Failure> {
    let mut command = lrun(master);
    command.args(["--detach", "-o", "none", "--app", &measure.app, "-w", node, "--cap", &format!("{}mW", cap.mw())]);
    if !measure.size.is_empty() {
        command.args(["--size", &measure.size]);
    }
    if measure.filler {
        command.arg("--filler");
    }
    if let Some(time) = measure.time {
        command.args(["--time", &format!("{}ms", time.ms())]);
    }
    if let Some(reservation) = &measure.reservation {
        command.args(["--reservation", reservation]);
    }
    command.arg("--").args(&measure.command);
    let ran = command.output();
    let program = command.get_program().display();
    let ran = ran.map_err(|error| Failure::new(format_args!("cannot run {program}: {error}")))?;
    let printed = String::from_utf8_lossy(&ran.stdout);
    match printed.trim().parse() {
        Ok(number) if ran.status.success() => Ok(JobId(number)),
        _ => {
            let reason = String::from_utf8_lossy(&ran.stderr);
            Err(Failure::new(format_args!("the run at {cap} on {node} cannot be submitted: {}", reason.trim())))
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
