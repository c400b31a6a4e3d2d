//! Waits until jobs are over, even if the master is absent for a time.

use std::time::Duration;

use limo_model::JobId;
use limo_proto::{ConnectionError, JobReport};
use tokio::time::Instant;

use crate::progress::Progress;
use crate::{AskError, Failure, Master, Patience, Retries, tell};

/// Shortest connection after which the master counts as working, so that the next absence counts anew.
const LASTING: Duration = Duration::from_secs(2);

/// Returns the reports of the jobs when all are over. Messages about an absence begin with `program`.
///
/// # Errors
/// If the master does not know a job, was never reachable, or stays unreachable.
pub async fn until_over(
    program: &str,
    ids: Vec<JobId>,
    master: &Master,
    patience: Patience,
) -> Result<Vec<JobReport>, Failure> {
    let mut backoff = Retries::new(patience);
    let mut told = false;
    loop {
        let begun = Instant::now();
        let mut progress = Progress::new(program);
        let waited = tokio::select! {
            waited = wait(master, &ids) => waited,
            never = progress.watch(master, &ids) => match never {},
        };
        // The progress line is cleared before another message.
        drop(progress);
        let error = match waited {
            Ok(jobs) => return Ok(jobs),
            Err(error) => error,
        };
        let never_there =
            !told && (error.is_impostor() || matches!(error, AskError::Connection(ConnectionError::Connect { .. })));
        if never_there || !error.may_pass() {
            return Err(error.into());
        }
        let took = begun.elapsed();
        if took > LASTING {
            backoff.reset();
        }
        let Some(pause) = backoff.pause(took.min(LASTING)) else { return Err(error.into()) };
        if !std::mem::replace(&mut told, true) {
            tell(&format!("{program}: the master went away; retrying for {} s\n", patience.0.as_secs()));
        }
        tokio::time::sleep(pause).await;
        backoff.spend(pause);
    }
}

async fn wait(master: &Master, ids: &[JobId]) -> Result<Vec<JobReport>, AskError> {
    master.session().await?.wait(ids.to_vec()).await
}
