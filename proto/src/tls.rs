//! A TLS connection: a TCP stream with a session. Its halves share the session; bytes are encrypted and decrypted by
//! the task that reads or writes them.

use std::future::poll_fn;
use std::io::{self, BufRead, IoSlice, Read, Write};
use std::os::fd::AsRawFd;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use limo_identity::{ALPN, Certificate, Fingerprint, JOIN_ALPN, joiner, server_name};
use nix::sys::socket::{Shutdown as Direction, shutdown};
use rustls::pki_types::ServerName;
use rustls::server::{Acceptor, ClientHello};
use rustls::{ClientConfig, ClientConnection, Connection, ServerConfig};
use tokio::io::{AsyncRead, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::credentials::{Credentials, CredentialsError};
use crate::places::tls_directory;

/// Longest wait for one host.
const HOST_TIME: Duration = Duration::from_secs(5);

/// Name that a joining machine uses for a master: its settings check another name.
const ANY_MASTER: &str = "master.limo.internal";

/// A TLS connection after its handshake: both ends have shown certificates of the cluster, unless the caller joins.
#[derive(Debug)]
pub struct TlsSocket {
    tcp: TcpStream,
    session: Connection,
    /// `None` for a caller that joins.
    peer: Option<Certificate>,
}

/// Settings of a listener for each kind of caller.
#[derive(Debug, Clone)]
pub struct ListenerConfig {
    /// For callers with a certificate.
    pub(crate) members: Arc<ServerConfig>,
    /// For callers that join.
    pub(crate) joiners: Arc<ServerConfig>,
}

impl ListenerConfig {
    /// Returns the settings for a caller. Only one that speaks no other protocol may join without a certificate.
    fn choose(&self, hello: &ClientHello<'_>) -> Arc<ServerConfig> {
        let (mut joins, mut is_member) = (false, false);
        for protocol in hello.alpn().into_iter().flatten() {
            joins |= protocol == JOIN_ALPN;
            is_member |= protocol == ALPN;
        }
        Arc::clone(if joins && !is_member { &self.joiners } else { &self.members })
    }
}

impl TlsSocket {
    /// Shakes hands with a caller. The caller of this function limits the time.
    ///
    /// # Errors
    /// If the connection broke, or the peer has no certificate of the cluster that is valid now and for a caller, and
    /// does not join.
    pub async fn accept(tcp: TcpStream, config: &ListenerConfig) -> io::Result<Self> {
        let mut acceptor = Acceptor::default();
        let accepted = loop {
            if read_into(&tcp, |from| acceptor.read_tls(from)).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            match acceptor.accept() {
                Ok(Some(accepted)) => break accepted,
                Ok(None) => {}
                Err((error, mut alert)) => {
                    // The peer gets the reason if it still listens.
                    let _ = alert.write(&mut Bare(&tcp));
                    return Err(io::Error::new(io::ErrorKind::InvalidData, error));
                }
            }
        };
        let config = config.choose(&accepted.client_hello());
        match accepted.into_connection(config) {
            Ok(session) => {
                let mut session = session.into();
                // The acceptor may have read more than the first message.
                process(&tcp, &mut session)?;
                Self::shake(tcp, session).await
            }
            Err((error, mut alert)) => {
                let _ = alert.write(&mut Bare(&tcp));
                Err(io::Error::new(io::ErrorKind::InvalidData, error))
            }
        }
    }

    /// Calls the first of `hosts` that answers as a master of the cluster whose authority has this fingerprint. The
    /// caller needs no certificate, and may only join.
    pub(crate) async fn join(hosts: &[String], authority: Fingerprint) -> io::Result<Self> {
        let config = Arc::new(joiner(authority).map_err(io::Error::other)?);
        Self::first(hosts, &config, ANY_MASTER).await
    }

    async fn connect(host: &str, config: Arc<ClientConfig>, name: &str) -> io::Result<Self> {
        let tcp = TcpStream::connect(host).await?;
        let name = ServerName::try_from(name.to_owned()).map_err(io::Error::other)?;
        let session = ClientConnection::new(config, name).map_err(io::Error::other)?;
        Self::shake(tcp, session.into()).await
    }

    /// Connects to the first of `hosts` that answers as a master of the cluster.
    pub(crate) async fn first_of(hosts: &[String]) -> io::Result<Self> {
        let directory = tls_directory().ok_or(CredentialsError::NoHome).map_err(io::Error::other)?;
        let credentials = Credentials::read(&directory).map_err(io::Error::other)?;
        let cluster = credentials.own().identity.cluster();
        let config = credentials.caller().map_err(io::Error::other)?;
        Self::first(hosts, &config, &server_name(cluster)).await
    }

    async fn first(hosts: &[String], config: &Arc<ClientConfig>, name: &str) -> io::Result<Self> {
        let mut last = Err(io::Error::from(io::ErrorKind::NotFound));
        for host in hosts {
            let called = timeout(HOST_TIME, Self::connect(host, Arc::clone(config), name)).await;
            last = called.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
            if last.is_ok() {
                break;
            }
        }
        last
    }

    async fn shake(tcp: TcpStream, mut session: Connection) -> io::Result<Self> {
        loop {
            while session.wants_write() {
                match session.write_tls(&mut Bare(&tcp)) {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => tcp.writable().await?,
                    written => drop(written?),
                }
            }
            if !session.is_handshaking() {
                break;
            }
            if read_into(&tcp, |from| session.read_tls(from)).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            process(&tcp, &mut session)?;
        }
        let certificate = session.peer_certificates().and_then(|chain| chain.first());
        let read = certificate.map(Certificate::read).transpose();
        let peer = read.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        Ok(Self { tcp, session, peer })
    }

    /// Returns what the certificate of the peer says; `None` for a caller that joins.
    pub fn certificate(&self) -> Option<&Certificate> {
        self.peer.as_ref()
    }

    pub(crate) fn stream(&self) -> &TcpStream {
        &self.tcp
    }

    pub(crate) fn into_halves(self) -> (TlsReadHalf, TlsWriteHalf) {
        let shared = Arc::new(Shared { tcp: self.tcp, session: Mutex::new(self.session) });
        (TlsReadHalf(Arc::clone(&shared)), TlsWriteHalf(shared))
    }

    /// Sends as much as fits without waiting, and closes the connection.
    pub(crate) fn last_words(self, bytes: &[u8]) {
        let (read, write) = self.into_halves();
        // Unread bytes of a peer would turn the end into a reset. The peer may have disconnected already.
        let _ = read.0.session().read_tls(&mut Bare(&read.0.tcp));
        let _ = write.try_write(&[IoSlice::new(bytes)]);
    }
}

/// Processes what the session has read. Tells the peer the reason for an error, if it still listens.
fn process(tcp: &TcpStream, session: &mut Connection) -> io::Result<()> {
    let Err(error) = session.process_new_packets() else { return Ok(()) };
    let _ = session.write_tls(&mut Bare(tcp));
    Err(io::Error::new(io::ErrorKind::InvalidData, error))
}

/// Waits until bytes have arrived, and passes them to `read`. Returns their number; 0 at the end.
async fn read_into(tcp: &TcpStream, mut read: impl FnMut(&mut dyn Read) -> io::Result<usize>) -> io::Result<usize> {
    loop {
        match read(&mut Bare(tcp)) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => tcp.readable().await?,
            read => return read,
        }
    }
}

