//! The statements that write a batch.

use crate::batch::{Batch, Entry, Submission};
use crate::script::Script;
use crate::{changes, finished, readings, states};

/// Reason why one batch could not be inserted.
pub(crate) enum InsertError {
    Database(sqlx::Error),
    Encoding(String),
}

impl From<sqlx::Error> for InsertError {
    fn from(error: sqlx::Error) -> Self {
        Self::Database(error)
    }
}

impl From<serde_json::Error> for InsertError {
    fn from(error: serde_json::Error) -> Self {
        Self::Encoding(error.to_string())
    }
}

pub(crate) fn insert(script: &mut Script, batch: &mut Batch, seq: &mut i64) -> Result<(), InsertError> {
    for (at, entry) in &batch.entries {
        let (kind, body) = match entry {
            Entry::Event(event) => ("event", serde_json::to_string(event)?),
            Entry::Round(round) => ("round", serde_json::to_string(round)?),
        };
        *seq += 1;
        script.add("INSERT INTO entries VALUES (?, ?, ?, ?)").bind(*seq).bind(at.unix_ms()).bind(kind).bind(body);
    }
    for submission in &batch.submissions {
        insert_submission(script, submission)?;
    }
    for row in &batch.finished {
        finished::insert(script, number(row.job.0)?, row);
    }
    for change in &batch.changes {
        changes::insert(script, change);
    }
    for node in &batch.nodes {
        let row = script.add(
            "INSERT INTO nodes VALUES (?, ?, ?) ON CONFLICT (name) DO UPDATE SET instance = excluded.instance, \
             boot = excluded.boot",
        );
        row.bind(&node.name).bind(&node.instance).bind(&node.boot);
    }
    for (name, body) in &batch.kept {
        script
            .add("INSERT INTO kept VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET body = excluded.body")
            .bind(name)
            .bind(body);
    }
    readings::insert(script, &batch.readings);
    states::insert(script, &batch.states);
    if let Some(before) = batch.forget_readings {
        readings::forget(script, before);
        states::forget(script, before);
    }
    // The snapshot is not copied: it may be as large as the rest of the process's memory.
    if let Some(snapshot) = batch.snapshot.take() {
        script.add("DELETE FROM snapshots");
        script.add("INSERT INTO snapshots VALUES (?, ?)").bind(*seq).bind(snapshot);
    }
    Ok(())
}

fn insert_submission(script: &mut Script, submission: &Submission) -> Result<(), InsertError> {
    let text = script.dialect.insert_submission;
    script
        .add(text)
        .bind(number(submission.job.0)?)
        .bind(submission.key.as_slice())
        .bind(submission.key.as_slice())
        .bind(submission.uid)
        .bind(submission.launch.as_slice());
    Ok(())
}

/// Converts a job number for the databases.
fn number(job: u64) -> Result<i64, InsertError> {
    i64::try_from(job).map_err(|_| InsertError::Encoding(format!("job {job} has a number above {}", i64::MAX)))
}
