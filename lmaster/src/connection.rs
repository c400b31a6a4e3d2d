//! One connection of a node or a client: a task that reads, a task that writes what is queued for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use limo_model::Reservation;
use limo_proto::{Answer, Connection, ConnectionError, Frame, MasterToClient, MasterToNode, Reader, Replace, Writer};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::mpsc::{Sender, UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::AbortHandle;

use crate::desk::{Input, PeerId};

/// Most bytes that may wait for a peer that does not read. A stream has at most 256 KiB under way, so a node with 200
/// attached jobs that reads nothing at all stays below; who is above asks for answers and does not take them.
const QUEUE_LIMIT: usize = 64 << 20;

/// How long a peer that is hung up on may take to read the last that was said to it.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// What the master sends over a connection.
pub trait Outgoing: Serialize + Replace + Send + Sync + 'static {
    /// About how many bytes it keeps in memory.
    fn weight(&self) -> usize;
}

impl Outgoing for MasterToNode {
    fn weight(&self) -> usize {
        match self {
            Self::DoExec(exec) => {
                let launch = &exec.launch;
                let words = |words: &[Vec<u8>]| words.iter().map(|word| word.len() + 32).sum::<usize>();
                let variables = launch.env.iter().map(|(name, value)| name.len() + value.len() + 64).sum::<usize>();
                512 + words(&launch.argv)
                    + variables
                    + launch.variants.iter().map(|(_, argv)| words(argv)).sum::<usize>()
            }
            _ => 128,
        }
    }
}

impl Outgoing for MasterToClient {
    fn weight(&self) -> usize {
        let (Self::Answer(answer) | Self::Piece(answer)) = self else { return 1024 };
        match answer.as_ref() {
            Answer::Jobs(jobs) | Answer::JobsUpTo { jobs, .. } => {
                512 + jobs.iter().map(|job| 512 + job.command.len()).sum::<usize>()
            }
            Answer::Explanation(explanation) => 1024 + 256 * explanation.candidates.len(),
            Answer::Nodes(nodes) => 512 + nodes.iter().map(|node| 512 + 256 * node.units.len()).sum::<usize>(),
            Answer::Profiles(profiles) => 512 + 256 * profiles.len(),
            Answer::DryRun(run) => 1024 + 256 * run.candidates.len(),
            Answer::Readings { intervals, .. } => 512 + 64 * intervals.len(),
            Answer::Node(detail) => {
                let probe = detail.probe.as_ref().map_or_else(String::len, String::len);
                1024 + 256 * detail.report.units.len() + probe
            }
            Answer::Selected(jobs) => 512 + 16 * jobs.len(),
            Answer::History { jobs, .. } => 512 + jobs.iter().map(|job| 512 + job.command.len()).sum::<usize>(),
            Answer::Energy(report) => 1024 + 256 * report.sums.len(),
            Answer::Changes { changes, .. } => {
                512 + changes.iter().map(|one| 256 + 512 * one.items.len()).sum::<usize>()
            }
            Answer::Undone(report) => 1024 + 512 * (report.items.len() + report.change.items.len()),
            Answer::Reservations(all) => {
                let weight = |of: &Reservation| 512 + 80 * (of.nodes.len() + of.users.len()) + of.reason.len();
                512 + all.iter().map(|(_, of)| weight(of)).sum::<usize>()
            }
            Answer::Backup(report) => 512 + 128 * report.files.len(),
            Answer::BackupPart(bytes) => 512 + bytes.len(),
            Answer::Users(report) => 1024 + 256 * report.users.len(),
            Answer::Status(_) | Answer::Done => 1024,
        }
    }
}

/// Something to send, and its weight.
type Queued<M> = (Frame<M>, usize);

/// The master's side of a connection. Dropping it hangs up, after what is queued was sent.
pub struct Link<M> {
    queue: Option<UnboundedSender<Queued<M>>>,
    waiting: Arc<AtomicUsize>,
    reader: AbortHandle,
    writer: AbortHandle,
}

impl<M: Outgoing> Link<M> {
    /// Starts both tasks. What is read goes to `inputs` by `input`, and so does, once, the end of the connection.
    pub fn start<In: DeserializeOwned + Send + 'static>(
        peer: PeerId,
        connection: Connection<In, M>,
        inputs: Sender<Input>,
        input: fn(PeerId, Frame<In>) -> Input,
    ) -> Self {
        let (queue, queued) = unbounded_channel();
        let waiting = Arc::new(AtomicUsize::new(0));
        let reader = tokio::spawn(read(peer, connection.reader, inputs, input)).abort_handle();
        let writer = tokio::spawn(write(peer, connection.writer, queued, Arc::clone(&waiting))).abort_handle();
        Self { queue: Some(queue), waiting, reader, writer }
    }

    /// Queues a frame.
    ///
    /// # Errors
    /// Where too much is queued already: the reason to hang up.
    pub fn send(&self, frame: Frame<M>) -> Result<(), String> {
        let weight = match &frame {
            Frame::Message(message) => message.weight(),
            Frame::Data(data) => 128 + data.bytes.len(),
        };
        if self.waiting.fetch_add(weight, Ordering::Relaxed) + weight > QUEUE_LIMIT {
            return Err(format!("it has left {} MiB unread", QUEUE_LIMIT >> 20));
        }
        if let Some(queue) = &self.queue {
            // Where the writer is gone, the reader tells of it.
            let _ = queue.send((frame, weight));
        }
        Ok(())
    }
}

impl<M> Drop for Link<M> {
    fn drop(&mut self) {
        self.reader.abort();
        // The writer ends when the queue is closed and empty, or is made to.
        drop(self.queue.take());
        let writer = self.writer.clone();
        if let (false, Ok(runtime)) = (writer.is_finished(), tokio::runtime::Handle::try_current()) {
            runtime.spawn(async move {
                tokio::time::sleep(LAST_WORDS).await;
                writer.abort();
            });
        }
    }
}

async fn read<In: DeserializeOwned>(
    peer: PeerId,
    mut reader: Reader<In>,
    inputs: Sender<Input>,
    input: fn(PeerId, Frame<In>) -> Input,
) {
    loop {
        match reader.next().await {
            Ok(Some(frame)) => {
                if inputs.send(input(peer, frame)).await.is_err() {
                    return;
                }
            }
            Ok(None) => break,
            // The length of a frame over the limit is an error of input, too.
            Err(ConnectionError::Io(error)) if error.kind() != std::io::ErrorKind::InvalidData => {
                tracing::info!(peer = peer.0, %error, "connection broke");
                break;
            }
            Err(error) => {
                tracing::warn!(peer = peer.0, %error, "hung up on a peer that does not keep to the protocol");
                break;
            }
        }
    }
    let _ = inputs.send(Input::Gone(peer)).await;
}

async fn write<M: Outgoing>(
    peer: PeerId,
    mut writer: Writer<M>,
    mut queued: UnboundedReceiver<Queued<M>>,
    waiting: Arc<AtomicUsize>,
) {
    while let Some(first) = queued.recv().await {
        let mut next = Some(first);
        while let Some((frame, weight)) = next {
            let result = writer.feed(&frame).await;
            waiting.fetch_sub(weight, Ordering::Relaxed);
            if let Err(error) = result {
                return tracing::debug!(peer = peer.0, %error, "cannot send");
            }
            next = queued.try_recv().ok();
        }
        if let Err(error) = writer.flush().await {
            return tracing::debug!(peer = peer.0, %error, "cannot send");
        }
    }
}
