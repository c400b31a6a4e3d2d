//! JSON of any shape: JSON pointers (RFC 6901) to its slots, and the formats of its times and numbers. Most feeds are
//! configurations of this.
//!
//! `null` means no value, never zero.

use jiff::tz::TimeZone;
use limo_model::{Span, Time};
use serde_json::Value;

use crate::error::FeedError;
use crate::fetch::{Post, Request};
use crate::moment::{self, TimeFormat, Window};
use crate::piece::{Ends, Piece, closed};
use crate::slot::{Quantity, ordered};
use crate::source::{CurveSource, Page};
use crate::template::Template;
use crate::unit::{Unit, quantity};

/// Feed over HTTP with JSON answers. Contains secrets, so it has no debug output.
#[derive(Clone)]
pub struct JsonFeed {
    /// The address to ask.
    pub url: Template,
    /// Headers, which may contain secrets.
    pub headers: Vec<(String, String)>,
    /// Body of a POST; `None` for a GET.
    pub post: Option<String>,
    /// Secrets, as in [`Request`].
    pub secrets: Vec<String>,
    /// Tolerated statuses, as in [`Request`].
    pub tolerates: &'static [u16],
    /// Instructions for parsing the answer.
    pub mapping: Mapping,
}

/// Places of the slots.
#[derive(Debug, Clone)]
pub struct Mapping {
    /// The shape of the answer, one of two. Places are JSON pointers (RFC 6901).
    pub layout: Layout,
    /// Format of times.
    pub times: TimeFormat,
    /// Zone of local times, and of the requested days.
    pub zone: TimeZone,
    /// Unit of the values.
    pub unit: Unit,
    /// Factor for all values, in millionths, for example for value added tax.
    pub scale_millionths: i64,
    /// The treatment of missing values.
    pub nulls: Nulls,
    /// Text that must name the unit or the currency: a pointer (in *rows*, from each row), and its meaning. A pointer
    /// without a target is not checked.
    pub checked: Option<(String, UnitText)>,
    /// Text of the server in place of values.
    pub refusal: Option<String>,
    /// The address of the next page.
    pub next: Option<String>,
}

/// Shape of an answer.
#[derive(Debug, Clone)]
#[expect(missing_docs, reason = "the variants say what their fields are")]
pub enum Layout {
    /// Arrays of objects.
    Rows {
        /// Pointers to the arrays, which are joined; at least one must exist. An object counts as an array of itself.
        at: Vec<String>,
        /// Pointer from a row.
        start: String,
        end: End,
        /// Pointer from a row.
        value: String,
        /// Pointer and text: skips rows with another text.
        only: Option<(String, String)>,
    },
    /// Two arrays of equal length.
    Columns { start: String, value: String },
}

/// End of a row.
#[derive(Debug, Clone)]
pub enum End {
    /// Pointer from the row; `null` means until further notice.
    At(String),
    /// This long after the slot's start.
    After(Span),
    /// At the start of the next slot.
    Next,
}

/// Treatment of a `null` in place of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Nulls {
    /// The value is unknown.
    #[default]
    Skip,
    /// The whole answer is refused.
    Refuse,
}

/// Meaning of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnitText {
    /// The unit of the values, such as `EUR/MWh`.
    Unit,
    /// The currency alone.
    Currency,
}

impl<V: Quantity> CurveSource<V> for JsonFeed {
    fn currency(&self) -> &str {
        self.mapping.unit.currency()
    }

    fn zone(&self) -> &TimeZone {
        &self.mapping.zone
    }

    fn requests(&self, window: &Window) -> Vec<Request> {
        let request = |url: String| Request {
            url,
            headers: self.headers.clone(),
            post: self.post.clone().map(Post::Json),
            accepts: &["application/json"],
            secrets: self.secrets.clone(),
            tolerates: self.tolerates,
        };
        self.url.expand(window, &self.mapping.zone).into_iter().map(request).collect()
    }

    fn parse(&self, body: &[u8]) -> Result<Page<V>, FeedError> {
        self.mapping.parse(body)
    }
}

impl Mapping {
    /// The same as for [`CurveSource::parse`].
    ///
    /// # Errors
    /// [`FeedError`]; [`FeedError::NotPublished`] if the answer has no values.
    pub fn parse<V: Quantity>(&self, body: &[u8]) -> Result<Page<V>, FeedError> {
        let syntax = |error: serde_json::Error| FeedError::Syntax { kind: "JSON", reason: error.to_string() };
        let root: Value = serde_json::from_slice(body).map_err(syntax)?;
        if let Some(said) = self.refusal.as_ref().and_then(|at| root.pointer(at)).filter(|said| !said.is_null()) {
            return Err(FeedError::Said { said: crate::error::quoted(&text_of(said)) });
        }
        let pieces = match &self.layout {
            Layout::Rows { at, .. } => self.rows(&root, at)?,
            Layout::Columns { start, value } => {
                self.check_name(&root, "")?;
                self.columns(&root, start, value)?
            }
        };
        let slots = ordered(closed(pieces, Ends::BySpacing)?)?;
        if slots.is_empty() {
            return Err(FeedError::NotPublished { said: "the answer has no values".into() });
        }
        let next = self.next.as_ref().and_then(|at| root.pointer(at)?.as_str()).map(str::to_owned);
        Ok(Page { slots, next })
    }

