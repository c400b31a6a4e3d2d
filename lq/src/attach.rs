//! `lq attach`: replaces itself by an `lrun` that takes over a job or a step.

use std::os::unix::process::CommandExt;
use std::slice;

use limo_client::{Failure, Master, Named, Patience, lrun, resolve};

/// Runs `lrun`; returns only after a failure.
///
/// # Errors
/// If the selection is not one job or an existing step, or `lrun` cannot be found.
pub async fn run(which: &Named, take: bool, master: &Master, patience: Patience) -> Result<u8, Failure> {
    let selectors = resolve(slice::from_ref(which), master).await?;
    let job = match master.select(&selectors, true).await?[..] {
        [job] => job,
        ref jobs => {
            return Err(Failure::new(format_args!("can attach only to one job, not to {}", jobs.len())));
        }
    };
    let mut command = lrun(master);
    command.arg("--attach").arg(job.to_string()).args(take.then_some("--take"));
    command.arg("--reconnect-timeout").arg(format!("{}ms", patience.0.as_millis()));
    let error = command.exec();
    Err(Failure::new(format_args!("cannot run {}: {error}", command.get_program().display())))
}
