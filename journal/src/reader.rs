//! Answers questions from a connection of its own, which cannot write. On the journal's thread too, so that a caller who
//! loses interest leaves no half-read statement behind.

use limo_model::{Drawn, JobId, Time};
use sqlx::{Connection, SqliteConnection};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::oneshot;

use crate::batch::FinishedRow;
use crate::error::ReadError;
use crate::{read, readings};

type Answer<T> = oneshot::Sender<Result<T, ReadError>>;

pub(crate) enum Question {
    Finished(u32, Answer<Vec<FinishedRow>>),
    FinishedJob(JobId, Answer<Option<FinishedRow>>),
    JobOfKey([u8; 16], Answer<Option<(JobId, u32)>>),
    Readings { node: String, range: (Time, Time), limit: u32, answer: Answer<Vec<Drawn>> },
}

pub(crate) async fn serve(mut conn: SqliteConnection, mut questions: UnboundedReceiver<Question>) {
    while let Some(question) = questions.recv().await {
        // Whoever no longer waits for the answer loses nothing.
        match question {
            Question::Finished(limit, answer) => drop(answer.send(read::finished(&mut conn, limit).await)),
            Question::FinishedJob(job, answer) => drop(answer.send(read::finished_job(&mut conn, job).await)),
            Question::JobOfKey(key, answer) => drop(answer.send(read::job_of_key(&mut conn, &key).await)),
            Question::Readings { node, range, limit, answer } => {
                drop(answer.send(readings::between(&mut conn, &node, range, limit).await));
            }
        }
    }
    let _ = conn.close().await;
}
