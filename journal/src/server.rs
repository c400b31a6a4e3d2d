//! The one writer of a journal in a database of PostgreSQL. It commits queued batches in one transaction, which checks
//! the lease, and answers. If the connection is cut, it finds out if the transaction was committed, and runs it again
//! if not: a server that restarts only delays the answer.

pub(crate) mod lease;
pub(crate) mod reader;
pub(crate) mod schema;

use std::path::Path;
use std::time::{Duration, Instant};

use sqlx::{Connection, PgConnection};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};

use crate::batch::Recovered;
use crate::db::Db;
use crate::directory::{Claim, LOCK_PATIENCE, claim};
use crate::error::{BallastError, CommitError, CompactError, LeaseLost, OpenError, RecoverError};
use crate::insert::{InsertError, insert};
use crate::journal::Opening;
use crate::read;
use crate::script::Script;
use crate::writer::{GROUP, Queued, Request, answer_stale};
use lease::{Attempted, Lease, since_boot};
use schema::Server;

/// Pause of a standby between two attempts to take the lease.
const STANDBY_PAUSE: Duration = Duration::from_millis(500);

/// Pause before a cut connection is opened again.
const PAUSE: Duration = Duration::from_millis(200);

/// Longest time of one statement. The server ends transactions without a statement after five seconds.
const STATEMENT_TIME: Duration = Duration::from_secs(60);

/// Longest wait of a commit for a server that does not answer. Then the master must end, because it cannot say if the
/// batch is on disk. It usually ends before, with its lease.
const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) struct ServerWriter {
    server: Server,
    /// Connection; absent after an error.
    conn: Option<PgConnection>,
    generation: u64,
    /// Place of the newest entry on disk.
    last_seq: i64,
    /// Number of commits on disk.
    commits: i64,
    lease: Lease,
    /// Set if no batch can be written any more.
    lost: Option<LeaseLost>,
    /// True if batches are refused until a recovery.
    is_stopped: bool,
    _renewals: oneshot::Sender<()>,
    _claim: Claim,
}

/// Reason why an attempt to write failed.
enum Failure {
    /// The connection was cut, so the result is unknown.
    Cut(String),
    /// The server refused a statement. Nothing was written.
    Refused(String),
    Lost(LeaseLost),
}

impl From<sqlx::Error> for Failure {
    fn from(error: sqlx::Error) -> Self {
        if is_cut(&error) { Self::Cut(error.to_string()) } else { Self::Refused(error.to_string()) }
    }
}

impl ServerWriter {
    /// Claims `dir`, waits for the lease, creates missing tables, and reads the journal.
    pub(crate) async fn open(server: &Server, dir: &Path, opening: Opening) -> Result<(Self, Recovered), OpenError> {
        let claim = claim(dir, LOCK_PATIENCE)?;
        let failed = |error: sqlx::Error| server.failed(&error);
        let mut conn = server.connect().await.map_err(failed)?;
        schema::prepare(&mut conn, server).await?;
        let (mut conn, epoch, commits, since) = stand_by(server, conn).await?;
        schema::begin(&mut conn, (opening.cluster, opening.restored)).await.map_err(failed)?;
        let lease = Lease::taken(epoch, since);
        let renewals = lease.keep(server.clone());
        let renewals = renewals.map_err(|source| OpenError::Directory { dir: dir.to_owned(), source })?;
        let mut writer = Self {
            server: server.clone(),
            conn: None,
            generation: 0,
            last_seq: 0,
            commits,
            lease,
            lost: None,
            is_stopped: true,
            _renewals: renewals,
            _claim: claim,
        };
        drop(conn.close().await);
        let recovered = writer.recover().await?;
        Ok((writer, recovered))
    }

    pub(crate) fn lease(&self) -> Lease {
        self.lease.clone()
    }

    /// Serves until all senders are dropped and the queue is empty.
    pub(crate) async fn serve(mut self, mut requests: UnboundedReceiver<Request>) -> Self {
        let mut taken = Vec::new();
        while requests.recv_many(&mut taken, GROUP).await > 0 {
            let mut group = Vec::new();
            for request in taken.drain(..) {
                match request {
                    Request::Commit(queued) => group.push(*queued),
                    Request::Recover(answer) => {
                        self.commit(std::mem::take(&mut group)).await;
                        let _ = answer.send(self.recover().await);
                    }
                    Request::RestoreBallast(answer) => {
                        self.commit(std::mem::take(&mut group)).await;
                        let _ = answer.send(Ok::<(), BallastError>(()));
                    }
                    Request::Compact(answer) => drop(answer.send(Err(CompactError::OnServer))),
                }
            }
            self.commit(group).await;
        }
        self
    }

