//! The connection to the master, made again when it breaks. What is said on it is the business of others.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use limo_client::{AskError, ClientConnection, Failure, Master, Patience, Retries};
use limo_proto::{ClientToMaster, ConnectionError, Frame, MasterToClient, Reader, Writer};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

/// How long leaving may take: the last frames are small, and a master that takes none is not waited for.
const FAREWELL: Duration = Duration::from_secs(1);

/// What happens to a link.
pub enum LinkEvent {
    Connected,
    Heard(Frame<MasterToClient>),
    Broken,
    /// The master stayed away too long, or cannot be talked to.
    GaveUp(Failure),
}

pub struct Link {
    master: Master,
    backoff: Retries,
    state: State,
}

enum State {
    /// Connected, which was not said yet.
    Fresh(ClientConnection),
    Up {
        reader: Reader<MasterToClient>,
        queue: mpsc::UnboundedSender<Outgoing>,
        /// Why the writer has ended, where that is no break of the connection.
        unsendable: oneshot::Receiver<ConnectionError>,
    },
    Calling(Pin<Box<dyn Future<Output = Call> + Send>>),
}

/// One call: how long it and the pause before it took.
struct Call {
    took: Duration,
    result: Result<ClientConnection, AskError>,
}

enum Outgoing {
    Frame(Frame<ClientToMaster>),
    /// Everything queued before is with the kernel.
    Flushed(oneshot::Sender<()>),
}

impl Link {
    /// # Errors
    /// Where the first call fails: a master that was never there is a mistake, not an absence.
    pub async fn open(master: Master, patience: Patience) -> Result<Self, AskError> {
        let connection = master.first_connect().await?;
        Ok(Self { master, backoff: Retries::new(patience), state: State::Fresh(connection) })
    }

    /// The next thing that happens. Safe to cancel.
    pub async fn next(&mut self) -> LinkEvent {
        if matches!(self.state, State::Fresh(_)) {
            return self.connected();
        }
        match &mut self.state {
            State::Fresh(_) => LinkEvent::Broken,
            State::Up { reader, unsendable, .. } => match reader.next().await {
                Ok(Some(frame)) => {
                    self.backoff.reset();
                    LinkEvent::Heard(frame)
                }
                Ok(None) | Err(_) => match unsendable.try_recv() {
                    // On another connection it would be the same.
                    Ok(error) => LinkEvent::GaveUp(unsent(&error)),
                    Err(_) => self.hang_up(),
                },
            },
            State::Calling(call) => {
                let Call { took, result } = call.await;
                match result {
                    Ok(connection) => {
                        self.backoff.spend(took);
                        self.state = State::Fresh(connection);
                        self.connected()
                    }
                    Err(error) => self.call_again(took, error),
                }
            }
        }
    }

    fn connected(&mut self) -> LinkEvent {
        let (queue, frames) = mpsc::unbounded_channel();
        let nothing: Pin<Box<dyn Future<Output = Call> + Send>> = Box::pin(std::future::pending());
        if let State::Fresh(connection) = std::mem::replace(&mut self.state, State::Calling(nothing)) {
            let (failed, unsendable) = oneshot::channel();
            let writer = connection.writer;
            tokio::spawn(async move {
                if let Err(error @ ConnectionError::Encode(_)) = write(writer, frames).await {
                    // Nobody listens to a link that is given up.
                    let _ = failed.send(error);
                }
            });
            self.state = State::Up { reader: connection.reader, queue, unsendable };
        }
        LinkEvent::Connected
    }

    /// Gives the connection up and begins to call again.
    pub fn hang_up(&mut self) -> LinkEvent {
        self.call_again(Duration::ZERO, AskError::Closed)
    }

    fn call_again(&mut self, took: Duration, error: AskError) -> LinkEvent {
        let pause = if error.may_pass() { self.backoff.pause(took) } else { None };
        let Some(pause) = pause else { return LinkEvent::GaveUp(error.into()) };
        let master = self.master.clone();
        self.state = State::Calling(Box::pin(async move {
            let begun = Instant::now();
            tokio::time::sleep(pause).await;
            let result = master.connect().await;
            Call { took: begun.elapsed(), result }
        }));
        LinkEvent::Broken
    }

    /// Sends a frame. Without a connection it is dropped: what matters is said again on the next one.
    pub fn send(&self, frame: Frame<ClientToMaster>) {
        if let State::Up { queue, .. } = &self.state {
            // A writer that has ended is a broken connection, of which the reader will tell.
            let _ = queue.send(Outgoing::Frame(frame));
        }
    }

    /// Returns when everything sent so far is with the kernel, or cannot be.
    pub async fn flush(&self) {
        if let State::Up { queue, .. } = &self.state {
            let (done, flushed) = oneshot::channel();
            if queue.send(Outgoing::Flushed(done)).is_ok() {
                let _ = tokio::time::timeout(FAREWELL, flushed).await;
            }
        }
    }
}

fn unsent(error: &ConnectionError) -> Failure {
    Failure::new(format_args!("cannot send the job: {error}"))
        .hint("its command, environment (`--export`) and script travel in one message")
}

/// Writes until nobody sends any more.
///
/// # Errors
/// Where the connection breaks, or a message is too large. The queue is bounded by the credit of stdin.
async fn write(
    mut writer: Writer<ClientToMaster>,
    mut queue: mpsc::UnboundedReceiver<Outgoing>,
) -> Result<(), ConnectionError> {
    while let Some(next) = queue.recv().await {
        let result = match next {
            Outgoing::Frame(frame) => writer.feed(&frame).await,
            Outgoing::Flushed(done) => {
                let result = writer.flush().await;
                let _ = done.send(());
                result
            }
        };
        let flushed = if queue.is_empty() { writer.flush().await } else { Ok(()) };
        result.and(flushed)?;
    }
    Ok(())
}
