//! Stores profiles in `profiles.db`, in the state directory of the master: the newest runs of each key, and imported
//! profiles. It also keeps the finished jobs from which the predictor learns, and its model. A separate file from the
//! journal, so that learning can fail or wait without effect on jobs.
//!
//! The caller of [`ProfileDb::learn`] omits failed runs.

mod finished;
mod rows;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use limo_model::{Energy, JobId, NameError, Power, Profile, ProfileKey, Span};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteLockingMode, SqliteSynchronous};
use sqlx::{ConnectOptions, Connection, SqliteConnection};
use thiserror::Error;
use tokio::sync::Mutex;

/// Number of learned runs from which on they replace an imported profile. With three runs, the median is safe from
/// one that hung. One or two runs are worth less than a carefully written file.
pub const LEARNED_WINS: u32 = 3;

pub use finished::{FINISHED_LIMIT, StoredModel};

const FILE: &str = "profiles.db";
const VERSION: i64 = 4;
/// "LimP" in ASCII: distinguishes this file from other SQLite files, such as the journal.
const APPLICATION: i64 = 0x4c69_6d50;

/// `cap_mw` is -1 without a cap and `cores` 0 for any number, because SQLite does not treat nulls as equal. `jobs`
/// contains all jobs of learned runs: a job counts once, even if its run has left the window.
const TABLES: &str = "
BEGIN IMMEDIATE;
CREATE TABLE keys (
    id INTEGER PRIMARY KEY, application TEXT NOT NULL, size TEXT NOT NULL, hardware TEXT NOT NULL,
    cores INTEGER NOT NULL, cap_mw INTEGER NOT NULL, learned INTEGER NOT NULL DEFAULT 0,
    UNIQUE (application, size, hardware, cores, cap_mw)
) STRICT;
CREATE TABLE runs (
    ordinal INTEGER PRIMARY KEY, key INTEGER NOT NULL REFERENCES keys ON DELETE CASCADE,
    duration_ms INTEGER NOT NULL, power_mw INTEGER NOT NULL, energy_mj INTEGER NOT NULL, confidence INTEGER NOT NULL
) STRICT;
CREATE INDEX runs_of_key ON runs (key, ordinal);
CREATE TABLE imported (
    key INTEGER PRIMARY KEY REFERENCES keys ON DELETE CASCADE, duration_ms INTEGER NOT NULL, power_mw INTEGER NOT NULL,
    energy_mj INTEGER NOT NULL, spread_permille INTEGER NOT NULL, runs INTEGER NOT NULL
) STRICT;
CREATE TABLE jobs (job INTEGER PRIMARY KEY) STRICT;
PRAGMA application_id = 1281977680;
PRAGMA user_version = 2;
COMMIT;
";

/// Upgrades version 1 to 2. Learned runs are dropped: they have no number of cores, and all commands with one file
/// name shared a key. Imported profiles hold for any number of cores.
const SECOND: &str = "
PRAGMA foreign_keys = OFF;
BEGIN IMMEDIATE;
DROP TABLE runs;
CREATE TABLE runs (
    ordinal INTEGER PRIMARY KEY, key INTEGER NOT NULL REFERENCES keys ON DELETE CASCADE,
    duration_ms INTEGER NOT NULL, power_mw INTEGER NOT NULL, energy_mj INTEGER NOT NULL, confidence INTEGER NOT NULL
) STRICT;
CREATE INDEX runs_of_key ON runs (key, ordinal);
CREATE TABLE keys_2 (
    id INTEGER PRIMARY KEY, application TEXT NOT NULL, size TEXT NOT NULL, hardware TEXT NOT NULL,
    cores INTEGER NOT NULL, cap_mw INTEGER NOT NULL, learned INTEGER NOT NULL DEFAULT 0,
    UNIQUE (application, size, hardware, cores, cap_mw)
) STRICT;
INSERT INTO keys_2 (id, application, size, hardware, cores, cap_mw)
    SELECT id, application, size, hardware, 0, cap_mw FROM keys WHERE id IN (SELECT key FROM imported);
