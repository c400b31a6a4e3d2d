//! Accepts connections on the Unix socket, over loopback and over TLS, identifies each caller and its role, and hands over those
//! that are admitted.
//!
//! The acceptor does not wait for callers. It gets the user from the kernel, counts it, and rejects it at once if the
//! user has too many connections. A task of each connection waits for the greeting.

mod admission;
mod entrant;
mod handshakes;
mod names;
mod on_behalf;
mod over_tls;

use std::fs;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use limo_files::Outlasts;
use limo_identity::CertifiedRole;
use limo_proto::{
    ClientToMaster, Connection, Endpoint, EnrolAnswer, EnrolRequest, Frame, Greeted, Identity, MasterToClient,
    MasterToNode, NodeToMaster, Principal, Role, Socket, accept, make_directory, turn_away,
};
use tokio::net::{TcpListener, TcpSocket, UnixListener, UnixSocket, UnixStream};
use tokio::sync::mpsc::Sender;
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::audit::{Audit, AuditEntry, AuditKind};
use crate::config::TlsSettings;
use crate::controller::Caller;
use crate::enrol::{Applicant, Enroller};
use crate::pass::Pass;
pub use admission::{Admission, ConnectionLimits, Place};
use entrant::Entrant;
use names::{KnownUser, Names};
use over_tls::TlsListener;
pub use over_tls::certified_cluster;

/// Most callers that may wait to be accepted. The kernel caps it at net.core.somaxconn (4096). A TCP caller without a
/// place retries after 1 s, so one user's many calls must not fill the places of all others.
const BACKLOG: u32 = 65_535;

/// Pause after a failure to accept. A lack of descriptors, for example, lasts for a while.
const PAUSE: Duration = Duration::from_millis(100);

/// Most user look-ups at a time, if a look-up means reading the table of all sockets.
const LOOK_UPS: usize = 16;

/// A caller that may connect.
pub enum Arrival {
    Node(Connection<NodeToMaster, MasterToNode>, Place, Option<Box<Pass>>),
    Client(Connection<ClientToMaster, MasterToClient>, Caller, Place, Option<Box<Pass>>),
}

/// Addresses on which the master listens.
#[derive(Debug)]
pub struct Listeners {
    unix: UnixListener,
    tcp: Option<TcpListener>,
    tls: Option<TlsListener>,
    /// Issues certificates, if there is a listener for callers with certificates.
    enroller: Option<Enroller>,
}

/// Binds the socket, and the address if there is one. Writes the address, else the socket, to DIR/address atomically; a
/// full disk is only logged.
///
/// # Errors
/// If the socket or the address cannot be bound, the socket's directory is not safe, or the file cannot be written.
pub async fn bind(socket: &Path, address: Option<SocketAddr>, state_dir: &Path) -> Result<Listeners> {
    let endpoint = Endpoint::unix(socket)?;
    let unix = bind_unix(socket).await.with_context(|| format!("cannot listen on {endpoint}"))?;
    let tcp = match address {
        Some(address) => Some(bind_tcp(address).with_context(|| format!("cannot listen on {address}"))?),
        None => None,
    };
    let bound = match &tcp {
        Some(tcp) => Endpoint::Loopback(tcp.local_addr().context("cannot find the own address")?),
        None => endpoint.clone(),
    };
    write_address(&state_dir.join("address"), &bound.to_string())?;
    tracing::info!(address = %bound, socket = %socket.display(), "listening");
    Ok(Listeners { unix, tcp, tls: None, enroller: None })
}

impl Listeners {
    /// Also listens for callers with certificates. Writes the address to DIR/tls-address.
    ///
    /// # Errors
    /// If the address cannot be bound, or the certificates cannot be used.
    pub fn over_tls(self, settings: &TlsSettings, state_dir: &Path, audit: Audit) -> Result<Self> {
        let listener = bind_tcp(settings.listen).with_context(|| format!("cannot listen on {}", settings.listen))?;
        let address = listener.local_addr().context("cannot find the own address")?;
        let enroller = Some(Enroller::new(settings, audit.clone()));
        let tls = TlsListener::new(listener, settings.dir.clone(), audit)?;
        write_address(&state_dir.join("tls-address"), &Endpoint::Tls(vec![address.to_string()]).to_string())?;
        tracing::info!(%address, "listening for callers with certificates");
        Ok(Self { tls: Some(tls), enroller, ..self })
    }
}

/// Replaces a file with an address; a full disk is only logged.
pub fn write_address(path: &Path, bound: &str) -> Result<()> {
    let text = format!("{bound}\n");
    match limo_files::replace(path, 0o666, Outlasts::Process, |file| file.write_all(text.as_bytes())) {
        Err(error) if error.kind() == io::ErrorKind::StorageFull => {
            tracing::warn!(path = %path.display(), "the disk is full: the address is only in this log");
        }
        written => written.with_context(|| format!("cannot write {}", path.display()))?,
    }
    Ok(())
}