/// The TCP stream as the session uses it.
struct Bare<'a>(&'a TcpStream);

impl Read for Bare<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.try_read(buffer)
    }
}

impl Write for Bare<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.try_write(bytes)
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        self.0.try_write_vectored(slices)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[derive(Debug)]
struct Shared {
    tcp: TcpStream,
    session: Mutex<Connection>,
}

impl Shared {
    fn session(&self) -> MutexGuard<'_, Connection> {
        // A session that a panic left in the middle fails by itself: its records are authenticated.
        self.session.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes out encrypted bytes. Fails with `WouldBlock` if not all of them fit.
    fn write_out(&self, session: &mut Connection) -> io::Result<()> {
        while session.wants_write() {
            if session.write_tls(&mut Bare(&self.tcp))? == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
        }
        Ok(())
    }
}

/// The receiving half of a [`TlsSocket`].
#[derive(Debug)]
pub struct TlsReadHalf(Arc<Shared>);

impl AsyncRead for TlsReadHalf {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let shared = &self.0;
        loop {
            let mut session = shared.session();
            match session.reader().fill_buf() {
                Ok(plain) => {
                    let count = plain.len().min(buffer.remaining());
                    buffer.put_slice(&plain[..count]);
                    session.reader().consume(count);
                    return Poll::Ready(Ok(()));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                    let reason = "the peer ended it without a farewell";
                    return Poll::Ready(Err(io::Error::new(io::ErrorKind::UnexpectedEof, reason)));
                }
                Err(error) => return Poll::Ready(Err(error)),
            }
            match session.read_tls(&mut Bare(&shared.tcp)) {
                Ok(_) => {
                    let processed = session.process_new_packets();
                    // A key update is answered, and an error is reported to the peer, if there is room.
                    let _ = shared.write_out(&mut session);
                    if let Err(error) = processed {
                        return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, error)));
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    drop(session);
                    ready!(shared.tcp.poll_read_ready(context))?;
                }
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }
}

/// The sending half of a [`TlsSocket`]; dropping it ends the stream for the peer.
#[derive(Debug)]
pub struct TlsWriteHalf(Arc<Shared>);

impl TlsWriteHalf {
    /// Waits until a write is likely to succeed.
    pub(crate) async fn writable(&self) -> io::Result<()> {
        self.0.tcp.writable().await
    }

    /// Encrypts as much as the session takes, and writes what fits. [`TlsWriteHalf::flush`] writes the rest.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] if earlier bytes still wait.
    pub(crate) fn try_write(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut session = self.0.session();
        self.0.write_out(&mut session)?;
        let taken = session.writer().write_vectored(slices)?;
        match self.0.write_out(&mut session) {
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => Err(error),
            _ => Ok(taken),
        }
    }

    /// Writes out everything that was encrypted.
    pub(crate) async fn flush(&self) -> io::Result<()> {
        poll_fn(|context| {
            loop {
                let written = self.0.write_out(&mut self.0.session());
                match written {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                        ready!(self.0.tcp.poll_write_ready(context))?;
                    }
                    written => return Poll::Ready(written),
                }
            }
        })
        .await
    }

    /// Ends both directions.
    pub(crate) fn hang_up(&self) {
        // The peer may have closed it before.
        let _ = shutdown(self.0.tcp.as_raw_fd(), Direction::Both);
    }
}

impl Drop for TlsWriteHalf {
    fn drop(&mut self) {
        let mut session = self.0.session();
        session.send_close_notify();
        // The peer may have closed it before.
        let _ = self.0.write_out(&mut session);
        let _ = shutdown(self.0.tcp.as_raw_fd(), Direction::Write);
    }
}