DROP TABLE keys;
ALTER TABLE keys_2 RENAME TO keys;
PRAGMA user_version = 2;
COMMIT;
PRAGMA foreign_keys = ON;
";

/// Upgrades version 2 to 3. `finished` has the newest [`FINISHED_LIMIT`] jobs in the order of their ends; hashes and
/// quantities are those of [`crate::predict::FinishedJob`].
const THIRD: &str = "
BEGIN IMMEDIATE;
CREATE TABLE finished (
    ordinal INTEGER PRIMARY KEY, job INTEGER NOT NULL UNIQUE,
    user INTEGER NOT NULL, queue INTEGER NOT NULL, application INTEGER NOT NULL, stem INTEGER NOT NULL,
    array INTEGER NOT NULL, requested_s INTEGER NOT NULL, nodes INTEGER NOT NULL, cores INTEGER NOT NULL,
    accelerators INTEGER NOT NULL, hardware INTEGER NOT NULL, memory_mib INTEGER NOT NULL, hour INTEGER NOT NULL,
    mean_mw INTEGER NOT NULL, peak_mw INTEGER NOT NULL, nameplate_mw INTEGER NOT NULL, duration_ms INTEGER NOT NULL
) STRICT;
CREATE TABLE model (
    id INTEGER PRIMARY KEY CHECK (id = 1), number INTEGER NOT NULL, trained_ms INTEGER NOT NULL,
    rows INTEGER NOT NULL, newest INTEGER NOT NULL, bytes BLOB NOT NULL
) STRICT;
PRAGMA user_version = 3;
COMMIT;
";

/// Upgrades version 3 to 4. Known profiles hold for any number of nodes. Jobs that finished before have no times: they
/// count as submitted when they ended.
const FOURTH: &str = "
PRAGMA foreign_keys = OFF;
BEGIN IMMEDIATE;
CREATE TABLE keys_4 (
    id INTEGER PRIMARY KEY, application TEXT NOT NULL, size TEXT NOT NULL, hardware TEXT NOT NULL,
    cores INTEGER NOT NULL, nodes INTEGER NOT NULL, cap_mw INTEGER NOT NULL, learned INTEGER NOT NULL DEFAULT 0,
    UNIQUE (application, size, hardware, cores, nodes, cap_mw)
) STRICT;
INSERT INTO keys_4 SELECT id, application, size, hardware, cores, 0, cap_mw, learned FROM keys;
DROP TABLE keys;
ALTER TABLE keys_4 RENAME TO keys;
ALTER TABLE finished ADD COLUMN submitted_ms INTEGER NOT NULL DEFAULT 0;
ALTER TABLE finished ADD COLUMN ended_ms INTEGER NOT NULL DEFAULT 0;
PRAGMA user_version = 4;
COMMIT;
PRAGMA foreign_keys = ON;
";

/// Run of a finished job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    /// Job of the run. It counts once among the runs of its key, however often it is recorded.
    pub job: JobId,
    /// Key of the job's unit, including its cap.
    pub key: ProfileKey,
    /// Time from the start of the command to its end.
    pub duration: Span,
    /// Mean draw above idle.
    pub power: Power,
    /// Energy above idle.
    pub energy: Energy,
    /// Confidence that the energy is the run's own, in thousandths.
    pub confidence: u16,
}