    fn rows<V: Quantity>(&self, root: &Value, arrays: &[String]) -> Result<Vec<Piece<V>>, FeedError> {
        let mut pieces: Vec<Piece<V>> = Vec::new();
        let mut found = false;
        for array in arrays {
            let rows = match root.pointer(array) {
                None | Some(Value::Null) => continue,
                Some(Value::Array(rows)) => rows.as_slice(),
                Some(row @ Value::Object(_)) => std::slice::from_ref(row),
                Some(other) => return Err(wrong(array, Some(other), "an array")),
            };
            found = true;
            for (index, row) in rows.iter().enumerate() {
                let before = pieces.last().map(|piece| piece.from);
                pieces.extend(self.row(row, &format!("{array}/{index}"), before)?);
            }
        }
        match arrays.first() {
            Some(array) if !found => Err(wrong(array, root.pointer(array), "an array")),
            _ => Ok(pieces),
        }
    }

    fn row<V: Quantity>(&self, row: &Value, place: &str, before: Option<Time>) -> Result<Option<Piece<V>>, FeedError> {
        let Layout::Rows { start, end, value, only, .. } = &self.layout else { return Ok(None) };
        if let Some((at, wanted)) = only
            && row.pointer(at).is_some_and(|found| !found.is_null() && found.as_str() != Some(wanted))
        {
            return Ok(None);
        }
        self.check_name(row, place)?;
        let from = self.time(row.pointer(start), &format!("{place}{start}"), before)?;
        let until = match end {
            End::At(at) => match row.pointer(at) {
                Some(Value::Null) => Some(Time::MAX),
                found => Some(self.time(found, &format!("{place}{at}"), Some(from))?),
            },
            End::After(span) => Some(from + *span),
            End::Next => None,
        };
        let value = self.value(row.pointer(value), &format!("{place}{value}"))?;
        Ok(Some(Piece { from, until, value }))
    }

    fn columns<V: Quantity>(&self, root: &Value, start: &str, value: &str) -> Result<Vec<Piece<V>>, FeedError> {
        let column = |at: &str| match root.pointer(at) {
            Some(Value::Array(column)) => Ok(column.as_slice()),
            Some(Value::Null) => Ok(&[][..]),
            other => Err(wrong(at, other, "an array")),
        };
        let (starts, values) = (column(start)?, column(value)?);
        if starts.len() != values.len() {
            let found = format!("{} values for {} times", values.len(), starts.len());
            return Err(FeedError::found(value, found, "one value for each time"));
        }
        let mut pieces: Vec<Piece<V>> = Vec::new();
        for (index, (at, number)) in starts.iter().zip(values).enumerate() {
            let from = self.time(Some(at), &format!("{start}/{index}"), pieces.last().map(|piece| piece.from))?;
            pieces.push(Piece { from, until: None, value: self.value(Some(number), &format!("{value}/{index}"))? });
        }
        Ok(pieces)
    }

    fn check_name(&self, from: &Value, place: &str) -> Result<(), FeedError> {
        let Some((at, named)) = &self.checked else { return Ok(()) };
        let Some(found) = from.pointer(at).and_then(Value::as_str) else { return Ok(()) };
        let (good, expected) = match named {
            UnitText::Unit => (self.unit.is_called(found), self.unit.name()),
            UnitText::Currency => (found.eq_ignore_ascii_case(self.unit.currency()), self.unit.currency()),
        };
        if good { Ok(()) } else { Err(FeedError::found(format!("{place}{at}"), found, format!("`{expected}`"))) }
    }

    fn time(&self, found: Option<&Value>, place: &str, before: Option<Time>) -> Result<Time, FeedError> {
        let read = match found {
            Some(Value::String(text)) => moment::parse(text, self.times, &self.zone, before),
            Some(Value::Number(number)) => number.as_i64().and_then(|number| moment::number(number, self.times)),
            _ => None,
        };
        let expected = match self.times {
            TimeFormat::UnixS => "a time in seconds since 1970",
            TimeFormat::UnixMs => "a time in milliseconds since 1970",
            TimeFormat::Rfc3339 => "a time with its offset, such as `2026-10-25T00:00:00Z`,",
            TimeFormat::Local => "a local time without an offset, such as `2026-10-25T00:00:00`,",
        };
        read.ok_or_else(|| wrong(place, found, expected))
    }

    fn value<V: Quantity>(&self, found: Option<&Value>, place: &str) -> Result<Option<V>, FeedError> {
        let text = match found {
            Some(Value::Null) if self.nulls == Nulls::Skip => return Ok(None),
            Some(Value::Number(number)) => number.as_f64().map(|number| number.to_string()),
            Some(Value::String(text)) => Some(text.clone()),
            _ => None,
        };
        let read = text.and_then(|text| quantity(&self.unit, self.scale_millionths, &text));
        read.map(Some).ok_or_else(|| wrong(place, found, &format!("a number of {}", self.unit)))
    }
}

fn text_of(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn wrong(place: &str, found: Option<&Value>, expected: &str) -> FeedError {
    let place = if place.is_empty() { "the answer" } else { place };
    match found {
        Some(found) => FeedError::found(place, text_of(found), expected),
        None => FeedError::Found { place: place.to_owned(), found: "missing".into(), expected: expected.to_owned() },
    }
}

#[cfg(test)]
mod tests;
