//! HTTP listener with a bearer token, to which a sender pushes limits.
//!
//! | request | effect |
//! |---|---|
//! | `PUT /limits`, `POST /limits` | replaces the limits by the document in the body |
//! | `DELETE /limits` | withdraws the limits |
//! | `GET /limits` | shows the limits |
//! | `POST /heartbeat` | is a sign of life without news |
//!
//! Answers are JSON; an error is `{"error": "..."}`. There is no TLS here, so it must listen on this machine only, or
//! behind a TLS proxy. Each connection serves one request.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::header::{ALLOW, AUTHORIZATION, CONTENT_TYPE, HeaderValue, WWW_AUTHENTICATE};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use subtle::ConstantTimeEq;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use super::document;
use super::limit::{Limit, Word};
use super::teller::{Teller, secret};
use crate::fetch::now;

/// Most bytes of a body; a thousand limits need a fifth of this.
const BODY_LIMIT: usize = 1 << 20;

/// Most senders at a time; one is usual.
const CONNECTIONS: usize = 16;

/// Limit from the first byte to the end of the answer.
const PATIENCE: Duration = Duration::from_secs(30);

/// Pause after a failure to accept. A lack of file descriptors, for example, lasts for a while.
const PAUSE: Duration = Duration::from_millis(100);

/// Listener.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Push {
    /// Name of the source, for messages.
    pub name: String,
    /// File with the token; read again for every request.
    pub token_file: PathBuf,
}

struct Desk {
    push: Push,
    teller: Teller,
    /// Last limits.
    said: Mutex<Vec<Limit>>,
}

type Answer = Response<Full<Bytes>>;

/// Listens on `address`.
///
/// # Errors
/// If the address is not available.
pub async fn bind(address: SocketAddr) -> std::io::Result<TcpListener> {
    TcpListener::bind(address).await
}

/// Serves until the receiver is closed. `said` has the limits of an earlier process that still hold.
pub async fn run(push: Push, listener: TcpListener, said: Vec<Limit>, teller: Teller) {
    let desk = Arc::new(Desk { push, teller, said: Mutex::new(said) });
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        // The semaphore is never closed.
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, _)) => {
                let desk = Arc::clone(&desk);
                tokio::spawn(async move {
                    // A slow or broken request gets no answer.
                    let _ = tokio::time::timeout(PATIENCE, serve(stream, desk)).await;
                    drop(place);
                });
            }
            Err(_) => tokio::time::sleep(PAUSE).await,
        }
    }
}

async fn serve(stream: TcpStream, desk: Arc<Desk>) -> hyper::Result<()> {
    let service = service_fn(move |request| {
        let desk = Arc::clone(&desk);
        async move { Ok::<_, Infallible>(desk.answer(request).await) }
    });
    http1::Builder::new().keep_alive(false).serve_connection(TokioIo::new(stream), service).await
}

impl Desk {
    async fn answer(&self, request: Request<Incoming>) -> Answer {
        match secret(&self.push.token_file) {
            Ok(token) if is_allowed(&request, &token) => {}
            Ok(_) => {
                let mut answer = refusal(StatusCode::UNAUTHORIZED, "the bearer token is missing or wrong");
                answer.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
                return answer;
            }
            Err(error) => {
                // The reason names a file of this machine, which only its operator may see.
                let fault = Word::Fault(format!("no sender can authenticate: {error}"));
                let _ = self.teller.tell(fault).await;
                return refusal(StatusCode::SERVICE_UNAVAILABLE, "the token of this listener cannot be read");
            }
        }
        let path = request.uri().path().to_owned();
        match (path.as_str(), request.method()) {
            ("/limits", &Method::GET) => {
                let said = self.said.lock().unwrap_or_else(PoisonError::into_inner).clone();
                reply(StatusCode::OK, &document::to_json(&self.push.name, &said))
            }
            ("/limits", &Method::PUT | &Method::POST) => self.replace(request).await,
            ("/limits", &Method::DELETE) => self.say(Vec::new()).await,
            ("/heartbeat", &Method::POST) => self.tell(Word::Heartbeat, &json!({})).await,
            ("/limits", _) => not_allowed("GET, PUT, POST, DELETE"),
            ("/heartbeat", _) => not_allowed("POST"),
            _ => refusal(StatusCode::NOT_FOUND, "only /limits and /heartbeat exist"),
        }
    }

    async fn replace(&self, request: Request<Incoming>) -> Answer {
        let found = request.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or("none");
        let media = found.split(';').next().unwrap_or_default().trim();
        if !media.eq_ignore_ascii_case("application/json") {
            let reason = format!("the content type is `{media}`: it must be application/json");
            return refusal(StatusCode::UNSUPPORTED_MEDIA_TYPE, &reason);
        }
        let body = match Limited::new(request.into_body(), BODY_LIMIT).collect().await {
            Ok(body) => body.to_bytes(),
            Err(error) if error.is::<LengthLimitError>() => {
                let reason = format!("the body is longer than {BODY_LIMIT} bytes");
                return refusal(StatusCode::PAYLOAD_TOO_LARGE, &reason);
            }
            Err(error) => return refusal(StatusCode::BAD_REQUEST, &format!("the body is incomplete: {error}")),
        };
        match document::from_json(&body, now()) {
            Ok(limits) => self.say(limits).await,
            Err(error) => refusal(StatusCode::BAD_REQUEST, &error.to_string()),
        }
    }

    async fn say(&self, limits: Vec<Limit>) -> Answer {
        let shown = document::to_json(&self.push.name, &limits);
        let answer = self.tell(Word::Limits(limits.clone()), &shown).await;
        if answer.status().is_success() {
            *self.said.lock().unwrap_or_else(PoisonError::into_inner) = limits;
        }
        answer
    }

    /// Answers 202: the change is in force a moment later, when the master has it on disk.
    async fn tell(&self, word: Word, shown: &Value) -> Answer {
        match self.teller.tell(word).await {
            Ok(()) => reply(StatusCode::ACCEPTED, shown),
            Err(_) => refusal(StatusCode::SERVICE_UNAVAILABLE, "the master is stopping"),
        }
    }
}

/// Compares the token in a time that depends only on the lengths.
fn is_allowed(request: &Request<Incoming>, token: &str) -> bool {
    let given = request.headers().get(AUTHORIZATION).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let (scheme, given) = given.split_once(' ').unwrap_or_default();
    scheme.eq_ignore_ascii_case("bearer") && bool::from(given.trim().as_bytes().ct_eq(token.as_bytes()))
}

fn not_allowed(allowed: &'static str) -> Answer {
    let mut answer = refusal(StatusCode::METHOD_NOT_ALLOWED, &format!("allowed here: {allowed}"));
    answer.headers_mut().insert(ALLOW, HeaderValue::from_static(allowed));
    answer
}

fn refusal(status: StatusCode, reason: &str) -> Answer {
    reply(status, &json!({ "error": reason }))
}

fn reply(status: StatusCode, body: &Value) -> Answer {
    let mut answer = Response::new(Full::new(Bytes::from(format!("{body}\n"))));
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    answer
}
