//! Answers questions from a connection of its own, which cannot write. In the journal's task too, so that a caller who
//! loses interest leaves no half-read statement behind. On a full disk it may be the only connection that there is.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use limo_model::{Drawn, JobId, Time};
use sqlx::{ConnectOptions, Connection, SqliteConnection};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::{Mutex, oneshot};

use crate::batch::FinishedRow;
use crate::changes::{ChangeQuery, ChangeRow};
use crate::error::ReadError;
use crate::finished::{FinishedFilter, FinishedQuery, JobSum, SumBy};
use crate::readings::NodeSum;
use crate::{changes, finished, read, readings, schema};

type Answer<T> = oneshot::Sender<Result<T, ReadError>>;

pub(crate) enum Question {
    Finished(FinishedQuery, Answer<Vec<FinishedRow>>),
    FinishedJob(JobId, Answer<Option<FinishedRow>>),
    JobOfKey([u8; 16], Answer<Option<(JobId, u32)>>),
    Readings { node: String, range: (Time, Time), limit: u32, answer: Answer<Vec<Drawn>> },
    NewestOf(u32, Answer<Option<JobId>>),
    Sums { by: SumBy, filter: FinishedFilter, limit: u32, answer: Answer<Vec<JobSum>> },
    Drawn { range: (Option<Time>, Option<Time>), answer: Answer<Vec<NodeSum>> },
    Changes(ChangeQuery, Answer<Vec<ChangeRow>>),
    Change(u64, Answer<Option<ChangeRow>>),
    NewestChangeOf(String, Answer<Option<u64>>),
}

/// The connection for reading, shared with the writer, which opens and closes it.
pub(crate) type Shared = Arc<Mutex<Reader>>;

pub(crate) struct Reader {
    path: PathBuf,
    conn: Option<SqliteConnection>,
    /// True if it excludes all other connections.
    is_alone: bool,
}

impl Reader {
    pub(crate) fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), conn: None, is_alone: false }
    }

    /// Opens the connection if there is none. The writer has one, too.
    pub(crate) async fn open(&mut self) -> Result<(), sqlx::Error> {
        if self.conn.is_none() {
            let mut conn = schema::reading(&self.path).connect().await?;
            // Before the first read it does not keep the index of the write-ahead log, which it could then not make.
            probe(&mut conn).await?;
            self.conn = Some(conn);
        }
        Ok(())
    }

    /// The connection; one that needs no room on the disk if there is none. The writer has none.
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

    /// Makes room for the connection of the writer.
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
            // Whoever asks is told that the journal is closed.
            return drop(question);
        };
        // Whoever no longer waits for the answer loses nothing.
        match question {
            Question::Finished(query, answer) => drop(answer.send(finished::list(conn, &query).await)),
            Question::FinishedJob(job, answer) => drop(answer.send(finished::one(conn, job).await)),
            Question::JobOfKey(key, answer) => drop(answer.send(read::job_of_key(conn, &key).await)),
            Question::Readings { node, range, limit, answer } => {
                drop(answer.send(readings::between(conn, &node, range, limit).await));
            }
            Question::NewestOf(uid, answer) => drop(answer.send(read::newest_of(conn, uid).await)),
            Question::Sums { by, filter, limit, answer } => {
                drop(answer.send(finished::sums(conn, &by, &filter, limit).await));
            }
            Question::Drawn { range, answer } => drop(answer.send(readings::by_node(conn, range).await)),
            Question::Changes(query, answer) => drop(answer.send(changes::list(conn, &query).await)),
            Question::Change(number, answer) => drop(answer.send(changes::one(conn, number).await)),
            Question::NewestChangeOf(subject, answer) => {
                drop(answer.send(changes::newest_of(conn, &subject).await));
            }
        }
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
