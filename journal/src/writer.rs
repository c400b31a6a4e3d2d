//! The one writer: commits queued batches in one transaction and answers. A separate task, so that nothing is
//! cancelled if a caller stops waiting. The caller decides what is written.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use sqlx::{ConnectOptions, Connection, SqliteConnection};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::{Mutex, OwnedSemaphorePermit, oneshot};

use crate::ballast::Ballast;
use crate::batch::{Batch, Recovered};
use crate::compact::{Compaction, Compactor, unused_bytes};
use crate::db::Db;
use crate::directory::{Claim, LOCK_PATIENCE, claim, prepare_file};
use crate::error::{BallastError, CommitError, CompactError, NoRoom, OpenError, RecoverError, Unwritable};
use crate::insert::{InsertError, insert};
use crate::journal::Opening;
use crate::reader::{Reader, Shared};
use crate::script::Script;
use crate::{read, schema};

/// Most batches in one transaction. Measurements with 256 to 2,000 submitters: above this the rate does not grow, but
/// the wait does.
pub const GROUP: usize = 1000;

type Answer<T, E> = oneshot::Sender<Result<T, E>>;

pub(crate) enum Request {
    Commit(Box<Queued>),
    Recover(Answer<Recovered, RecoverError>),
    RestoreBallast(Answer<(), BallastError>),
    Compact(Answer<Compaction, CompactError>),
}

/// A batch that waits for its transaction.
pub(crate) struct Queued {
    pub(crate) batch: Batch,
    pub(crate) answer: Answer<Option<NoRoom>, CommitError>,
    /// The batch's place in the queue, freed when the batch is answered.
    pub(crate) _room: Option<OwnedSemaphorePermit>,
}

pub(crate) struct Writer {
    dir: PathBuf,
    /// Connection; absent after a failed commit, until the recovery opens another.
    conn: Option<SqliteConnection>,
    generation: u64,
    /// Place of the newest entry on disk.
    last_seq: i64,
    pub(crate) ballast: Ballast,
    pub(crate) reader: Shared,
    /// Reason why nothing is written until the ballast is restored: the disk was full even without it.
    starved: Option<Unwritable>,
    compactor: Compactor,
    /// The claim is dropped last: no other process may open the directory while a connection is open.
    _claim: Claim,
}

impl Writer {
    /// Claims `dir`, opens or creates the journal in it, and reads it.
    pub(crate) async fn open(dir: &Path, opening: Opening) -> Result<(Self, Recovered), OpenError> {
        let claim = claim(dir, LOCK_PATIENCE)?;
        let path = dir.join(schema::FILE);
        prepare_file(&path).map_err(|source| OpenError::Directory { dir: dir.to_owned(), source })?;
        let ballast = Ballast::find(dir);
        let conn = match connect(&path, opening).await {
            // Even opening needs some space, for the shared index of the write-ahead log.
            Err(OpenError::Full { .. }) if ballast.release() => connect(&path, opening).await,
            connected => connected,
        };
        let (conn, starved) = match conn {
            Ok(conn) => (Some(conn), None),
            Err(OpenError::Full { why, .. }) => (None, Some(why)),
            Err(error) => return Err(error),
        };
        let mut reader = Reader::new(&path);
        if starved.is_some() {
            let failed = |error| OpenError::from_sqlite(&error, &path);
            schema::check_unwritten(reader.open_alone().await.map_err(failed)?, &path, opening.restored).await?;
        } else if let Err(error) = ballast.restore() {
            tracing::warn!(%error, "no ballast under the journal");
        }
        let (dir, reader) = (dir.to_owned(), Arc::new(Mutex::new(reader)));
        let compactor = Compactor::new();
        let mut writer =
            Self { dir, conn, generation: 0, last_seq: 0, ballast, reader, starved, compactor, _claim: claim };
        let recovered = writer.recover().await?;
        Ok((writer, recovered))
    }

