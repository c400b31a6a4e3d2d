//! `srun`: runs a command as a job of its own, by `lrun`. Steps of a job are not built.

use std::os::unix::process::CommandExt;

use limo_client::{Failure, lrun, tell};

use crate::call::Call;
use crate::getopt::Takes;
use crate::submit::{JOB_OPTIONS, JobOptions, from_environment};

/// Options of sbatch that srun does not have, or that need steps.
const NOT_HERE: [&str; 4] = ["array", "hold", "wrap", "requeue"];

/// Replaces this process by `lrun`.
///
/// # Errors
/// Inside of a job, if an option is wrong, or if `lrun` cannot be run.
pub async fn run(call: Call) -> Result<u8, Failure> {
    let mut known = JOB_OPTIONS;
    // For srun it is the time between the ends of the first task and of the last one.
    known.iter_mut().filter(|row| row.long == "wait").for_each(|row| row.value = Takes::Value);
    let (line, command) = match call.options(&known, false) {
        Ok(parsed) => parsed,
        Err(code) => return Ok(code),
    };
    if ["LIMO_JOB_ID", "SLURM_JOB_ID"].iter().any(|name| std::env::var_os(name).is_some()) {
        return Err(Failure::new("steps inside of a job are not built yet: run the command itself")
            .hint("to submit another job: env -u SLURM_JOB_ID -u LIMO_JOB_ID srun ..."));
    }
    if command.is_empty() {
        return Err(Failure::new("fatal: No command given to execute."));
    }
    let own = JobOptions(line);
    if let Some(name) = NOT_HERE.iter().find(|name| own.has(name)) {
        return Err(Failure::new(format_args!("--{name} is an option of sbatch")));
    }
    let options = JobOptions([from_environment("SLURM_", |name| std::env::var(name).ok()), own.0].concat());
    let master = call.master()?;
    let mut job = options.translate(&master).await?;
    if let Some(name) = options.get("job-name") {
        job.option("--job-name", name);
    }
    let flags = [
        ("label", "--label"),
        ("kill-on-bad-exit", "--kill-on-bad-exit"),
        ("pty", "--pty"),
        ("immediate", "--immediate"),
        ("quiet", "--quiet"),
        ("verbose", "--verbose"),
        ("test-only", "--dry-run"),
    ];
    job.options.extend(flags.iter().filter(|(name, _)| options.has(name)).map(|(_, option)| option.into()));
    for warning in &job.warnings {
        tell(&format!("srun: warning: {warning}\n"));
    }
    let mut program = lrun(&master);
    program.args(&job.options).arg("--").args(command);
    program.envs(job.variables.iter().map(|(name, value)| (name, value)));
    Err(Failure::new(format_args!("cannot run lrun: {}", program.exec())))
}
