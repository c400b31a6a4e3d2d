//! What an upper limit on the draw leaves over time. Answers in O(log n) whether a load fits from now on.

use super::steps::{Steps, differences};

/// A limit in `[from, until)`; outside of it anything fits.
#[derive(Debug, Clone)]
pub(super) struct Headroom {
    from: i64,
    until: i64,
    limit: Steps,
    /// Start and mW left; a piece ends where the next one starts.
    pieces: Vec<(i64, i64)>,
    /// The least that any piece up to this one leaves.
    least: Vec<i64>,
}

impl Headroom {
    pub(super) fn new(from: i64, until: i64, limit: Steps) -> Self {
        Self { from, until, limit, pieces: Vec::new(), least: Vec::new() }
    }

    pub(super) fn prepare(&mut self, now: i64, draw: &Steps) {
        self.pieces.clear();
        self.pieces.extend(differences(&self.limit, draw, self.from.max(now), self.until));
        self.least.clear();
        let mut least = i64::MAX;
        self.least.extend(self.pieces.iter().map(|(_, left)| {
            least = least.min(*left);
            least
        }));
    }

    /// The least that is left from now until `to`.
    pub(super) fn left(&self, to: i64) -> i64 {
        let touched = self.pieces.partition_point(|(start, _)| *start < to);
        touched.checked_sub(1).map_or(i64::MAX, |last| self.least[last])
    }

    /// The first time from `at` on at which `extra` fits for all of `span`.
    pub(super) fn clear_from(&self, extra: i64, span: i64, at: i64) -> i64 {
        let mut start = at;
        let ends = self.pieces.iter().skip(1).map(|(start, _)| *start).chain([self.until]);
        for ((piece, left), end) in self.pieces.iter().zip(ends) {
            if *piece >= start.saturating_add(span) {
                break;
            }
            if end > start && *left < extra {
                start = end;
            }
        }
        start
    }
}
