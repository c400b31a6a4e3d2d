//! `lq wait`: until jobs are over, also over a master that goes away and comes back.

use std::time::Duration;

use limo_client::{AskError, Backoff, Clock, Failure, Master, Patience, answer_json, exit, tell};
use limo_model::JobId;
use limo_proto::{ConnectionError, JobReport, Selector};
use tokio::time::Instant;

use crate::list::JobsJson;

/// Returns the highest exit code of the jobs.
///
/// # Errors
/// Where the master does not know a job, was never there, or stays away.
pub async fn run(which: &[Selector], json: bool, master: &Master, patience: Patience) -> Result<u8, Failure> {
    let jobs = asked_until_answered(which, master, patience).await?;
    if json {
        answer_json(&JobsJson::new(&jobs, &Clock::system()))?;
    }
    let codes = jobs.iter().map(|job| job.end.as_ref().map_or(exit::FAILED, exit::of_end));
    Ok(codes.max().unwrap_or(exit::DONE))
}

/// A connection that lasted so long was one to a master that works: the next absence is a new one.
const LASTING: Duration = Duration::from_secs(2);

async fn asked_until_answered(
    which: &[Selector],
    master: &Master,
    patience: Patience,
) -> Result<Vec<JobReport>, Failure> {
    let mut backoff = Backoff::new(patience);
    let mut told = false;
    let mut ids = None;
    loop {
        let begun = Instant::now();
        let error = match ask(which, &mut ids, master).await {
            Ok(jobs) => return Ok(jobs),
            Err(error) => error,
        };
        let never_there = matches!(error, AskError::Connection(ConnectionError::Connect { .. })) && !told;
        if never_there || !error.is_absence() {
            return Err(error.into());
        }
        let took = begun.elapsed();
        if took > LASTING {
            backoff.reset();
        }
        let Some(pause) = backoff.pause(took.min(LASTING)) else { return Err(error.into()) };
        if !std::mem::replace(&mut told, true) {
            tell(&format!("lq: the master went away; trying to reach it again for {} s\n", patience.0.as_secs()));
        }
        tokio::time::sleep(pause).await;
        backoff.spend(pause);
    }
}

/// What `last` and `all` mean is asked once: another job that is submitted meanwhile is not waited for.
async fn ask(which: &[Selector], ids: &mut Option<Vec<JobId>>, master: &Master) -> Result<Vec<JobReport>, AskError> {
    let mut session = master.session().await?;
    let known = match ids {
        Some(known) => known,
        None => ids.insert(session.select(which, false).await?),
    };
    session.wait(known.clone()).await
}
