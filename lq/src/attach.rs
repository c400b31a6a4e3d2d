//! `lq attach`: replaces itself by an `lrun` that takes over a job.

use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use limo_client::{Failure, Master, Patience};
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
    let lrun = lrun();
    let mut command = Command::new(&lrun);
    command.arg("--attach").arg(job.to_string()).args(take.then_some("--take"));
    command.args(master.arguments());
    command.arg("--reconnect-timeout").arg(format!("{}ms", patience.0.as_millis()));
    let error = command.exec();
    Err(Failure::new(format_args!("cannot run {}: {error}", lrun.display())))
}

/// Returns the `lrun` in the directory of this program, else the one in the search path.
fn lrun() -> PathBuf {
    let beside = std::env::current_exe().ok().map(|own| own.with_file_name("lrun"));
    beside.filter(|path| path.exists()).unwrap_or_else(|| "lrun".into())
}
