//! Fake master for tests of clients: it uses the real protocol over loopback sockets, and the test chooses its
//! answers. Only tests use it.

mod samples;

use std::io;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use limo_model::JobId;
use limo_proto::{
    Answer, Channel, ClientToMaster, Connection, ConnectionError, Data, Frame, Identity, MasterToClient, StreamId,
    accept,
};
use tokio::net::TcpListener;

pub use samples::{candidate, finished_job, node, profile, running_job, status, status_with_budget, waiting_job};

/// Longest wait for an address that is still in use. A process takes milliseconds to start, or more on a busy
/// machine.
const BIND_PATIENCE: Duration = Duration::from_secs(5);
const BIND_PAUSE: Duration = Duration::from_millis(5);

/// Longest wait for the greeting of a client.
const GREETING_TIME: Duration = Duration::from_secs(5);

/// Listening socket of a fake master.
pub struct FakeMaster {
    listener: TcpListener,
    address: String,
}

/// Messages from clients, oldest first.
pub type Asked = Arc<Mutex<Vec<ClientToMaster>>>;

impl FakeMaster {
    /// Listens on a free port.
    ///
    /// # Errors
    /// If no socket can be bound.
    pub async fn start() -> Result<Self, ConnectionError> {
        Self::start_at("127.0.0.1:0").await
    }

    /// Listens on a known address, like a restarted master. Waits while the address is in use. A process that
    /// another test starts holds copies of all sockets until its program runs.
    ///
    /// # Errors
    /// If the socket cannot be bound.
    pub async fn start_at(address: &str) -> Result<Self, ConnectionError> {
        let end = Instant::now() + BIND_PATIENCE;
        let listener = loop {
            match TcpListener::bind(address).await {
                Err(error) if error.kind() == io::ErrorKind::AddrInUse && Instant::now() < end => {
                    tokio::time::sleep(BIND_PAUSE).await;
                }
                result => break result?,
            }
        };
        let address = listener.local_addr()?.to_string();
        Ok(Self { listener, address })
    }

    /// Returns the value for `LIMO_MASTER`.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Accepts the next client.
    ///
    /// # Errors
    /// If the client does not greet as one.
    pub async fn client(&self) -> Result<Peer, ConnectionError> {
        let (stream, _) = self.listener.accept().await?;
        Ok(Peer { connection: accept(stream, GREETING_TIME, Identity::default()).await?.into_connection() })
    }

    /// Answers all clients with `reply` in the background and records their messages.
    pub fn answering(self, reply: impl Fn(&ClientToMaster) -> MasterToClient + Send + 'static) -> Asked {
        let asked = Asked::default();
        let record = Arc::clone(&asked);
        tokio::spawn(async move {
            while let Ok(mut peer) = self.client().await {
                while let Ok(Some(Frame::Message(message))) = peer.connection.reader.next().await {
                    let answer = reply(&message);
                    if let Ok(mut record) = record.lock() {
                        record.push(message);
                    }
                    if peer.say(answer).await.is_err() {
                        break;
                    }
                }
            }
        });
        asked
    }
}

/// Wraps an answer in a message.
pub fn answer(answer: Answer) -> MasterToClient {
    MasterToClient::Answer(Box::new(answer))
}

/// Connected client.
pub struct Peer {
    /// Master's end of the connection.
    pub connection: Connection<ClientToMaster, MasterToClient>,
}

impl Peer {
    /// Returns the next frame, or `None` if the client has closed the connection.
    ///
    /// # Errors
    /// If the connection broke.
    pub async fn hear(&mut self) -> Result<Option<Frame<ClientToMaster>>, ConnectionError> {
        self.connection.reader.next().await
    }

    /// Sends a message.
    ///
    /// # Errors
    /// If the connection broke.
    pub async fn say(&mut self, message: MasterToClient) -> Result<(), ConnectionError> {
        self.connection.writer.send(&Frame::Message(message)).await
    }

    /// Sends a piece of a job's stream; an empty piece is the end.
    ///
    /// # Errors
    /// If the connection broke.
    pub async fn data(&mut self, job: JobId, channel: Channel, at: u64, bytes: &[u8]) -> Result<(), ConnectionError> {
        let stream = StreamId::new(job, channel);
        let data = Data { stream, offset: at, bytes: Bytes::copy_from_slice(bytes) };
        self.connection.writer.send(&Frame::Data(data)).await
    }
}
