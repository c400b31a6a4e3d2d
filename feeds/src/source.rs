//! What every source of prices or carbon intensities can do: say what to ask for, and read the answer. Both are pure.

use std::path::Path;

use jiff::tz::TimeZone;

use crate::error::{FeedError, quoted};
use crate::fetch::{BODY_LIMIT, FetchError, Fetcher, Request};
use crate::file::{self, FileError};
use crate::moment::Window;
use crate::slot::{Quantity, Slot, ordered};
use limo_model::Span;

/// A year of half hours, 100 on a page, is more; a server that never ends its list is not followed for ever.
const PAGE_LIMIT: usize = 50;

/// Longer than any address of a page, in bytes; it stands in errors.
const ADDRESS_LIMIT: usize = 2048;

/// One answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page<V> {
    /// In order and without overlaps.
    pub slots: Vec<Slot<V>>,
    /// The address of the next page, where there is one.
    pub next: Option<String>,
}

/// A source.
pub trait CurveSource<V: Quantity>: Send + Sync {
    /// Of what the values are: a currency, or `g`.
    fn currency(&self) -> &str;

    /// Whose local days count.
    fn zone(&self) -> &TimeZone;

    /// The file to read, where it is one and not a server.
    fn file(&self) -> Option<&Path> {
        None
    }

    /// Everything to ask for to learn of `window`; nothing where it is a file.
    fn requests(&self, window: &Window) -> Vec<Request>;

    /// Reads one answer. Slots come in order and do not overlap.
    ///
    /// # Errors
    /// [`FeedError`], naming the place in the answer.
    fn parse(&self, body: &[u8]) -> Result<Page<V>, FeedError>;
}

/// What a look at a source gave: often some of it although something went wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loaded<V> {
    /// In order and without overlaps, of all pages.
    pub slots: Vec<Slot<V>>,
    /// The first thing that went wrong. [`FeedError::NotPublished`] only where there are no slots at all.
    pub failure: Option<FeedError>,
    /// The largest difference to the clock of a server.
    pub skew: Option<Span>,
}

/// Asks a source for everything, one request after the other.
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
            // What is not there yet, of several servers (see `NotPublished`).
            Err(FetchError::Refused { status: 404, said, url }) => {
                return Err(FeedError::NotPublished { said: format!("{url} is not there (status 404): {said}") });
            }
            other => other?,
        };
        loaded.skew = [loaded.skew, reply.skew].into_iter().flatten().max_by_key(|skew| skew.ms().abs());
        if reply.body.iter().all(u8::is_ascii_whitespace) {
            let said = format!("{} answers with nothing (status {})", request.shown(), reply.status);
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

/// Disks may be slow, and file systems of a network may hang.
async fn read(path: &Path) -> Result<Vec<u8>, FeedError> {
    let owned = path.to_owned();
    match tokio::task::spawn_blocking(move || file::read(&owned, BODY_LIMIT)).await {
        Ok(read) => Ok(read?.0),
        Err(ended) => Err(FileError::Read { path: path.to_owned(), reason: ended.to_string() }.into()),
    }
}

/// A token that is meant for one server goes to no other.
fn same_place(first: &str, next: &str) -> bool {
    let origin = |url: &str| reqwest::Url::parse(url).ok().map(|url| url.origin());
    origin(first).is_some() && origin(first) == origin(next)
}
