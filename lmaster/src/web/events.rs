//! A stream of events for browsers: the overview of each second, made once for all who watch, and only while someone
//! does.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::http::StatusCode;
use axum::response::sse::{Event, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use tokio::sync::watch;

use super::overview::OverviewJson;
use super::{ApiError, Web, WebCaller};
use crate::listen::Admission;

/// Time between two events.
const EVERY: Duration = Duration::from_secs(1);

/// Most watchers of all users, and of one user. Other requests keep their places among the connections.
const WATCHERS: usize = 192;
const WATCHERS_PER_USER: usize = 64;

/// The newest event, as text that all watchers share.
pub struct Events {
    newest: watch::Sender<Arc<str>>,
    watchers: Admission,
}

impl Default for Events {
    fn default() -> Self {
        Self { newest: watch::Sender::new(Arc::from("")), watchers: super::admission(WATCHERS, WATCHERS_PER_USER) }
    }
}

impl Events {
    /// Answers with a stream of events that ends with the connection.
    pub fn watch(&self, caller: &WebCaller) -> Result<Response, ApiError> {
        let unknown =
            || ApiError::new(StatusCode::FORBIDDEN, "the kernel knows no user of this machine for the caller");
        let user = caller.user.ok_or_else(unknown)?.uid;
        let place = self.watchers.take(user, false).map_err(|_| {
            let reason = format!(
                "too many windows watch: the limits are {WATCHERS_PER_USER} of a user and {WATCHERS} of all users"
            );
            ApiError::new(StatusCode::TOO_MANY_REQUESTS, reason)
        })?;
        caller.watches.store(true, Ordering::Relaxed);
        let newest = self.newest.subscribe();
        let events = stream::unfold((newest, place), |(mut newest, place)| async move {
            // The sender lives as long as the server.
            newest.changed().await.ok()?;
            let text = Arc::clone(&newest.borrow_and_update());
            Some((Ok::<_, Infallible>(Event::default().event("overview").data(&*text)), (newest, place)))
        });
        Ok(Sse::new(events).into_response())
    }
}

/// Makes events while someone watches.
pub async fn tell(web: Arc<Web>) {
    loop {
        if web.events.newest.receiver_count() > 0 {
            let Some(snapshot) = web.figures().await else { return };
            match serde_json::to_string(&OverviewJson::new(&snapshot.0)) {
                Ok(text) => drop(web.events.newest.send_replace(Arc::from(text))),
                Err(error) => tracing::error!(%error, "the overview cannot be written"),
            }
        }
        tokio::time::sleep(EVERY).await;
    }
}
