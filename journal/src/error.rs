//! Why something did not work, one enum for each operation, and how an error of SQLite is told to be a full disk.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::directory::free_bytes;

/// Why the journal could not be opened.
#[derive(Debug, Error)]
pub enum OpenError {
    #[error("cannot use the state directory {dir}")]
    Directory {
        dir: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("the state directory {dir} is in use by another master: stop that one, or choose another --state-dir")]
    Locked { dir: PathBuf },
    #[error(
        "the state directory {dir} is on {kind}, where locks cannot be relied on: choose a directory on a local disk"
    )]
    Network { dir: PathBuf, kind: &'static str },
    #[error("{path} is a database, but not a journal of Limo")]
    Foreign { path: PathBuf },
    #[error("{path} has schema version {found}, this program knows versions up to {known}: use a newer Limo")]
    Newer { path: PathBuf, found: i64, known: i64 },
    #[error("{path} is damaged: {detail}")]
    Damaged { path: PathBuf, detail: String },
    #[error("the disk of {path} is full: {detail}")]
    Full { path: PathBuf, detail: String },
    #[error("the disk of {path} is full, and {what} has to be written before it can be used: make room first")]
    FullAndUnwritten { path: PathBuf, what: &'static str },
    #[error("cannot open {path}: {detail}")]
    Database { path: PathBuf, detail: String },
    #[error(transparent)]
    Recover(#[from] RecoverError),
}

/// Why a batch was not written. Batches of its generation are refused from then on: call [`crate::Journal::recover`]. Once
/// that has succeeded, nothing of the batch is on disk for good. Should the process die before, a batch whose last write
/// failed may turn out to be there after all, so tell nobody that it failed before the recovery.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum CommitError {
    #[error("the disk under the journal is full: {detail}")]
    Full { detail: String },
    #[error("the journal could not be written: {detail}")]
    Database { detail: String },
    #[error("the batch does not fit the journal: {detail}")]
    Encoding { detail: String },
    #[error("the batch continues generation {batch}, which is over: recover first")]
    Stale { batch: u64 },
    #[error("the journal is closed")]
    Closed,
}

/// Why the state on disk could not be taken up again. The journal goes on refusing; it can be tried again.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum RecoverError {
    #[error("the disk under the journal is full: {detail}")]
    Full { detail: String },
    #[error("the journal could not be written: {detail}")]
    Database { detail: String },
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error("the journal is closed")]
    Closed,
}

/// Why something could not be read back.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ReadError {
    #[error("the journal could not be read: {detail}")]
    Database { detail: String },
    #[error("entry {seq} of the journal does not make sense: {detail}")]
    Entry { seq: i64, detail: String },
    #[error("the row of job {job} in the journal does not make sense: {detail}")]
    Row { job: i64, detail: String },
}

/// Why a question was not answered.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum QueryError {
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error("the journal is closed")]
    Closed,
}

/// Why the journal was not compacted. What was given back until then stays so.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum CompactError {
    #[error("the journal cannot be written at present")]
    ReadOnly,
    #[error("the journal could not be compacted: {detail}")]
    Database { detail: String },
    #[error("the journal is closed")]
    Closed,
}

/// The disk is almost full: what is left belongs to the jobs that were accepted.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("the disk under the journal is almost full: {} MiB are free, new jobs need {} MiB", free >> 20, needed >> 20)]
pub struct NoRoom {
    /// In bytes, with what is unused in the journal itself.
    pub free: u64,
    /// In bytes.
    pub needed: u64,
}

/// Why there is no ballast.
#[derive(Debug, Error)]
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

/// SQLite's result code, extended, where the error came from SQLite.
fn code(error: &sqlx::Error) -> Option<u32> {
    error.as_database_error()?.code()?.parse().ok()
}

const SQLITE_IOERR: u32 = 10;
const SQLITE_CORRUPT: u32 = 11;
const SQLITE_FULL: u32 = 13;
const SQLITE_CANTOPEN: u32 = 14;
const SQLITE_NOTADB: u32 = 26;

/// With less than this free, an error of input and output is taken for a full disk: SQLite reports some of them (no room
/// for the shared index of the write-ahead log, a quota) as plain IO errors. One 32 KiB step of that index, twice.
const NEARLY_NOTHING: u64 = 64 << 10;

/// Whether `error` means that the disk of `dir` is full.
pub(crate) fn is_full(error: &sqlx::Error, dir: &Path) -> bool {
    match code(error).map(|code| code & 0xff) {
        Some(SQLITE_FULL) => true,
        Some(SQLITE_IOERR | SQLITE_CANTOPEN) => free_bytes(dir).is_ok_and(|free| free < NEARLY_NOTHING),
        _ => false,
    }
}

impl OpenError {
    /// From an error of SQLite while it opened `path`.
    pub(crate) fn from_sqlite(error: &sqlx::Error, path: &Path) -> Self {
        if is_full(error, path.parent().unwrap_or(path)) {
            return Self::Full { path: path.to_owned(), detail: error.to_string() };
        }
        let (path, detail) = (path.to_owned(), error.to_string());
        match code(error).map(|code| code & 0xff) {
            Some(SQLITE_CORRUPT | SQLITE_NOTADB) => Self::Damaged { path, detail },
            _ => Self::Database { path, detail },
        }
    }
}
