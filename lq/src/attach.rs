//! `lq attach`: replaces itself by an `lrun` that takes over a job.

use std::os::unix::process::CommandExt;

use limo_client::{Failure, Master, Patience, lrun};
use limo_proto::Selector;

/// Runs `lrun`; returns only after a failure.
///
/// # Errors
/// If the selection is not one job, or `lrun` cannot be found.
pub async fn run(which: &[Selector], take: bool, master: &Master, patience: Patience) -> Result<u8, Failure> {
    let jobs = master.select(which, true).await?;
    let [job] = jobs[..] else {
        return Err(Failure::new(format_args!("can attach only to one job, not to {}", jobs.len())));
    };
    let mut command = lrun(master);
    command.arg("--attach").arg(job.to_string()).args(take.then_some("--take"));
    command.arg("--reconnect-timeout").arg(format!("{}ms", patience.0.as_millis()));
    let error = command.exec();
    Err(Failure::new(format_args!("cannot run {}: {error}", command.get_program().display())))
}