    /// Gives the lease back.
    pub(crate) async fn close(mut self) {
        let Some(mut conn) = self.conn.take() else { return };
        let mut epoch = self.lease.epoch().await;
        // A renewal that comes later finds nothing to renew.
        let given = std::mem::take(&mut *epoch);
        if let Err(error) = within(lease::give_back(&mut conn, given)).await {
            tracing::warn!(%error, "closing the journal");
        }
        drop(epoch);
        let _ = conn.close().await;
    }

    async fn commit(&mut self, group: Vec<Queued>) {
        let mut current = answer_stale(group, (!self.is_stopped).then_some(self.generation));
        if current.is_empty() {
            return;
        }
        let result = match &self.lost {
            Some(lost) => Err(lost.clone().into()),
            None => self.write(&mut current).await,
        };
        if let Err(error) = &result {
            tracing::error!(%error, batches = current.len(), "the journal refuses all operations until it is recovered");
            self.is_stopped = true;
            self.conn = None;
        }
        for queued in current {
            let _ = queued.answer.send(result.clone().map(|()| None));
        }
    }

    async fn write(&mut self, group: &mut [Queued]) -> Result<(), CommitError> {
        let (mut script, mut seq) = (Script::for_server(), self.last_seq);
        for queued in group {
            insert(&mut script, &mut queued.batch, &mut seq).map_err(|error| match error {
                InsertError::Encoding(detail) => CommitError::Encoding { detail },
                InsertError::Database(error) => CommitError::Database { detail: error.to_string() },
            })?;
        }
        let begin = Instant::now();
        let mut is_told = false;
        loop {
            match self.attempt(&script).await {
                Ok(()) => break,
                Err(Failure::Refused(detail)) => return Err(CommitError::Database { detail }),
                Err(Failure::Lost(lost)) => return Err(self.lose(lost).into()),
                Err(Failure::Cut(error)) if begin.elapsed() > PATIENCE => {
                    let detail = format!("the server did not answer for {} s: {error}", PATIENCE.as_secs());
                    return Err(self.lose(LeaseLost { detail }).into());
                }
                Err(Failure::Cut(error)) => {
                    self.conn = None;
                    if !std::mem::replace(&mut is_told, true) {
                        tracing::warn!(error, server = %self.server, "the connection was cut during a commit; retrying");
                    }
                    sleep(PAUSE).await;
                }
            }
        }
        self.commits += 1;
        self.last_seq = seq;
        Ok(())
    }

    /// Writes the script in a transaction, unless an earlier attempt has written it.
    async fn attempt(&mut self, script: &Script) -> Result<(), Failure> {
        let epoch = self.generation.cast_signed();
        if self.conn.is_none() {
            let mut conn = within(self.server.connect()).await?;
            let Some(commits) = within(lease::commits(&mut conn, epoch)).await? else {
                return Err(Failure::Lost(lease::lost(Some(&mut conn)).await));
            };
            self.conn = Some(conn);
            if commits > self.commits {
                return Ok(());
            }
        }
        let Some(conn) = &mut self.conn else { return Err(Failure::Cut("no connection".into())) };
        let written = write(conn, script, epoch).await;
        if matches!(written, Err(Failure::Refused(_))) {
            // The connection is dropped in any case; the server then rolls back.
            let _ = within(sqlx::raw_sql("ROLLBACK").execute(conn)).await;
        }
        written
    }

    fn lose(&mut self, lost: LeaseLost) -> LeaseLost {
        self.lease.lose(lost.clone());
        self.lost.insert(lost).clone()
    }

