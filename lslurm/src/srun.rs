//! `srun`: runs a command by `lrun`, as a step inside of a job, and else as a job of its own.

mod cpu_bind;
mod multi_prog;

use std::os::unix::process::CommandExt;

use limo_client::{Failure, Master, lrun, tell};
use limo_model::JobId;

use crate::call::Call;
use crate::getopt::Takes::{self, Nothing, Value};
use crate::getopt::{OptionRow, long};
use crate::submit::{JOB_OPTIONS, JobOptions, Translated, from_environment};

/// Options of sbatch that srun does not have.
const NOT_HERE: [&str; 4] = ["array", "hold", "wrap", "requeue"];

/// Options of srun alone. Without `--overlap`, each step has its own cores, as with `--exact`.
const STEP_OPTIONS: [OptionRow; 4] =
    [long("exact", Nothing), long("jobid", Value), long("multi-prog", Nothing), long("bcast", Takes::Perhaps)];

/// Flags that `lrun` has, too.
const FLAGS: [(&str, &str); 8] = [
    ("label", "--label"),
    ("kill-on-bad-exit", "--kill-on-bad-exit"),
    ("pty", "--pty"),
    ("quiet", "--quiet"),
    ("verbose", "--verbose"),
    ("overlap", "--overlap"),
    ("immediate", "--immediate"),
    ("test-only", "--dry-run"),
];

/// The flags that are not for steps.
const OF_JOBS: [&str; 2] = ["--immediate", "--dry-run"];

/// Replaces this process by `lrun`.
///
/// # Errors
/// If an option is wrong, the job of a step is unknown, or `lrun` cannot be run.
pub async fn run(call: Call) -> Result<u8, Failure> {
    let mut known = [&JOB_OPTIONS[..], &STEP_OPTIONS[..]].concat();
    // For srun it is the time between the ends of the first task and of the last one.
    known.iter_mut().filter(|row| row.long == "wait").for_each(|row| row.value = Takes::Value);
    let (line, command) = match call.options(&known, false) {
        Ok(parsed) => parsed,
        Err(code) => return Ok(code),
    };
    if command.is_empty() {
        return Err(Failure::new("fatal: No command given to execute."));
    }
    let own = JobOptions(line);
    if let Some(name) = NOT_HERE.iter().find(|name| own.has(name)) {
        return Err(Failure::new(format_args!("--{name} is an option of sbatch")));
    }
    if own.has("bcast") {
        return Err(Failure::new("Limo has nothing like --bcast"));
    }
    let master = call.master()?;
    let variable = |name: &str| std::env::var(name).ok();
    let (mut job, is_step) = match own.get("jobid") {
        Some(text) => (step_from_outside(&own, text, &master).await?, true),
        None if variable("LIMO_JOB_ID").is_some() => (own.translate_step()?, true),
        None => match variable("SLURM_JOB_ID") {
            Some(text) => (step_from_outside(&own, &text, &master).await?, true),
            None => {
                let options = JobOptions([from_environment("SLURM_", variable), own.0.clone()].concat());
                let translated = options.translate(&master).await;
                (translated.map_err(|failure| failure.as_slurm("srun", "Unable to allocate resources"))?, false)
            }
        },
    };
    if let Some(name) = own.get("job-name") {
        job.option("--job-name", name);
    }
    if let Some(value) = own.get("cpu-bind") {
        let (bind, warning) = cpu_bind::read(value)?;
        bind.into_iter().for_each(|bind| job.option("--cpu-bind", bind.to_string()));
        job.warnings.extend(warning);
    }
    let flags = FLAGS.iter().filter(|(name, _)| own.has(name)).map(|(_, option)| *option);
    let usual = |option: &&str| match is_step {
        true => !OF_JOBS.contains(option),
        false => *option != "--overlap",
    };
    job.options.extend(flags.filter(usual).map(Into::into));
    for warning in &job.warnings {
        tell(&format!("srun: warning: {warning}\n"));
    }
    let command = match own.has("multi-prog") {
        true => multi_prog::command(&command[0], own.get("ntasks").and_then(|tasks| tasks.parse().ok()))?,
        false => command,
    };
    let mut program = lrun(&master);
    program.arg("--as-srun").args(&job.options).arg("--").args(command);
    program.envs(job.variables.iter().map(|(name, value)| (name, value)));
    Err(Failure::new(format_args!("cannot run lrun: {}", program.exec())))
}

/// Translates a step of a job by its number, for a process that has no variables of that job.
async fn step_from_outside(options: &JobOptions, text: &str, master: &Master) -> Result<Translated, Failure> {
    let invalid = || Failure::new("Unable to confirm allocation for job: Invalid job id specified");
    let number = text.parse::<u64>().map_err(|_| invalid())?;
    let report = master.session().await?.job(JobId(number)).await.map_err(|_| invalid())?;
    let mut job = options.translate_step()?;
    let nodes = report.nodes.len().max(1).to_string();
    for (name, value) in [("LIMO_JOB_ID", text), ("LIMO_NNODES", &nodes), ("LIMO_NTASKS", &nodes)] {
        job.set(name, value);
    }
    Ok(job)
}