fn bind_tcp(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    // This lets a restarted master use its address again.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Moves a listening socket into its place atomically, so every caller that finds it can connect. Replaces a socket
/// without a listener.
async fn bind_unix(path: &Path) -> Result<UnixListener> {
    let directory = path.parent().unwrap_or(Path::new("/"));
    let is_new = !directory.exists();
    make_directory(directory, 0o755)?;
    if is_new {
        fs::set_permissions(directory, fs::Permissions::from_mode(0o755))?;
    }
    match UnixStream::connect(path).await {
        Err(error) if [io::ErrorKind::NotFound, io::ErrorKind::ConnectionRefused].contains(&error.kind()) => {}
        Err(error) => return Err(error.into()),
        Ok(_) => bail!("another master listens there: choose another path with --socket"),
    }
    let unfinished = PathBuf::from(format!("{}.new", path.display()));
    // The leftover is from a master that was killed at this point.
    let _ = fs::remove_file(&unfinished);
    let socket = UnixSocket::new_stream()?;
    socket.bind(&unfinished)?;
    let listener = socket.listen(BACKLOG)?;
    // Every user may call, because the kernel identifies the caller.
    fs::set_permissions(&unfinished, fs::Permissions::from_mode(0o666))?;
    fs::rename(&unfinished, path)?;
    Ok(listener)
}

/// Accepts callers until the receiver of the door is dropped.
pub async fn serve(listeners: Listeners, door: Door) {
    let over_tcp = async {
        if let Some(tcp) = listeners.tcp {
            door.serve(Listener::Tcp(tcp)).await;
        }
    };
    let over_tls = async {
        if let Some(tls) = listeners.tls {
            tls.serve(&door).await;
        }
    };
    tokio::join!(door.serve(Listener::Unix(listeners.unix)), over_tcp, over_tls);
}

enum Listener {
    Unix(UnixListener),
    Tcp(TcpListener),
}

impl Listener {
    async fn accept(&self) -> io::Result<Socket> {
        match self {
            Self::Unix(listener) => listener.accept().await.map(|(stream, _)| stream.into()),
            Self::Tcp(listener) => listener.accept().await.map(|(stream, _)| stream.into()),
        }
    }
}

/// The checks that every caller has to pass.
#[derive(Debug, Clone)]
pub struct Door {
    /// The identity of this master for callers.
    identity: Identity,
    admission: Admission,
    names: Names,
    arrivals: Sender<Arrival>,
    look_ups: LookUps,
    audit: Audit,
    enroller: Option<Enroller>,
}

/// Limits the look-ups of users at a time.
#[derive(Debug, Clone)]
struct LookUps(Arc<Semaphore>);

impl Default for LookUps {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(LOOK_UPS)))
    }
}

impl Door {
    /// Makes the door through which admitted callers reach `arrivals`. Users of this machine in `admin_group` are
    /// operators.
    pub fn new(
        listeners: &Listeners,
        (identity, admin_group): (Identity, String),
        limits: ConnectionLimits,
        audit: Audit,
        arrivals: Sender<Arrival>,
    ) -> Self {
        let (admission, names, look_ups) = (Admission::new(limits), Names::new(admin_group), LookUps::default());
        Self { identity, admission, names, arrivals, look_ups, audit, enroller: listeners.enroller.clone() }
    }

    /// Lets in a part of this process that asks for a user of this machine; returns its end of the connection. Has to be
    /// called within a runtime.
    ///
    /// # Errors
    /// If no descriptor is left.
    pub fn let_in(&self, principal: Principal) -> io::Result<std::os::unix::net::UnixStream> {
        let (inner, outer) = std::os::unix::net::UnixStream::pair()?;
        inner.set_nonblocking(true)?;
        outer.set_nonblocking(true)?;
        self.entered(UnixStream::from_std(inner)?.into(), Entrant::local(principal));
        Ok(outer)
    }

