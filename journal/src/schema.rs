//! The tables of `journal.db`, the setup of connections, and the versions that this program reads.

use std::fs;
use std::path::Path;

use limo_model::ClusterId;
use sqlx::sqlite::{SqliteAutoVacuum, SqliteConnectOptions, SqliteJournalMode, SqliteLockingMode, SqliteSynchronous};
use sqlx::{ConnectOptions, Connection, SqliteConnection};

use crate::error::OpenError;

pub(crate) const FILE: &str = "journal.db";

/// Stored in `PRAGMA user_version`.
pub(crate) const VERSION: i64 = 8;

/// Tables of version 1. `generation` is written at each opening and each recovery. It is more than a counter: the write
/// replaces pages that a failed commit may have left in the write-ahead log, so that they cannot reappear after a
/// crash.
///
/// `launch` is null once the job is finished; `key` stays, so that a repeated submission always finds its job.
const TABLES: &str = "
CREATE TABLE meta (one INTEGER PRIMARY KEY CHECK (one = 1), generation INTEGER NOT NULL) STRICT;
INSERT INTO meta VALUES (1, 0);
CREATE TABLE entries (
    seq INTEGER PRIMARY KEY, at INTEGER NOT NULL, kind TEXT NOT NULL CHECK (kind IN ('event', 'round')),
    body TEXT NOT NULL
) STRICT;
CREATE TABLE snapshots (seq INTEGER PRIMARY KEY, body TEXT NOT NULL) STRICT;
CREATE TABLE submissions (
    job INTEGER PRIMARY KEY, key BLOB NOT NULL UNIQUE CHECK (length(key) = 16), uid INTEGER NOT NULL, launch BLOB
) STRICT;
CREATE INDEX live ON submissions (job) WHERE launch IS NOT NULL;
CREATE TABLE finished (
    job INTEGER PRIMARY KEY, user TEXT NOT NULL, state TEXT NOT NULL, submitted INTEGER NOT NULL, started INTEGER,
    ended INTEGER NOT NULL, energy_mj INTEGER NOT NULL, cost_micro INTEGER NOT NULL, report TEXT NOT NULL
) STRICT;
CREATE INDEX finished_by_end ON finished (ended, job);
PRAGMA application_id = 1281977711;
PRAGMA user_version = 1;
";

/// Additions of version 2 to version 1. The key begins with the time, so that new rows are written to one place, and
/// old rows are stored together.
const READINGS: &str = "
CREATE TABLE readings (
    at INTEGER NOT NULL, node TEXT NOT NULL, since INTEGER NOT NULL, mean_mw INTEGER NOT NULL, low_mw INTEGER NOT NULL,
    high_mw INTEGER NOT NULL, energy_mj INTEGER NOT NULL, seen_ms INTEGER NOT NULL, looks INTEGER NOT NULL,
    PRIMARY KEY (at, node, since)
) STRICT, WITHOUT ROWID;
PRAGMA user_version = 2;
";

/// Additions of version 3 to version 2: columns for filters and sums of finished jobs. Existing rows get them from
/// their reports, but `measured` stays unknown.
const HISTORY: &str = "
ALTER TABLE finished ADD COLUMN name TEXT NOT NULL DEFAULT '';
ALTER TABLE finished ADD COLUMN application TEXT NOT NULL DEFAULT '';
ALTER TABLE finished ADD COLUMN start_now_micro INTEGER NOT NULL DEFAULT 0;
ALTER TABLE finished ADD COLUMN emulated INTEGER NOT NULL DEFAULT 0;
ALTER TABLE finished ADD COLUMN measured INTEGER;
UPDATE finished SET
    name = coalesce(report ->> '$.name', ''), application = coalesce(report ->> '$.application', ''),
    start_now_micro = coalesce(report ->> '$.start_now_cost', 0), emulated = coalesce(report ->> '$.emulated', 0)
    WHERE json_valid(report);
CREATE INDEX finished_by_user ON finished (user, ended, job);
PRAGMA user_version = 3;
";

/// Additions of version 4 to version 3: changes by operators. Earlier changes are only in the entries.
const CHANGES: &str = "
CREATE TABLE changes (
    number INTEGER NOT NULL, item INTEGER NOT NULL, at INTEGER NOT NULL, by TEXT NOT NULL, undo_of INTEGER,
    subject TEXT NOT NULL, body TEXT NOT NULL, PRIMARY KEY (number, item)
) STRICT, WITHOUT ROWID;
CREATE INDEX changes_by_subject ON changes (subject, number);
PRAGMA user_version = 4;
";

