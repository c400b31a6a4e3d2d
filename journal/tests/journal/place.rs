//! The two places of a journal: a file, and a database of a PostgreSQL server.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use limo_journal::{Journal, Opening, Recovered, Server};
use sqlx::postgres::PgConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions, PgConnection};
use tempfile::TempDir;

use crate::run;

/// A state directory, and a database if the journal is on a server.
pub struct Place {
    dir: TempDir,
    server: Option<Database>,
}

/// A database that is dropped with its test.
pub struct Database {
    /// Address of the server's own database.
    admin: PgConnectOptions,
    name: String,
    /// Address of the database.
    pub address: String,
}

impl Database {
    /// Creates a database on the server at `address`, whose own database is `postgres`.
    pub async fn new(address: &str) -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let name = format!("limo_{}_{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let admin: PgConnectOptions = address.parse().expect("an address");
        let database = Self { admin, address: address.replacen("/postgres?", &format!("/{name}?"), 1), name };
        assert_ne!(database.address, address, "the address names the database postgres");
        database.drop_it().await;
        let create = format!("CREATE DATABASE {}", database.name);
        sqlx::raw_sql(AssertSqlSafe(create)).execute(&mut database.admin().await).await.expect("created");
        database
    }

    pub fn server(&self) -> Server {
        self.address.parse().expect("an address")
    }

    /// Connects to the server's own database.
    pub async fn admin(&self) -> PgConnection {
        self.admin.connect().await.expect("a server")
    }

    /// Runs a statement in the database; returns the number of changed rows.
    pub async fn alter(&self, statement: &'static str) -> u64 {
        let options: PgConnectOptions = self.address.parse().expect("an address");
        let mut conn = options.connect().await.expect("a database");
        sqlx::raw_sql(statement).execute(&mut conn).await.expect("executed").rows_affected()
    }

    pub async fn drop_it(&self) {
        let text = format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", self.name);
        sqlx::raw_sql(AssertSqlSafe(text)).execute(&mut self.admin().await).await.expect("dropped");
    }
}

impl Place {
    pub fn file() -> Self {
        Self { dir: tempfile::tempdir().expect("a directory"), server: None }
    }

    /// Makes a place in a new database of the server at `address`.
    pub async fn on(address: &str) -> Self {
        Self { server: Some(Database::new(address).await), ..Self::file() }
    }

    /// Returns the database.
    ///
    /// # Panics
    /// If the journal is in a file.
    pub fn place(&self) -> limo_journal::Place {
        limo_journal::Place::Server(self.server.as_ref().expect("a place on a server").server())
    }

    /// Drops the database.
    pub async fn drop_it(self) {
        if let Some(database) = self.server {
            database.drop_it().await;
        }
    }

    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    pub async fn open(&self) -> (Journal, Recovered) {
        self.open_as(Opening::default()).await
    }

    pub async fn open_as(&self, opening: Opening) -> (Journal, Recovered) {
        let opened = match &self.server {
            Some(database) => Journal::open_on(&database.server(), self.dir(), opening).await,
            None => Journal::open_as(self.dir(), opening).await,
        };
        opened.expect("the journal opens")
    }

    /// Closes the journal and opens it again.
    pub async fn reopen(&self, journal: Journal) -> (Journal, Recovered) {
        journal.close().await;
        self.open().await
    }
}

/// Runs a test with a journal in a file, then with one on the server for tests.
pub fn on_both(test: impl AsyncFn(&Place)) {
    run(test(&Place::file()));
    let Some(address) = limo_requirements::postgres() else { return };
    run(async {
        let place = Place::on(&address).await;
        test(&place).await;
        place.drop_it().await;
    });
}