    async fn serve(&self, listener: Listener) {
        while !self.arrivals.is_closed() {
            match listener.accept().await {
                Ok(socket) => self.called(socket),
                Err(error) => {
                    tracing::error!(%error, "cannot accept connections");
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }

    /// Handles a caller without waiting.
    fn called(&self, socket: Socket) {
        match socket.principal_at_once() {
            Ok(Some(principal)) => self.entered(socket, Entrant::local(principal)),
            Ok(None) => tracing::debug!("the kernel knows no user of this machine for the caller"),
            Err(_) => {
                let door = self.clone();
                tokio::spawn(async move { door.look_up(socket).await });
            }
        }
    }

    async fn look_up(self, socket: Socket) {
        let Ok(_turn) = self.look_ups.0.try_acquire() else {
            return turn_away(socket, "too many callers at a time: try again, or call the Unix socket".to_owned());
        };
        match socket.principal().await {
            Ok(Some(principal)) => self.entered(socket, Entrant::local(principal)),
            Ok(None) => tracing::debug!("the kernel knows no user of this machine for the caller"),
            Err(error) => tracing::error!(%error, "cannot identify the caller"),
        }
    }

    fn entered(&self, socket: Socket, entrant: Entrant) {
        match self.admission.take(entrant.uid, entrant.is_operator) {
            Ok(place) => {
                let door = self.clone();
                tokio::spawn(async move {
                    let (uid, via) = (entrant.uid, entrant.via);
                    if let Err(error) = door.greet(socket, entrant, place).await {
                        door.log(uid, via, &format!("{error:#}"));
                    }
                });
            }
            Err(full) => {
                turn_away(socket, full.to_string());
                self.log(entrant.uid, entrant.via, &full.to_string());
            }
        }
    }

    /// Logs that a caller was rejected, unless the same user was logged just before.
    fn log(&self, uid: u32, via: &str, reason: &str) {
        if let Some(count) = self.admission.turned_away(uid, Instant::now()) {
            tracing::warn!(uid, via, count, reason, "a caller was rejected");
        }
    }

    async fn greet(&self, socket: Socket, entrant: Entrant, place: Place) -> Result<()> {
        let limits = self.admission.limits();
        let deadline = tokio::time::Instant::now() + limits.greeting_time;
        let turn = place.turn();
        let permit: Option<SemaphorePermit<'_>> = match &turn {
            Some(turn) => match tokio::time::timeout_at(deadline, turn.acquire()).await {
                Ok(permit) => Some(permit.context("the master is stopping")?),
                Err(_) => {
                    let count = limits.ungreeted_per_user;
                    let reason = format!("{count} connections of yours have not greeted (ungreeted_per_user)");
                    turn_away(socket, reason.clone());
                    bail!(reason);
                }
            },
            None => None,
        };
        let greeted = accept(socket, deadline.duration_since(tokio::time::Instant::now()), self.identity).await?;
        drop(permit);
        let uid = entrant.uid;
        let may_only_ask = entrant.certified() == Some(CertifiedRole::ReadOnly);
        let known = match (&entrant.pass, entrant.certified()) {
            (Some(pass), Some(CertifiedRole::ReadOnly | CertifiedRole::SubmitHost)) => {
                KnownUser { name: pass.certificate.identity.to_string(), ..KnownUser::default() }
            }
            _ => self.names.of(uid).await?,
        };
        let KnownUser { name: user, is_admin, groups } = known;
        // A certificate gives the rights of its role.
        let operator = entrant.is_operator || (is_admin && entrant.pass.is_none());
        if let Err(reason) = entrant.may_be(greeted.role, &user) {
            let about_user = || AuditEntry::of(AuditKind::Refused, &user, &reason);
            let entry = entrant.pass.as_ref().map_or_else(about_user, |pass| over_tls::refusal(pass, &reason));
            self.audit.add(&entry);
            return refuse(greeted, reason).await;
        }
        let arrival = match greeted.role {
            Role::Enrolment => return self.enrol(greeted, entrant.applicant(user, operator)).await,
            Role::Node => Arrival::Node(greeted.into_connection(), place, entrant.pass),
            Role::Client if entrant.certified() == Some(CertifiedRole::SubmitHost) => {
                return self.on_behalf(greeted, entrant, deadline).await;
            }
            Role::Client => Arrival::Client(
                greeted.into_connection(),
                Caller { uid, user, groups, operator, may_only_ask },
                place,
                entrant.pass,
            ),
        };
        // A master that stops admits no more callers.
        let _ = self.arrivals.send(arrival).await;
        Ok(())
    }

    /// Answers a caller that wants a certificate or a token.
    async fn enrol(&self, greeted: Greeted, applicant: Applicant) -> Result<()> {
        match &self.enroller {
            Some(enroller) => enroller.serve(greeted, applicant, self.admission.limits().greeting_time).await,
            None => refuse(greeted, "this master serves only its own machine: set listen of [tls]".to_owned()).await,
        }
    }

    /// Answers a caller without a certificate.
    async fn join(&self, socket: Socket, from: SocketAddr) -> Result<()> {
        let greeted = accept(socket, self.admission.limits().greeting_time, self.identity).await?;
        if greeted.role != Role::Enrolment {
            return refuse(greeted, "without a certificate a machine can only join".to_owned()).await;
        }
        self.enrol(greeted, Applicant::Stranger(from)).await
    }
}

async fn refuse(greeted: Greeted, reason: String) -> Result<()> {
    match greeted.role {
        Role::Node => {
            let mut connection: Connection<NodeToMaster, MasterToNode> = greeted.into_connection();
            connection.writer.send(&Frame::Message(MasterToNode::Refused { reason: reason.as_str().into() })).await?;
        }
        Role::Client => {
            let mut connection: Connection<ClientToMaster, MasterToClient> = greeted.into_connection();
            let refused = MasterToClient::Refused { reason: reason.clone(), hint: None };
            connection.writer.send(&Frame::Message(refused)).await?;
        }
        Role::Enrolment => {
            let mut connection: Connection<EnrolRequest, EnrolAnswer> = greeted.into_brief_connection();
            let refused = EnrolAnswer::Refused { reason: reason.as_str().into(), hint: None };
            connection.writer.send(&Frame::Message(refused)).await?;
        }
    }
    bail!(reason)
}