/// Version 5 adds the identity of the journal, and the contents of files that used to be beside it. An earlier
/// journal keeps incarnation 0, which its nodes know. A backup has `begun` 0, so the master that opens it begins a
/// new incarnation.
const IDENTITY: &str = "
ALTER TABLE meta ADD COLUMN cluster BLOB NOT NULL DEFAULT x'' CHECK (length(cluster) IN (0, 16));
ALTER TABLE meta ADD COLUMN incarnation INTEGER NOT NULL DEFAULT 0;
ALTER TABLE meta ADD COLUMN begun INTEGER NOT NULL DEFAULT 1;
ALTER TABLE meta ADD COLUMN writer TEXT NOT NULL DEFAULT '';
UPDATE meta SET cluster = randomblob(16);
CREATE TABLE nodes (name TEXT PRIMARY KEY, instance TEXT NOT NULL, boot TEXT NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE kept (name TEXT PRIMARY KEY, body TEXT NOT NULL) STRICT, WITHOUT ROWID;
PRAGMA user_version = 5;
";

/// Version 6 distinguishes an unknown cost (null) from zero. The earlier columns cannot be null: they stay, hold 0 and
/// are no longer read. Most of their zeros were unknown costs.
const COSTS: &str = "
ALTER TABLE finished ADD COLUMN cost INTEGER;
ALTER TABLE finished ADD COLUMN start_now_cost INTEGER;
UPDATE finished SET cost = nullif(cost_micro, 0), start_now_cost = nullif(start_now_micro, 0);
PRAGMA user_version = 6;
";

/// Version 7 adds the time and the energy of nodes in each of their states, by hour.
const STATES: &str = "
CREATE TABLE states (
    at INTEGER NOT NULL, node TEXT NOT NULL, state TEXT NOT NULL, since INTEGER NOT NULL, span_ms INTEGER NOT NULL,
    energy_mj INTEGER NOT NULL, seen_ms INTEGER NOT NULL, PRIMARY KEY (at, node, state, since)
) STRICT, WITHOUT ROWID;
PRAGMA user_version = 7;
";

/// Version 8 adds steps: finished jobs with the number of their job, which other lists omit.
const STEPS: &str = "
ALTER TABLE finished ADD COLUMN step_of INTEGER;
CREATE INDEX finished_steps ON finished (step_of) WHERE step_of IS NOT NULL;
PRAGMA user_version = 8;
";

/// Settings of new journals only.
const FIRST_INCARNATION: &str = "UPDATE meta SET begun = 0";

/// Begins an incarnation with a random number from 1 to `i64::MAX`. Data of nodes from the previous incarnation
/// proves nothing about the new one.
const NEW_INCARNATION: &str = "
UPDATE meta SET incarnation = (random() & 9223372036854775806) + 1, begun = 1;
DELETE FROM nodes;
";

/// "Limo" in ASCII: distinguishes a journal from other files of SQLite.
const APPLICATION: i64 = 0x4c69_6d6f;

/// Returns the options for writing. `synchronous` is FULL, because with NORMAL a power failure can lose acknowledged
/// data.
pub(crate) fn writing(path: &Path) -> SqliteConnectOptions {
    let options = SqliteConnectOptions::new()
        .filename(path)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Full)
        .disable_statement_logging();
    // This is for a new file only, because setting it again is a write.
    let is_new = fs::metadata(path).map_or(true, |metadata| metadata.len() == 0);
    if is_new { options.auto_vacuum(SqliteAutoVacuum::Incremental) } else { options }
}

pub(crate) fn reading(path: &Path) -> SqliteConnectOptions {
    SqliteConnectOptions::new().filename(path).read_only(true).disable_statement_logging()
}

/// Returns the options for reading without a free byte on the disk. The index of the write-ahead log is in memory, so
/// no other connection can be open. The file is opened for writing, as its locks require, but nothing is written.
pub(crate) fn reading_alone(path: &Path) -> SqliteConnectOptions {
    SqliteConnectOptions::new()
        .filename(path)
        .locking_mode(SqliteLockingMode::Exclusive)
        .journal_mode(SqliteJournalMode::Wal)
        .disable_statement_logging()
}

/// Returns true if the file can be used without writing to it first.
///
/// # Errors
/// [`OpenError`] if it cannot, or cannot be used at all.
pub(crate) async fn check_unwritten(conn: &mut SqliteConnection, path: &Path, restored: bool) -> Result<(), OpenError> {
    let unwritten = |what| Err(OpenError::FullAndUnwritten { path: path.to_owned(), what });
    match version(conn, path).await? {
        0 => return unwritten("a new journal"),
        VERSION => {}
        _ => return unwritten("a journal of an older program, with other tables,"),
    }
    let begun = sqlx::query_scalar("SELECT begun FROM meta").fetch_one(conn).await;
    let begun: bool = begun.map_err(|error| OpenError::from_sqlite(&error, path))?;
    if begun && !restored { Ok(()) } else { unwritten("the new incarnation of a restored journal") }
}

