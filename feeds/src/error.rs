//! Errors of feeds. Each message names the place in the answer and the value there.

use jiff::Timestamp;
use limo_model::Time;
use thiserror::Error;

use crate::fetch::FetchError;
use crate::file::FileError;

/// Most characters of a value in an error.
const SHOWN: usize = 60;

/// Reason why values are missing.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[expect(missing_docs, reason = "the messages say what each variant is")]
pub enum FeedError {
    #[error(transparent)]
    Fetch(#[from] FetchError),
    /// Values are not published yet, or do not exist for that time. Not a failure.
    #[error("nothing is published: {said}")]
    NotPublished { said: String },
    #[error("the answer is not {kind}: {reason}")]
    Syntax { kind: &'static str, reason: String },
    #[error("{place} is {found}; expected {expected}")]
    Found { place: String, found: String, expected: String },
    #[error("the server refuses: {said}")]
    Said { said: String },
    #[error("the slot from {} {reason}", shown(*from))]
    Slot { from: Time, reason: String },
    #[error("{found} slots are too many; the limit is {limit}")]
    TooMany { found: usize, limit: usize },
    #[error("the list has more than {limit} pages")]
    Pages { limit: usize },
    #[error("the next page, {found}, is not on the server of {expected}, or its address is too long")]
    Elsewhere { found: String, expected: String },
    #[error(transparent)]
    File(#[from] FileError),
}

impl FeedError {
    pub(crate) fn found(place: impl Into<String>, found: impl AsRef<str>, expected: impl Into<String>) -> Self {
        Self::Found { place: place.into(), found: quoted(found.as_ref()), expected: expected.into() }
    }
}

/// Formats a value on one line, in quotes, truncated.
pub(crate) fn quoted(text: &str) -> String {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if text.is_empty() {
        return "nothing".into();
    }
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("`{}…`", &text[..end]),
        None => format!("`{text}`"),
    }
}

/// Formats a time in RFC 3339 in UTC, or in milliseconds if that is impossible.
pub(crate) fn shown(time: Time) -> String {
    Timestamp::from_millisecond(time.unix_ms())
        .map_or_else(|_| format!("{} ms", time.unix_ms()), |time| time.to_string())
}
