//! Reads rows in pages. No read is longer than a page, which bounds memory, and lets checkpoints move the write-ahead
//! log into the database.

use std::collections::BTreeMap;

use limo_model::{ClusterId, Incarnation, JobId, JournalId, Time};
use sqlx::sqlite::SqliteRow;
use sqlx::{Row, SqliteConnection};

use crate::batch::{Entry, NodeRow, Recovered, Submission};
use crate::error::{QueryError, ReadError};
use crate::journal::Journal;

/// Rows of a page. A round of a large cluster may be 100 KiB of text, so a page is at most about 25 MiB.
const PAGE: i64 = 256;

/// An entry with its place in the journal.
pub(crate) type Placed = (i64, Time, Entry);

/// Returns the rows of the next entries after `after`, up to and including `last`, for [`entry`]; empty at the end.
pub(crate) async fn page(conn: &mut SqliteConnection, after: i64, last: i64) -> Result<Vec<SqliteRow>, ReadError> {
    let rows = sqlx::query("SELECT seq, at, kind, body FROM entries WHERE seq > ? AND seq <= ? ORDER BY seq LIMIT ?")
        .bind(after)
        .bind(last)
        .bind(PAGE)
        .fetch_all(conn)
        .await?;
    Ok(rows)
}

/// Decodes a row of [`page`].
pub(crate) fn entry(row: &SqliteRow) -> Result<Placed, ReadError> {
    let seq: i64 = row.try_get(0)?;
    let (kind, body): (&str, &str) = (row.try_get(2)?, row.try_get(3)?);
    let parsed = match kind {
        "event" => serde_json::from_str(body).map(Entry::Event),
        _ => serde_json::from_str(body).map(Entry::Round),
    };
    let entry = parsed.map_err(|error| ReadError::Entry { seq, detail: error.to_string() })?;
    Ok((seq, Time::from_unix_ms(row.try_get(1)?), entry))
}

/// Returns the place of the newest entry; 0 if there is none.
pub(crate) async fn last_seq(conn: &mut SqliteConnection) -> Result<i64, ReadError> {
    Ok(sqlx::query_scalar("SELECT coalesce(max(seq), 0) FROM entries").fetch_one(conn).await?)
}

/// Returns the state on disk, for `generation`, and the place of the newest entry.
pub(crate) async fn recovered(conn: &mut SqliteConnection, generation: u64) -> Result<(Recovered, i64), ReadError> {
    let newest = sqlx::query("SELECT seq, body FROM snapshots ORDER BY seq DESC LIMIT 1").fetch_optional(&mut *conn);
    let (mut seq, snapshot) = match newest.await? {
        Some(row) => (row.try_get(0)?, Some(row.try_get(1)?)),
        None => (0, None),
    };
    let last = last_seq(conn).await?;
    let mut entries = Vec::new();
    while seq < last {
        let rows = page(conn, seq, last).await?;
        if rows.is_empty() {
            break;
        }
        for row in &rows {
            let (place, at, entry) = entry(row)?;
            seq = place;
            entries.push((at, entry));
        }
    }
    let (journal, live) = (identity(conn).await?, live(conn).await?);
    let (nodes, kept) = (nodes(conn).await?, kept(conn).await?);
    Ok((Recovered { journal, snapshot, entries, live, generation, nodes, kept, read_only: None }, last))
}

async fn identity(conn: &mut SqliteConnection) -> Result<JournalId, ReadError> {
    let row = sqlx::query("SELECT cluster, incarnation FROM meta").fetch_one(conn).await?;
    let (cluster, incarnation): (&[u8], i64) = (row.try_get(0)?, row.try_get(1)?);
    let wrong = || ReadError::Database { detail: format!("a cluster id of {} bytes", cluster.len()) };
    let cluster = ClusterId(cluster.try_into().map_err(|_| wrong())?);
    Ok(JournalId { cluster, incarnation: Incarnation(incarnation.cast_unsigned()) })
}

