//! The record of the sessions of owners.

use std::collections::VecDeque;

use limo_model::{SessionSums, Span, Time};
use serde::{Deserialize, Serialize};

/// Most different times of begins that are stored for a group. With more, the oldest no longer count.
const BEGINS_LIMIT: usize = 2_048;

/// Returns the place of a group in lists of groups that begin with the nodes in no group.
pub(crate) fn group_place(group: Option<u16>) -> usize {
    group.map_or(0, |group| usize::from(group) + 1)
}

/// The sessions at one node.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct SessionRecord {
    /// Those that have ended, and the gaps before them.
    #[serde(default)]
    pub past: SessionSums,
    /// Those of [`crate::Event::SessionsKnown`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<SessionSums>,
    /// Time since which its owner is away.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub free_since: Option<Time>,
}

/// Begins of the sessions of a group, for a time: each with the number of sessions up to and including it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct SessionBegins {
    begins: VecDeque<(Time, u64)>,
    /// Number of sessions before these.
    before: u64,
}

impl SessionBegins {
    /// Adds a begin, and forgets those that no later window contains.
    pub fn add(&mut self, now: Time, window: Span) {
        while self.begins.len() >= BEGINS_LIMIT || self.begins.front().is_some_and(|(at, _)| *at < now - window) {
            let first = self.begins.pop_front();
            self.before = first.map_or(self.before, |(_, count)| count);
        }
        let count = self.begins.back().map_or(self.before, |(_, count)| *count) + 1;
        match self.begins.back_mut().filter(|(at, _)| *at >= now) {
            Some(last) => last.1 = count,
            None => self.begins.push_back((now, count)),
        }
    }

    /// Returns the number of sessions that began from `now - window` to just before `now` (htc-sim-2015, Eq. 2).
    pub fn within(&self, now: Time, window: Span) -> u64 {
        let until = |end: Time| {
            let begun = self.begins.partition_point(|(at, _)| *at < end);
            begun.checked_sub(1).map_or(self.before, |last| self.begins[last].1)
        };
        until(now) - until(now - window)
    }
}
