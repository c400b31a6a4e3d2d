//! Limit of the cluster's power from outside, and messages of sources. [`super::arbiter`] decides which limits hold.

use limo_model::{Power, Span, Time};
use serde::{Deserialize, Serialize};

/// Band that a source sets for an interval of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limit {
    /// Lower limit; zero means none.
    pub low: Power,
    /// Upper limit; [`Power::MAX`] means none. At least `low`.
    pub high: Power,
    /// First instant at which the limit holds.
    pub from: Time,
    /// First instant at which the limit no longer holds; `None` if it holds until the source changes it.
    pub until: Option<Time>,
    /// Priority among the limits of its source: the lower number holds.
    pub priority: u32,
    /// True if the limit takes precedence over all others, and allows no lower limit.
    pub emergency: bool,
    /// Time at which the source sent the limit.
    pub received_at: Time,
}

impl Limit {
    /// Returns true if the limit's own times include `at`.
    pub fn covers(&self, at: Time) -> bool {
        self.from <= at && self.until.is_none_or(|until| at < until)
    }

    /// Returns true if the limit equals `other` except for the time of receipt.
    pub fn says_the_same(&self, other: &Self) -> bool {
        Self { received_at: other.received_at, ..*self } == *other
    }
}

/// Message of a source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Word {
    /// All limits of the source, which replace the earlier ones; may be empty.
    Limits(Vec<Limit>),
    /// Sign of life without news.
    Heartbeat,
    /// The source could not be reached or understood; names the place and the reason. Its earlier limits still count.
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
    /// True if all limits of the source hold together with all others, regardless of priorities.
    pub obligatory: bool,
    /// True if a limit of the source may be wider than the operator's band, provided that its priority is before the
    /// operator's.
    pub may_widen: bool,
    /// Time without a message after which the source is lost; `None` for never.
    pub heartbeat: Option<Span>,
    /// Limits while the source is lost.
    pub failsafe: Option<Failsafe>,
    /// Time without a message after which the source's limits no longer count; `None` keeps them until their own end.
    pub ttl: Option<Span>,
}
