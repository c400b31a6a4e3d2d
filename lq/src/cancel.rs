//! `lq cancel`: ends jobs, waiting or running.

use limo_client::json::SCHEMA;
use limo_client::{Failure, Master, answer_json, exit};
use limo_model::JobId;
use limo_proto::Change;
use serde::Serialize;

#[derive(Serialize)]
struct CancelledJson {
    schema: u32,
    cancelled: Vec<u64>,
}

/// Returns when the request is on the master's disk; a running job may take its grace to end. Says nothing: `lq show`
/// tells how it went.
///
/// # Errors
/// Where the master refuses: it does not know a job, it is over, or it is another user's.
pub async fn run(ids: Vec<JobId>, json: bool, master: &Master) -> Result<u8, Failure> {
    let cancelled = ids.iter().map(|id| id.0).collect();
    master.change(Change::Cancel(ids)).await?;
    if json {
        answer_json(&CancelledJson { schema: SCHEMA, cancelled })?;
    }
    Ok(exit::DONE)
}
