//! The handle by which a master uses its journal. It passes requests to [`crate::writer`] and [`crate::reader`]. Each
//! table adds its own read methods.

use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use limo_model::ClusterId;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::{Semaphore, oneshot};
use tokio::task::JoinHandle;

use crate::backup::{self, BackupError};
use crate::batch::{Batch, Recovered};
use crate::compact::Compaction;
use crate::db::Db;
use crate::error::{BallastError, CommitError, CompactError, NoRoom, OpenError, QueryError, ReadError, RecoverError};
use crate::reader::{self, Question, Reading};
use crate::schema;
use crate::server::lease::Lease;
use crate::server::schema::Server;
use crate::server::{self, ServerWriter};
use crate::transfer::Place;
use crate::writer::{Queued, Request, Writer};

/// Largest number of queued batches before [`Journal::room`] waits: four transactions, so that the writer always has
/// work.
pub const QUEUE_ROOM: usize = 4 * crate::writer::GROUP;

/// How a journal is opened.
#[derive(Debug, Clone, Copy, Default)]
pub struct Opening {
    /// True for a copy that was restored by hand or by another program: it begins a new incarnation. A copy made by
    /// [`Journal::backup`] is recognised without this.
    pub restored: bool,
    /// Id for an empty journal. Another journal keeps its own, which [`Recovered::journal`] tells.
    pub cluster: Option<ClusterId>,
}

/// The journal of one master. All methods take `&self`. On drop, queued batches are written and the file is closed,
/// provided that the runtime lives.
pub struct Journal {
    requests: UnboundedSender<Request>,
    questions: UnboundedSender<Question>,
    room: Arc<Semaphore>,
    ballast: Arc<AtomicBool>,
    serving: JoinHandle<()>,
    place: Place,
    lease: Option<Lease>,
}

/// The answer to a [`Journal::commit`]. Dropping it does not cancel the batch.
#[must_use = "a batch is on disk only once this says so"]
pub struct Pending(oneshot::Receiver<Result<Option<NoRoom>, CommitError>>);

impl Future for Pending {
    /// With [`NoRoom`], the batch is on disk. New jobs should be refused until [`Journal::restore_ballast`] succeeds.
    type Output = Result<Option<NoRoom>, CommitError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(context).map(|answer| answer.unwrap_or(Err(CommitError::Closed)))
    }
}

impl Journal {
    /// Opens the journal in `dir`, creates a missing directory, and reads the state on disk. A separate task on the
    /// caller's tokio runtime, which must have timers, writes and reads.
    ///
    /// # Errors
    /// [`OpenError`] if another master uses `dir`, it is on a network file system, or the file is damaged, not a
    /// journal, or newer than this program.
    pub async fn open(dir: &Path) -> Result<(Self, Recovered), OpenError> {
        Self::open_as(dir, Opening::default()).await
    }

    /// Opens or creates the journal in `dir`.
    ///
    /// # Errors
    /// The same as for [`Self::open`].
    pub async fn open_as(dir: &Path, opening: Opening) -> Result<(Self, Recovered), OpenError> {
        let place = Place::Directory(dir.to_owned());
        let (writer, recovered) = Writer::open(dir, opening).await?;
        let (ballast, reader) = (writer.ballast.presence(), Arc::clone(&writer.reader));
        let journal = Self::start(place, ballast, None, |requested, asked| async {
            let (writer, ()) = tokio::join!(writer.serve(requested), reader::serve(reader, asked));
            writer.close().await;
        });
        Ok((journal, recovered))
    }

    /// Opens or creates the journal in a database, and claims the state directory `dir` for the other files of the
    /// master. Waits while another master holds the lease.
    ///
    /// # Errors
    /// [`OpenError`] if another master uses `dir`, or the database cannot be used, is not a journal, or newer than this
    /// program.
    pub async fn open_on(server: &Server, dir: &Path, opening: Opening) -> Result<(Self, Recovered), OpenError> {
        let (writer, recovered) = ServerWriter::open(server, dir, opening).await?;
        let (place, lease) = (Place::Server(server.clone()), writer.lease());
        let server = server.clone();
        let ballast = Arc::new(AtomicBool::new(true));
        let journal = Self::start(place, ballast, Some(lease), |requested, asked| async {
            let (writer, ()) = tokio::join!(writer.serve(requested), server::reader::serve(server, asked));
            writer.close().await;
        });
        Ok((journal, recovered))
    }

