//! The HTTP server of the master, on a thread of its own: metrics. It reads only, answers callers of this machine only,
//! and asks the loop of the master for figures, one request at a time.

mod metrics;

use std::net::SocketAddr;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::sync::{Semaphore, oneshot};

use crate::controller::Figures;
pub use metrics::Timings;

/// Most connections at a time; others wait to be accepted.
const CONNECTIONS: usize = 64;

/// Longest time for a request with its answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// Pause after a failure to accept. A lack of descriptors, for example, lasts for a while.
const PAUSE: Duration = Duration::from_millis(100);

/// The way back to a caller who wants figures. With them go the numbers of connected nodes and clients.
pub type Asker = oneshot::Sender<(Figures, (usize, usize))>;

struct Web {
    /// Names under which a browser of this machine reaches the server.
    hosts: [String; 3],
    /// Has room for one caller; others wait for it.
    askers: Sender<Asker>,
    timings: Timings,
}

/// Listens on an address of this machine, and serves until the receiver is dropped. Returns the bound address and the
/// callers who wait for figures.
///
/// # Errors
/// If the address is not available, or the thread cannot start.
pub fn start(address: SocketAddr, timings: Timings) -> Result<(SocketAddr, Receiver<Asker>)> {
    let listener =
        std::net::TcpListener::bind(address).with_context(|| format!("cannot serve metrics on {address}"))?;
    let bound = listener.local_addr().context("cannot find the own address")?;
    listener.set_nonblocking(true).context("cannot listen without blocking")?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("cannot begin")?;
    let (askers, asked) = channel(1);
    let port = bound.port();
    let hosts = [format!("127.0.0.1:{port}"), format!("localhost:{port}"), format!("[::1]:{port}")];
    let web = Arc::new(Web { hosts, askers, timings });
    let serve = move || {
        runtime.block_on(async {
            match TcpListener::from_std(listener) {
                Ok(listener) => accept(listener, web).await,
                Err(error) => tracing::error!(%error, "the server of metrics cannot start"),
            }
        });
    };
    thread::Builder::new().name("web".to_owned()).spawn(serve).context("cannot start the thread of metrics")?;
    Ok((bound, asked))
}

async fn accept(listener: TcpListener, web: Arc<Web>) {
    let router = Router::new()
        .route("/metrics", get(metrics))
        .layer(middleware::from_fn_with_state(Arc::clone(&web), only_here))
        .with_state(web);
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        // The semaphore is never closed.
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, _)) => {
                let router = router.clone();
                tokio::spawn(async move {
                    // A slow or broken request gets no answer.
                    let _ = tokio::time::timeout(PATIENCE, serve(stream, router)).await;
                    drop(place);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept a caller of metrics");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

async fn serve(stream: TcpStream, router: Router) -> hyper::Result<()> {
    let mut http = http1::Builder::new();
    http.keep_alive(false).timer(TokioTimer::new());
    http.serve_connection(TokioIo::new(stream), TowerToHyperService::new(router)).await
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
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

async fn metrics(State(web): State<Arc<Web>>) -> Response {
    let (asker, answer) = oneshot::channel();
    let asked = web.askers.send(asker).await;
    let figures = match asked {
        Ok(()) => answer.await.ok(),
        Err(_) => None,
    };
    let Some((figures, connections)) = figures else {
        return (StatusCode::SERVICE_UNAVAILABLE, "the master is stopping\n").into_response();
    };
    match metrics::text(&figures, connections, &web.timings) {
        Ok(text) => ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], text).into_response(),
        Err(error) => {
            tracing::error!(%error, "the metrics cannot be written");
            (StatusCode::INTERNAL_SERVER_ERROR, "the metrics cannot be written; see the log\n").into_response()
        }
    }
}
