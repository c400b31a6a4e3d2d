//! Server with a document of limits, which is polled. Each answer, and each 304, is a message.

use std::path::PathBuf;
use std::time::Duration;

use thiserror::Error;

use super::document::{self, DocumentError};
use super::limit::{Limit, Word};
use super::teller::{SecretError, Teller, another_clock, pause, secret};
use crate::fetch::{FetchError, Fetcher, Request, is_skewed, now};

/// Address of the document, and credentials.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pull {
    /// `http://` or `https://`.
    pub url: String,
    /// File with a bearer token; read again for every request.
    pub token_file: Option<PathBuf>,
    /// Interval between requests.
    pub poll: Duration,
}

/// Reason why there is no message.
#[derive(Debug, Error)]
enum PullError {
    #[error(transparent)]
    Fetch(#[from] FetchError),
    #[error(transparent)]
    Secret(#[from] SecretError),
    #[error("{url}: {source}")]
    Document { url: String, source: DocumentError },
}

impl PullError {
    fn fetch(&self) -> Option<&FetchError> {
        if let Self::Fetch(error) = self { Some(error) } else { None }
    }
}

/// Last valid answer.
#[derive(Debug, Default)]
struct Known {
    etag: Option<String>,
    body: Vec<u8>,
    limits: Vec<Limit>,
}

/// Polls until the receiver is closed.
pub async fn run(pull: Pull, fetcher: Fetcher, teller: Teller) {
    let mut known = Known::default();
    let mut failures = 0;
    loop {
        let rest = match pull.ask(&fetcher, &mut known).await {
            Ok(skewed) => {
                failures = 0;
                if teller.tell(Word::Limits(known.limits.clone())).await.is_err() {
                    return;
                }
                // The fault is reported in addition to the limits, which still count.
                if skewed && teller.tell(Word::Fault(another_clock(&pull.url))).await.is_err() {
                    return;
                }
                pull.poll
            }
            Err(error) => {
                failures += 1;
                if teller.tell(Word::Fault(error.to_string())).await.is_err() {
                    return;
                }
                pause(failures, pull.poll, error.fetch())
            }
        };
        tokio::time::sleep(rest).await;
    }
}

impl Pull {
    /// Updates `known`; returns true if the server's clock differs too much.
    async fn ask(&self, fetcher: &Fetcher, known: &mut Known) -> Result<bool, PullError> {
        let mut request = Request::get(&self.url).accepting(&["application/json"]);
        if let Some(path) = &self.token_file {
            let token = secret(path)?;
            request = request.with_header("Authorization", format!("Bearer {token}")).hiding(&token);
        }
        if let Some(etag) = &known.etag {
            request = request.with_header("If-None-Match", etag);
        }
        let reply = fetcher.fetch(&request).await?;
        // Equal bytes are the same document: a limit without `from` began at their first receipt.
        let news = reply.status != 304 && (reply.body != known.body || known.body.is_empty());
        if news {
            let limits = document::from_json(&reply.body, now())
                .map_err(|source| PullError::Document { url: request.shown(), source })?;
            (known.body, known.limits) = (reply.body, limits);
        }
        if reply.status != 304 {
            known.etag = reply.etag;
        }
        Ok(is_skewed(reply.skew))
    }
}
