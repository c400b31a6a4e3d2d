//! Returns the space of deleted rows to the file system, in steps between batches. SQLite keeps such pages in the
//! file and reuses them. After many jobs with large environments, such pages are most of the file.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use sqlx::SqliteConnection;
use tokio::sync::oneshot;

use crate::error::CompactError;

/// Statement that removes 1 MiB of pages from the file.
const STEP: &str = "PRAGMA incremental_vacuum(256)";

/// Number of unused pages, 16 MiB, from which the journal compacts itself if they are also more than half of the file.
const WORTH: i64 = 4096;

/// Idle time before the journal checks if it should compact itself.
const IDLE: Duration = Duration::from_secs(1);

/// Time after which the journal checks this even while requests keep coming.
const BUSY: Duration = Duration::from_secs(30);

/// Pause between two steps.
const PAUSE: Duration = Duration::from_millis(5);

/// `PRAGMA auto_vacuum` of a file that can be compacted in steps.
const INCREMENTAL: i64 = 2;

/// Statement that rewrites a file of an earlier program once.
const MAKE_INCREMENTAL: &str = "PRAGMA auto_vacuum = INCREMENTAL; VACUUM";

/// Moves the log into the database and empties it, unless a reader is active; does not wait for readers.
const TRUNCATE_LOG: &str = "PRAGMA busy_timeout = 0; PRAGMA wal_checkpoint(TRUNCATE); PRAGMA busy_timeout = 5000";

/// Bytes of the journal's file and its write-ahead log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Compaction {
    /// Size at the beginning of the compaction.
    pub before: u64,
    /// Size at the end; readers may keep the log from becoming shorter.
    pub after: u64,
}

type Answer = oneshot::Sender<Result<Compaction, CompactError>>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Nothing was written since the last check.
    Rest,
    Watch,
    /// A compaction of files with this size in bytes.
    Run(u64),
}

pub(crate) struct Compactor {
    phase: Phase,
    asked: Vec<Answer>,
    /// Duration of the longest step.
    longest: Duration,
    /// Start of the last step.
    stepped: Instant,
}

impl Compactor {
    pub(crate) fn new() -> Self {
        Self { phase: Phase::Watch, asked: Vec::new(), longest: Duration::ZERO, stepped: Instant::now() }
    }

    /// Returns the time without a request after which [`Self::step`] is due.
    pub(crate) fn wait(&self) -> Option<Duration> {
        match self.phase {
            Phase::Rest => None,
            Phase::Watch => Some(IDLE),
            Phase::Run(_) => Some(PAUSE),
        }
    }

    /// Returns true if [`Self::step`] is due although requests keep coming.
    pub(crate) fn is_overdue(&self) -> bool {
        self.phase == Phase::Watch && self.stepped.elapsed() >= BUSY
    }

    /// Notes that something was written.
    pub(crate) fn watch(&mut self) {
        if self.phase == Phase::Rest {
            self.phase = Phase::Watch;
        }
    }

    /// Takes a client's request for a compaction.
    pub(crate) fn ask(&mut self, path: &Path, answer: Answer) {
        self.asked.push(answer);
        if !matches!(self.phase, Phase::Run(_)) {
            self.phase = Phase::Run(size(path));
        }
    }

    /// Takes one short step. The connection is absent while nothing can be written.
    pub(crate) async fn step(&mut self, path: &Path, conn: Option<&mut SqliteConnection>) {
        let Some(conn) = conn else { return self.end(Err(CompactError::ReadOnly)) };
        self.stepped = Instant::now();
        let done = self.try_step(path, conn).await;
        self.longest = self.longest.max(self.stepped.elapsed());
        match done {
            Ok(false) => {}
            Ok(true) => {
                let Phase::Run(before) = self.phase else { return self.phase = Phase::Rest };
                let after = size(path);
                let longest_step = self.longest;
                tracing::info!(before, after, ?longest_step, "the journal was compacted");
                self.end(Ok(Compaction { before, after }));
            }
            Err(error) => {
                tracing::warn!(%error, "the journal was not compacted");
                self.end(Err(CompactError::Database { detail: error.to_string() }));
            }
        }
    }

    /// Takes a step; returns true if nothing is left to do.
    async fn try_step(&mut self, path: &Path, conn: &mut SqliteConnection) -> Result<bool, sqlx::Error> {
        let incremental = number(conn, "PRAGMA auto_vacuum").await? == INCREMENTAL;
        if self.phase == Phase::Watch {
            let free = number(conn, "PRAGMA freelist_count").await?;
            let all = number(conn, "PRAGMA page_count").await?;
            if !incremental || free < WORTH || free * 2 <= all {
                return Ok(true);
            }
            self.phase = Phase::Run(size(path));
        } else if !incremental {
            sqlx::raw_sql(MAKE_INCREMENTAL).execute(&mut *conn).await?;
        }
        sqlx::raw_sql(STEP).execute(&mut *conn).await?;
        if number(conn, "PRAGMA freelist_count").await? > 0 {
            return Ok(false);
        }
        sqlx::raw_sql(TRUNCATE_LOG).execute(&mut *conn).await?;
        Ok(true)
    }

    fn end(&mut self, result: Result<Compaction, CompactError>) {
        (self.phase, self.longest) = (Phase::Rest, Duration::ZERO);
        for answer in self.asked.drain(..) {
            let _ = answer.send(result.clone());
        }
    }
}

/// Returns the unused bytes of the journal's file.
pub(crate) async fn unused_bytes(conn: &mut SqliteConnection) -> Result<u64, sqlx::Error> {
    let pages = number(conn, "PRAGMA freelist_count").await?;
    Ok(pages.saturating_mul(number(conn, "PRAGMA page_size").await?).try_into().unwrap_or(0))
}

async fn number(conn: &mut SqliteConnection, pragma: &'static str) -> Result<i64, sqlx::Error> {
    sqlx::query_scalar(pragma).fetch_one(conn).await
}

fn size(path: &Path) -> u64 {
    let bytes = |path: &Path| fs::metadata(path).map_or(0, |metadata| metadata.len());
    bytes(path) + bytes(&path.with_extension("db-wal"))
}
