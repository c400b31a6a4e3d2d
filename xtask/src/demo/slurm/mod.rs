//! The same hour under a real Slurm on the same emulated machines: its nodes are daemons on this machine, and its
//! jobs are processes that last as long as the emulated CPU takes. Its power programs start and kill the nodes.

mod events;
mod job;
mod server;

use std::collections::BTreeSet;
use std::fs;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use limo_model::Span;
use limo_power::Hardware;

use self::events::{Course, Submitted, Switch, course, record, switches};
use self::job::{Machines, script};
pub use self::server::Scripts;
use self::server::{POWER_LOG, SlurmServer};
use super::pace::Pace;
use super::record::Record;
use super::replay::{Stage, give_up, now, until};
use super::workload::{self, Section};

/// Factor by which all runs are faster than the hour if Slurm takes part, because its timers are whole seconds.
pub const FACTOR: i64 = 10;

/// Time between the start of Slurm and the begin of the hour.
const PREPARATION: Span = Span::from_secs(1);

/// Interval between checks of the queue after the hour.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// Runs the hour under the Slurm that `scripts` starts.
///
/// # Errors
/// If Slurm cannot be started, or a job does not end with exit code 0.
pub async fn replay(stage: &Stage<'_>, scripts: &Scripts, hardware: &Hardware) -> Result<Record> {
    let mut machines = Machines::new(hardware);
    let idle = machines.idle();
    let slurm = SlurmServer::start(scripts, &stage.dir, idle.len(), stage.factor).await?;
    let pace = Pace { begin: now() + PREPARATION, factor: stage.factor };
    let mut jobs = Vec::new();
    for (at, section) in stage.hour.day.sections().filter(|(at, _)| *at < workload::END) {
        until(pace.on_wall(at)).await;
        let (minute, count) = ((at - workload::BEGIN).ms() / 60_000, section.jobs().count());
        eprintln!("demo: slurm: minute {minute}: {count} jobs");
        submit(&slurm, stage, section, (&mut machines, &mut jobs)).await?;
    }
    until(pace.on_wall(workload::END)).await;
    // A job that is not over in time counts as a failure.
    if let Ok(ended) = tokio::time::timeout(give_up(stage.factor), all_ended(&slurm)).await {
        ended?;
    }
    let courses = jobs.iter().zip(1..).map(|(_, number)| read_course(stage, number));
    let jobs: Vec<(Submitted, Course)> = jobs.iter().cloned().zip(courses.collect::<Result<Vec<_>>>()?).collect();
    let mishaps = record(&idle, &jobs, &[], pace)?.mishaps();
    ensure!(mishaps.is_empty(), "not every job ended with exit code 0:\n{}", mishaps.join("\n"));
    // The draw of the last machines until they are off counts if another run takes longer.
    let off = tokio::time::timeout(server::patience(stage.factor), all_off(stage, idle.len())).await;
    let switches = off.context("Slurm has not switched off all machines after the last job")??;
    drop(slurm);
    let record = record(&idle, &jobs, &switches, pace)?;
    eprintln!("demo: slurm: all {} jobs ended", record.jobs.len());
    Ok(record)
}

/// Submits the jobs of a section, one after the other to fix their order.
async fn submit(
    slurm: &SlurmServer,
    stage: &Stage<'_>,
    section: Section,
    (machines, jobs): (&mut Machines, &mut Vec<Submitted>),
) -> Result<()> {
    let workload = stage.programs.path_of("limo-workload");
    for application in section.jobs() {
        let number = jobs.len() + 1;
        let loads = machines.loads(application)?;
        let script_file = format!("job-{number}.sh");
        stage.write(&script_file, &script(&workload, application, &loads)?)?;
        jobs.push(Submitted { application: application.to_owned(), at: now(), loads });
        let output = output_of(number);
        // A restarted job would not report its earlier draw.
        let options = ["--parsable", "--exclusive", "--no-requeue", "-J", application, "-o", &output, &script_file];
        slurm.ask("sbatch", &options).await?;
    }
    Ok(())
}

/// Waits until no job is in the queue.
async fn all_ended(slurm: &SlurmServer) -> Result<()> {
    while !slurm.ask("squeue", &["--noheader", "--format=%i"]).await?.trim().is_empty() {
        tokio::time::sleep(LOOK_AGAIN).await;
    }
    Ok(())
}

/// Waits until all machines are off; returns the actions of the power programs.
async fn all_off(stage: &Stage<'_>, machines: usize) -> Result<Vec<Switch>> {
    loop {
        let path = stage.dir.join(POWER_LOG);
        let log =
            if path.exists() { fs::read_to_string(&path).context("cannot read power.log")? } else { String::new() };
        // The last line may be incomplete.
        let whole = log.rsplit_once('\n').map_or("", |(whole, _)| whole);
        let switches = switches(whole, machines).with_context(|| format!("in {}", path.display()))?;
        let mut off = BTreeSet::new();
        for switch in &switches {
            if switch.is_on {
                off.remove(&switch.machine)
            } else {
                off.insert(switch.machine)
            };
        }
        if off.len() == machines {
            return Ok(switches);
        }
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}

fn output_of(number: usize) -> String {
    format!("job-{number}.out")
}

/// Returns a job's output about itself; `None` if it never started.
fn read_course(stage: &Stage<'_>, number: usize) -> Result<Course> {
    let path = stage.dir.join(output_of(number));
    if !path.exists() {
        return Ok(Course::default());
    }
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    course(&text, stage.nodes.len()).with_context(|| format!("in {}", path.display()))
}
