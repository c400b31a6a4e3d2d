//! Replays a journal through a new core: applies events, runs rounds, and compares each round with the recorded one
//! byte for byte. After a difference, the core continues from its own result.

use std::fmt;
use std::path::Path;

use anyhow::{Context, Result};
use limo_journal::{Entry, History, HistoryEntry};
use limo_model::{Preset, Time};
use limo_sched::{Core, Options, Round};
use serde_json::{Map, Value};

use super::shown;

/// Difference between the replayed and the recorded entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoundDifference {
    /// Index of the entry in the journal, from 1.
    pub seq: i64,
    pub at: Time,
    /// Recorded entry; for a round only the parts that differ.
    pub recorded: String,
    pub now: String,
}

impl fmt::Display for RoundDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seq, at, recorded, now } = self;
        write!(f, "entry {seq} at {}\n  recorded: {recorded}\n  now:      {now}", shown(*at))
    }
}

/// Replay of a journal, entry by entry.
pub struct Replay {
    history: History,
    core: Option<Core>,
    pub entries: u64,
    pub events: u64,
    pub rounds: u64,
    /// Times of the first and the last entry.
    pub extent: Option<(Time, Time)>,
}

impl Replay {
    /// Opens the journal in a state directory, or a journal's file.
    ///
    /// # Errors
    /// If there is no readable journal.
    pub fn open(place: &Path) -> Result<Self> {
        let history = History::open(place).with_context(|| format!("{}: cannot read a journal", place.display()))?;
        Ok(Self { history, core: None, entries: 0, events: 0, rounds: 0, extent: None })
    }

    /// Returns the core after the entries so far; `None` before the first one.
    pub fn core(&self) -> Option<&Core> {
        self.core.as_ref()
    }

    /// Reads the next entry, before the core sees it; `None` after the last one.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn read(&mut self) -> Result<Option<HistoryEntry>> {
        let Some(entry) = self.history.next() else { return Ok(None) };
        let entry = entry.with_context(|| format!("the journal ends after {} entries", self.entries))?;
        let (first, _) = self.extent.unwrap_or((entry.at, entry.at));
        self.extent = Some((first, entry.at));
        // This is the initial state of every new master (`lmaster`, recover.rs). Its policy and options are the first
        // events.
        self.core.get_or_insert_with(|| Core::new(entry.at, Preset::DEFAULT, Options::default()));
        Ok(Some(entry))
    }

    /// Replays one entry.
    pub fn run(&mut self, entry: &HistoryEntry) -> Option<RoundDifference> {
        let HistoryEntry { seq, at, entry } = entry;
        // The core exists since the first entry was read.
        let core = self.core.as_mut()?;
        self.entries += 1;
        match entry {
            Entry::Event(event) => {
                self.events += 1;
                let refused = core.apply(*at, event).err()?;
                let recorded = serde_json::to_string(event).unwrap_or_default();
                Some(RoundDifference { seq: *seq, at: *at, recorded, now: format!("refused: {refused}") })
            }
            Entry::Round(recorded) => {
                self.rounds += 1;
                let (recorded, now) = differing(recorded, &core.round(*at))?;
                Some(RoundDifference { seq: *seq, at: *at, recorded, now })
            }
        }
    }
}

/// Returns the parts that differ between two rounds, as JSON; `None` if they are equal.
fn differing(recorded: &Round, now: &Round) -> Option<(String, String)> {
    let (one, other) = (serde_json::to_string(recorded).ok()?, serde_json::to_string(now).ok()?);
    if one == other {
        return None;
    }
    let parts = |text: &str| serde_json::from_str::<Map<String, Value>>(text).unwrap_or_default();
    let (mut left, mut right) = (parts(&one), parts(&other));
    let same: Vec<String> =
        left.iter().filter(|(key, value)| right.get(*key) == Some(value)).map(|(key, _)| key.clone()).collect();
    for key in same {
        left.remove(&key);
        right.remove(&key);
    }
    Some((Value::Object(left).to_string(), Value::Object(right).to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_differences_are_shown() {
        let round = |ms: i64, wake_at: Option<i64>| Round {
            now: Time::from_unix_ms(ms),
            commands: Vec::new(),
            waits: Vec::new(),
            finished: Vec::new(),
            wake_at: wake_at.map(Time::from_unix_ms),
            violations: Vec::new(),
        };
        assert_eq!(differing(&round(1, None), &round(1, None)), None);
        let expected = ("{\"wake_at\":5}".to_owned(), "{\"wake_at\":null}".to_owned());
        assert_eq!(differing(&round(1, Some(5)), &round(1, None)), Some(expected));
    }
}
