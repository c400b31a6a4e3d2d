//! One `lshepherd` process: its start, and the connection to it. Passes orders and answers on without interpreting them.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use limo_shepherd::{Answer, Order, Ring, pair, receive, send};
use nix::sys::socket::{Shutdown, shutdown};
use thiserror::Error;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::mpsc;
use tracing::{debug, error};

use crate::shell::Event;

/// Name of the program, in the directory of this one.
const PROGRAM: &str = "lshepherd";

/// Identifies a process of this daemon's shepherds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ShepherdId(pub u64);

#[derive(Debug, Error)]
pub enum ShepherdError {
    #[error("cannot find this program's own directory, where lshepherd should be: {0}")]
    Place(io::Error),
    #[error("cannot start {}, which launches the jobs: {source}; install it in the directory of lslave", path.display())]
    Start { path: PathBuf, source: io::Error },
    #[error("cannot {what} {}: {source}", path.display())]
    Directory { what: &'static str, path: PathBuf, source: io::Error },
    #[error(transparent)]
    Channel(#[from] limo_shepherd::ChannelError),
    #[error("cannot watch the connection to lshepherd: {0}")]
    Watch(io::Error),
}

struct Packet {
    bytes: Vec<u8>,
    descriptors: Vec<OwnedFd>,
}

/// The memory of the streams: stdin, stdout and stderr.
pub type Rings = [Ring; 3];

/// A connection to an `lshepherd`, which ends on drop.
pub struct Shepherd {
    socket: Arc<AsyncFd<OwnedFd>>,
    queue: mpsc::UnboundedSender<Packet>,
    /// Number of packets in the queue.
    queued: Arc<AtomicUsize>,
    pub pid: i32,
    /// Memory of the streams, while no job uses it.
    pub rings: Option<Rings>,
    /// Number of jobs that it was given.
    pub jobs: u32,
    /// True if it was given a job with a PAM session, after which it ends.
    pub has_session: bool,
}

impl Shepherd {
    /// Starts the program. It listens as `name` in `directory`.
    ///
    /// # Errors
    /// [`ShepherdError`].
    pub fn start(
        (directory, name): (BorrowedFd<'_>, String),
        id: ShepherdId,
        events: &mpsc::Sender<Event>,
    ) -> Result<Self, ShepherdError> {
        let own = std::env::current_exe().map_err(ShepherdError::Place)?;
        let path = own.with_file_name(PROGRAM);
        let (ours, theirs) = pair()?;
        let mut command = Command::new(&path);
        command.stdin(Stdio::from(theirs)).stdout(Stdio::null());
        // The process is collected like every other child.
        let child = command.spawn().map_err(|source| ShepherdError::Start { path, source })?;
        let shepherd = Self::connected(ours, child.id().cast_signed(), id, events)?;
        let directory = directory.try_clone_to_owned().map_err(ShepherdError::Watch)?;
        shepherd.put(Order::Hello { name: Some(name) }.encode(), vec![directory]);
        Ok(shepherd)
    }

    /// Continues a connection.
    ///
    /// # Errors
    /// If the runtime refuses it.
    pub fn connected(
        socket: OwnedFd,
        pid: i32,
        id: ShepherdId,
        events: &mpsc::Sender<Event>,
    ) -> Result<Self, ShepherdError> {
        // SAFETY: the descriptor is owned and stays open until this is dropped.
        let socket = unsafe { AsyncFd::register(socket) }.map_err(|error| ShepherdError::Watch(error.into()))?;
        let socket = Arc::new(socket);
        let (queue, packets) = mpsc::unbounded_channel();
        let queued = Arc::new(AtomicUsize::new(0));
        tokio::spawn(write(Arc::clone(&socket), packets, Arc::clone(&queued)));
        tokio::spawn(read(Arc::clone(&socket), id, events.clone()));
        Ok(Self { socket, queue, queued, pid, rings: None, jobs: 0, has_session: false })
    }

    /// Sends a message with descriptors.
    pub fn put(&self, bytes: Vec<u8>, descriptors: Vec<OwnedFd>) {
        if self.queued.load(Ordering::Relaxed) == 0 {
            let beside: Vec<_> = descriptors.iter().map(AsFd::as_fd).collect();
            match send(self.socket.get_ref().as_fd(), &bytes, &beside) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                // The reader notices if the process has ended.
                Ok(()) | Err(_) => return,
            }
        }
        self.queued.fetch_add(1, Ordering::Relaxed);
        let _ = self.queue.send(Packet { bytes, descriptors });
    }

    /// Kills the process, if it has not ended.
    pub fn kill(&self) {
        super::attach::kill(self.socket.get_ref(), self.pid);
    }

    /// Sends an order other than a launch.
    pub fn order(&self, order: &Order) {
        self.put(order.encode(), Vec::new());
    }
}

async fn write(socket: Arc<AsyncFd<OwnedFd>>, mut queue: mpsc::UnboundedReceiver<Packet>, queued: Arc<AtomicUsize>) {
    while let Some(Packet { bytes, descriptors }) = queue.recv().await {
        let beside: Vec<_> = descriptors.iter().map(AsFd::as_fd).collect();
        let sent = socket.async_io(Interest::WRITABLE, |fd| send(fd.as_fd(), &bytes, &beside)).await;
        if let Err(error) = sent {
            debug!(%error, "lshepherd does not take an order");
        }
        queued.fetch_sub(1, Ordering::Relaxed);
    }
    // This ends both directions, so that the reader does not keep the socket open.
    let _ = shutdown(socket.get_ref().as_raw_fd(), Shutdown::Both);
}

async fn read(socket: Arc<AsyncFd<OwnedFd>>, id: ShepherdId, events: mpsc::Sender<Event>) {
    loop {
        let received = socket.async_io(Interest::READABLE, |fd| match receive(fd.as_fd()) {
            Err(limo_shepherd::ChannelError::Io { source, .. }) => Err(source),
            other => Ok(other),
        });
        let received = match received.await {
            Ok(Ok(Some(received))) => received,
            Ok(Ok(None)) => break,
            Ok(Err(error)) => {
                error!(%error, "an answer of lshepherd is not understood");
                continue;
            }
            Err(error) => {
                debug!(%error, "the connection to lshepherd broke");
                break;
            }
        };
        match Answer::decode(&received.bytes) {
            Ok(answer) => {
                if events.send(Event::Shepherd(id, answer, received.descriptors)).await.is_err() {
                    return;
                }
            }
            // The answer may come from a later release.
            Err(error) => error!(%error, "an answer of lshepherd is not understood"),
        }
    }
    // The loop has ended if the daemon has ended.
    let _ = events.send(Event::ShepherdLost(id)).await;
}

/// Opens the memory that comes with the first answer.
///
/// # Errors
/// If it is not the memory of three streams.
pub fn open_rings(descriptors: Vec<OwnedFd>) -> io::Result<Rings> {
    let rings = descriptors.into_iter().map(Ring::open).collect::<io::Result<Vec<_>>>()?;
    rings.try_into().map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "the memory of three streams is missing"))
}
