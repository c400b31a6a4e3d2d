//! Finds watts in what a device answers as JSON.

use limo_model::Power;
use serde_json::Value;
use thiserror::Error;

/// How much of an answer an error shows, in characters.
const SHOWN: usize = 200;

/// What is wrong with an answer that is JSON.
#[derive(Debug, Error)]
#[expect(missing_docs, reason = "the messages say what each variant is")]
pub enum JsonError {
    #[error("{url} has no `{pointer}`: {hint}; it answers `{answer}`")]
    Missing { url: String, pointer: String, hint: &'static str, answer: String },
    #[error("{url} has {found} as `{pointer}`: a number of watts was expected")]
    NoNumber { url: String, pointer: String, found: String },
    #[error("{url} has {channels} channels: name one of them, for example `{example}`")]
    Channels { url: String, channels: usize, example: String },
    #[error("{url} has no channel {channel}: it has {channels}, counted from 1")]
    NoChannel { url: String, channel: u32, channels: usize },
}

/// Where an answer comes from, and what it means if it has not what is looked for.
#[derive(Debug, Clone, Copy)]
pub struct Answer<'a> {
    pub url: &'a str,
    pub value: &'a Value,
    pub hint: &'static str,
}

impl<'a> Answer<'a> {
    /// What is at `pointer` (RFC 6901), which is nothing where there is only `null`.
    pub fn at(&self, pointer: &str) -> Result<&'a Value, JsonError> {
        self.value.pointer(pointer).filter(|value| !value.is_null()).ok_or_else(|| JsonError::Missing {
            url: self.url.to_owned(),
            pointer: pointer.to_owned(),
            hint: self.hint,
            answer: shown(self.value),
        })
    }

    /// The watts at `pointer`.
    pub fn watts(&self, pointer: &str) -> Result<Power, JsonError> {
        self.number(pointer, self.at(pointer)?)
    }

    /// The watts that `value` says, which is at `pointer` or in it.
    pub fn number(&self, pointer: &str, value: &Value) -> Result<Power, JsonError> {
        let mw = value.as_f64().map(|watts| (watts * 1000.0).round());
        // A float that is too large ends at the largest number, which no machine draws.
        mw.map(|mw| Power::from_mw(mw as i64)).ok_or_else(|| JsonError::NoNumber {
            url: self.url.to_owned(),
            pointer: pointer.to_owned(),
            found: format!("`{}`", shown(value)),
        })
    }
}

fn shown(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}
