//! A connected socket, Unix, TCP over loopback or TLS, and the user at its other end. Independent of frames.

use std::io::{self, IoSlice, Read, Write};
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::pin::Pin;
use std::task::{Context, Poll};

use nix::sys::socket::{Shutdown, setsockopt, shutdown, sockopt};
use tokio::io::{AsyncRead, ReadBuf};
use tokio::net::{TcpStream, UnixStream, tcp, unix};

use crate::endpoint::Endpoint;
use crate::heartbeat::{HEARTBEAT, MISSED_BEATS};
use crate::owner::{self, OVERFLOW_UID};
use crate::tls::{TlsReadHalf, TlsSocket, TlsWriteHalf};

/// A connected stream.
#[derive(Debug)]
pub enum Socket {
    /// Connection within a machine; the kernel names the user at the other end.
    Unix(UnixStream),
    /// Connection over loopback.
    Tcp(TcpStream),
    /// Connection to any machine; a certificate names the other end.
    Tls(Box<TlsSocket>),
}

/// The receiving half of a [`Socket`].
#[derive(Debug)]
pub enum ReadHalf {
    Unix(unix::OwnedReadHalf),
    Tcp(tcp::OwnedReadHalf),
    Tls(TlsReadHalf),
}

/// The sending half of a [`Socket`]; dropping it ends the stream for the peer.
#[derive(Debug)]
pub enum WriteHalf {
    Unix(unix::OwnedWriteHalf),
    Tcp(tcp::OwnedWriteHalf),
    Tls(TlsWriteHalf),
}

/// The user at the other end of a connection, as the kernel of this machine names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Principal {
    /// Uid of the user; never the overflow user.
    pub uid: u32,
    /// The kind of socket.
    pub via: Via,
}

/// The kind of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the variants say what their fields are")]
pub enum Via {
    /// A Unix socket. `pid` is 0 if unknown.
    Unix { pid: i32 },
    /// TCP within this machine.
    Loopback,
}

/// The data for looking up the user at the other end.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Peer {
    /// User of a Unix socket, which is fixed when the connection is made.
    Unix(Principal),
    Loopback {
        remote: SocketAddr,
        local: SocketAddr,
    },
    Nobody,
}

impl From<UnixStream> for Socket {
    fn from(stream: UnixStream) -> Self {
        Self::Unix(stream)
    }
}

impl From<TcpStream> for Socket {
    fn from(stream: TcpStream) -> Self {
        Self::Tcp(stream)
    }
}

impl From<TlsSocket> for Socket {
    fn from(socket: TlsSocket) -> Self {
        Self::Tls(Box::new(socket))
    }
}

impl Socket {
    /// Connects to an endpoint.
    ///
    /// # Errors
    /// If the endpoint has no listener.
    pub async fn connect(endpoint: &Endpoint) -> io::Result<Self> {
        match endpoint {
            Endpoint::Unix(path) => UnixStream::connect(path).await.map(Self::Unix),
            Endpoint::Loopback(address) => TcpStream::connect(address).await.map(Self::Tcp),
            Endpoint::Tls(hosts) => TlsSocket::first_of(hosts).await.map(Self::from),
            Endpoint::AnyOf(_) => Err(io::Error::new(io::ErrorKind::InvalidInput, "call one master at a time")),
        }
    }

    /// Returns the user at the other end if this needs no reading of the table of all sockets. `None` if the user is
    /// unknown to this user namespace or has closed its end.
    ///
    /// # Errors
    /// If the kernel does not answer at once; [`Socket::principal`] may succeed, but takes longer.
    pub fn principal_at_once(&self) -> io::Result<Option<Principal>> {
        self.peer()?.principal_at_once()
    }

    /// Returns the user at the other end, or `None` as for [`Socket::principal_at_once`].
    ///
    /// # Errors
    /// If the kernel does not answer.
    pub async fn principal(&self) -> io::Result<Option<Principal>> {
        self.peer()?.principal().await
    }

    pub(crate) fn peer(&self) -> io::Result<Peer> {
        match self {
            Self::Unix(stream) => {
                let credentials = stream.peer_cred()?;
                let via = Via::Unix { pid: credentials.pid().unwrap_or(0) };
                let known = credentials.uid() != OVERFLOW_UID;
                Ok(if known { Peer::Unix(Principal { uid: credentials.uid(), via }) } else { Peer::Nobody })
            }
            Self::Tcp(stream) => Ok(Peer::Loopback { remote: stream.peer_addr()?, local: stream.local_addr()? }),
            // The kernel of this machine does not know the user of another one.
            Self::Tls(_) => Ok(Peer::Nobody),
        }
    }

