//! `lq hold`, `lq release`, `lq requeue`, `lq priority`: what becomes of jobs that wait, or shall wait again.

use std::collections::BTreeMap;

use limo_client::json::SCHEMA;
use limo_client::{Failure, Master, answer_json, exit};
use limo_model::JobId;
use limo_proto::{Change, NUMBERS_LIMIT, Selector};
use serde::Serialize;

#[derive(Serialize)]
struct ChangedJson {
    schema: u32,
    /// The jobs, under the word for what was done to them.
    #[serde(flatten)]
    jobs: BTreeMap<&'static str, Vec<u64>>,
}

/// Returns when the request is on the master's disk. Says nothing: `lq show` tells how it went.
///
/// # Errors
/// Where the master refuses: it does not know a job, it is another user's, or nothing of the kind can be done to it.
pub async fn run(
    (change, done): (impl Fn(Vec<JobId>) -> Change, &'static str),
    which: &[Selector],
    json: bool,
    master: &Master,
) -> Result<u8, Failure> {
    let ids = master.select(which, true).await?;
    let jobs = BTreeMap::from([(done, ids.iter().map(|id| id.0).collect())]);
    for ids in ids.chunks(NUMBERS_LIMIT) {
        master.change(change(ids.to_vec())).await?;
    }
    if json {
        answer_json(&ChangedJson { schema: SCHEMA, jobs })?;
    }
    Ok(exit::DONE)
}
