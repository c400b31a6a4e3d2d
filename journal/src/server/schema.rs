//! The tables of a journal in a database of PostgreSQL, and the setup of its connections. The tables have the columns
//! of the newest version of the file; `lease` exists only here. Texts that are compared have the order of their bytes,
//! as in SQLite.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use limo_model::ClusterId;
use sqlx::postgres::PgConnectOptions;
use sqlx::{ConnectOptions, Connection, PgConnection};

use crate::error::OpenError;

/// Version of the tables of this program.
const VERSION: i64 = 1;

/// Key of the advisory lock under which the tables are made: "Limo" in ASCII.
const MAKING: &str = "SELECT pg_advisory_xact_lock(1281977711)";

const TABLES: &str = r#"
CREATE TABLE meta (
    one BIGINT PRIMARY KEY CHECK (one = 1), version BIGINT NOT NULL,
    cluster BYTEA NOT NULL CHECK (length(cluster) = 16), incarnation BIGINT NOT NULL, begun BOOLEAN NOT NULL,
    writer TEXT NOT NULL
);
INSERT INTO meta VALUES (1, 1, uuid_send(gen_random_uuid()), 0, false, '');
CREATE TABLE lease (
    one BIGINT PRIMARY KEY CHECK (one = 1), holder TEXT NOT NULL, epoch BIGINT NOT NULL,
    renewed_at TIMESTAMPTZ NOT NULL, duration_ms BIGINT NOT NULL, commits BIGINT NOT NULL
);
INSERT INTO lease VALUES (1, '', 0, to_timestamp(0), 0, 0);
CREATE TABLE entries (
    seq BIGINT PRIMARY KEY, at BIGINT NOT NULL, kind TEXT NOT NULL CHECK (kind IN ('event', 'round')),
    body TEXT NOT NULL
);
CREATE TABLE snapshots (seq BIGINT PRIMARY KEY, body TEXT NOT NULL);
CREATE TABLE submissions (
    job BIGINT PRIMARY KEY, key BYTEA NOT NULL UNIQUE CHECK (length(key) = 16), uid BIGINT NOT NULL, launch BYTEA
);
CREATE INDEX live ON submissions (job) WHERE launch IS NOT NULL;
CREATE TABLE finished (
    job BIGINT PRIMARY KEY, "user" TEXT COLLATE "C" NOT NULL, name TEXT COLLATE "C" NOT NULL,
    application TEXT COLLATE "C" NOT NULL, state TEXT NOT NULL, submitted BIGINT NOT NULL, started BIGINT,
    ended BIGINT NOT NULL, energy_mj BIGINT NOT NULL, cost BIGINT, start_now_cost BIGINT, emulated BOOLEAN NOT NULL,
    measured BOOLEAN, report TEXT COLLATE "C" NOT NULL, step_of BIGINT
);
CREATE INDEX finished_by_end ON finished (ended, job);
CREATE INDEX finished_by_user ON finished ("user", ended, job);
CREATE INDEX finished_steps ON finished (step_of) WHERE step_of IS NOT NULL;
CREATE TABLE readings (
    at BIGINT NOT NULL, node TEXT COLLATE "C" NOT NULL, since BIGINT NOT NULL, mean_mw BIGINT NOT NULL,
    low_mw BIGINT NOT NULL, high_mw BIGINT NOT NULL, energy_mj BIGINT NOT NULL, seen_ms BIGINT NOT NULL,
    looks BIGINT NOT NULL, PRIMARY KEY (at, node, since)
);
CREATE TABLE states (
    at BIGINT NOT NULL, node TEXT COLLATE "C" NOT NULL, state TEXT COLLATE "C" NOT NULL, since BIGINT NOT NULL,
    span_ms BIGINT NOT NULL, energy_mj BIGINT NOT NULL, seen_ms BIGINT NOT NULL, PRIMARY KEY (at, node, state, since)
);
CREATE TABLE changes (
    number BIGINT NOT NULL, item BIGINT NOT NULL, at BIGINT NOT NULL, by TEXT NOT NULL, undo_of BIGINT,
    subject TEXT NOT NULL, body TEXT NOT NULL, PRIMARY KEY (number, item)
);
CREATE INDEX changes_by_subject ON changes (subject, number);
CREATE TABLE nodes (name TEXT COLLATE "C" PRIMARY KEY, instance TEXT NOT NULL, boot TEXT NOT NULL);
CREATE TABLE kept (name TEXT COLLATE "C" PRIMARY KEY, body TEXT NOT NULL);
"#;

/// Begins an incarnation with a random number from 1 to `i64::MAX`.
const NEW_INCARNATION: &str = "
UPDATE meta SET incarnation = (hashtextextended(gen_random_uuid()::text, 0) & 9223372036854775806) + 1, begun = true;
DELETE FROM nodes;
";

