//! Connection to the master, renewed when it breaks or the master gives no sign of life. Independent of the messages.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use limo_client::{AskError, ClientConnection, Failure, Master, Patience, Retries};
use limo_proto::{
    Alive, ClientToMaster, ConnectionError, Frame, HEARTBEAT, Heartbeat, MasterToClient, Reader, SignWriter, Writer,
};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

/// Longest time to send the last frames. They are small, and `lrun` does not wait for a master that does not read.
const FAREWELL: Duration = Duration::from_secs(1);

/// Event of a link.
pub enum LinkEvent {
    Connected,
    Heard(Frame<MasterToClient>),
    Broken,
    /// The master stayed away too long, or does not accept this client.
    GaveUp(Failure),
}

pub struct Link {
    master: Master,
    backoff: Retries,
    state: State,
}

enum State {
    /// Connected, with an event that is not reported yet.
    Fresh(ClientConnection),
    Up {
        reader: Reader<MasterToClient>,
        beats: Heartbeat,
        signs: SignWriter,
        queue: mpsc::UnboundedSender<Outgoing>,
        /// Error that ended the writer although the connection works.
        unsendable: oneshot::Receiver<ConnectionError>,
    },
    Calling(Pin<Box<dyn Future<Output = Call> + Send>>),
}

/// A call. The time includes that of the pause before it.
struct Call {
    took: Duration,
    result: Result<ClientConnection, AskError>,
}

enum Outgoing {
    Frame(Frame<ClientToMaster>),
    /// Answered when all earlier frames are in the kernel.
    Flushed(oneshot::Sender<()>),
}

impl Link {
    /// Opens a link.
    ///
    /// # Errors
    /// If the first call fails: a master that never answered is a mistake, not an absence.
    pub async fn open(master: Master, patience: Patience) -> Result<Self, AskError> {
        let connection = master.first_connect().await?;
        Ok(Self { master, backoff: Retries::new(patience), state: State::Fresh(connection) })
    }

    /// Returns the next event. Safe to cancel.
    pub async fn next(&mut self) -> LinkEvent {
        if matches!(self.state, State::Fresh(_)) {
            return self.connected();
        }
        match &mut self.state {
            State::Fresh(_) => LinkEvent::Broken,
            State::Up { reader, beats, signs, unsendable, .. } => match reader.next_alive(beats, signs).await {
                Ok(Some(frame)) => {
                    self.backoff.reset();
                    LinkEvent::Heard(frame)
                }
                Ok(None) | Err(_) => match unsendable.try_recv() {
                    // A new connection would not help.
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
            let (beats, signs) = (Alive::new(HEARTBEAT).caller(Instant::now()), writer.sign_writer());
            tokio::spawn(async move {
                if let Err(error @ ConnectionError::Encode(_)) = write(writer, frames).await {
                    // The link may be dropped already.
                    let _ = failed.send(error);
                }
            });
            self.state = State::Up { reader: connection.reader, beats, signs, queue, unsendable };
        }
        LinkEvent::Connected
    }

    /// Drops the connection and begins to call again.
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

    /// Sends a frame. Without a connection the frame is dropped; important ones are sent again on the next connection.
    pub fn send(&self, frame: Frame<ClientToMaster>) {
        if let State::Up { queue, .. } = &self.state {
            // This fails if the writer has ended; the reader then reports the broken connection.
            let _ = queue.send(Outgoing::Frame(frame));
        }
    }

    /// Returns when all frames sent so far are in the kernel, or cannot be sent.
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
        .hint("its command, environment (`--export`) and script must fit in one message")
}

/// Writes frames until the queue is closed.
///
/// # Errors
/// If the connection breaks, or a message is too large. The credit of stdin bounds the queue.
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