    /// Serves until all senders are dropped and the queue is empty.
    pub(crate) async fn serve(mut self, mut requests: UnboundedReceiver<Request>) -> Self {
        let mut taken = Vec::new();
        loop {
            let wait = self.compactor.wait().unwrap_or(Duration::MAX);
            let Ok(count) = tokio::time::timeout(wait, requests.recv_many(&mut taken, GROUP)).await else {
                self.compact().await;
                continue;
            };
            if count == 0 {
                return self;
            }
            let mut group = Vec::new();
            for request in taken.drain(..) {
                // Requests that come between two batches are also handled between them.
                match request {
                    Request::Commit(queued) => group.push(*queued),
                    Request::Recover(answer) => {
                        self.commit(std::mem::take(&mut group)).await;
                        let _ = answer.send(self.recover().await);
                    }
                    Request::RestoreBallast(answer) => {
                        self.commit(std::mem::take(&mut group)).await;
                        let _ = answer.send(self.restore_ballast().await);
                    }
                    Request::Compact(answer) => self.compactor.ask(&self.dir.join(schema::FILE), answer),
                }
            }
            self.commit(group).await;
            if self.compactor.is_overdue() {
                self.compact().await;
            }
        }
    }

    async fn compact(&mut self) {
        let path = self.dir.join(schema::FILE);
        // The remaining space on a full disk is reserved for the ends of jobs.
        let conn = self.conn.as_mut().filter(|_| self.ballast.is_present());
        self.compactor.step(&path, conn).await;
    }

    /// Closes the writer after the reader, because the last connection moves the write-ahead log into the database.
    pub(crate) async fn close(mut self) {
        if let Some(conn) = self.conn.take()
            && let Err(error) = conn.close().await
        {
            tracing::warn!(%error, "closing the journal");
        }
    }

    /// Restores the ballast on another thread, because other tasks use this one.
    async fn restore_ballast(&mut self) -> Result<(), BallastError> {
        if let Some(no_room) = self.no_room().await {
            return Err(no_room.into());
        }
        let ballast = self.ballast.clone();
        tokio::task::spawn_blocking(move || ballast.restore()).await.unwrap_or(Err(BallastError::Closed))
    }

    /// Returns the free space if it is too little for new jobs. Unused pages of the journal count as free: they are
    /// used first.
    async fn no_room(&mut self) -> Option<NoRoom> {
        self.ballast.no_room(0)?;
        let unused = match &mut self.conn {
            Some(conn) => unused_bytes(conn).await.unwrap_or(0),
            None => 0,
        };
        self.ballast.no_room(unused)
    }

    async fn commit(&mut self, group: Vec<Queued>) {
        let mut current = answer_stale(group, self.conn.is_some().then_some(self.generation));
        if current.is_empty() {
            return;
        }
        self.compactor.watch();
        let result = self.write(&mut current).await;
        if let Err(error) = &result {
            tracing::error!(%error, batches = current.len(), "the journal refuses all operations until it is recovered");
            let full = match error {
                CommitError::Full(why) => Some(why.clone()),
                _ => None,
            };
            self.stop(full).await;
        }
        let result = match result {
            Ok(()) => Ok(self.no_room().await),
            Err(error) => Err(error),
        };
        for queued in current {
            let _ = queued.answer.send(result.clone());
        }
    }

    async fn write(&mut self, group: &mut [Queued]) -> Result<(), CommitError> {
        // A group is only written while there is a connection.
        let Some(conn) = self.conn.as_mut() else { return Err(CommitError::Stale { batch: self.generation }) };
        let dir = &self.dir;
        let failed = |error| refusal(error, dir);
        let mut script = Script::for_file();
        script.add("BEGIN IMMEDIATE");
        let mut seq = self.last_seq;
        for queued in group {
            insert(&mut script, &mut queued.batch, &mut seq).map_err(failed)?;
        }
        script.add("COMMIT");
        script.run(conn).await.map_err(|error| failed(error.into()))?;
        self.last_seq = seq;
        Ok(())
    }

    /// Rolls back after a failed commit, and drops the connection. `full` is set if the disk accepts no more data.
    async fn stop(&mut self, full: Option<Unwritable>) {
        if let Some(mut conn) = self.conn.take() {
            // After some errors SQLite has already rolled back. Then no transaction is open, as intended.
            let _ = sqlx::query("ROLLBACK").execute(&mut conn).await;
            let _ = conn.close().await;
        }
        let Some(why) = full else { return };
        if self.ballast.release() {
            tracing::warn!(dir = %self.dir.display(), %why, "the ballast is gone: no new jobs until it is back");
        } else {
            self.starved = Some(why);
        }
    }