    /// Begins the next generation, which is the next epoch of the lease, and reads the state on disk.
    async fn recover(&mut self) -> Result<Recovered, RecoverError> {
        if let Some(lost) = &self.lost {
            return Err(lost.clone().into());
        }
        let failed = |error: sqlx::Error| RecoverError::Database { detail: error.to_string() };
        self.conn = None;
        let mut conn = within(self.server.connect()).await.map_err(failed)?;
        let since = since_boot();
        let mut epoch = self.lease.epoch().await;
        let taken = within(lease::take_again(&mut conn, *epoch)).await.map_err(failed)?;
        let Some((next, commits)) = taken else {
            drop(epoch);
            let lost = lease::lost(Some(&mut conn)).await;
            return Err(self.lose(lost).into());
        };
        *epoch = next;
        drop(epoch);
        self.lease.renewed(since);
        sqlx::query("UPDATE meta SET writer = $1")
            .bind(concat!("limo ", env!("CARGO_PKG_VERSION")))
            .execute(&mut conn)
            .await
            .map_err(failed)?;
        let (recovered, last_seq) = read::recovered(Db::Server(&mut conn), next.cast_unsigned()).await?;
        (self.generation, self.last_seq, self.commits) = (next.cast_unsigned(), last_seq, commits);
        (self.conn, self.is_stopped) = (Some(conn), false);
        Ok(recovered)
    }
}

async fn write(conn: &mut PgConnection, script: &Script, epoch: i64) -> Result<(), Failure> {
    within(sqlx::raw_sql("BEGIN").execute(&mut *conn)).await?;
    if within(lease::advance(conn, epoch)).await?.is_none() {
        let _ = within(sqlx::raw_sql("ROLLBACK").execute(&mut *conn)).await;
        return Err(Failure::Lost(lease::lost(Some(conn)).await));
    }
    script.run_on_server(conn).await?;
    within(sqlx::raw_sql("COMMIT").execute(conn)).await?;
    Ok(())
}

/// Waits for the lease. Returns the connection, the epoch, the number of commits, and a time since boot before the
/// lease was taken.
async fn stand_by(server: &Server, conn: PgConnection) -> Result<(PgConnection, i64, i64, Duration), OpenError> {
    // A process is identified by its epoch; this text is for people.
    let host = nix::unistd::gethostname().map_or_else(|_| String::new(), |name| name.to_string_lossy().into_owned());
    let holder = format!("process {} of {host}", std::process::id());
    let (mut conn, mut told) = (Some(conn), None);
    loop {
        let since = since_boot();
        let taken = match &mut conn {
            Some(conn) => within(lease::take(conn, &holder)).await,
            None => match within(server.connect()).await {
                Ok(opened) => within(lease::take(conn.insert(opened), &holder)).await,
                Err(error) => Err(error),
            },
        };
        let news = match taken {
            Ok(Attempted::Taken(epoch, commits)) => {
                // The connection took the lease, so it exists.
                if let Some(conn) = conn.take() {
                    tracing::info!(epoch, %server, "this master has the lease");
                    return Ok((conn, epoch, commits, since));
                }
                continue;
            }
            Ok(Attempted::HeldBy(other)) => format!("{other} has the lease"),
            Err(error) if is_cut(&error) => {
                conn = None;
                error.to_string()
            }
            Err(error) => return Err(server.failed(&error)),
        };
        if told.as_ref() != Some(&news) {
            tracing::info!(reason = news, %server, "standing by");
            told = Some(news);
        }
        sleep(STANDBY_PAUSE).await;
    }
}

/// Limits the time of one statement.
pub(crate) async fn within<T>(statement: impl Future<Output = Result<T, sqlx::Error>>) -> Result<T, sqlx::Error> {
    let late = || sqlx::Error::Io(std::io::ErrorKind::TimedOut.into());
    timeout(STATEMENT_TIME, statement).await.unwrap_or_else(|_| Err(late()))
}

/// Returns true if the connection failed, and not the statement.
fn is_cut(error: &sqlx::Error) -> bool {
    match error {
        sqlx::Error::Database(error) => {
            // Connection errors, a server that stops or starts or ends this transaction, and too many connections.
            let code = error.code().unwrap_or_default();
            code.starts_with("08") || code.starts_with("57P") || matches!(&*code, "25P03" | "53300")
        }
        sqlx::Error::Io(_) | sqlx::Error::Protocol(_) | sqlx::Error::WorkerCrashed => true,
        _ => false,
    }
}
