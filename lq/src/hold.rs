//! `lq hold`, `lq release`, `lq requeue`, `lq suspend`, `lq resume`, `lq priority`: change waiting or running jobs.

use std::collections::BTreeMap;

use limo_client::json::SCHEMA;
use limo_client::{Failure, Master, answer_json, exit, warn};
use limo_model::JobId;
use limo_proto::{Change, NUMBERS_LIMIT, Selector};
use serde::Serialize;

use crate::PROGRAM;

#[derive(Serialize)]
struct ChangedJson {
    schema: u32,
    /// Job numbers by action.
    #[serde(flatten)]
    jobs: BTreeMap<&'static str, Vec<u64>>,
}

/// Makes the request; returns when it is on the master's disk. Prints the master's warnings only.
///
/// # Errors
/// If the master refuses: a job is unknown, another user's, or in the wrong state.
pub async fn run(
    (change, done): (impl Fn(Vec<JobId>) -> Change, &'static str),
    which: &[Selector],
    json: bool,
    master: &Master,
) -> Result<u8, Failure> {
    let ids = master.select(which, true).await?;
    let jobs = BTreeMap::from([(done, ids.iter().map(|id| id.0).collect())]);
    for ids in ids.chunks(NUMBERS_LIMIT) {
        for warning in master.change_warned(change(ids.to_vec())).await? {
            warn(PROGRAM, &warning);
        }
    }
    if json {
        answer_json(&ChangedJson { schema: SCHEMA, jobs })?;
    }
    Ok(exit::DONE)
}
