//! Intervals without ends in a feed.
//!
//! By spacing, the length of an interval is the distance to the next one if that equals the distance before or after
//! it, else the shorter of these. A gap stays a gap, and hours may turn into quarters.

use limo_model::{Span, Time};

use crate::error::FeedError;
use crate::slot::{Quantity, Slot};

/// Longest slot without an explicit end.
const LONGEST: Span = Span::from_secs(3600);

/// Rule for missing ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ends {
    /// From the distances around the interval.
    BySpacing,
    /// At the start of the next interval; the last one is as long as the one before it.
    AtNext,
}

/// Slot whose end may be unknown.
pub(crate) struct Piece<V> {
    pub from: Time,
    pub until: Option<Time>,
    /// `None` for a `null`, which keeps its place among the intervals.
    pub value: Option<V>,
}

/// Determines the ends; omits intervals without a value.
pub(crate) fn closed<V: Quantity>(mut pieces: Vec<Piece<V>>, ends: Ends) -> Result<Vec<Slot<V>>, FeedError> {
    pieces.sort_by_key(|piece| piece.from);
    // Two lists may share the slot at their border.
    pieces.dedup_by(|later, earlier| {
        later.from == earlier.from && later.until == earlier.until && later.value == earlier.value
    });
    let gaps: Vec<Span> = pieces.windows(2).map(|pair| pair[1].from - pair[0].from).collect();
    let mut slots = Vec::new();
    for (index, piece) in pieces.iter().enumerate() {
        let until = match piece.until {
            Some(until) => until,
            None => piece.from + length(&gaps, index, ends).ok_or_else(|| unmeasured(piece.from))?,
        };
        slots.extend(piece.value.map(|value| Slot { from: piece.from, until, value }));
    }
    Ok(slots)
}

fn unmeasured(from: Time) -> FeedError {
    FeedError::Slot { from, reason: "has no end and no neighbour".into() }
}

/// Returns the length of the interval at `index`, from the distances between all of them.
fn length(gaps: &[Span], index: usize, ends: Ends) -> Option<Span> {
    let own = gaps.get(index).copied();
    let before = index.checked_sub(1).and_then(|before| gaps.get(before)).copied();
    let after = gaps.get(index + 1).copied();
    if ends == Ends::AtNext {
        return own.or(before);
    }
    let near = [before, after];
    let length = match own {
        Some(own) if near.contains(&Some(own)) || near == [None, None] => own,
        Some(own) => near.into_iter().flatten().fold(own, Span::min),
        None => before?,
    };
    Some(length.min(LONGEST))
}
