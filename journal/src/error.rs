//! Errors, one enum for each operation, and the detection of a full or read-only disk from an error of SQLite.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::directory::{self, Blocked};

/// Reason why the journal could not be opened.
#[derive(Debug, Error)]
#[expect(missing_docs, reason = "the messages say what each variant is")]
pub enum OpenError {
    #[error("cannot use the state directory {dir}")]
    Directory {
        dir: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("the state directory {dir} is in use by another master: stop that one, or choose another --state-dir")]
    Locked { dir: PathBuf },
    #[error("the state directory {dir} is on {kind}, where locks are unreliable: choose a directory on a local disk")]
    Network { dir: PathBuf, kind: &'static str },
    #[error("{path} is a database, but not a journal of Limo")]
    Foreign { path: PathBuf },
    #[error("{path} has schema version {found}, this program knows versions up to {known}: use a newer Limo")]
    Newer { path: PathBuf, found: i64, known: i64 },
    #[error("{path} is damaged: {detail}")]
    Damaged { path: PathBuf, detail: String },
    #[error("cannot write {path}: {why}")]
    Full { path: PathBuf, why: Unwritable },
    #[error("the disk of {path} is full, and {what} has to be written before it can be used: make room first")]
    FullAndUnwritten { path: PathBuf, what: &'static str },
    #[error("cannot open {path}: {detail}")]
    Database { path: PathBuf, detail: String },
    #[error("cannot open {server}: {detail}")]
    Server { server: String, detail: String },
    #[error("{server} has tables, but not those of a journal of Limo: use a database of its own")]
    ForeignServer { server: String },
    #[error("{server} has schema version {found}, this program knows versions up to {known}: use a newer Limo")]
    NewerServer { server: String, found: i64, known: i64 },
    #[error(transparent)]
    Recover(#[from] RecoverError),
}

/// Reason why a journal was not moved.
#[derive(Debug, Error)]
#[expect(missing_docs, reason = "the messages say what each variant is")]
pub enum TransferError {
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error("the journal is in use by {holder}: stop all masters first")]
    InUse { holder: String },
    #[error("the new place has a journal with jobs or events: choose an empty directory or database")]
    Occupied,
    #[error("a row of the journal could not be moved: {0}")]
    Row(#[from] sqlx::Error),
}

/// Reason why a batch was not written. Batches of its generation are refused from then on: call
/// [`crate::Journal::recover`]. After a successful recovery, the batch is certainly not on disk. Before that, it may
/// still be on disk if the process dies. So its failure must not be reported before the recovery.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[expect(missing_docs, reason = "the messages say what each variant is")]
pub enum CommitError {
    #[error(transparent)]
    Full(#[from] Unwritable),
    #[error("the journal could not be written: {detail}")]
    Database { detail: String },
    #[error("the batch does not fit the journal: {detail}")]
    Encoding { detail: String },
    #[error("the batch continues generation {batch}, which is over: recover first")]
    Stale { batch: u64 },
    #[error(transparent)]
    Lost(#[from] LeaseLost),
    #[error("the journal is closed")]
    Closed,
}

/// Reason why the state on disk could not be restored. The journal still refuses batches, and a retry is possible.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[expect(missing_docs, reason = "the messages say what each variant is")]
pub enum RecoverError {
    #[error(transparent)]
    Full(#[from] Unwritable),
    #[error("the journal could not be written: {detail}")]
    Database { detail: String },
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error(transparent)]
    Lost(#[from] LeaseLost),
    #[error("the journal is closed")]
    Closed,
}

/// Another master has, or may have, the lease on the journal. The master must end at once: nothing that it says counts
/// any more, and a batch without an answer may or may not be on disk.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("this master lost the lease on the journal: {detail}")]
pub struct LeaseLost {
    /// The new holder, or the reason.
    pub detail: String,
}

/// Reason why an entry could not be read back.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[expect(missing_docs, reason = "the messages say what each variant is")]
pub enum ReadError {
    #[error("the journal could not be read: {detail}")]
    Database { detail: String },
    #[error("entry {seq} of the journal is invalid: {detail}")]
    Entry { seq: i64, detail: String },
    #[error("the row of job {job} in the journal is invalid: {detail}")]
    Row { job: i64, detail: String },
}

/// Reason why a query failed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[expect(missing_docs, reason = "the messages say what each variant is")]
pub enum QueryError {
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error("the journal is closed")]
    Closed,
}

/// Reason why the journal was not compacted. Space freed so far stays free.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[expect(missing_docs, reason = "the messages say what each variant is")]
pub enum CompactError {
    #[error("the journal cannot be written at present")]
    ReadOnly,
    #[error("the journal is in PostgreSQL, which reuses the space of deleted rows by itself")]
    OnServer,
    #[error("the journal could not be compacted: {detail}")]
    Database { detail: String },
    #[error("the journal is closed")]
    Closed,
}

/// The disk accepts no more data; contains the message of SQLite.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("the disk under the journal is {blocked}: {detail}")]
pub struct Unwritable {
    /// The obstacle to writing.
    pub blocked: Blocked,
    /// The error of SQLite.
    pub detail: String,
}

/// The disk is almost full: the remaining space is reserved for accepted jobs.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("the disk under the journal is almost full: {} MiB are free, new jobs need {} MiB", free >> 20, needed >> 20)]
pub struct NoRoom {
    /// Free bytes, including unused space in the journal itself.
    pub free: u64,
    /// Required bytes.
    pub needed: u64,
}

/// Reasons for a missing ballast.
#[derive(Debug, Error)]
#[expect(missing_docs, reason = "the messages say what each variant is")]
pub enum BallastError {
    #[error(transparent)]
    NoRoom(#[from] NoRoom),
    #[error("cannot write {path}")]
    Write {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("the journal is closed")]
    Closed,
}

impl From<sqlx::Error> for ReadError {
    fn from(error: sqlx::Error) -> Self {
        Self::Database { detail: error.to_string() }
    }
}

/// Returns the extended result code of SQLite, if the error came from SQLite.
fn code(error: &sqlx::Error) -> Option<u32> {
    error.as_database_error()?.code()?.parse().ok()
}

const SQLITE_READONLY: u32 = 8;
const SQLITE_IOERR: u32 = 10;
const SQLITE_CORRUPT: u32 = 11;
const SQLITE_FULL: u32 = 13;
const SQLITE_CANTOPEN: u32 = 14;
const SQLITE_NOTADB: u32 = 26;

impl Unwritable {
    /// Returns `None` if the error has another cause than a disk that accepts no more data. SQLite reports some of
    /// these disks as other errors: no space for the shared index of the write-ahead log, a quota, a file system that
    /// the kernel has made read-only. In such cases, a file is written as a test.
    pub(crate) fn of(error: &sqlx::Error, dir: &Path) -> Option<Self> {
        let blocked = match code(error)? & 0xff {
            SQLITE_FULL => Blocked::Full,
            SQLITE_IOERR | SQLITE_CANTOPEN | SQLITE_READONLY => directory::blocked(dir)?,
            _ => return None,
        };
        Some(Self { blocked, detail: error.to_string() })
    }
}

impl OpenError {
    /// Converts an error of SQLite from opening `path`.
    pub(crate) fn from_sqlite(error: &sqlx::Error, path: &Path) -> Self {
        if let Some(why) = Unwritable::of(error, path.parent().unwrap_or(path)) {
            return Self::Full { path: path.to_owned(), why };
        }
        let (path, detail) = (path.to_owned(), error.to_string());
        match code(error).map(|code| code & 0xff) {
            Some(SQLITE_CORRUPT | SQLITE_NOTADB) => Self::Damaged { path, detail },
            _ => Self::Database { path, detail },
        }
    }
}
