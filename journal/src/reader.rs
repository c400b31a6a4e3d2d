//! Answers questions from a separate connection, which cannot write. It works in the journal's task, so that a caller
//! that stops waiting leaves no half-read statement behind. On a full disk it may be the only connection.

use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;

use sqlx::{ConnectOptions, Connection, SqliteConnection};
use tokio::sync::Mutex;
use tokio::sync::mpsc::UnboundedReceiver;

use crate::db::Db;
use crate::schema;

/// A read in progress.
pub(crate) type Reading<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A read that sends its own answer.
pub(crate) type Question = Box<dyn for<'a> FnOnce(Db<'a>) -> Reading<'a, ()> + Send>;

/// The connection for reading, shared with the writer, which opens and closes it.
pub(crate) type Shared = Arc<Mutex<Reader>>;

pub(crate) struct Reader {
    path: PathBuf,
    conn: Option<SqliteConnection>,
    /// True if the connection excludes all others.
    is_alone: bool,
}

impl Reader {
    pub(crate) fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), conn: None, is_alone: false }
    }

    /// Opens the connection if there is none. The writer also has a connection.
    pub(crate) async fn open(&mut self) -> Result<(), sqlx::Error> {
        if self.conn.is_none() {
            let mut conn = schema::reading(&self.path).connect().await?;
            // Without a read, the connection would not hold the index of the write-ahead log, and could not create
            // that index later.
            probe(&mut conn).await?;
            self.conn = Some(conn);
        }
        Ok(())
    }

    /// Returns the connection. If there is none, opens one that needs no disk space; the writer then has none.
    pub(crate) async fn open_alone(&mut self) -> Result<&mut SqliteConnection, sqlx::Error> {
        if let Some(conn) = &mut self.conn
            && probe(conn).await.is_err()
        {
            self.close().await;
        }
        let conn = match self.conn.take() {
            Some(conn) => conn,
            None => {
                self.is_alone = true;
                schema::reading_alone(&self.path).connect().await?
            }
        };
        Ok(self.conn.insert(conn))
    }

    /// Closes an exclusive connection, so that the writer can open its own.
    pub(crate) async fn let_others_in(&mut self) {
        if std::mem::take(&mut self.is_alone) {
            self.close().await;
        }
    }

    async fn close(&mut self) {
        if let Some(conn) = self.conn.take() {
            let _ = conn.close().await;
        }
    }

    async fn answer(&mut self, question: Question) {
        let Some(conn) = &mut self.conn else {
            // The caller gets the error that the journal is closed.
            return drop(question);
        };
        question(Db::File(conn)).await;
    }
}

async fn probe(conn: &mut SqliteConnection) -> Result<(), sqlx::Error> {
    sqlx::query("SELECT one FROM meta").execute(conn).await.map(drop)
}

pub(crate) async fn serve(reader: Shared, mut questions: UnboundedReceiver<Question>) {
    while let Some(question) = questions.recv().await {
        reader.lock().await.answer(question).await;
    }
    reader.lock().await.close().await;
}
