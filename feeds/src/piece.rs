//! Intervals whose ends a feed does not tell.
//!
//! By its spacing one is as long as the distance to the next, where that is the distance before or after it, too; else as
//! the shorter of those: a hole stays a hole, and hours may turn into quarters.

use limo_model::{Span, Time};

use crate::error::FeedError;
use crate::slot::{Quantity, Slot};

/// No feed has slots that are longer without saying where they end.
const LONGEST: Span = Span::from_secs(3600);

/// Where an interval ends that does not say it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ends {
    /// By the distances around it.
    BySpacing,
    /// Where the next one begins; the last one is as long as the one before it.
    AtNext,
}

/// A slot whose end may not be known yet.
pub(crate) struct Piece<V> {
    pub from: Time,
    pub until: Option<Time>,
    /// `None` is a `null`, which has its place among the intervals.
    pub value: Option<V>,
}

/// Gives each piece its end, and leaves those without a value out.
pub(crate) fn closed<V: Quantity>(mut pieces: Vec<Piece<V>>, ends: Ends) -> Result<Vec<Slot<V>>, FeedError> {
    pieces.sort_by_key(|piece| piece.from);
    // Two lists may share their border.
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
    FeedError::Slot { from, reason: "is alone, and nothing says where it ends".into() }
}

/// Of the interval at `index`, from the distances between all of them.
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
