//! `lq attach`: becomes the `lrun` of a job whose own is gone.

use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use limo_client::{Failure, Master, Patience};
use limo_proto::Selector;

/// Does not come back, but where it fails.
///
/// # Errors
/// Where not one job is meant, or `lrun` is not there.
pub async fn run(which: &[Selector], take: bool, master: &Master, patience: Patience) -> Result<u8, Failure> {
    let jobs = master.select(which, true).await?;
    let [job] = jobs[..] else {
        return Err(Failure::new(format_args!("one job can be attached to, not {}", jobs.len())));
    };
    let lrun = lrun();
    let mut command = Command::new(&lrun);
    command.arg("--attach").arg(job.to_string()).args(take.then_some("--take"));
    command.args(master.arguments());
    command.arg("--reconnect-timeout").arg(format!("{}ms", patience.0.as_millis()));
    let error = command.exec();
    Err(Failure::new(format_args!("cannot run {}: {error}", lrun.display())))
}

/// The one that was installed with this program, else that of the search path.
fn lrun() -> PathBuf {
    let beside = std::env::current_exe().ok().map(|own| own.with_file_name("lrun"));
    beside.filter(|path| path.exists()).unwrap_or_else(|| "lrun".into())
}
