//! Limit of the cluster's power from outside, and messages of sources. [`super::arbiter`] decides which limits hold.

use limo_model::{Power, Span, Time};
use serde::{Deserialize, Serialize};

/// Band that a source sets for an interval of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limit {
    /// Lower limit; zero means none.
    pub low: Power,
    /// Upper limit; [`Power::MAX`] means none. Never below `low`.
    pub high: Power,
    /// The first instant at which it holds.
    pub from: Time,
    /// The first instant at which it no longer holds; `None` until the source changes it.
    pub until: Option<Time>,
    /// Priority among the limits of its source: the lower number holds.
    pub priority: u32,
    /// Takes precedence over all other limits, and allows no lower limit.
    pub emergency: bool,
    /// Time at which the source sent it.
    pub received_at: Time,
}

impl Limit {
    /// Returns true if its own times include `at`.
    pub fn covers(&self, at: Time) -> bool {
        self.from <= at && self.until.is_none_or(|until| at < until)
    }

    /// Returns true if it equals `other` except for the time of receipt.
    pub fn says_the_same(&self, other: &Self) -> bool {
        Self { received_at: other.received_at, ..*self } == *other
    }
}

/// Message of a source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Word {
    /// All of its limits, replacing the earlier ones. Empty for none.
    Limits(Vec<Limit>),
    /// Sign of life without news.
    Heartbeat,
    /// The source could not be reached or understood, with place and reason. Its earlier limits still count.
    Fault(String),
}

/// Limit for the time when a source is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Failsafe {
    /// Upper limit.
    pub high: Power,
    /// Duration without a message; zero means until the next message.
    pub hold: Span,
}

/// Source as configured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// Name in the configuration. Unique.
    pub name: String,
    /// Priority among the sources: the lower number holds.
    pub priority: u32,
    /// True if its limits hold together with all others, whatever the priorities are.
    pub obligatory: bool,
    /// True if its limit may also be wider than the operator's band, if its priority is before the operator's.
    pub may_widen: bool,
    /// The source is lost after this time without a message; `None` never.
    pub heartbeat: Option<Span>,
    /// Limits while the source is lost.
    pub failsafe: Option<Failsafe>,
    /// Its limits no longer count after this time without a message; `None` keeps them until their own end.
    pub ttl: Option<Span>,
}
