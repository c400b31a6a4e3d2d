//! One limit of the cluster's power as somebody outside sets it, and what a source says. Whether it holds is decided in
//! [`super::arbiter`].

use limo_model::{Power, Span, Time};
use serde::{Deserialize, Serialize};

/// A band that somebody outside asks for, from a time to a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limit {
    /// At least this; zero is no lower limit.
    pub low: Power,
    /// At most this; [`Power::MAX`] is no upper limit. Never below `low`.
    pub high: Power,
    /// The first instant at which it holds.
    pub from: Time,
    /// The first instant at which it no longer holds; `None` holds until the source says something else.
    pub until: Option<Time>,
    /// Among the limits of its source: the lower number holds.
    pub priority: u32,
    /// Holds before every other and whatever the priorities are, and lets no lower limit stand beside it.
    pub emergency: bool,
    /// When the source said so.
    pub received_at: Time,
}

impl Limit {
    /// Whether it is in force at `at`, as far as its own times go.
    pub fn covers(&self, at: Time) -> bool {
        self.from <= at && self.until.is_none_or(|until| at < until)
    }

    /// Whether it says the same as `other`, whenever each was received.
    pub fn says_the_same(&self, other: &Self) -> bool {
        Self { received_at: other.received_at, ..*self } == *other
    }
}

/// What is heard of a source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Word {
    /// All that it says now, in place of everything before. None at all: it asks for nothing.
    Limits(Vec<Limit>),
    /// It is there, and has nothing new to say.
    Heartbeat,
    /// It could not be asked or not be understood: what, where and why. What it said before still counts.
    Fault(String),
}

/// What holds when a source is not heard of any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Failsafe {
    /// The upper limit then.
    pub high: Power,
    /// How long without a word; zero is until there is word.
    pub hold: Span,
}

/// A source as the operator describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// As the configuration names it. No two are equal.
    pub name: String,
    /// Among the sources: the lower number holds.
    pub priority: u32,
    /// Its limits hold beside all others, whatever the priorities are.
    pub obligatory: bool,
    /// Its limit may also be wider than the operator's band, where its priority is before the operator's.
    pub may_widen: bool,
    /// Without a word for this long it counts as lost; `None` never.
    pub heartbeat: Option<Span>,
    /// The limits that hold while the source counts as lost.
    pub failsafe: Option<Failsafe>,
    /// What it said no longer counts when there was no word for this long; `None` as long as it was said to hold.
    pub ttl: Option<Span>,
}
