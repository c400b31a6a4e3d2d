//! The lease on a journal in a database: one row, which one master holds. Its epoch grows whenever a master takes it,
//! and each transaction of a master checks the epoch. So a master that lost the lease cannot write, whatever it
//! believes. The database's clock decides if a lease has run out.
//!
//! A thread of its own renews the lease, because the master may be busy for longer than a lease.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use nix::time::{ClockId, clock_gettime};
use sqlx::postgres::PgRow;
use sqlx::{PgConnection, Row};
use tokio::sync::{Mutex, MutexGuard, oneshot, watch};
use tokio::time::timeout;

use super::schema::Server;
use crate::error::LeaseLost;

/// Time for which a lease is held after its renewal. Another master takes over after this time without a renewal.
pub const LEASE: Duration = Duration::from_secs(6);

/// Pause between two renewals.
const RENEW_EVERY: Duration = Duration::from_millis(1_500);

/// Longest wait for the database after a lease has run out: enough for two renewals. Until then nothing is done, and
/// afterwards callers must find another master.
const GRACE: Duration = Duration::from_secs(4);

/// Longest time of one renewal.
const RENEWAL_TIME: Duration = Duration::from_secs(5);

/// Knowledge of this master about its lease.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Hold {
    /// The database grants the lease at least until this time since the machine's boot.
    Until(Duration),
    Lost(LeaseLost),
}

/// The lease of a master. All clones are of one lease.
#[derive(Clone)]
pub struct Lease {
    /// Epoch of the lease in the database. Locked while it is changed or renewed.
    epoch: Arc<Mutex<i64>>,
    hold: Arc<watch::Sender<Hold>>,
}

impl Lease {
    /// Makes the lease that was taken after `since`, a time since boot.
    pub(super) fn taken(epoch: i64, since: Duration) -> Self {
        let (hold, _) = watch::channel(Hold::Until(since + LEASE));
        Self { epoch: Arc::new(Mutex::new(epoch)), hold: Arc::new(hold) }
    }

    /// Returns true if no other master can have the lease now.
    pub fn is_certain(&self) -> bool {
        matches!(*self.hold.borrow(), Hold::Until(until) if since_boot() < until)
    }

    /// Waits until the database confirms the lease, if that is needed: after a pause of the process, or while the database
    /// does not answer.
    ///
    /// # Errors
    /// [`LeaseLost`] if another master has it, or the database does not answer for four seconds.
    pub async fn confirmed(&self) -> Result<(), LeaseLost> {
        self.confirmed_within(GRACE).await
    }

    async fn confirmed_within(&self, grace: Duration) -> Result<(), LeaseLost> {
        let late = || LeaseLost { detail: "it ran out, and the database does not confirm it".into() };
        timeout(grace, self.confirmation()).await.unwrap_or_else(|_| Err(late()))
    }

    async fn confirmation(&self) -> Result<(), LeaseLost> {
        let mut changes = self.hold.subscribe();
        loop {
            match &*changes.borrow_and_update() {
                Hold::Lost(lost) => return Err(lost.clone()),
                Hold::Until(until) if since_boot() < *until => return Ok(()),
                Hold::Until(_) => {}
            }
            // The sender lives as long as this lease.
            let _ = changes.changed().await;
        }
    }

    /// Returns the epoch, locked against renewals.
    pub(super) async fn epoch(&self) -> MutexGuard<'_, i64> {
        self.epoch.lock().await
    }

    pub(super) fn lose(&self, lost: LeaseLost) {
        self.hold.send_replace(Hold::Lost(lost));
    }

    /// Records a renewal that began at `since`. A lost lease stays lost.
    pub(super) fn renewed(&self, since: Duration) {
        self.hold.send_if_modified(|hold| match hold {
            Hold::Until(until) => {
                *until = (*until).max(since + LEASE);
                true
            }
            Hold::Lost(_) => false,
        });
    }

    /// Renews the lease in a thread until the returned sender is dropped, or the lease is lost.
    pub(super) fn keep(&self, server: Server) -> std::io::Result<oneshot::Sender<()>> {
        let (stop, stopped) = oneshot::channel();
        let lease = self.clone();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        thread::Builder::new().name("lease".into()).spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    _ = stopped => {}
                    () = lease.renew_always(&server) => {}
                }
            });
        })?;
        Ok(stop)
    }

    async fn renew_always(&self, server: &Server) {
        let (mut conn, mut is_told) = (None, false);
        loop {
            tokio::time::sleep(RENEW_EVERY).await;
            let epoch = self.epoch().await;
            let since = since_boot();
            match timeout(RENEWAL_TIME, renew(server, &mut conn, *epoch)).await {
                Ok(Ok(true)) => {
                    if std::mem::take(&mut is_told) {
                        tracing::info!("the lease is renewed again");
                    }
                    self.renewed(since);
                }
                Ok(Ok(false)) => return self.lose(lost(conn.as_mut()).await),
                failed => {
                    conn = None;
                    if !std::mem::replace(&mut is_told, true) {
                        let error = match failed {
                            Ok(Err(error)) => error.to_string(),
                            _ => "no answer".to_owned(),
                        };
                        tracing::warn!(error, %server, "cannot renew the lease; retrying");
                    }
                }
            }
        }
    }
}

