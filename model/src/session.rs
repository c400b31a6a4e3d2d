//! Sessions of the owners of nodes, as sums (htc-sim-2015, section V).

use serde::{Deserialize, Serialize};

use crate::id::NodeId;
use crate::time::Span;

/// Sums over sessions and over the gaps between them. Empty gaps do not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SessionSums {
    /// Number of sessions.
    pub sessions: u32,
    /// Their duration in total.
    pub used: Span,
    /// Number of gaps.
    pub gaps: u32,
    /// Their duration in total.
    pub free: Span,
}

/// The sessions at one node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeSessions {
    /// The node.
    pub node: NodeId,
    /// All of its sessions.
    pub sums: SessionSums,
}

impl SessionSums {
    /// Longest time of a sum.
    pub const LONGEST: Span = Span::from_secs(36_500 * 86_400);

    /// Adds a session of this duration.
    pub fn add_session(&mut self, used: Span) {
        self.sessions = self.sessions.saturating_add(1);
        self.used = self.used + used;
    }

    /// Adds a gap of this duration.
    pub fn add_gap(&mut self, free: Span) {
        if free > Span::ZERO {
            self.gaps = self.gaps.saturating_add(1);
            self.free = self.free + free;
        }
    }

    /// Adds the sessions at another node, without the gaps between them.
    pub fn add_sessions_of(&mut self, other: &Self) {
        self.sessions = self.sessions.saturating_add(other.sessions);
        self.used = self.used + other.used;
    }

    /// Returns the mean duration of a session in full milliseconds; zero without sessions.
    pub fn mean_used(&self) -> Span {
        Span::from_ms(self.used.ms() / i64::from(self.sessions.max(1)))
    }

    /// Returns the mean duration of a gap in full milliseconds; `None` without gaps.
    pub fn mean_gap(&self) -> Option<Span> {
        (self.gaps > 0).then(|| Span::from_ms(self.free.ms() / i64::from(self.gaps)))
    }

    /// Returns the name of a sum that is out of range, with its value.
    pub fn fault(&self) -> Option<(&'static str, Span)> {
        let sums = [("used", self.used), ("free", self.free)];
        sums.into_iter().find(|(_, span)| !(Span::ZERO..=Self::LONGEST).contains(span))
    }
}