    fn start<Serving: Future<Output = ()> + Send + 'static>(
        place: Place,
        ballast: Arc<AtomicBool>,
        lease: Option<Lease>,
        serve: impl FnOnce(UnboundedReceiver<Request>, UnboundedReceiver<Question>) -> Serving,
    ) -> Self {
        let (requests, requested) = unbounded_channel();
        let (questions, asked) = unbounded_channel();
        let serving = tokio::spawn(serve(requested, asked));
        let room = Arc::new(Semaphore::new(QUEUE_ROOM));
        Self { requests, questions, room, ballast, serving, place, lease }
    }

    /// Returns the lease on a journal in a database.
    pub fn lease(&self) -> Option<Lease> {
        self.lease.clone()
    }

    /// Queues a batch. The order of calls is the order on disk. The answer comes when it is certain if the batch is
    /// durable. After one failure every batch of that generation is refused.
    ///
    /// The queue has no limit: the producer of batches waits for [`Self::room`] before it accepts more work.
    pub fn commit(&self, batch: Batch) -> Pending {
        let (answer, pending) = oneshot::channel();
        let room = Arc::clone(&self.room).try_acquire_owned().ok();
        // If the writer has ended, the answer is dropped with the request, and `Pending` returns `Closed`.
        let _ = self.requests.send(Request::Commit(Box::new(Queued { batch, answer, _room: room })));
        Pending(pending)
    }

    /// Waits while [`QUEUE_ROOM`] batches or more wait to be written. May be cancelled.
    pub async fn room(&self) {
        // The semaphore is never closed, and the permit goes back at once.
        drop(self.room.acquire().await);
    }

    /// Begins a new generation and reads the state on disk, after all earlier requests are answered. Later batches of
    /// older generations are refused.
    ///
    /// # Errors
    /// [`RecoverError`] if the journal cannot be written or read; it then continues to refuse.
    pub async fn recover(&self) -> Result<Recovered, RecoverError> {
        let (answer, answered) = oneshot::channel();
        let _ = self.requests.send(Request::Recover(answer));
        answered.await.unwrap_or(Err(RecoverError::Closed))
    }

    /// Returns true if the ballast exists. If it does not, new jobs should be refused: the remaining space is
    /// reserved for the ends of running jobs.
    pub fn has_ballast(&self) -> bool {
        self.ballast.load(Ordering::Acquire)
    }

    /// Restores the ballast if it is missing.
    ///
    /// # Errors
    /// [`BallastError`] if there is not enough space, also for new jobs, or the file cannot be written.
    pub async fn restore_ballast(&self) -> Result<(), BallastError> {
        let (answer, answered) = oneshot::channel();
        let _ = self.requests.send(Request::RestoreBallast(answer));
        answered.await.unwrap_or(Err(BallastError::Closed))
    }

    /// Returns unused pages to the file system, in short steps with commits between them. A file of a version without
    /// compaction is rewritten once, and commits wait for that.
    ///
    /// # Errors
    /// [`CompactError`] if the journal cannot be written.
    pub async fn compact(&self) -> Result<Compaction, CompactError> {
        let (answer, answered) = oneshot::channel();
        let _ = self.requests.send(Request::Compact(answer));
        answered.await.unwrap_or(Err(CompactError::Closed))
    }

    /// Writes a copy of the present journal to the file `to`, which must not exist. Commits continue without waiting.
    /// Needs space for the copy and [`crate::BACKUP_RESERVE`] more bytes. Leaves nothing behind if it fails.
    ///
    /// # Errors
    /// [`BackupError`] if there is not enough space, or the copy cannot be made.
    pub async fn backup(&self, to: &Path) -> Result<(), BackupError> {
        match &self.place {
            Place::Directory(dir) => backup::copy(&dir.join(schema::FILE), to).await,
            Place::Server(server) => Err(BackupError::OnServer { server: server.to_string() }),
        }
    }

    /// Runs `read` on the connection for reading, after earlier reads.
    ///
    /// # Errors
    /// [`QueryError`] if the journal cannot be read.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        read: impl for<'a> FnOnce(Db<'a>) -> Reading<'a, Result<T, ReadError>> + Send + 'static,
    ) -> Result<T, QueryError> {
        let (answer, answered) = oneshot::channel();
        let question: Question = Box::new(move |db| {
            Box::pin(async move {
                // The caller may have stopped waiting for the answer.
                drop(answer.send(read(db).await));
            })
        });
        // If the reader has ended, the answer is dropped with the question.
        let _ = self.questions.send(question);
        Ok(answered.await.map_err(|_| QueryError::Closed)??)
    }

    /// Writes the queue, closes the file and releases the directory.
    pub async fn close(self) {
        let Self { requests, questions, serving, .. } = self;
        drop((requests, questions));
        // The task is never cancelled. If it panicked, nothing remains to be closed.
        let _ = serving.await;
    }
}