    /// Splits the socket into two halves, which send without delay.
    pub(crate) fn into_halves(self) -> io::Result<(ReadHalf, WriteHalf)> {
        Ok(match self {
            Self::Unix(stream) => {
                let (read, write) = stream.into_split();
                (ReadHalf::Unix(read), WriteHalf::Unix(write))
            }
            Self::Tcp(stream) => {
                prepare(&stream)?;
                let (read, write) = stream.into_split();
                (ReadHalf::Tcp(read), WriteHalf::Tcp(write))
            }
            Self::Tls(socket) => {
                prepare(socket.stream())?;
                let (read, write) = socket.into_halves();
                (ReadHalf::Tls(read), WriteHalf::Tls(write))
            }
        })
    }

    /// Sends as much as fits without waiting, and closes the connection.
    pub(crate) fn last_words(self, bytes: &[u8]) {
        // Unread bytes of a peer would turn the end into a reset. The peer may have disconnected already.
        let mut arrived = [0; 64];
        let _ = match self {
            Self::Tls(socket) => return socket.last_words(bytes),
            Self::Unix(stream) => stream.into_std().map(|mut s| (s.read(&mut arrived), s.write(bytes))),
            Self::Tcp(stream) => stream.into_std().map(|mut s| (s.read(&mut arrived), s.write(bytes))),
        };
    }
}

/// Makes a stream send without delay and break when its peer acknowledges nothing.
fn prepare(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    // Time without an acknowledgement of sent data after which the connection breaks.
    let unacknowledged = u32::try_from((HEARTBEAT * MISSED_BEATS).as_millis()).unwrap_or(u32::MAX);
    setsockopt(stream, sockopt::TcpUserTimeout, &unacknowledged).map_err(io::Error::from)
}

impl Peer {
    fn principal_at_once(self) -> io::Result<Option<Principal>> {
        match self {
            Self::Unix(principal) => Ok(Some(principal)),
            Self::Loopback { remote, local } => Ok(over_loopback(owner::owner_at_once(remote, local)?)),
            Self::Nobody => Ok(None),
        }
    }

    pub(crate) async fn principal(self) -> io::Result<Option<Principal>> {
        match (self.principal_at_once(), self) {
            (Err(_), Self::Loopback { remote, local }) => {
                let found = tokio::task::spawn_blocking(move || owner::owner(remote, local)).await;
                Ok(over_loopback(found.map_err(io::Error::other)??))
            }
            (result, _) => result,
        }
    }
}

fn over_loopback(uid: Option<u32>) -> Option<Principal> {
    uid.map(|uid| Principal { uid, via: Via::Loopback })
}

impl AsyncRead for ReadHalf {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Unix(half) => Pin::new(half).poll_read(context, buffer),
            Self::Tcp(half) => Pin::new(half).poll_read(context, buffer),
            Self::Tls(half) => Pin::new(half).poll_read(context, buffer),
        }
    }
}

impl WriteHalf {
    /// Waits until a write is likely to succeed.
    pub(crate) async fn writable(&self) -> io::Result<()> {
        match self {
            Self::Unix(half) => half.writable().await,
            Self::Tcp(half) => half.writable().await,
            Self::Tls(half) => half.writable().await,
        }
    }

    /// Waits until all bytes of earlier writes are with the kernel.
    pub(crate) async fn flush(&self) -> io::Result<()> {
        match self {
            Self::Unix(_) | Self::Tcp(_) => Ok(()),
            Self::Tls(half) => half.flush().await,
        }
    }

    /// Writes as much as fits without waiting.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] if nothing fits.
    pub(crate) fn try_write(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        match (self, slices) {
            (Self::Tls(half), _) => half.try_write(slices),
            (Self::Unix(half), [bytes]) => half.try_write(bytes),
            (Self::Tcp(half), [bytes]) => half.try_write(bytes),
            (Self::Unix(half), _) => half.try_write_vectored(slices),
            (Self::Tcp(half), _) => half.try_write_vectored(slices),
        }
    }

    /// Ends both directions.
    pub(crate) fn hang_up(&self) {
        let socket = match self {
            Self::Unix(half) => half.as_ref().as_raw_fd(),
            Self::Tcp(half) => half.as_ref().as_raw_fd(),
            Self::Tls(half) => return half.hang_up(),
        };
        // The peer may have closed it before.
        let _ = shutdown(socket, Shutdown::Both);
    }
}
