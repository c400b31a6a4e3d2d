//! Reads rows in pages. No read is longer than a page, which bounds memory, and lets checkpoints move the write-ahead
//! log into the database.

use std::collections::BTreeMap;

use limo_model::{ClusterId, Incarnation, JobId, JournalId, Time};

use crate::batch::{Entry, NodeRow, Recovered, Submission};
use crate::db::{Db, Row};
use crate::error::{QueryError, ReadError};
use crate::journal::Journal;
use crate::statement::Statement;

/// Rows of a page. A round of a large cluster may be 100 KiB of text, so a page is at most about 25 MiB.
const PAGE: i64 = 256;

/// An entry with its place in the journal.
pub(crate) type Placed = (i64, Time, Entry);

/// Returns the rows of the next entries after `after`, up to and including `last`, for [`entry`]; empty at the end.
pub(crate) async fn page(db: &mut Db<'_>, after: i64, last: i64) -> Result<Vec<Row>, ReadError> {
    let page =
        Statement::new("SELECT seq, at, kind, body FROM entries WHERE seq > ? AND seq <= ? ORDER BY seq LIMIT ?");
    Ok(db.all(page.bind(after).bind(last).bind(PAGE)).await?)
}

/// Decodes a row of [`page`].
pub(crate) fn entry(row: &Row) -> Result<Placed, ReadError> {
    let seq: i64 = row.get(0)?;
    let (kind, body) = (row.text(2)?, row.text(3)?);
    let parsed = match kind {
        "event" => serde_json::from_str(body).map(Entry::Event),
        _ => serde_json::from_str(body).map(Entry::Round),
    };
    let entry = parsed.map_err(|error| ReadError::Entry { seq, detail: error.to_string() })?;
    Ok((seq, Time::from_unix_ms(row.get(1)?), entry))
}

/// Returns the place of the newest entry; 0 if there is none.
pub(crate) async fn last_seq(db: &mut Db<'_>) -> Result<i64, ReadError> {
    Ok(db.value(Statement::new("SELECT coalesce(max(seq), 0) FROM entries")).await?)
}

/// Returns the state on disk, for `generation`, and the place of the newest entry.
pub(crate) async fn recovered(mut db: Db<'_>, generation: u64) -> Result<(Recovered, i64), ReadError> {
    let db = &mut db;
    let newest = db.first(Statement::new("SELECT seq, body FROM snapshots ORDER BY seq DESC LIMIT 1")).await?;
    let (mut seq, snapshot) = match newest {
        Some(row) => (row.get(0)?, Some(row.get(1)?)),
        None => (0, None),
    };
    let last = last_seq(db).await?;
    let mut entries = Vec::new();
    while seq < last {
        let rows = page(db, seq, last).await?;
        if rows.is_empty() {
            break;
        }
        for row in &rows {
            let (place, at, entry) = entry(row)?;
            seq = place;
            entries.push((at, entry));
        }
    }
    let (journal, live) = (identity(db).await?, live(db).await?);
    let (nodes, kept) = (nodes(db).await?, kept(db).await?);
    Ok((Recovered { journal, snapshot, entries, live, generation, nodes, kept, read_only: None }, last))
}

async fn identity(db: &mut Db<'_>) -> Result<JournalId, ReadError> {
    let row = db.first(Statement::new("SELECT cluster, incarnation FROM meta")).await?;
    let row = row.ok_or(sqlx::Error::RowNotFound)?;
    let (cluster, incarnation): (&[u8], i64) = (row.bytes(0)?, row.get(1)?);
    let wrong = || ReadError::Database { detail: format!("a cluster id of {} bytes", cluster.len()) };
    let cluster = ClusterId(cluster.try_into().map_err(|_| wrong())?);
    Ok(JournalId { cluster, incarnation: Incarnation(incarnation.cast_unsigned()) })
}

async fn nodes(db: &mut Db<'_>) -> Result<BTreeMap<String, NodeRow>, ReadError> {
    let rows = db.all(Statement::new("SELECT name, instance, boot FROM nodes")).await?;
    let row = |row: &Row| {
        let node = NodeRow { name: row.get(0)?, instance: row.get(1)?, boot: row.get(2)? };
        Ok((node.name.clone(), node))
    };
    rows.iter().map(row).collect()
}

async fn kept(db: &mut Db<'_>) -> Result<BTreeMap<String, String>, ReadError> {
    let rows = db.all(Statement::new("SELECT name, body FROM kept")).await?;
    rows.iter().map(|row| Ok((row.get(0)?, row.get(1)?))).collect()
}

async fn live(db: &mut Db<'_>) -> Result<Vec<Submission>, ReadError> {
    let mut live: Vec<Submission> = Vec::new();
    let mut after = 0_i64;
    loop {
        let page = Statement::new(
            "SELECT job, key, uid, launch FROM submissions WHERE launch IS NOT NULL AND job > ? ORDER BY job LIMIT ?",
        );
        let rows = db.all(page.bind(after).bind(PAGE)).await?;
        let Some(last) = rows.last() else { return Ok(live) };
        after = last.get(0)?;
        for row in &rows {
            live.push(submission(row)?);
        }
    }
}

fn submission(row: &Row) -> Result<Submission, ReadError> {
    let key = row.bytes(1)?;
    Ok(Submission {
        job: job(row.get(0)?)?,
        key: key.try_into().map_err(|_| ReadError::Row { job: 0, detail: format!("a key of {} bytes", key.len()) })?,
        uid: uid(row.get(0)?, row.get(2)?)?,
        launch: row.get(3)?,
    })
}

pub(crate) fn job(number: i64) -> Result<JobId, ReadError> {
    let detail = || "a negative job number".to_owned();
    u64::try_from(number).map(JobId).map_err(|_| ReadError::Row { job: number, detail: detail() })
}

fn uid(job: i64, uid: i64) -> Result<u32, ReadError> {
    u32::try_from(uid).map_err(|_| ReadError::Row { job, detail: format!("the uid {uid}") })
}

async fn job_of_key(mut db: Db<'_>, key: &[u8; 16]) -> Result<Option<(JobId, u32)>, ReadError> {
    let statement = Statement::new("SELECT job, uid FROM submissions WHERE key = ?").bind(key.as_slice());
    let Some(row) = db.first(statement).await? else { return Ok(None) };
    Ok(Some((job(row.get(0)?)?, uid(row.get(0)?, row.get(1)?)?)))
}

/// Returns the newest job that `uid` submitted. Searches from the newest on, which is fast for active users.
async fn newest_of(mut db: Db<'_>, uid: u32) -> Result<Option<JobId>, ReadError> {
    let statement = Statement::new("SELECT job FROM submissions WHERE uid = ? ORDER BY job DESC LIMIT 1").bind(uid);
    db.first(statement).await?.map(|row| job(row.get(0)?)).transpose()
}

impl Journal {
    /// Returns the newest job that `uid` submitted, finished or not.
    ///
    /// # Errors
    /// [`QueryError`] if the journal cannot be read.
    pub async fn newest_of(&self, uid: u32) -> Result<Option<JobId>, QueryError> {
        self.read(move |db| Box::pin(newest_of(db, uid))).await
    }

    /// Returns the job that was submitted with `key`, and its submitter's uid. Finds only submissions on disk:
    /// unanswered ones are known only to the master.
    ///
    /// # Errors
    /// [`QueryError`] if the journal cannot be read.
    pub async fn job_of_key(&self, key: &[u8; 16]) -> Result<Option<(JobId, u32)>, QueryError> {
        let key = *key;
        self.read(move |db| Box::pin(async move { job_of_key(db, &key).await })).await
    }
}
