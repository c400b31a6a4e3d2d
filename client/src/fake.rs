//! A master for tests of clients: it speaks the real protocol over real loopback sockets, and says what the test says.
//! Only with the feature `fake-master`, which no program enables.

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

/// Starting a process takes milliseconds, more on a busy machine.
const BIND_PATIENCE: Duration = Duration::from_secs(5);
const BIND_PAUSE: Duration = Duration::from_millis(5);

/// Clients greet at once.
const GREETING_TIME: Duration = Duration::from_secs(5);

/// A listening socket to which clients come.
pub struct FakeMaster {
    listener: TcpListener,
    address: String,
}

/// What clients have asked of an answering master, oldest first.
pub type Asked = Arc<Mutex<Vec<ClientToMaster>>>;

impl FakeMaster {
    /// On a free port.
    ///
    /// # Errors
    /// Where no socket can be bound.
    pub async fn start() -> Result<Self, ConnectionError> {
        Self::start_at("127.0.0.1:0").await
    }

    /// On an address that clients know from before: a master that has come back. For a moment the address may still be
    /// taken: a process that another test is just starting has all sockets of this one until its program runs.
    ///
    /// # Errors
    /// Where the socket cannot be bound.
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

    /// For `LIMO_MASTER`.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// The next client.
    ///
    /// # Errors
    /// Where it does not greet as a client does.
    pub async fn client(&self) -> Result<Peer, ConnectionError> {
        let (stream, _) = self.listener.accept().await?;
        Ok(Peer { connection: accept(stream, GREETING_TIME, Identity::default()).await?.into_connection() })
    }

    /// Serves every client with `reply`, in the background, and records what they asked.
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

/// Packs an answer.
pub fn answer(answer: Answer) -> MasterToClient {
    MasterToClient::Answer(Box::new(answer))
}

/// A client that has called.
pub struct Peer {
    /// The master's end of the connection.
    pub connection: Connection<ClientToMaster, MasterToClient>,
}

impl Peer {
    /// The next frame; `None` once the client has hung up.
    ///
    /// # Errors
    /// Where the connection broke.
    pub async fn hear(&mut self) -> Result<Option<Frame<ClientToMaster>>, ConnectionError> {
        self.connection.reader.next().await
    }

    /// # Errors
    /// Where the connection broke.
    pub async fn say(&mut self, message: MasterToClient) -> Result<(), ConnectionError> {
        self.connection.writer.send(&Frame::Message(message)).await
    }

    /// Sends a piece of a job's stream; no bytes are its end.
    ///
    /// # Errors
    /// Where the connection broke.
    pub async fn data(&mut self, job: JobId, channel: Channel, at: u64, bytes: &[u8]) -> Result<(), ConnectionError> {
        let stream = StreamId::new(job, channel);
        let data = Data { stream, offset: at, bytes: Bytes::copy_from_slice(bytes) };
        self.connection.writer.send(&Frame::Data(data)).await
    }
}
