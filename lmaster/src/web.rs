//! The HTTP server of the master, on a thread of its own: the page, its API, and metrics. It answers callers of this
//! machine only. It asks the loop of the master for figures, one request at a time, and everything else as a client of
//! the user who calls.

mod act;
mod api;
mod cached;
mod documents;
mod draw;
mod entrance;
mod error;
mod events;
mod keys;
mod metrics;
mod overview;
mod page;
mod parameters;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use axum::extract::{Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Extension, Router};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use limo_proto::{NodeReport, NodesQuery, Principal, Socket, WebReport};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::sync::{Semaphore, oneshot};

use crate::controller::Figures;
use crate::listen::{Admission, ConnectionLimits, Door};
use cached::Cached;
use entrance::Entrance;
use error::ApiError;
use events::Events;
use keys::Keys;
pub use metrics::Timings;

/// Most connections at a time: of all users, beyond which callers wait to be accepted, and of one user, beyond which they
/// are refused.
const CONNECTIONS: usize = 384;
const CONNECTIONS_PER_USER: usize = 96;

/// User id of callers whom the kernel does not know, which is that of no user.
const UNKNOWN: u32 = u32::MAX;

/// Time for which the figures of the cluster and the reports of its nodes are shared by all who ask.
const FRESH: Duration = Duration::from_millis(500);

/// Longest time for a request with its answer, apart from streams of events.
const PATIENCE: Duration = Duration::from_secs(10);

/// Pause after a failure to accept. A lack of descriptors, for example, lasts for a while.
const PAUSE: Duration = Duration::from_millis(100);

/// Figures of one moment, and the numbers of connected nodes and clients.
pub type Snapshot = (Figures, (usize, usize));

/// The way back to a caller who wants figures.
pub type Asker = oneshot::Sender<Snapshot>;

struct Web {
    /// Names under which a browser of this machine reaches the server.
    hosts: [String; 3],
    /// Has room for one caller; others wait for it.
    askers: Sender<Asker>,
    timings: Timings,
    figures: Cached<Snapshot>,
    /// All nodes by name.
    nodes: Cached<Vec<NodeReport>>,
    entrance: Entrance,
    events: Events,
    keys: Arc<Keys>,
}

/// The caller of a connection.
#[derive(Clone)]
struct WebCaller {
    /// The user of this machine at the other end; `None` if the kernel knows none.
    user: Option<Principal>,
    /// True while the answer is a stream of events, which has no end.
    watches: Arc<AtomicBool>,
}

/// The served page, for the loop of the master.
pub struct Page {
    address: SocketAddr,
    keys: Arc<Keys>,
}

impl Page {
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the address, and a code with which this user may act.
    pub fn report(&self, act: Option<u32>) -> WebReport {
        let code = act.and_then(|uid| {
            let code = self.keys.code(uid, Instant::now());
            code.inspect_err(|error| tracing::error!(%error, "the kernel has no random bytes")).ok()
        });
        WebReport { address: Some(self.address.to_string()), code }
    }
}

/// Listens on an address of this machine, and serves until the receiver is dropped. Returns the page and the
/// callers who wait for figures. Has to be called in the runtime of the loop.
///
/// # Errors
/// If the address is not available, or the thread cannot start.
pub fn start(address: SocketAddr, timings: Timings, door: Door) -> Result<(Page, Receiver<Asker>)> {
    let listener =
        std::net::TcpListener::bind(address).with_context(|| format!("cannot serve the page on {address}"))?;
    let bound = listener.local_addr().context("cannot find the own address")?;
    listener.set_nonblocking(true).context("cannot listen without blocking")?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("cannot begin")?;
    let (askers, asked) = channel(1);
    let port = bound.port();
    let hosts = [format!("127.0.0.1:{port}"), format!("localhost:{port}"), format!("[::1]:{port}")];
    let entrance = Entrance::new(door, tokio::runtime::Handle::current());
    let keys = Arc::<Keys>::default();
    let page = Page { address: bound, keys: Arc::clone(&keys) };
    let (figures, nodes) = (Cached::new(FRESH), Cached::new(FRESH));
    let web = Arc::new(Web { hosts, askers, timings, figures, nodes, entrance, events: Events::default(), keys });
    let serve = move || {
        runtime.block_on(async {
            match TcpListener::from_std(listener) {
                Ok(listener) => {
                    tokio::spawn(events::tell(Arc::clone(&web)));
                    accept(listener, web).await;
                }
                Err(error) => tracing::error!(%error, "the web server cannot start"),
            }
        });
    };
    thread::Builder::new().name("web".to_owned()).spawn(serve).context("cannot start the thread of the web server")?;
    Ok((page, asked))
}

