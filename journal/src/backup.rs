//! A copy of the journal at one instant, made while the writer works. The caller chooses its place.

use std::fs;
use std::path::{Path, PathBuf};

use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode};
use sqlx::{ConnectOptions, Connection};
use thiserror::Error;

use crate::compact::unused_bytes;
use crate::directory::free_bytes;
use crate::schema;

/// Free bytes that must remain besides the copy, because the journal grows meanwhile.
pub const BACKUP_RESERVE: u64 = 64 << 20;

/// Reason why a copy failed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[expect(missing_docs, reason = "the messages say what each variant is")]
pub enum BackupError {
    #[error("{free} bytes are free in {dir}, a copy of the journal needs {needed}")]
    NoRoom { dir: PathBuf, free: u64, needed: u64 },
    #[error("the journal is in {server}: copy it by pg_dump")]
    OnServer { server: String },
    #[error("the journal could not be copied: {detail}")]
    Database { detail: String },
}

/// Copies the journal. `VACUUM INTO` reads in one transaction: the copy is consistent, has no log, and no free pages.
pub(crate) async fn copy(from: &Path, to: &Path) -> Result<(), BackupError> {
    let dir = to.parent().unwrap_or(Path::new("."));
    let failed = |detail: String| BackupError::Database { detail };
    let name = to.to_str().ok_or_else(|| failed(format!("{} is not text", to.display())))?;
    let mut conn = schema::reading(from).connect().await.map_err(|error| failed(error.to_string()))?;
    let free = free_bytes(dir).map_err(|error| failed(error.to_string()))?;
    let unused = unused_bytes(&mut conn).await.map_err(|error| failed(error.to_string()))?;
    let needed = size(from).saturating_sub(unused) + size(&from.with_extension("db-wal")) + BACKUP_RESERVE;
    if free < needed {
        return Err(BackupError::NoRoom { dir: dir.to_owned(), free, needed });
    }
    let copied = sqlx::query("VACUUM INTO ?").bind(name).execute(&mut conn).await;
    let _ = conn.close().await;
    let marked = match copied {
        Ok(_) => mark(to).await,
        Err(error) => Err(error),
    };
    marked.map_err(|error| {
        // An incomplete copy is useless, so it is removed.
        let _ = fs::remove_file(to);
        failed(error.to_string())
    })
}

/// Marks a copy as a backup. No log remains, because the copy is not in WAL mode.
async fn mark(copy: &Path) -> Result<(), sqlx::Error> {
    let options = SqliteConnectOptions::new().filename(copy).journal_mode(SqliteJournalMode::Delete);
    let mut conn = options.disable_statement_logging().connect().await?;
    schema::mark_as_backup(&mut conn).await?;
    conn.close().await
}

fn size(path: &Path) -> u64 {
    fs::metadata(path).map_or(0, |metadata| metadata.len())
}