async fn nodes(conn: &mut SqliteConnection) -> Result<BTreeMap<String, NodeRow>, ReadError> {
    let rows = sqlx::query("SELECT name, instance, boot FROM nodes").fetch_all(conn).await?;
    let row = |row: &SqliteRow| {
        let node = NodeRow { name: row.try_get(0)?, instance: row.try_get(1)?, boot: row.try_get(2)? };
        Ok((node.name.clone(), node))
    };
    rows.iter().map(row).collect()
}

async fn kept(conn: &mut SqliteConnection) -> Result<BTreeMap<String, String>, ReadError> {
    let rows = sqlx::query("SELECT name, body FROM kept").fetch_all(conn).await?;
    rows.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?))).collect()
}

async fn live(conn: &mut SqliteConnection) -> Result<Vec<Submission>, ReadError> {
    let mut live: Vec<Submission> = Vec::new();
    let mut after = 0;
    loop {
        let rows = sqlx::query(
            "SELECT job, key, uid, launch FROM submissions WHERE launch IS NOT NULL AND job > ? ORDER BY job LIMIT ?",
        )
        .bind(after)
        .bind(PAGE)
        .fetch_all(&mut *conn)
        .await?;
        let Some(last) = rows.last() else { return Ok(live) };
        after = last.try_get(0)?;
        for row in &rows {
            live.push(submission(row)?);
        }
    }
}

fn submission(row: &SqliteRow) -> Result<Submission, ReadError> {
    let key: &[u8] = row.try_get(1)?;
    Ok(Submission {
        job: job(row.try_get(0)?)?,
        key: key.try_into().map_err(|_| ReadError::Row { job: 0, detail: format!("a key of {} bytes", key.len()) })?,
        uid: uid(row.try_get(0)?, row.try_get(2)?)?,
        launch: row.try_get(3)?,
    })
}

pub(crate) fn job(number: i64) -> Result<JobId, ReadError> {
    let detail = || "a negative job number".to_owned();
    u64::try_from(number).map(JobId).map_err(|_| ReadError::Row { job: number, detail: detail() })
}

fn uid(job: i64, uid: i64) -> Result<u32, ReadError> {
    u32::try_from(uid).map_err(|_| ReadError::Row { job, detail: format!("the uid {uid}") })
}

async fn job_of_key(conn: &mut SqliteConnection, key: &[u8; 16]) -> Result<Option<(JobId, u32)>, ReadError> {
    let row = sqlx::query("SELECT job, uid FROM submissions WHERE key = ?").bind(key.as_slice());
    let Some(row) = row.fetch_optional(conn).await? else { return Ok(None) };
    Ok(Some((job(row.try_get(0)?)?, uid(row.try_get(0)?, row.try_get(1)?)?)))
}

/// Returns the newest job that `uid` submitted. Searches from the newest on, which is fast for active users.
async fn newest_of(conn: &mut SqliteConnection, uid: u32) -> Result<Option<JobId>, ReadError> {
    let row = sqlx::query_scalar("SELECT job FROM submissions WHERE uid = ? ORDER BY job DESC LIMIT 1").bind(uid);
    row.fetch_optional(conn).await?.map(job).transpose()
}

impl Journal {
    /// Returns the newest job that `uid` submitted, finished or not.
    ///
    /// # Errors
    /// [`QueryError`] if the journal cannot be read.
    pub async fn newest_of(&self, uid: u32) -> Result<Option<JobId>, QueryError> {
        self.read(move |conn| Box::pin(newest_of(conn, uid))).await
    }

    /// Returns the job that was submitted with `key`, and its submitter's uid. Finds only submissions on disk:
    /// unanswered ones are known only to the master.
    ///
    /// # Errors
    /// [`QueryError`] if the journal cannot be read.
    pub async fn job_of_key(&self, key: &[u8; 16]) -> Result<Option<(JobId, u32)>, QueryError> {
        let key = *key;
        self.read(move |conn| Box::pin(async move { job_of_key(conn, &key).await })).await
    }
}