/// Creates missing tables: all of them in an empty file, some in an older one.
pub(crate) async fn prepare(conn: &mut SqliteConnection, path: &Path) -> Result<(), OpenError> {
    let failed = |error: sqlx::Error| OpenError::from_sqlite(&error, path);
    let steps: &[&'static str] = match version(conn, path).await? {
        0 => &[TABLES, READINGS, HISTORY, CHANGES, IDENTITY, COSTS, STATES, STEPS, FIRST_INCARNATION],
        1 => &[READINGS, HISTORY, CHANGES, IDENTITY, COSTS, STATES, STEPS],
        2 => &[HISTORY, CHANGES, IDENTITY, COSTS, STATES, STEPS],
        3 => &[CHANGES, IDENTITY, COSTS, STATES, STEPS],
        4 => &[IDENTITY, COSTS, STATES, STEPS],
        5 => &[COSTS, STATES, STEPS],
        6 => &[STATES, STEPS],
        7 => &[STEPS],
        _ => return Ok(()),
    };
    sqlx::raw_sql("BEGIN IMMEDIATE").execute(&mut *conn).await.map_err(failed)?;
    for step in steps {
        sqlx::raw_sql(*step).execute(&mut *conn).await.map_err(failed)?;
    }
    sqlx::raw_sql("COMMIT").execute(&mut *conn).await.map_err(failed)?;
    Ok(())
}

/// Begins the incarnation of a new journal, of a backup, or of a journal that its operator has restored. Writes
/// nothing otherwise.
pub(crate) async fn begin_incarnation(conn: &mut SqliteConnection, restored: bool) -> Result<(), sqlx::Error> {
    let begun: bool = sqlx::query_scalar("SELECT begun FROM meta").fetch_one(&mut *conn).await?;
    if begun && !restored {
        return Ok(());
    }
    let mut transaction = conn.begin().await?;
    sqlx::raw_sql(NEW_INCARNATION).execute(&mut *transaction).await?;
    transaction.commit().await
}

/// Gives an empty journal the id of its cluster. Changes no other journal.
pub(crate) async fn begin_cluster(conn: &mut SqliteConnection, cluster: ClusterId) -> Result<(), sqlx::Error> {
    let text = "UPDATE meta SET cluster = ? WHERE cluster != ? AND NOT EXISTS (SELECT 1 FROM entries) AND NOT EXISTS \
                (SELECT 1 FROM snapshots) AND NOT EXISTS (SELECT 1 FROM submissions)";
    sqlx::query(text).bind(&cluster.0[..]).bind(&cluster.0[..]).execute(conn).await.map(drop)
}

/// Marks a copy: a master that opens it begins a new incarnation.
pub(crate) async fn mark_as_backup(conn: &mut SqliteConnection) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE meta SET begun = 0").execute(conn).await.map(drop)
}

/// Returns the version of the file, 0 if it is empty.
///
/// # Errors
/// [`OpenError`] if the file is damaged, has tables of another program, or is newer than this program.
pub(crate) async fn version(conn: &mut SqliteConnection, path: &Path) -> Result<i64, OpenError> {
    let failed = |error: sqlx::Error| OpenError::from_sqlite(&error, path);
    let found: i64 = sqlx::query_scalar("PRAGMA user_version").fetch_one(&mut *conn).await.map_err(failed)?;
    let tables: i64 = sqlx::query_scalar("SELECT count(*) FROM sqlite_schema WHERE type = 'table'")
        .fetch_one(&mut *conn)
        .await
        .map_err(failed)?;
    let application: i64 = sqlx::query_scalar("PRAGMA application_id").fetch_one(&mut *conn).await.map_err(failed)?;
    match found {
        0 if tables == 0 => Ok(0),
        1.. if application != APPLICATION => Err(OpenError::Foreign { path: path.to_owned() }),
        1.. if found > VERSION => Err(OpenError::Newer { path: path.to_owned(), found, known: VERSION }),
        1.. => Ok(found),
        _ => Err(OpenError::Foreign { path: path.to_owned() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks the setting itself: only a power failure could distinguish FULL from NORMAL, and no kill of a process.
    #[tokio::test]
    async fn the_writer_waits_for_the_disk_and_the_reader_cannot_write() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join(FILE);
        let mut conn = writing(&path).create_if_missing(true).connect().await.expect("a database");
        let synchronous: i64 = sqlx::query_scalar("PRAGMA synchronous").fetch_one(&mut conn).await.expect("a row");
        let mode: String = sqlx::query_scalar("PRAGMA journal_mode").fetch_one(&mut conn).await.expect("a row");
        // The value 2 means FULL.
        assert_eq!((synchronous, mode.as_str()), (2, "wal"));
        prepare(&mut conn, &path).await.expect("an empty file");
        let mut reader = reading(&path).connect().await.expect("a database");
        let refused = sqlx::query("DELETE FROM entries").execute(&mut reader).await.map_err(|error| error.to_string());
        assert!(refused.is_err_and(|text| text.contains("readonly")));
        reader.close().await.expect("closed");
        conn.close().await.expect("closed");
    }
}