/// Returns the time since the machine's boot, in which pauses count.
pub(super) fn since_boot() -> Duration {
    // This clock exists on every Linux. Without it, each lease would be uncertain.
    clock_gettime(ClockId::CLOCK_BOOTTIME).map_or(Duration::MAX / 2, Duration::from)
}

async fn renew(server: &Server, conn: &mut Option<PgConnection>, epoch: i64) -> Result<bool, sqlx::Error> {
    if conn.is_none() {
        *conn = Some(server.connect().await?);
    }
    let Some(conn) = conn else { return Ok(true) };
    let renewal = "UPDATE lease SET renewed_at = clock_timestamp() WHERE epoch = $1";
    Ok(sqlx::query(renewal).bind(epoch).execute(conn).await?.rows_affected() == 1)
}

/// Describes the loss of the lease.
pub(super) async fn lost(conn: Option<&mut PgConnection>) -> LeaseLost {
    let holder = match conn {
        Some(conn) => sqlx::query_scalar("SELECT holder FROM lease").fetch_one(conn).await.unwrap_or_default(),
        None => String::new(),
    };
    LeaseLost { detail: if holder.is_empty() { "another master took it".into() } else { format!("{holder} took it") } }
}

/// Result of an attempt to take the lease.
pub(crate) enum Attempted {
    /// The lease is taken, with its epoch and the number of commits so far.
    Taken(i64, i64),
    /// Another master holds it.
    HeldBy(String),
}

/// Takes the lease if nobody holds it.
pub(crate) async fn take(conn: &mut PgConnection, holder: &str) -> Result<Attempted, sqlx::Error> {
    let taken = sqlx::query(
        "UPDATE lease SET epoch = epoch + 1, holder = $1, renewed_at = clock_timestamp(), duration_ms = $2 \
         WHERE renewed_at + duration_ms * interval '1 millisecond' < clock_timestamp() RETURNING epoch, commits",
    );
    let duration = i64::try_from(LEASE.as_millis()).unwrap_or(i64::MAX);
    match taken.bind(holder).bind(duration).fetch_optional(&mut *conn).await? {
        Some(row) => pair(&row).map(|(epoch, commits)| Attempted::Taken(epoch, commits)),
        None => Ok(Attempted::HeldBy(sqlx::query_scalar("SELECT holder FROM lease").fetch_one(conn).await?)),
    }
}

/// Takes the lease again under a new epoch. Returns the epoch and the number of commits, `None` if it is lost.
pub(super) async fn take_again(conn: &mut PgConnection, epoch: i64) -> Result<Option<(i64, i64)>, sqlx::Error> {
    let text = "UPDATE lease SET epoch = epoch + 1, renewed_at = clock_timestamp() WHERE epoch = $1 \
                RETURNING epoch, commits";
    sqlx::query(text).bind(epoch).fetch_optional(conn).await?.as_ref().map(pair).transpose()
}

/// Begins a commit: returns its number, `None` if the lease is lost. The row stays locked until the transaction ends.
pub(crate) async fn advance(conn: &mut PgConnection, epoch: i64) -> Result<Option<i64>, sqlx::Error> {
    let text = "UPDATE lease SET commits = commits + 1, renewed_at = clock_timestamp() WHERE epoch = $1 \
                RETURNING commits";
    sqlx::query_scalar(text).bind(epoch).fetch_optional(conn).await
}

/// Returns the number of commits, `None` if the lease is lost. Waits for a transaction that is still open, such as one
/// of an earlier connection.
pub(super) async fn commits(conn: &mut PgConnection, epoch: i64) -> Result<Option<i64>, sqlx::Error> {
    let text = "SELECT commits FROM lease WHERE epoch = $1 FOR UPDATE";
    sqlx::query_scalar(text).bind(epoch).fetch_optional(conn).await
}

/// Gives the lease back, so that another master can take it at once.
pub(crate) async fn give_back(conn: &mut PgConnection, epoch: i64) -> Result<(), sqlx::Error> {
    let text = "UPDATE lease SET renewed_at = to_timestamp(0) WHERE epoch = $1";
    sqlx::query(text).bind(epoch).execute(conn).await.map(drop)
}

fn pair(row: &PgRow) -> Result<(i64, i64), sqlx::Error> {
    Ok((row.try_get(0)?, row.try_get(1)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_uncertain_lease_is_certain_after_a_renewal_and_a_lost_one_stays_lost() {
        let lease = Lease::taken(3, Duration::ZERO);
        lease.hold.send_replace(Hold::Until(Duration::ZERO));
        assert!(!lease.is_certain());
        let unconfirmed = lease.confirmed_within(Duration::ZERO).await;
        assert!(unconfirmed.is_err_and(|lost| lost.detail.starts_with("it ran out")));
        let (confirmed, ()) = tokio::join!(lease.confirmed(), async { lease.renewed(since_boot()) });
        assert!(confirmed.is_ok() && lease.is_certain());
        let lost = LeaseLost { detail: "m2 took it".into() };
        lease.lose(lost.clone());
        lease.renewed(since_boot());
        assert!(!lease.is_certain());
        assert_eq!(lease.confirmed().await, Err(lost));
    }
}
