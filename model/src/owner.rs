//! Owners of nodes: people who work at them and come before jobs (htc-sim-2015, section III).

use serde::{Deserialize, Serialize};

use crate::as_text;
use crate::time::Span;

/// Longest time of a rule.
const LONGEST: Span = Span::from_secs(7 * 86_400);

/// Treatment of jobs while the owner of their node is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Beside {
    /// They are suspended.
    Suspend,
    /// They run on, and others may start.
    Run,
}

/// Rules for nodes that have owners. In a configuration file: `owners = { ... }` of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OwnerRules {
    /// Treatment of the node's jobs while its owner is there.
    pub jobs: Beside,
    /// Time after an owner left during which no job starts on the node. Suspended ones continue at once.
    #[serde(default = "start_after", with = "as_text")]
    pub start_after: Span,
    /// Time for which an owner suspends a job until it is evicted: it ends, and runs again from its beginning.
    #[serde(default = "evict_after", with = "as_text")]
    pub evict_after: Span,
}

fn start_after() -> Span {
    Span::from_secs(900)
}

fn evict_after() -> Span {
    Span::from_secs(600)
}

impl OwnerRules {
    /// Returns true if an owner evicts jobs, so that only a job that may run again can be there.
    pub fn evict(&self) -> bool {
        self.jobs == Beside::Suspend
    }

    /// Returns the name of a time that is out of range, with the time.
    pub(crate) fn fault(&self) -> Option<(&'static str, Span)> {
        let times = [("start_after", self.start_after), ("evict_after", self.evict_after)];
        times.into_iter().find(|(_, span)| !(Span::ZERO..=LONGEST).contains(span))
    }
}