/// Reason why a request to the profile database failed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[expect(missing_docs, reason = "the messages say what each variant is")]
pub enum StoreError {
    #[error("cannot open the profile database {path}: {detail}")]
    Open { path: PathBuf, detail: String },
    #[error("{path} is not a profile database of Limo")]
    Foreign { path: PathBuf },
    #[error("{path} has schema version {found}, but this program knows only versions up to {known}: use a newer Limo")]
    Newer { path: PathBuf, found: i64, known: i64 },
    #[error("profile of {key}: {source}")]
    Name {
        key: Box<ProfileKey>,
        #[source]
        source: NameError,
    },
    #[error("profile of {key}: the {quantity} is negative")]
    Negative { key: Box<ProfileKey>, quantity: &'static str },
    #[error("job {job} has a number that the profile database cannot hold")]
    Job { job: JobId },
    #[error("the profile database failed: {detail}")]
    Database { detail: String },
    #[error("the program is stopping")]
    Stopping,
}

impl From<sqlx::Error> for StoreError {
    fn from(error: sqlx::Error) -> Self {
        Self::Database { detail: error.to_string() }
    }
}

/// Profile database. Each call is one transaction, and completes even if the caller stops waiting. Needs a tokio
/// runtime.
pub struct ProfileDb {
    conn: Arc<Mutex<SqliteConnection>>,
}

impl ProfileDb {
    /// Opens or creates `profiles.db` in `dir`, which must exist.
    ///
    /// # Errors
    /// [`StoreError`] if the file cannot be opened, is something else, or is newer than this program.
    pub async fn open(dir: &Path) -> Result<Self, StoreError> {
        let path = dir.join(FILE);
        // The option NORMAL may lose the last runs at a power failure, but never damages the file. Profiles are not
        // promised to any client, and the journal needs the disk's time.
        let options = SqliteConnectOptions::new()
            .filename(&path)
            .create_if_missing(true)
            // The exclusive mode keeps the index in memory instead of a file, so that the database can be opened on a
            // full disk. No other process reads it.
            .locking_mode(SqliteLockingMode::Exclusive)
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Normal)
            .disable_statement_logging();
        spawned(async move {
            let failed = |error: sqlx::Error| StoreError::Open { path: path.clone(), detail: error.to_string() };
            let mut conn = options.connect().await.map_err(failed)?;
            let number = |sql| sqlx::query_scalar::<_, i64>(sql);
            let found = number("PRAGMA user_version").fetch_one(&mut conn).await.map_err(failed)?;
            let application = number("PRAGMA application_id").fetch_one(&mut conn).await.map_err(failed)?;
            let tables = number("SELECT count(*) FROM sqlite_schema").fetch_one(&mut conn).await.map_err(failed)?;
            let steps: &[&'static str] = match found {
                0 if tables == 0 => &[TABLES, THIRD, FOURTH],
                _ if application != APPLICATION => return Err(StoreError::Foreign { path }),
                _ if found > VERSION => return Err(StoreError::Newer { path, found, known: VERSION }),
                1 => &[SECOND, THIRD, FOURTH],
                2 => &[THIRD, FOURTH],
                3 => &[FOURTH],
                _ => &[],
            };
            for step in steps {
                sqlx::raw_sql(*step).execute(&mut conn).await.map_err(failed)?;
            }
            Ok(Self { conn: Arc::new(Mutex::new(conn)) })
        })
        .await
    }

    /// Writes a copy of the current database to the file `to`, which must not exist.
    ///
    /// # Errors
    /// [`StoreError`] if it cannot be written.
    pub async fn backup(&self, to: &Path) -> Result<(), StoreError> {
        let conn = Arc::clone(&self.conn);
        let name = to.to_str().map(str::to_owned);
        let name = name.ok_or_else(|| StoreError::Database { detail: format!("{} is not text", to.display()) })?;
        spawned(async move {
            sqlx::query("VACUUM INTO ?").bind(name).execute(&mut *conn.lock().await).await?;
            Ok(())
        })
        .await
    }

    /// Learns from one run, once for each job: returns `None`, without a change, for a known job. Otherwise returns the
    /// profile in force for the key, which is an imported one until [`LEARNED_WINS`] runs are known.
    ///
    /// # Errors
    /// [`StoreError`] if a name or quantity is wrong, or the file cannot be written; then nothing has changed.
    pub async fn learn(&self, run: Run) -> Result<Option<Profile>, StoreError> {
        check(&run.key, run.duration, run.power, run.energy)?;
        let conn = Arc::clone(&self.conn);
        spawned(async move {
            let mut conn = conn.lock().await;
            let mut transaction = conn.begin_with("BEGIN IMMEDIATE").await?;
            if !rows::first_time(&mut transaction, run.job).await? {
                return Ok(None);
            }
            let key = rows::key_id(&mut transaction, &run.key).await?;
            rows::add_run(&mut transaction, key, &run).await?;
            let profile = rows::in_force(&mut transaction, key).await?;
            transaction.commit().await?;
            Ok(profile)
        })
        .await
    }

