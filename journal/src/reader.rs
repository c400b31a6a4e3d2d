//! Answers questions from a connection of its own, which cannot write. In the journal's task too, so that a caller who
//! loses interest leaves no half-read statement behind.

use limo_model::{Drawn, JobId, Time};
use sqlx::{Connection, SqliteConnection};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::oneshot;

use crate::batch::FinishedRow;
use crate::changes::{ChangeQuery, ChangeRow};
use crate::error::ReadError;
use crate::finished::{FinishedFilter, FinishedQuery, JobSum, SumBy};
use crate::readings::NodeSum;
use crate::{changes, finished, read, readings};

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

pub(crate) async fn serve(mut conn: SqliteConnection, mut questions: UnboundedReceiver<Question>) {
    while let Some(question) = questions.recv().await {
        // Whoever no longer waits for the answer loses nothing.
        match question {
            Question::Finished(query, answer) => drop(answer.send(finished::list(&mut conn, &query).await)),
            Question::FinishedJob(job, answer) => drop(answer.send(finished::one(&mut conn, job).await)),
            Question::JobOfKey(key, answer) => drop(answer.send(read::job_of_key(&mut conn, &key).await)),
            Question::Readings { node, range, limit, answer } => {
                drop(answer.send(readings::between(&mut conn, &node, range, limit).await));
            }
            Question::NewestOf(uid, answer) => drop(answer.send(read::newest_of(&mut conn, uid).await)),
            Question::Sums { by, filter, limit, answer } => {
                drop(answer.send(finished::sums(&mut conn, &by, &filter, limit).await));
            }
            Question::Drawn { range, answer } => drop(answer.send(readings::by_node(&mut conn, range).await)),
            Question::Changes(query, answer) => drop(answer.send(changes::list(&mut conn, &query).await)),
            Question::Change(number, answer) => drop(answer.send(changes::one(&mut conn, number).await)),
            Question::NewestChangeOf(subject, answer) => {
                drop(answer.send(changes::newest_of(&mut conn, &subject).await));
            }
        }
    }
    let _ = conn.close().await;
}
