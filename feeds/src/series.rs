//! Values of one feed: slots with the time of their receipt. Newer slots replace older ones where they overlap.
//!
//! Old slots expire, unless their own time is over: then they are the past. Has no clock.

use limo_model::{Span, Time};
use serde::{Deserialize, Serialize};

use crate::config::Fallback;
use crate::slot::{Quantity, SLOT_LIMIT, Slot};

/// Period of a repeating fallback: 24 hours, which is one local hour off on days of clock changes.
const DAY: Span = Span::from_secs(86_400);

/// Time for which slots are kept, so that a fallback can repeat a day of most of a week ago.
const KEPT: Span = Span::from_secs(8 * 86_400);

/// Slot and the time of its receipt; times in milliseconds, the value in thousandths of its unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Held {
    from: Time,
    until: Time,
    value: i64,
    received: Time,
}

/// Slots of one feed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Series<V> {
    /// Slots in order; none overlap.
    held: Vec<Held>,
    stale_after: Span,
    fallback: Fallback<V>,
}

/// Interval in which one value holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stretch<V> {
    /// First moment.
    pub from: Time,
    /// First moment after the interval.
    pub until: Time,
    /// Value.
    pub value: V,
}

impl<V: Quantity> Series<V> {
    /// Makes an empty series. Values older than `stale_after` expire.
    pub fn new(stale_after: Span, fallback: Fallback<V>) -> Self {
        Self { held: Vec::new(), stale_after, fallback }
    }

    /// Adds slots, in order and without overlaps. They replace earlier values of their time.
    pub fn merge(&mut self, slots: &[Slot<V>], received: Time) {
        let new =
            |slot: &Slot<V>| Held { from: slot.from, until: slot.until, value: slot.value.thousandths(), received };
        let mut rest = Vec::new();
        for old in &self.held {
            let mut from = old.from;
            let first = slots.partition_point(|slot| slot.until <= old.from);
            for slot in slots[first..].iter().take_while(|slot| slot.from < old.until) {
                rest.extend((from < slot.from).then_some(Held { from, until: slot.from, ..*old }));
                from = from.max(slot.until);
            }
            rest.extend((from < old.until).then_some(Held { from, ..*old }));
        }
        rest.extend(slots.iter().map(new));
        rest.sort_by_key(|held| held.from);
        self.held = rest;
        self.held.retain(|held| held.until > received - KEPT);
        // Slots in the far future are dropped first.
        self.held.truncate(SLOT_LIMIT);
    }

    /// Returns the end of the known values without a gap; `None` if no current value is known.
    pub fn known_until(&self, now: Time) -> Option<Time> {
        let mut end = None;
        for held in self.held.iter().filter(|held| held.until > now && self.counts(held, now)) {
            if held.from > end.unwrap_or(now) {
                break;
            }
            end = Some(held.until);
        }
        end
    }

    fn counts(&self, held: &Held, now: Time) -> bool {
        held.until <= now || now - held.received < self.stale_after
    }

    /// Returns the next time after `now` at which a value that counts expires or ends.
    pub fn next_change(&self, now: Time) -> Option<Time> {
        let ends = self.held.iter().filter(|held| held.until > now && self.counts(held, now));
        ends.flat_map(|held| [held.until, held.received + self.stale_after]).filter(|at| *at > now).min()
    }

    /// Returns the known values of `[from, until)` in order, without the fallback.
    pub fn known(&self, now: Time, from: Time, until: Time) -> Vec<Stretch<V>> {
        let within = self.held.iter().filter(|held| held.until > from && held.from < until && self.counts(held, now));
        let stretch = |held: &Held| {
            let value = V::from_thousandths(held.value)?;
            Some(Stretch { from: held.from.max(from), until: held.until.min(until), value })
        };
        within.filter_map(stretch).collect()
    }

    /// Returns the value of a fallback without an end.
    pub fn for_ever(&self) -> Option<V> {
        if let Fallback::Fixed(value) = self.fallback { Some(value) } else { None }
    }

    /// Returns the fallback for the unknown interval `[from, until)`.
    pub fn fallback(&self, now: Time, from: Time, until: Time) -> Vec<Stretch<V>> {
        match self.fallback {
            Fallback::RunNow => Vec::new(),
            Fallback::Fixed(value) => vec![Stretch { from, until, value }],
            Fallback::LastDay => self.repeated(now, from, until),
        }
    }

    /// Repeats earlier days until the interval is filled; the newest day with a known value counts.
    fn repeated(&self, now: Time, from: Time, until: Time) -> Vec<Stretch<V>> {
        let mut found: Vec<Stretch<V>> = Vec::new();
        let mut missing = vec![(from, until)];
        let days = KEPT.ms() / DAY.ms() + (until - from).ms().min(KEPT.ms()) / DAY.ms() + 1;
        for day in 1..=days {
            let shift = Span::from_ms(DAY.ms() * day);
            let mut still = Vec::new();
            for (from, until) in missing {
                let known = self.known(now, from - shift, until - shift).into_iter();
                let moved =
                    known.map(|piece| Stretch { from: piece.from + shift, until: piece.until + shift, ..piece });
                let moved: Vec<_> = moved.collect();
                still.extend(gaps(&moved, from, until));
                found.extend(moved);
            }
            missing = still;
        }
        found.sort_by_key(|stretch| stretch.from);
        found
    }

    /// Returns the state to store, as JSON.
    ///
    /// # Errors
    /// Only those of serde.
    pub fn stored(&self) -> Result<serde_json::Value, serde_json::Error> {
        serde_json::to_value(&self.held)
    }

    /// Restores a stored state. Slots that overlap or end before they begin are omitted.
    ///
    /// # Errors
    /// If the JSON has another form.
    pub fn take_up(&mut self, stored: serde_json::Value) -> Result<(), serde_json::Error> {
        let mut held: Vec<Held> = serde_json::from_value(stored)?;
        held.sort_by_key(|held| held.from);
        self.held.clear();
        for held in held {
            let after = self.held.last().is_none_or(|last| last.until <= held.from);
            self.held.extend((after && held.from < held.until).then_some(held));
        }
        Ok(())
    }
}

/// Returns the parts of `[from, until)` that no stretch covers. Stretches are in order.
pub(crate) fn gaps<V>(stretches: &[Stretch<V>], from: Time, until: Time) -> Vec<(Time, Time)> {
    let mut at = from;
    let mut gaps = Vec::new();
    for stretch in stretches {
        gaps.extend((at < stretch.from).then_some((at, stretch.from)));
        at = at.max(stretch.until);
    }
    gaps.extend((at < until).then_some((at, until)));
    gaps
}

#[cfg(test)]
mod tests;