    /// Returns the profile in force for each key, ordered by key: the learned one once it has [`LEARNED_WINS`] runs,
    /// else the imported one, else the learned one.
    ///
    /// # Errors
    /// [`StoreError`] if the file cannot be read.
    pub async fn all(&self) -> Result<Vec<(ProfileKey, Profile)>, StoreError> {
        let conn = Arc::clone(&self.conn);
        spawned(async move {
            let mut conn = conn.lock().await;
            let mut transaction = conn.begin().await?;
            let mut all = Vec::new();
            for (id, key) in rows::keys(&mut transaction).await? {
                all.extend(rows::in_force(&mut transaction, id).await?.map(|profile| (key, profile)));
            }
            Ok(all)
        })
        .await
    }

    /// Imports profiles, all or none. Each replaces the imported profile of its key, but no learned run. Their
    /// [`Profile::source`] is ignored: all count as imported. Returns the profiles in force for these keys.
    ///
    /// # Errors
    /// [`StoreError`] if a name or quantity is wrong, or the file cannot be written; then nothing has changed.
    pub async fn set(&self, profiles: Vec<(ProfileKey, Profile)>) -> Result<Vec<(ProfileKey, Profile)>, StoreError> {
        for (key, profile) in &profiles {
            check(key, profile.duration, profile.power, profile.energy)?;
        }
        let conn = Arc::clone(&self.conn);
        spawned(async move {
            let mut conn = conn.lock().await;
            let mut transaction = conn.begin_with("BEGIN IMMEDIATE").await?;
            let mut now = Vec::new();
            for (key, profile) in profiles {
                let id = rows::key_id(&mut transaction, &key).await?;
                rows::import(&mut transaction, id, &profile).await?;
                now.extend(rows::in_force(&mut transaction, id).await?.map(|profile| (key, profile)));
            }
            transaction.commit().await?;
            Ok(now)
        })
        .await
    }

    /// Forgets the learned and imported profiles of a key; returns true if there were any. Known jobs are not learned
    /// from again.
    ///
    /// # Errors
    /// [`StoreError`] if the file cannot be written.
    pub async fn forget(&self, key: &ProfileKey) -> Result<bool, StoreError> {
        let (conn, key) = (Arc::clone(&self.conn), key.clone());
        spawned(async move { rows::forget(&mut *conn.lock().await, &key).await }).await
    }
}

/// Runs `work` to its end, even if the caller stops waiting: a dropped statement would leave its transaction open.
async fn spawned<T: Send + 'static>(
    work: impl Future<Output = Result<T, StoreError>> + Send + 'static,
) -> Result<T, StoreError> {
    tokio::spawn(work).await.unwrap_or(Err(StoreError::Stopping))
}

fn check(key: &ProfileKey, duration: Span, power: Power, energy: Energy) -> Result<(), StoreError> {
    let named = |source| StoreError::Name { key: Box::new(key.clone()), source };
    limo_model::check_name("application", &key.application).map_err(named)?;
    limo_model::check_name("hardware", &key.hardware).map_err(named)?;
    if !key.size.is_empty() {
        limo_model::check_name("size class", &key.size).map_err(named)?;
    }
    let quantities = [
        ("cap", key.cap.is_some_and(|cap| cap < Power::ZERO)),
        ("duration", duration < Span::ZERO),
        ("power", power < Power::ZERO),
        ("energy", energy < Energy::ZERO),
    ];
    match quantities.into_iter().find(|(_, negative)| *negative) {
        Some((quantity, _)) => Err(StoreError::Negative { key: Box::new(key.clone()), quantity }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests;
