//! The last arrivals, by which the order `by-arrivals` changes.

use std::collections::VecDeque;

use limo_model::{Span, Time};
use serde::{Deserialize, Serialize};

/// Number of times between arrivals whose mean counts. Power-capping-2018, section 5.2.3, has no number.
const GAPS: usize = 20;

/// Times of the last submissions, an array counting as one, and what follows from them.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Arrivals {
    last: VecDeque<Time>,
    are_rare: bool,
}

impl Arrivals {
    pub(crate) fn is_empty(&self) -> bool {
        self.last.is_empty()
    }

    /// True if the mean time between the last arrivals is above the limit. Few arrivals count as frequent ones.
    pub fn are_rare(&self) -> bool {
        self.are_rare
    }

    /// Counts an arrival. Returns true if [`Self::are_rare`] changes.
    pub(crate) fn count(&mut self, now: Time, rare_gap: Span) -> bool {
        if self.last.len() > GAPS {
            self.last.pop_front();
        }
        self.last.push_back(now);
        let span = self.last.front().filter(|_| self.last.len() > GAPS).map(|first| now - *first);
        // A comparison of products loses no part of a millisecond.
        let are_rare = span.is_some_and(|span| span > rare_gap.scaled(GAPS as i64, 1));
        std::mem::replace(&mut self.are_rare, are_rare) != are_rare
    }
}
