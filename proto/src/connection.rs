//! A connection that has agreed on a version: frames in, frames out.
//!
//! A caller sends only its greeting until it knows that the master runs as a trusted user. On a Unix socket the kernel
//! reveals that at once. On loopback it does so only after the master has accepted the connection.

use std::future::{Future, poll_fn};
use std::io;
use std::task::Poll;
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use limo_identity::Fingerprint;
use limo_model::Epoch;
use thiserror::Error;
use tokio::time::timeout;

use crate::encoding::EncodeError;
use crate::endpoint::Endpoint;
use crate::frame::{FrameError, GREETING};
use crate::heartbeat::MISSED_BEATS;
use crate::hello::{Hello, Identity, Reject, Role, decode_answer, encode_answer};
use crate::newest::Newest;
use crate::reader::Reader;
use crate::safe::{self, UnsafePlace};
use crate::socket::{Principal, Socket};
use crate::tls::TlsSocket;
use crate::trust::{Trusted, described};
use crate::writer::{Writer, length};

/// Longest wait for a master's answer; it may be busy, or have many callers.
const ANSWER_TIME: Duration = Duration::from_secs(10);

/// Pauses without an answer after which the master is called once more over TCP. If callers arrive faster than they
/// are accepted, the kernel drops some and lets them retry only after 1 s.
const CALL_AGAIN: [Duration; 2] = [Duration::from_millis(150), Duration::from_millis(300)];

/// Pause before another call to a master that does not lead, while one of the others has not answered.
const CALL_OTHERS: Duration = Duration::from_millis(250);

