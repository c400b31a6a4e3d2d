//! `lq wait`: waits until jobs are over, even if the master is absent for a time.

use limo_client::json::JobsJson;
use limo_client::{Clock, Failure, Master, Patience, answer_json, exit, until_over};
use limo_proto::Selector;

use crate::PROGRAM;

/// Waits, and returns the highest exit code of the jobs.
///
/// # Errors
/// If the master does not know a job, never answered, or stays unreachable.
pub async fn run(which: &[Selector], json: bool, master: &Master, patience: Patience) -> Result<u8, Failure> {
    // `last` and `all` are resolved once, so that later submissions do not count.
    let ids = master.select(which, false).await?;
    let jobs = until_over(PROGRAM, ids, master, patience).await?;
    if json {
        answer_json(&JobsJson::new(&jobs, &Clock::system()))?;
    }
    let codes = jobs.iter().map(|job| job.end.as_ref().map_or(exit::FAILED, exit::of_end));
    Ok(codes.max().unwrap_or(exit::DONE))
}
