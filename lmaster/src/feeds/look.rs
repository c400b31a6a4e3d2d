//! The schedule and the state of one feed. Logs changes of the state, not each query.

use std::time::Duration;

use limo_feeds::config::Feed;
use limo_feeds::error::FeedError;
use limo_feeds::fetch::{FetchError, Fetcher, is_skewed};
use limo_feeds::moment::Window;
use limo_feeds::poll::{Polled, next_look};
use limo_feeds::slot::Quantity;
use limo_feeds::source::{Loaded, load};
use limo_model::{Span, Time};
use limo_proto::{FeedKind, FeedReport};
use tokio::time::Instant;

/// The state of a feed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// The feed was never queried.
    New,
    Good,
    /// The feed answers without values.
    Unpublished,
    Failing,
}

/// A wall-clock time whose distance never grows after it was set, because the clock may be set back.
#[derive(Debug, Clone, Copy)]
pub struct Due {
    pub at: Time,
    latest: Instant,
}

impl Due {
    fn at(at: Time, now: Time, instant: Instant) -> Self {
        let pause = u64::try_from((at - now).ms()).unwrap_or(0);
        Self { at, latest: instant + Duration::from_millis(pause) }
    }

    fn is_over(self, now: Time, instant: Instant) -> bool {
        self.at <= now || self.latest <= instant
    }
}

/// A feed and its state.
pub struct Look<V> {
    pub feed: Feed<V>,
    kind: FeedKind,
    fetcher: Fetcher,
    /// Time of the next query; `None` while one is running.
    pub due: Option<Due>,
    state: State,
    failures: u32,
    last_success: Option<Time>,
    last_error: Option<(Time, String)>,
    skewed: bool,
}

impl<V: Quantity> Look<V> {
    /// Makes a feed to be queried at once.
    ///
    /// # Errors
    /// If its certificate authorities cannot be used.
    pub fn new(feed: Feed<V>, kind: FeedKind, now: Time) -> Result<Self, FetchError> {
        let fetcher = Fetcher::new(limo_feeds::fetch::TIMEOUT, feed.authorities.as_deref())?;
        let (state, failures) = (State::New, 0);
        let (last_success, last_error, skewed) = (None, None, false);
        Ok(Self {
            feed,
            kind,
            fetcher,
            due: Some(Due::at(now, now, Instant::now())),
            state,
            failures,
            last_success,
            last_error,
            skewed,
        })
    }

    /// Begins the due query, if any.
    pub fn begin(&mut self, now: Time) -> Option<impl Future<Output = Loaded<V>> + Send + 'static> {
        self.due.take_if(|due| due.is_over(now, Instant::now()))?;
        let (fetcher, source) = (self.fetcher.clone(), self.feed.source.clone());
        Some(async move {
            let window = Window::around(now, source.zone());
            load(&fetcher, source.as_ref(), &window).await
        })
    }

    /// Ends a query; `known_until` includes its results.
    pub fn end(&mut self, now: Time, loaded: &Loaded<V>, known_until: Option<Time>) {
        let state = match &loaded.failure {
            None => State::Good,
            Some(FeedError::NotPublished { .. }) => State::Unpublished,
            Some(_) => State::Failing,
        };
        let (feed, of) = (self.feed.name.as_str(), self.kind.name());
        let said = loaded.failure.as_ref().map(ToString::to_string);
        let error = said.as_deref().unwrap_or_default();
        match state {
            _ if state == self.state => {}
            State::Failing => tracing::warn!(feed, of, error, "a feed fails"),
            State::Unpublished => tracing::info!(feed, of, error, "a feed has no values"),
            State::Good | State::New => tracing::info!(feed, of, slots = loaded.slots.len(), "a feed has new values"),
        }
        self.state = state;
        if !loaded.slots.is_empty() {
            self.last_success = Some(now);
        }
        self.last_error = said.map(|said| (now, said));
        self.failures = if state == State::Failing { self.failures.saturating_add(1) } else { 0 };
        self.skew(loaded.skew);
        self.due = Some(Due::at(self.next(now, loaded, known_until), now, Instant::now()));
    }

    fn next(&self, now: Time, loaded: &Loaded<V>, known_until: Option<Time>) -> Time {
        let retry_after: Option<Duration> = match &loaded.failure {
            Some(FeedError::Fetch(error)) => error.retry_after(),
            _ => None,
        };
        let Feed { every, day_ahead, .. } = self.feed;
        let polled = Polled { now, every, known_until, failures: self.failures, retry_after, day_ahead };
        // The seed differs for each feed and each cluster, which is sufficient.
        let seed = now.unix_ms().unsigned_abs() ^ (u64::from(std::process::id()) << 32) ^ self.feed.name.len() as u64;
        next_look(&polled, seed)
    }

    fn skew(&mut self, skew: Option<Span>) {
        let Some(skew) = skew else { return };
        let skewed = is_skewed(Some(skew));
        if skewed && !self.skewed {
            let feed = self.feed.name.as_str();
            tracing::warn!(feed, ahead_by = %skew, "the clock of a feed and that of this machine differ: one of them is wrong");
        }
        self.skewed = skewed;
    }

    pub fn report(&self, known_until: Option<Time>) -> FeedReport {
        FeedReport {
            name: self.feed.name.clone(),
            of: self.kind,
            currency: self.feed.source.currency().to_owned(),
            last_success: self.last_success,
            last_error: self.last_error.clone(),
            known_until,
        }
    }

    /// Returns the key of its slots in the journal.
    pub fn key(&self) -> String {
        super::kept::key(self.kind.name(), &self.feed.name, self.feed.source.currency())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_is_set_back_does_not_delay_requests() {
        let at = |secs: i64| Time::from_unix_ms(secs * 1_000);
        let begun = Instant::now();
        let due = Due::at(at(86_400 + 60), at(86_400), begun);
        assert!(!due.is_over(at(86_459), begun) && due.is_over(at(86_460), begun));
        let after = |secs| begun + Duration::from_secs(secs);
        assert!(!due.is_over(at(59), after(59)), "a day earlier");
        assert!(due.is_over(at(60), after(60)));
    }
}
