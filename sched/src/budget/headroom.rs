//! Headroom below an upper limit over time. Answers in O(log n) if a load fits from now on.

use super::steps::{Steps, differences};

/// A limit in `[start, until)`; there is no limit outside of it.
#[derive(Debug, Clone)]
pub(super) struct Headroom {
    start: i64,
    until: i64,
    limit: Steps,
    ready: bool,
    /// Start of a piece, and the mW left in it; a piece ends at the start of the next one.
    pieces: Vec<(i64, i64)>,
    /// The least power left by any piece up to this one.
    least: Vec<i64>,
}

impl Headroom {
    /// Makes the headroom. `start` is not before now.
    pub(super) fn new(start: i64, until: i64, limit: Steps) -> Self {
        Self { start, until, limit, ready: false, pieces: Vec::new(), least: Vec::new() }
    }

    /// Drops the pieces, because the draw has changed.
    pub(super) fn forget(&mut self) {
        self.ready = false;
    }

    pub(super) fn prepare(&mut self, draw: &Steps) {
        if self.ready {
            return;
        }
        self.ready = true;
        let (pieces, smallest) = (&mut self.pieces, &mut self.least);
        pieces.clear();
        smallest.clear();
        let most = self.limit.len() + draw.len();
        pieces.reserve(most);
        smallest.reserve(most);
        let mut least = i64::MAX;
        differences(&self.limit, draw, self.start, self.until, |at, left| {
            least = least.min(left);
            pieces.push((at, left));
            smallest.push(least);
        });
    }

    /// Returns the lowest power left from now until `to`.
    pub(super) fn left(&self, to: i64) -> i64 {
        let touched = self.pieces.partition_point(|(start, _)| *start < to);
        touched.checked_sub(1).map_or(i64::MAX, |last| self.least[last])
    }

    /// Returns the first time from `at` on at which `extra` fits for all of `span`.
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