/// A database of a PostgreSQL server that holds one journal.
#[derive(Clone)]
pub struct Server {
    text: String,
    options: Arc<PgConnectOptions>,
}

impl Server {
    /// Returns true if `text` names a database of a server rather than a file.
    pub fn is_meant(text: &str) -> bool {
        text.starts_with("postgres://") || text.starts_with("postgresql://")
    }

    /// Opens a connection. A commit is durable when it returns, and a transaction of a master that no longer answers
    /// ends within five seconds, so that it does not block its successor.
    pub(crate) async fn connect(&self) -> Result<PgConnection, sqlx::Error> {
        let mut conn = self.options.connect().await?;
        let setup = "SELECT set_config('synchronous_commit', 'on', false) \
                     WHERE current_setting('synchronous_commit') = 'off'";
        sqlx::raw_sql(setup).execute(&mut conn).await?;
        Ok(conn)
    }

    /// Converts an error of opening this database.
    pub(crate) fn failed(&self, error: &sqlx::Error) -> OpenError {
        OpenError::Server { server: self.to_string(), detail: error.to_string() }
    }
}

impl FromStr for Server {
    type Err = String;

    /// Reads an address such as `postgres://limo@db.example/limo`.
    fn from_str(text: &str) -> Result<Self, String> {
        if !Self::is_meant(text) {
            return Err("it must begin with postgres://".to_owned());
        }
        let options: PgConnectOptions = text.parse().map_err(|error: sqlx::Error| error.to_string())?;
        let options = options
            .application_name("limo")
            .options([("idle_in_transaction_session_timeout", "5000"), ("client_min_messages", "warning")])
            .disable_statement_logging();
        Ok(Self { text: text.to_owned(), options: Arc::new(options) })
    }
}

impl fmt::Display for Server {
    /// Omits the password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let host = match self.options.get_socket() {
            Some(socket) => socket.display().to_string(),
            None => format!("{}:{}", self.options.get_host(), self.options.get_port()),
        };
        write!(f, "the database {} at {host}", self.options.get_database().unwrap_or(self.options.get_username()))
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl PartialEq for Server {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

/// Creates the tables in an empty database.
///
/// # Errors
/// [`OpenError`] if the database has other tables, or those of a newer program, or cannot be used.
pub(crate) async fn prepare(conn: &mut PgConnection, server: &Server) -> Result<(), OpenError> {
    let failed = |error: sqlx::Error| server.failed(&error);
    let mut transaction = conn.begin().await.map_err(failed)?;
    sqlx::raw_sql(MAKING).execute(&mut *transaction).await.map_err(failed)?;
    let count = "SELECT count(*), count(*) FILTER (WHERE tablename IN ('meta', 'lease')) FROM pg_tables \
                 WHERE schemaname = current_schema()";
    let (tables, own): (i64, i64) = sqlx::query_as(count).fetch_one(&mut *transaction).await.map_err(failed)?;
    match (tables, own) {
        (0, _) => {
            sqlx::raw_sql(TABLES).execute(&mut *transaction).await.map_err(failed)?;
        }
        (_, 2) => {
            let found = sqlx::query_scalar("SELECT version FROM meta").fetch_one(&mut *transaction).await;
            let found: i64 = found.map_err(failed)?;
            if found > VERSION {
                return Err(OpenError::NewerServer { server: server.to_string(), found, known: VERSION });
            }
        }
        _ => return Err(OpenError::ForeignServer { server: server.to_string() }),
    }
    transaction.commit().await.map_err(failed)
}

/// Begins the incarnation of a new journal, or of one that its operator has restored. Gives an empty journal the id of
/// its cluster.
pub(crate) async fn begin(
    conn: &mut PgConnection,
    (cluster, restored): (Option<ClusterId>, bool),
) -> Result<(), sqlx::Error> {
    let mut transaction = conn.begin().await?;
    if let Some(cluster) = cluster {
        let text = "UPDATE meta SET cluster = $1 WHERE NOT EXISTS (SELECT 1 FROM entries) AND NOT EXISTS \
                    (SELECT 1 FROM snapshots) AND NOT EXISTS (SELECT 1 FROM submissions)";
        sqlx::query(text).bind(&cluster.0[..]).execute(&mut *transaction).await?;
    }
    let begun: bool = sqlx::query_scalar("SELECT begun FROM meta").fetch_one(&mut *transaction).await?;
    if !begun || restored {
        sqlx::raw_sql(NEW_INCARNATION).execute(&mut *transaction).await?;
    }
    transaction.commit().await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_is_shown_without_its_password() {
        let server: Server = "postgres://limo:secret@db.example:5433/cluster".parse().expect("an address");
        assert_eq!(server.to_string(), "the database cluster at db.example:5433");
        assert_eq!(format!("{server:?}"), "the database cluster at db.example:5433");
        assert!("sqlite:/there".parse::<Server>().is_err() && !Server::is_meant("/var/lib/limo"));
    }
}