    /// Begins the next generation on a new connection, and reads the state on disk. Only reads if the disk is full even
    /// without the ballast.
    async fn recover(&mut self) -> Result<Recovered, RecoverError> {
        if let Some(why) = self.starved.take_if(|_| !self.ballast.is_present()) {
            return self.read_only(why).await;
        }
        self.starved = None;
        // Deleting the ballast may free enough space.
        while let Err(error) = self.begin_generation().await {
            let full = Unwritable::of(&error, &self.dir);
            let is_other = full.is_none();
            self.stop(full).await;
            if is_other {
                return Err(RecoverError::Database { detail: error.to_string() });
            }
            if let Some(why) = self.starved.take() {
                return self.read_only(why).await;
            }
        }
        // The generation has begun, so there is a connection.
        let Some(conn) = self.conn.as_mut() else { return Err(RecoverError::Closed) };
        match read::recovered(Db::File(conn), self.generation).await {
            Ok((recovered, last_seq)) => {
                self.last_seq = last_seq;
                Ok(recovered)
            }
            Err(error) => {
                self.stop(None).await;
                Err(error.into())
            }
        }
    }

    /// Reads the state if nothing can be written. Batches are refused until a later recovery succeeds.
    async fn read_only(&mut self, why: Unwritable) -> Result<Recovered, RecoverError> {
        let reader = Arc::clone(&self.reader);
        let mut reader = reader.lock().await;
        let blocked = why.blocked;
        let failed = |error: sqlx::Error| RecoverError::Full(Unwritable { blocked, detail: error.to_string() });
        let conn = reader.open_alone().await.map_err(failed)?;
        let generation: i64 =
            sqlx::query_scalar("SELECT generation FROM meta").fetch_one(&mut *conn).await.map_err(failed)?;
        let (recovered, _) = read::recovered(Db::File(conn), generation.cast_unsigned()).await?;
        let reason = why.to_string();
        self.starved = Some(why);
        Ok(Recovered { read_only: Some(reason), ..recovered })
    }

    async fn begin_generation(&mut self) -> Result<(), sqlx::Error> {
        // A connection that had an error is not used again.
        if let Some(used) = self.conn.take() {
            used.close().await?;
        }
        self.reader.lock().await.let_others_in().await;
        let mut conn = schema::writing(&self.dir.join(schema::FILE)).connect().await?;
        // A checkpoint frees space in the write-ahead log, which matters on a full disk.
        sqlx::query("PRAGMA wal_checkpoint(PASSIVE)").execute(&mut conn).await?;
        let next: i64 =
            sqlx::query_scalar("UPDATE meta SET generation = max(generation, ?) + 1, writer = ? RETURNING generation")
                .bind(self.generation.cast_signed())
                .bind(concat!("limo ", env!("CARGO_PKG_VERSION")))
                .fetch_one(&mut conn)
                .await?;
        self.reader.lock().await.open().await?;
        self.generation = next.cast_unsigned();
        self.conn = Some(conn);
        Ok(())
    }
}

/// Refuses the batches of other generations than the current one, if there is one. Returns the others.
pub(crate) fn answer_stale(group: Vec<Queued>, generation: Option<u64>) -> Vec<Queued> {
    let (current, stale): (Vec<_>, Vec<_>) =
        group.into_iter().partition(|queued| generation == Some(queued.batch.generation));
    for queued in stale {
        let _ = queued.answer.send(Err(CommitError::Stale { batch: queued.batch.generation }));
    }
    current
}

async fn connect(path: &Path, opening: Opening) -> Result<SqliteConnection, OpenError> {
    let connected = schema::writing(path).connect().await;
    let mut conn = connected.map_err(|error| OpenError::from_sqlite(&error, path))?;
    schema::prepare(&mut conn, path).await?;
    let failed = |error| OpenError::from_sqlite(&error, path);
    if let Some(cluster) = opening.cluster {
        schema::begin_cluster(&mut conn, cluster).await.map_err(failed)?;
    }
    schema::begin_incarnation(&mut conn, opening.restored).await.map_err(failed)?;
    Ok(conn)
}

fn refusal(error: InsertError, dir: &Path) -> CommitError {
    match error {
        InsertError::Encoding(detail) => CommitError::Encoding { detail },
        InsertError::Database(error) => match Unwritable::of(&error, dir) {
            Some(why) => why.into(),
            None => CommitError::Database { detail: error.to_string() },
        },
    }
}
