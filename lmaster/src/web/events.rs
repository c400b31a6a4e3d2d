//! A stream of events for browsers: the overview of each second, made once for all who watch, and only while someone
//! does.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::http::StatusCode;
use axum::response::sse::{Event, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use tokio::sync::watch;

use super::overview::OverviewJson;
use super::{ApiError, Web, WebCaller};

/// Time between two events.
const EVERY: Duration = Duration::from_secs(1);

/// Most watchers of all users, and of one user. Other requests keep their places among the connections.
const WATCHERS: usize = 128;
const WATCHERS_PER_USER: usize = 16;

/// The newest event, as text that all watchers share.
pub struct Events {
    newest: watch::Sender<Arc<str>>,
    /// Number of watchers by user.
    watchers: Arc<Mutex<HashMap<u32, usize>>>,
}

impl Default for Events {
    fn default() -> Self {
        Self { newest: watch::Sender::new(Arc::from("")), watchers: Arc::default() }
    }
}

/// The place of a watcher, freed when dropped.
struct Seat {
    user: u32,
    watchers: Arc<Mutex<HashMap<u32, usize>>>,
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut watchers = self.watchers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = watchers.get_mut(&self.user) {
            *count -= 1;
            if *count == 0 {
                watchers.remove(&self.user);
            }
        }
    }
}

impl Events {
    fn take_seat(&self, user: u32) -> Result<Seat, ApiError> {
        let mut watchers = self.watchers.lock().unwrap_or_else(PoisonError::into_inner);
        let all: usize = watchers.values().sum();
        let own = watchers.get(&user).copied().unwrap_or_default();
        if all >= WATCHERS || own >= WATCHERS_PER_USER {
            let reason = format!(
                "there are {all} watchers, {own} of them yours: the limits are {WATCHERS} and {WATCHERS_PER_USER}"
            );
            return Err(ApiError::new(StatusCode::TOO_MANY_REQUESTS, reason));
        }
        watchers.insert(user, own + 1);
        Ok(Seat { user, watchers: Arc::clone(&self.watchers) })
    }

    /// Answers with a stream of events that ends with the connection.
    pub fn watch(&self, caller: &WebCaller) -> Result<Response, ApiError> {
        let unknown =
            || ApiError::new(StatusCode::FORBIDDEN, "the kernel knows no user of this machine for the caller");
        let seat = self.take_seat(caller.user.ok_or_else(unknown)?.uid)?;
        caller.watches.store(true, Ordering::Relaxed);
        let newest = self.newest.subscribe();
        let events = stream::unfold((newest, seat), |(mut newest, seat)| async move {
            // The sender lives as long as the server.
            newest.changed().await.ok()?;
            let text = Arc::clone(&newest.borrow_and_update());
            Some((Ok::<_, Infallible>(Event::default().event("overview").data(&*text)), (newest, seat)))
        });
        Ok(Sse::new(events).into_response())
    }
}

/// Makes events while someone watches.
pub async fn tell(web: Arc<Web>) {
    loop {
        if web.events.newest.receiver_count() > 0 {
            let Some((figures, _)) = web.figures().await else { return };
            match serde_json::to_string(&OverviewJson::new(&figures)) {
                Ok(text) => drop(web.events.newest.send_replace(Arc::from(text))),
                Err(error) => tracing::error!(%error, "the overview cannot be written"),
            }
        }
        tokio::time::sleep(EVERY).await;
    }
}
