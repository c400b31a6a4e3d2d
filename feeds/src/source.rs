//! Interface of sources of prices and carbon intensities: makes requests and parses answers, both pure.

use std::path::Path;

use jiff::tz::TimeZone;

use crate::error::{FeedError, quoted};
use crate::fetch::{BODY_LIMIT, FetchError, Fetcher, Request};
use crate::file::{self, FileError};
use crate::moment::Window;
use crate::slot::{Quantity, Slot, ordered};
use limo_model::Span;

/// Most pages of an answer, because a server's list may never end. A year of half hours in pages of 100 has more.
const PAGE_LIMIT: usize = 50;

/// Most bytes of a page's address, which errors show.
const ADDRESS_LIMIT: usize = 2048;

/// Parsed answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page<V> {
    /// Slots in order and without overlaps.
    pub slots: Vec<Slot<V>>,
    /// Address of the next page, if any.
    pub next: Option<String>,
}

/// Source of a curve.
pub trait CurveSource<V: Quantity>: Send + Sync {
    /// Currency of the values, or `g`.
    fn currency(&self) -> &str;

    /// Returns the time zone of the source's local days.
    fn zone(&self) -> &TimeZone;

    /// Returns the file to read, for a source that is not a server.
    fn file(&self) -> Option<&Path> {
        None
    }

    /// Requests for `window`; empty for a file.
    fn requests(&self, window: &Window) -> Vec<Request>;

    /// Parses one answer. Slots come in order and do not overlap.
    ///
    /// # Errors
    /// [`FeedError`], naming the place in the answer.
    fn parse(&self, body: &[u8]) -> Result<Page<V>, FeedError>;
}

/// Result of a request to a source; may be partial.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loaded<V> {
    /// Slots of all pages, in order and without overlaps.
    pub slots: Vec<Slot<V>>,
    /// First error. [`FeedError::NotPublished`] only if there are no slots at all.
    pub failure: Option<FeedError>,
    /// Largest difference to a server's clock.
    pub skew: Option<Span>,
}

/// Sends all requests to a source, one after the other.
pub async fn load<V: Quantity>(fetcher: &Fetcher, source: &dyn CurveSource<V>, window: &Window) -> Loaded<V> {
    let mut loaded = Loaded { slots: Vec::new(), failure: None, skew: None };
    let (mut failure, mut unpublished) = (None, None);
    if let Some(path) = source.file() {
        match read(path).await.and_then(|body| source.parse(&body)) {
            Ok(page) => loaded.slots = page.slots,
            Err(error) => failure = Some(error),
        }
    }
    for request in source.requests(window) {
        match pages(fetcher, source, request, &mut loaded).await {
            Ok(()) => {}
            Err(error @ FeedError::NotPublished { .. }) => unpublished = unpublished.or(Some(error)),
            Err(error) => {
                failure = Some(error);
                break;
            }
        }
    }
    match ordered(std::mem::take(&mut loaded.slots)) {
        Ok(slots) => loaded.slots = slots,
        Err(error) => failure = failure.or(Some(error)),
    }
    loaded.failure = failure.or(unpublished.filter(|_| loaded.slots.is_empty()));
    loaded
}

async fn pages<V: Quantity>(
    fetcher: &Fetcher,
    source: &dyn CurveSource<V>,
    mut request: Request,
    loaded: &mut Loaded<V>,
) -> Result<(), FeedError> {
    for _ in 0..PAGE_LIMIT {
        let reply = match fetcher.fetch(&request).await {
            // Several servers answer in this way if values are not published yet (see `NotPublished`).
            Err(FetchError::Refused { status: 404, said, url }) => {
                return Err(FeedError::NotPublished { said: format!("{url} does not exist (status 404): {said}") });
            }
            other => other?,
        };
        loaded.skew = [loaded.skew, reply.skew].into_iter().flatten().max_by_key(|skew| skew.ms().abs());
        if reply.body.iter().all(u8::is_ascii_whitespace) {
            let said = format!("{} gives an empty answer (status {})", request.shown(), reply.status);
            return Err(FeedError::NotPublished { said });
        }
        let page = source.parse(&reply.body)?;
        loaded.slots.extend(page.slots);
        let Some(next) = page.next else { return Ok(()) };
        if next.len() > ADDRESS_LIMIT || !same_place(&request.url, &next) {
            let found = quoted(&Request { url: next, ..request.clone() }.shown());
            return Err(FeedError::Elsewhere { found, expected: request.shown() });
        }
        request.url = next;
    }
    Err(FeedError::Pages { limit: PAGE_LIMIT })
}

/// Reads a file on another thread: disks may be slow, and network file systems may hang.
async fn read(path: &Path) -> Result<Vec<u8>, FeedError> {
    let owned = path.to_owned();
    match tokio::task::spawn_blocking(move || file::read(&owned, BODY_LIMIT)).await {
        Ok(read) => Ok(read?.0),
        Err(ended) => Err(FileError::Read { path: path.to_owned(), reason: ended.to_string() }.into()),
    }
}

/// Returns true if both are on the same server: a token for one server must not go to another.
fn same_place(first: &str, next: &str) -> bool {
    let origin = |url: &str| reqwest::Url::parse(url).ok().map(|url| url.origin());
    origin(first).is_some() && origin(first) == origin(next)
}
