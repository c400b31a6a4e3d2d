//! Rules for the sleep of idle nodes of a group, in place of those of the cluster.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::as_text;
use crate::time::Span;

/// Longest time before an idle node sleeps.
const LONGEST: Span = Span::from_secs(7 * 86_400);

/// Time after which an idle node sleeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SleepAfter {
    /// It stays awake.
    Never,
    /// It sleeps after this time without a job and an owner.
    Idle(Span),
}

impl SleepAfter {
    /// Returns true for a time that a configuration may have.
    pub(crate) fn is_valid(self) -> bool {
        match self {
            Self::Never => true,
            Self::Idle(after) => (Span::ZERO..=LONGEST).contains(&after),
        }
    }

    /// Returns true if a node that has been idle for this time may sleep.
    pub fn allows(self, idle: Span) -> bool {
        matches!(self, Self::Idle(after) if idle >= after)
    }
}

impl fmt::Display for SleepAfter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Never => f.write_str("never"),
            Self::Idle(after) => after.fmt(f),
        }
    }
}

impl FromStr for SleepAfter {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "never" {
            return Ok(Self::Never);
        }
        let wrong = |error| format!("`{text}` is neither `never` nor a time such as `30min`: {error}");
        text.parse().map(Self::Idle).map_err(wrong)
    }
}

/// The rules of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SleepRules {
    /// Time after which its idle nodes sleep; `None` if the rule of the cluster holds.
    #[serde(default, with = "as_text::option", skip_serializing_if = "Option::is_none")]
    pub after: Option<SleepAfter>,
    /// True if no job wakes its sleeping nodes.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stays: bool,
}

impl SleepRules {
    /// Returns true if they are those of nodes without a group.
    pub fn are_usual(&self) -> bool {
        *self == Self::default()
    }
}
