//! Finds watts in the JSON answer of a device.

use limo_model::Power;
use serde_json::Value;
use thiserror::Error;

/// Most characters of an answer in an error.
const SHOWN: usize = 200;

/// Reason why a JSON answer has no value.
#[derive(Debug, Error)]
#[expect(missing_docs, reason = "the messages say what each variant is")]
pub enum JsonError {
    #[error("{url} has no `{pointer}`: {hint}; it answers `{answer}`")]
    Missing { url: String, pointer: String, hint: &'static str, answer: String },
    #[error("{url} has {found} as `{pointer}` instead of a number of watts")]
    NoNumber { url: String, pointer: String, found: String },
    #[error("{url} has {channels} channels: name one of them, for example `{example}`")]
    Channels { url: String, channels: usize, example: String },
    #[error("{url} has no channel {channel}: it has {channels}, counted from 1")]
    NoChannel { url: String, channel: u32, channels: usize },
}

/// Source of an answer, and the hint if the value is missing.
#[derive(Debug, Clone, Copy)]
pub struct Answer<'a> {
    pub url: &'a str,
    pub value: &'a Value,
    pub hint: &'static str,
}

impl<'a> Answer<'a> {
    /// Returns the value at `pointer` (RFC 6901); `null` counts as missing.
    pub fn at(&self, pointer: &str) -> Result<&'a Value, JsonError> {
        self.value.pointer(pointer).filter(|value| !value.is_null()).ok_or_else(|| JsonError::Missing {
            url: self.url.to_owned(),
            pointer: pointer.to_owned(),
            hint: self.hint,
            answer: shown(self.value),
        })
    }

    /// Returns the watts at `pointer`.
    pub fn watts(&self, pointer: &str) -> Result<Power, JsonError> {
        self.number(pointer, self.at(pointer)?)
    }

    /// Returns the watts in `value`, which is at or below `pointer`.
    pub fn number(&self, pointer: &str, value: &Value) -> Result<Power, JsonError> {
        let mw = value.as_f64().map(|watts| (watts * 1000.0).round());
        // A float that is too large saturates to the largest number, which is not plausible.
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