/// Returns the limits of places that users share.
fn admission(users: usize, per_user: usize) -> Admission {
    // The places are taken at once, so nobody greets.
    Admission::new(ConnectionLimits { per_user, ungreeted_per_user: 0, users, greeting_time: PATIENCE })
}

async fn accept(listener: TcpListener, web: Arc<Web>) {
    let router = Router::new()
        .route("/metrics", get(metrics))
        .merge(api::router())
        .merge(page::router())
        .route("/act", get(act::enter))
        .layer(middleware::from_fn_with_state(Arc::clone(&web), only_here))
        .with_state(web);
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    let admission = admission(CONNECTIONS, CONNECTIONS_PER_USER);
    loop {
        // The semaphore is never closed.
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, _)) => {
                let (router, admission) = (router.clone(), admission.clone());
                tokio::spawn(async move {
                    serve(stream, router, &admission).await;
                    drop(place);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept a caller of the web server");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

/// Answers one request. A slow or broken request gets no answer.
async fn serve(stream: TcpStream, router: Router, admission: &Admission) {
    let socket = Socket::from(stream);
    let user = socket.principal().await.ok().flatten();
    let Socket::Tcp(mut stream) = socket else { return };
    let Ok(_place) = admission.take(user.map_or(UNKNOWN, |user| user.uid), false) else {
        let answer = format!(
            "HTTP/1.1 429 Too Many Requests\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n\
             a user may have {CONNECTIONS_PER_USER} connections at a time\n"
        );
        // A new connection has room for these few bytes, so this does not wait; the caller may have gone.
        let _ = stream.write_all(answer.as_bytes()).await;
        return;
    };
    let caller = WebCaller { user, watches: Arc::default() };
    let watches = Arc::clone(&caller.watches);
    let mut http = http1::Builder::new();
    http.keep_alive(false).timer(TokioTimer::new());
    let service = TowerToHyperService::new(router.layer(Extension(caller)));
    let late = async {
        tokio::time::sleep(PATIENCE).await;
        if watches.load(Ordering::Relaxed) {
            std::future::pending::<()>().await;
        }
    };
    tokio::select! {
        _ = http.serve_connection(TokioIo::new(stream), service) => {}
        () = late => {}
    }
}

/// Refuses requests under other names: a page of a foreign site could otherwise let its name point to this machine, and
/// read the answers.
async fn only_here(State(web): State<Arc<Web>>, request: Request, next: Next) -> Response {
    let host = request.headers().get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or("none");
    if !web.hosts.iter().any(|name| name == host) {
        let reason = format!("the host is `{host}`: it must be {}\n", web.hosts[0]);
        return (StatusCode::FORBIDDEN, reason).into_response();
    }
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    for (name, value) in [
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::CACHE_CONTROL, "no-store"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
        (header::CONTENT_SECURITY_POLICY, POLICY),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

/// A browser runs and loads only files of this server.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
    img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

impl Web {
    /// Returns figures that are at most [`FRESH`] old. `None` if the master is stopping.
    async fn figures(&self) -> Option<Arc<Snapshot>> {
        let ask = async || {
            let (asker, answer) = oneshot::channel();
            self.askers.send(asker).await.map_err(drop)?;
            answer.await.map_err(drop)
        };
        self.figures.get(Instant::now(), ask).await.ok()
    }

    /// Returns reports of all nodes, by name, that are at most [`FRESH`] old. They are equal for all users.
    async fn nodes(&self, caller: &WebCaller) -> Result<Arc<Vec<NodeReport>>, ApiError> {
        // A caller whose connections are at their limit waits here, and not while others wait for its answer.
        let mut line = self.entrance.connect(caller).await?;
        let ask = async || {
            let refused = |error| ApiError::of(error, StatusCode::BAD_REQUEST);
            let mut nodes = line.ask(NodesQuery).await.map_err(refused)?;
            nodes.sort_unstable_by(|a, b| a.name.cmp(&b.name));
            Ok(nodes)
        };
        self.nodes.get(Instant::now(), ask).await
    }
}

async fn metrics(State(web): State<Arc<Web>>) -> Response {
    let Some(snapshot) = web.figures().await else {
        return (StatusCode::SERVICE_UNAVAILABLE, "the master is stopping\n").into_response();
    };
    let (figures, connections) = &*snapshot;
    match metrics::text(figures, *connections, &web.timings) {
        Ok(text) => ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], text).into_response(),
        Err(error) => {
            tracing::error!(%error, "the metrics cannot be written");
            (StatusCode::INTERNAL_SERVER_ERROR, "the metrics cannot be written; see the log\n").into_response()
        }
    }
}
