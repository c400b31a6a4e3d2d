//! `salloc`: allocates nodes for steps, and runs a command on this machine until they are given back.

use std::os::unix::process::ExitStatusExt;
use std::process::{Output, Stdio};
use std::time::Duration;

use limo_client::{Failure, Master, exit, lrun, slurm_words, tell};
use limo_model::{JobId, host_list};
use limo_proto::{JobReport, JobState, Selection, Selector};

use crate::call::{Call, FAILED};
use crate::getopt::Takes::Nothing;
use crate::getopt::long;
use crate::submit::{JOB_OPTIONS, JobOptions, Translated, from_environment};

/// Longest time between two questions about a job that waits.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Allocates nodes, runs the command, and gives them back.
///
/// # Errors
/// If an option is wrong, the job is refused or ends, or the command cannot be run.
pub async fn run(call: Call) -> Result<u8, Failure> {
    let known = [&JOB_OPTIONS[..], &[long("no-shell", Nothing)]].concat();
    let (line, command) = match call.options(&known, false) {
        Ok(parsed) => parsed,
        Err(code) => return Ok(code),
    };
    let own = JobOptions(line);
    let options = JobOptions([from_environment("SALLOC_", |name| std::env::var(name).ok()), own.0.clone()].concat());
    let master = call.master()?;
    let translated = options.translate(&master).await;
    let mut job = translated.map_err(|failure| failure.as_slurm("salloc", "Job submit/allocate failed"))?;
    job.option("--job-name", options.get("job-name").or(command.first().map(String::as_str)).unwrap_or("interactive"));
    for warning in &job.warnings {
        tell(&format!("salloc: warning: {warning}\n"));
    }
    let number = allocate(&master, &job)?;
    let report = tokio::select! {
        granted = granted(&master, number) => granted,
        _ = tokio::signal::ctrl_c() => Err(Failure::new("Job allocation was revoked by the user")),
    };
    let report = match report {
        Ok(report) => report,
        Err(failure) => {
            relinquish(&master, number).await?;
            return Err(failure);
        }
    };
    tell(&format!("salloc: Granted job allocation {number}\n"));
    if own.has("no-shell") {
        return Ok(exit::DONE);
    }
    let code = run_here(&command, &report, &job).await;
    tell(&format!("salloc: Relinquishing job allocation {number}\n"));
    relinquish(&master, number).await?;
    code
}

/// Submits a job that only holds its nodes.
fn allocate(master: &Master, job: &Translated) -> Result<JobId, Failure> {
    let mut program = lrun(master);
    program.arg("--no-shell").args(&job.options).stdin(Stdio::null());
    program.envs(job.variables.iter().map(|(name, value)| (name, value)));
    let Output { status, stdout, stderr } =
        program.output().map_err(|error| Failure::new(format_args!("cannot run lrun: {error}")))?;
    if !status.success() {
        let text = String::from_utf8_lossy(&stderr);
        let reason = text.lines().next().unwrap_or_default().trim_start_matches("lrun: error: ");
        return Err(match slurm_words(reason) {
            Some(_) => Failure::new(reason).as_slurm("salloc", "Job submit/allocate failed"),
            None => Failure::new(format_args!("Job submit/allocate failed: {reason}")),
        });
    }
    let text = String::from_utf8_lossy(&stdout);
    text.trim().parse().map(JobId).map_err(|_| Failure::new(format_args!("lrun answered `{text}`")))
}

/// Waits until the job has its nodes.
async fn granted(master: &Master, number: JobId) -> Result<JobReport, Failure> {
    let (mut pause, mut told) = (Duration::from_millis(5), false);
    loop {
        let report = master.session().await?.job(number).await?;
        match report.state {
            JobState::Running => return Ok(report),
            state if state.is_over() => return Err(Failure::new("Job allocation has been revoked")),
            JobState::Waiting if !told => {
                told = true;
                tell(&format!("salloc: Pending job allocation {number}\n"));
                tell(&format!("salloc: job {number} queued and waiting for resources\n"));
            }
            _ => {}
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// Runs the command, or the user's shell, with the variables of the allocation.
async fn run_here(command: &[String], report: &JobReport, job: &Translated) -> Result<u8, Failure> {
    let shell = [std::env::var("SHELL").unwrap_or_else(|_| "/bin/sh".to_owned())];
    let words = if command.is_empty() { &shell[..] } else { command };
    let mut program = tokio::process::Command::new(&words[0]);
    program.args(&words[1..]).envs(job.variables.iter().map(|(name, value)| (name, value)));
    let (number, nodes) = (report.job.to_string(), report.nodes.len().to_string());
    let list = host_list(report.nodes.iter().map(String::as_str));
    for (name, value) in [
        ("LIMO_JOB_ID", &number),
        ("LIMO_NNODES", &nodes),
        ("LIMO_NTASKS", &nodes),
        ("LIMO_JOB_NODELIST", &list),
        ("SLURM_JOB_ID", &number),
        ("SLURM_JOBID", &number),
        ("SLURM_NNODES", &nodes),
        ("SLURM_JOB_NUM_NODES", &nodes),
        ("SLURM_JOB_NODELIST", &list),
        ("SLURM_NODELIST", &list),
    ] {
        program.env(name, value);
    }
    let mut child = program.spawn().map_err(|error| Failure::new(format_args!("{}: {error}", words[0])))?;
    // The command handles signals of the terminal, and salloc waits for its end.
    let status = loop {
        tokio::select! {
            status = child.wait() => break status,
            _ = tokio::signal::ctrl_c() => {}
        }
    };
    let status = status.map_err(|error| Failure::new(format_args!("the command is lost: {error}")))?;
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    Ok(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(FAILED))
}

/// Ends the job, unless it is over.
async fn relinquish(master: &Master, number: JobId) -> Result<(), Failure> {
    let selection = Selection::from(vec![Selector::Job(number)]);
    match master.cancel(selection, None).await {
        Err(error) if error.is_absence() => Err(error.into()),
        _ => Ok(()),
    }
}
