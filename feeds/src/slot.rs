//! Values of feeds in intervals of time, in UTC and half open.

use limo_model::{Price, Time};

use crate::error::FeedError;

/// Most slots: a year of quarter hours; no feed sends more at once.
pub(crate) const SLOT_LIMIT: usize = 40_000;

/// A value that holds from `from` until just before `until`. An `until` of [`Time::MAX`] is "until further notice".
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slot<V = Price> {
    /// First moment.
    pub from: Time,
    /// First moment at which the value no longer holds.
    pub until: Time,
    /// Value.
    pub value: V,
}

/// Carbon dioxide per energy, in thousandths of g/kWh; not negative.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Intensity(i64);

impl Intensity {
    /// Makes an intensity from thousandths of g/kWh.
    pub const fn from_mg_per_kwh(mg: i64) -> Self {
        Self(mg)
    }

    /// Returns thousandths of g/kWh.
    pub const fn mg_per_kwh(self) -> i64 {
        self.0
    }
}

/// Quantity of a feed.
pub trait Quantity: Copy + PartialEq + std::fmt::Debug + Send + Sync + 'static {
    /// Converts from thousandths of a currency per MWh, or of g/kWh; `None` if there is no such value.
    fn from_thousandths(value: i64) -> Option<Self>;

    /// Converts back to thousandths.
    fn thousandths(self) -> i64;
}

impl Quantity for Price {
    fn from_thousandths(value: i64) -> Option<Self> {
        Some(Self::from_milli_per_mwh(value))
    }

    fn thousandths(self) -> i64 {
        self.milli_per_mwh()
    }
}

impl Quantity for Intensity {
    fn from_thousandths(value: i64) -> Option<Self> {
        (value >= 0).then_some(Self(value))
    }

    fn thousandths(self) -> i64 {
        self.0
    }
}

pub(crate) fn within_limit(found: usize) -> Result<(), FeedError> {
    if found > SLOT_LIMIT { Err(FeedError::TooMany { found, limit: SLOT_LIMIT }) } else { Ok(()) }
}

/// Sorts slots by time. Duplicates count once.
///
/// # Errors
/// [`FeedError::Slot`] if one ends before it begins, or two contradict each other; [`FeedError::TooMany`].
pub fn ordered<V: Quantity>(mut slots: Vec<Slot<V>>) -> Result<Vec<Slot<V>>, FeedError> {
    within_limit(slots.len())?;
    slots.sort_by_key(|slot| (slot.from, slot.until));
    slots.dedup();
    if let Some(slot) = slots.iter().find(|slot| slot.until <= slot.from) {
        return Err(FeedError::Slot { from: slot.from, reason: "ends before it begins".into() });
    }
    if let Some(pair) = slots.windows(2).find(|pair| pair[1].from < pair[0].until) {
        return Err(FeedError::Slot { from: pair[1].from, reason: "overlaps the slot before it".into() });
    }
    Ok(slots)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slot(from: i64, until: i64, value: i64) -> Slot {
        let at = |minutes: i64| Time::from_unix_ms(minutes * 60_000);
        Slot { from: at(from), until: at(until), value: Price::from_milli_per_mwh(value) }
    }

    #[test]
    fn order_and_contradictions() {
        let given = vec![slot(60, 120, 2), slot(0, 60, 1), slot(60, 120, 2)];
        assert_eq!(ordered(given), Ok(vec![slot(0, 60, 1), slot(60, 120, 2)]));
        let refused = |slots| ordered(slots).expect_err("refused").to_string();
        assert_eq!(
            refused(vec![slot(0, 60, 1), slot(0, 60, 2)]),
            "the slot from 1970-01-01T00:00:00Z overlaps the slot before it"
        );
        assert_eq!(
            refused(vec![slot(0, 60, 1), slot(30, 90, 1)]),
            "the slot from 1970-01-01T00:30:00Z overlaps the slot before it"
        );
        assert_eq!(refused(vec![slot(60, 60, 1)]), "the slot from 1970-01-01T01:00:00Z ends before it begins");
        assert!(refused((0..40_001).map(|at| slot(at, at + 1, 0)).collect()).starts_with("40001 slots are too many"));
        assert_eq!(Intensity::from_thousandths(-1), None);
    }
}