/// Reasons why a connection failed or ended.
#[derive(Debug, Error)]
#[expect(missing_docs, reason = "the messages say what each variant is")]
pub enum ConnectionError {
    #[error("cannot connect to {address}: {source}")]
    Connect { address: String, source: io::Error },
    #[error("{address} is not a safe place for a master's socket: {source}")]
    Place { address: String, source: UnsafePlace },
    #[error("{found} listens at {address}; the master must belong to {expected}, so nothing was sent")]
    Impostor { address: String, found: String, expected: String },
    #[error("cannot identify the listener at {address}, so nothing was sent: {source}")]
    Unidentified { address: String, source: io::Error },
    #[error("the master at {address} no longer leads: its epoch is {epoch}, and a master of epoch {newest} was met")]
    Deposed { address: String, epoch: Epoch, newest: Epoch },
    #[error("the connection broke: {0}")]
    Io(#[from] io::Error),
    #[error("the peer closed the connection before it greeted")]
    Closed,
    #[error("the peer did not greet within {} s", .0.as_secs())]
    Silent(Duration),
    #[error("no sign of life from the peer for {MISSED_BEATS} heartbeats")]
    Dead,
    #[error(transparent)]
    Reject(#[from] Reject),
    #[error(transparent)]
    Frame(#[from] FrameError),
    #[error(transparent)]
    Encode(#[from] EncodeError),
}

/// Both directions of a connection: receives `In`, sends `Out`.
pub struct Connection<In, Out> {
    /// Receives from the peer.
    pub reader: Reader<In>,
    /// Sends to the peer.
    pub writer: Writer<Out>,
    /// The master's identity, at both ends.
    pub identity: Identity,
}

fn split<In, Out>(socket: Socket) -> Result<(Reader<In>, Writer<Out>), ConnectionError> {
    let (read, half) = socket.into_halves()?;
    Ok((Reader::new(read), Writer::new(half)))
}

impl<In, Out> Connection<In, Out> {
    fn greeted(mut reader: Reader<In>, writer: Writer<Out>, identity: Identity) -> Self {
        reader.greeted();
        Self { reader, writer, identity }
    }
}

/// Calls a master and agrees on a version. A user that is not `trusted` gets only the greeting.
///
/// # Errors
/// [`ConnectionError`] if the master cannot be reached, refuses, or runs as another user.
pub async fn connect<In, Out>(
    endpoint: &Endpoint,
    role: Role,
    trusted: &Trusted,
) -> Result<Connection<In, Out>, ConnectionError> {
    connect_newest(endpoint, role, trusted, Newest::default()).await
}

/// Calls a master that is not older than `newest`. Several endpoints are called at the same time, because a master that
/// was stopped does not answer, and the first that leads is taken. While one of them has not answered, the others are
/// called again: one of them may begin to lead in its place.
///
/// # Errors
/// The same as for [`connect`], and [`ConnectionError::Deposed`]: the last one if no master leads.
pub async fn connect_newest<In, Out>(
    endpoint: &Endpoint,
    role: Role,
    trusted: &Trusted,
    newest: Newest,
) -> Result<Connection<In, Out>, ConnectionError> {
    let each = endpoint.each();
    let call = |endpoint, pause| Box::pin(connect_after(pause, (endpoint, role), (trusted, newest)));
    let mut calls: Vec<_> = each.iter().map(|endpoint| call(endpoint, None)).collect();
    let mut failed = vec![false; calls.len()];
    loop {
        let (place, result) = poll_fn(|context| {
            let mut polled = calls.iter_mut().map(|call| call.as_mut().poll(context)).enumerate();
            let ready = polled.find_map(|(place, poll)| match poll {
                Poll::Ready(result) => Some((place, result)),
                Poll::Pending => None,
            });
            ready.map_or(Poll::Pending, Poll::Ready)
        })
        .await;
        // Each call fails or succeeds in limited time, and so does the last of the first calls.
        failed[place] = true;
        if result.is_ok() || failed.iter().all(|has_failed| *has_failed) {
            return result;
        }
        calls[place] = call(&each[place], Some(CALL_OTHERS));
    }
}

async fn connect_after<In, Out>(
    pause: Option<Duration>,
    (endpoint, role): (&Endpoint, Role),
    (trusted, newest): (&Trusted, Newest),
) -> Result<Connection<In, Out>, ConnectionError> {
    if let Some(pause) = pause {
        tokio::time::sleep(pause).await;
    }
    let connection = call_again(endpoint, role, trusted).await?;
    let epoch = connection.identity.epoch;
    match newest.later_than(&connection.identity) {
        Some(newest) => Err(ConnectionError::Deposed { address: endpoint.to_string(), epoch, newest }),
        None => Ok(connection),
    }
}

async fn call_again<In, Out>(
    endpoint: &Endpoint,
    role: Role,
    trusted: &Trusted,
) -> Result<Connection<In, Out>, ConnectionError> {
    let mut again: &[Duration] = if matches!(endpoint, Endpoint::Loopback(_)) { &CALL_AGAIN } else { &[] };
    let mut calls = vec![Box::pin(call(endpoint, role, trusted))];
    loop {
        let first = poll_fn(|context| {
            let mut polled = calls.iter_mut().map(|call| call.as_mut().poll(context));
            polled.find(Poll::is_ready).unwrap_or(Poll::Pending)
        });
        let Some((pause, rest)) = again.split_first() else { return first.await };
        match timeout(*pause, first).await {
            Ok(result) => return result,
            Err(_) => calls.push(Box::pin(call(endpoint, role, trusted))),
        }
        again = rest;
    }
}

async fn call<In, Out>(
    endpoint: &Endpoint,
    role: Role,
    trusted: &Trusted,
) -> Result<Connection<In, Out>, ConnectionError> {
    let address = || endpoint.to_string();
    let refused = |source| ConnectionError::Connect { address: address(), source };
    let unidentified = |source| ConnectionError::Unidentified { address: address(), source };
    let trusted = match endpoint {
        Endpoint::Unix(path) => &trusted.at_socket(path),
        _ => trusted,
    };
    if let Endpoint::Unix(path) = endpoint {
        safe::safe_socket(path, trusted).map_err(|unsafe_place| match unsafe_place {
            UnsafePlace::Io { source, .. } => refused(source),
            source => ConnectionError::Place { address: address(), source },
        })?;
    }
    let socket = Socket::connect(endpoint).await.map_err(refused)?;
    let peer = socket.peer().map_err(unidentified)?;
    if let Endpoint::Unix(_) = endpoint {
        check_owner(endpoint, trusted, peer.principal().await.map_err(unidentified)?)?;
    }
    let (reader, writer, answer) = greet(socket, role).await?;
    if let Endpoint::Loopback(_) = endpoint {
        match peer.principal().await.map_err(unidentified)? {
            // The master has answered and closed the connection, so only a refusal is possible.
            None => return Err(decode_answer(&answer).map_or_else(ConnectionError::from, |_| ConnectionError::Closed)),
            found => check_owner(endpoint, trusted, found)?,
        }
    }
    let identity = identify(&answer)?;
    Ok(Connection::greeted(reader, writer, identity))
}

/// Greets over a socket whose other end is in this process.
///
/// # Errors
/// [`ConnectionError`] if the other end refuses.
pub async fn connect_over<In, Out>(socket: Socket, role: Role) -> Result<Connection<In, Out>, ConnectionError> {
    let (reader, writer, answer) = greet(socket, role).await?;
    let identity = identify(&answer)?;
    Ok(Connection::greeted(reader, writer, identity))
}

/// Calls a master without a certificate, which is known by the fingerprint of its authority. Only
/// [`crate::EnrolRequest::Join`] is possible.
///
/// # Errors
/// [`ConnectionError`] if the master cannot be reached, refuses, or has another authority.
pub(crate) async fn connect_to_join<In, Out>(
    hosts: &[String],
    authority: Fingerprint,
) -> Result<Connection<In, Out>, ConnectionError> {
    let refused = |source| ConnectionError::Connect { address: Endpoint::Tls(hosts.to_vec()).to_string(), source };
    let socket = TlsSocket::join(hosts, authority).await.map_err(refused)?;
    connect_over(socket.into(), Role::Enrolment).await
}

/// Decodes the answer, and agrees on the master's currency.
fn identify(answer: &[u8]) -> Result<Identity, Reject> {
    let identity = decode_answer(answer)?;
    identity.currency.agree().map_err(Reject::Currency)?;
    Ok(identity)
}

/// Sends the greeting. Returns the answer, which is not decoded yet.
async fn greet<In, Out>(socket: Socket, role: Role) -> Result<(Reader<In>, Writer<Out>, Bytes), ConnectionError> {
    let (mut reader, mut writer) = split(socket)?;
    writer.greet(Hello::of(role).encode()).await?;
    let answer = reader.greeting(ANSWER_TIME).await?;
    Ok((reader, writer, answer))
}

fn check_owner(endpoint: &Endpoint, trusted: &Trusted, found: Option<Principal>) -> Result<(), ConnectionError> {
    let found = match found {
        Some(principal) if trusted.accepts(principal.uid) => return Ok(()),
        Some(principal) => described(principal.uid),
        None => "a user that this machine does not know".to_owned(),
    };
    Err(ConnectionError::Impostor { address: endpoint.to_string(), found, expected: trusted.to_string() })
}

/// Answers a caller that greets within `limit`, as the master with this `identity`. Its messages depend on its role,
/// so the types follow later.
///
/// # Errors
/// [`ConnectionError`] if the caller does not greet in time or its versions do not include this program's. It gets the
/// reason.
pub async fn accept(
    socket: impl Into<Socket>,
    limit: Duration,
    identity: Identity,
) -> Result<Greeted, ConnectionError> {
    let (mut reader, mut writer) = split::<(), ()>(socket.into())?;
    let greeting = reader.greeting(limit).await;
    if let Err(ConnectionError::Silent(limit)) = &greeting {
        let reason = Reject::Unwelcome(format!("you did not greet within {} s", limit.as_secs()));
        writer.greet(encode_answer(&Err(reason))).await?;
    }
    let hello = Hello::decode(&greeting?);
    writer.greet(encode_answer(&hello.as_ref().map(|_| identity).map_err(Reject::clone))).await?;
    Ok(Greeted { role: hello?.role, reader, writer, identity })
}

/// Tells a caller the reason for its rejection, and closes the connection. Does not wait for its greeting or until it
/// has read the reason.
pub fn turn_away(socket: Socket, reason: String) {
    let answer = encode_answer(&Err(Reject::Unwelcome(reason)));
    let mut bytes = BytesMut::from(&length(1 + answer.len())[..]);
    bytes.put_u8(GREETING);
    bytes.put_slice(&answer);
    socket.last_words(&bytes);
}

/// A caller whose role is known.
pub struct Greeted {
    /// The role that the caller claims.
    pub role: Role,
    reader: Reader<()>,
    writer: Writer<()>,
    identity: Identity,
}

impl Greeted {
    /// Sets the message types, which follow from the role.
    pub fn into_connection<In, Out>(self) -> Connection<In, Out> {
        Connection::greeted(self.reader.retyped(), self.writer.retyped(), self.identity)
    }

    /// Sets the message types of a connection on which no frame may be longer than [`GREETING_LIMIT`].
    ///
    /// [`GREETING_LIMIT`]: crate::GREETING_LIMIT
    pub fn into_brief_connection<In, Out>(self) -> Connection<In, Out> {
        Connection { reader: self.reader.retyped(), writer: self.writer.retyped(), identity: self.identity }
    }
}

#[cfg(test)]
mod tests {
    use limo_model::Epoch;
    use tokio::net::{TcpSocket, TcpStream};
    use tokio::time::Instant;

    use super::*;

    /// Checks that a caller without a place calls again; otherwise the kernel would retry after a second.
    #[tokio::test]
    async fn a_caller_that_found_no_place_calls_again_soon() {
        let socket = TcpSocket::new_v4().expect("a socket");
        socket.bind("127.0.0.1:0".parse().expect("an address")).expect("bound");
        // The queue has space for one more caller than this.
        let listener = socket.listen(1).expect("listens");
        let address = listener.local_addr().expect("bound");
        let others = [TcpStream::connect(address).await, TcpStream::connect(address).await];
        let begun = Instant::now();
        let (endpoint, trusted) = (Endpoint::Loopback(address), Trusted::own());
        let mut calling = std::pin::pin!(connect::<(), ()>(&endpoint, Role::Client, &trusted));
        assert!(timeout(Duration::from_millis(100), calling.as_mut()).await.is_err(), "there is a place");
        drop(others);
        let identity = Identity { epoch: Epoch(1), ..Identity::default() };
        let answering = async {
            let mut callers = Vec::new();
            loop {
                let (socket, _) = listener.accept().await.expect("a caller");
                // Some callers have closed the connection.
                callers.push(accept(socket, Duration::from_secs(1), identity).await);
            }
        };
        tokio::select! {
            called = calling => assert!(called.is_ok(), "{:?}", called.err()),
            () = answering => {}
        }
        assert!(begun.elapsed() < Duration::from_millis(900), "{:?}", begun.elapsed());
    }

    /// Listens on loopback as a master of this epoch; without an epoch, it never answers.
    async fn master(epoch: Option<u64>) -> (Endpoint, tokio::task::JoinHandle<()>) {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("bound");
        let endpoint = Endpoint::Loopback(listener.local_addr().expect("bound"));
        let serving = tokio::spawn(async move {
            let (mut unanswered, mut greeted) = (Vec::new(), Vec::new());
            loop {
                let (socket, _) = listener.accept().await.expect("a caller");
                match epoch {
                    Some(epoch) => {
                        let identity = Identity { epoch: Epoch(epoch), ..Identity::default() };
                        greeted.push(accept(socket, Duration::from_secs(1), identity).await);
                    }
                    None => unanswered.push(socket),
                }
            }
        });
        (endpoint, serving)
    }

    #[tokio::test]
    async fn of_several_masters_the_one_that_leads_is_taken_and_a_stopped_one_delays_nothing() {
        let (stopped, _serving) = master(None).await;
        let (deposed, _serving) = master(Some(5)).await;
        let (leader, _serving) = master(Some(7)).await;
        let mut newest = Newest::default();
        newest.meet(&Identity { epoch: Epoch(6), ..Identity::default() });
        let trusted = Trusted::own();
        let call = async |endpoint: &Endpoint| connect_newest::<(), ()>(endpoint, Role::Node, &trusted, newest).await;
        let begun = Instant::now();
        let all = Endpoint::AnyOf(vec![stopped.clone(), deposed.clone(), leader]);
        assert_eq!(call(&all).await.expect("one leads").identity.epoch, Epoch(7));
        assert!(begun.elapsed() < ANSWER_TIME / 2, "{:?}", begun.elapsed());
        let refused = call(&deposed).await.map(|connection| connection.identity);
        let is_refused = matches!(refused, Err(ConnectionError::Deposed { epoch: Epoch(5), newest: Epoch(6), .. }));
        assert!(is_refused, "{refused:?}");
    }
}
