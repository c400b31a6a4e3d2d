//! Daemon's side of `lshepherd`: starts it and passes orders and answers, without interpreting them.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;

use limo_shepherd::{Answer, Launch, Order, Plan, pair, receive, send, send_launch};
use thiserror::Error;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::mpsc;
use tracing::{debug, error};

use crate::shell::Event;

/// Name of the program, in the directory of this one.
const PROGRAM: &str = "lshepherd";

#[derive(Debug, Error)]
pub enum ShepherdError {
    #[error("cannot find this program's own directory, where lshepherd should be: {0}")]
    Place(io::Error),
    #[error("cannot start {}, which launches the jobs: {source}; install it in the directory of lslave", path.display())]
    Start { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Channel(#[from] limo_shepherd::ChannelError),
    #[error("cannot watch the connection to lshepherd: {0}")]
    Watch(io::Error),
}

struct Packet {
    bytes: Vec<u8>,
    descriptors: Vec<OwnedFd>,
}

/// Running `lshepherd`. It ends, with all jobs, on drop.
#[derive(Debug)]
pub struct Shepherd {
    orders: mpsc::UnboundedSender<Packet>,
}

impl Shepherd {
    /// Starts `lshepherd`. It keeps `lock` open until all processes of jobs have ended.
    ///
    /// # Errors
    /// [`ShepherdError`].
    pub fn start(lock: &File, events: &mpsc::Sender<Event>) -> Result<Self, ShepherdError> {
        let own = std::env::current_exe().map_err(ShepherdError::Place)?;
        let path = own.with_file_name(PROGRAM);
        let (ours, theirs) = pair()?;
        let mut command = Command::new(&path);
        command.stdin(Stdio::from(theirs)).stdout(Stdio::null());
        // The process is collected like every other child.
        command.spawn().map_err(|source| ShepherdError::Start { path, source })?;
        // SAFETY: the descriptor is owned and stays open until this is dropped.
        let socket = unsafe { AsyncFd::register(ours) }.map_err(|error| ShepherdError::Watch(error.into()))?;
        let socket = Arc::new(socket);
        let (orders, queue) = mpsc::unbounded_channel();
        tokio::spawn(write(Arc::clone(&socket), queue));
        tokio::spawn(read(socket, events.clone()));
        let shepherd = Self { orders };
        let lock = lock.try_clone().map_err(ShepherdError::Watch)?;
        shepherd.put(Order::Hello.encode(), vec![lock.into()]);
        Ok(shepherd)
    }

    fn put(&self, bytes: Vec<u8>, descriptors: Vec<OwnedFd>) {
        // The reader notices if the process has ended.
        let _ = self.orders.send(Packet { bytes, descriptors });
    }

    /// Sends an order other than a launch.
    pub fn order(&self, order: &Order) {
        self.put(order.encode(), Vec::new());
    }

    /// Orders a launch.
    ///
    /// # Errors
    /// If the plan cannot be passed on.
    pub fn launch(&self, launch: &Launch, plan: &Plan, descriptors: Vec<OwnedFd>) -> Result<(), ShepherdError> {
        let (bytes, file) = send_launch(launch, plan)?;
        self.put(bytes, file.into_iter().chain(descriptors).collect());
        Ok(())
    }
}

async fn write(socket: Arc<AsyncFd<OwnedFd>>, mut queue: mpsc::UnboundedReceiver<Packet>) {
    while let Some(Packet { bytes, descriptors }) = queue.recv().await {
        let beside: Vec<_> = descriptors.iter().map(AsFd::as_fd).collect();
        let sent = socket.async_io(Interest::WRITABLE, |fd| send(fd.as_fd(), &bytes, &beside)).await;
        if let Err(error) = sent {
            debug!(%error, "lshepherd does not take an order");
        }
    }
    // This ends both directions, so that the reader does not keep the socket open.
    let _ =
        nix::sys::socket::shutdown(std::os::fd::AsRawFd::as_raw_fd(socket.get_ref()), nix::sys::socket::Shutdown::Both);
}

async fn read(socket: Arc<AsyncFd<OwnedFd>>, events: mpsc::Sender<Event>) {
    loop {
        let received = socket.async_io(Interest::READABLE, |fd| match receive(fd.as_fd()) {
            Err(limo_shepherd::ChannelError::Io { source, .. }) => Err(source),
            other => Ok(other),
        });
        let answer = match received.await {
            Ok(Ok(Some(received))) => Answer::decode(&received.bytes),
            Ok(Ok(None)) => break,
            Ok(Err(error)) => {
                error!(%error, "an answer of lshepherd is not understood");
                continue;
            }
            Err(error) => {
                error!(%error, "the connection to lshepherd broke");
                break;
            }
        };
        match answer {
            Ok(answer) => {
                if events.send(Event::Shepherd(answer)).await.is_err() {
                    return;
                }
            }
            // The answer may come from a later release.
            Err(error) => error!(%error, "an answer of lshepherd is not understood"),
        }
    }
    // The loop has ended if the daemon has ended.
    let _ = events.send(Event::ShepherdLost).await;
}
