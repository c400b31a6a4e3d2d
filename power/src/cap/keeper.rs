//! Sets the caps of a node, and restores the original values.
//!
//! - The original values of a unit's controls are saved in a file before the first of them is written. The file exists
//!   as long as any value may differ from the original.
//! - A daemon that finds the file goes on under the caps in it, as far as its configuration has the same ones. It first
//!   restores the other values, by the caps in the file.
//! - Each control is restored on its own. A value that cannot be restored stays in the file and remains the original
//!   when the unit is capped again. A value that a cap left behind never becomes an original.
//! - Uses no clock and waits only for the hardware.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use limo_files::Outlasts;
use limo_model::Power;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::{ApplicationClocks, Cap, CapChoice, CapChoiceError, CapError, ClockPair, Originals};
use crate::site::Site;

/// Version of the file's format. The first one had no ranges.
const SCHEMA: u32 = 2;

/// Reason why there is no keeper.
#[derive(Debug, Error)]
#[expect(missing_docs, reason = "the messages say what each variant is")]
pub enum KeeperError {
    #[error("cannot read {}, which has the values before the caps: {source}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error(
        "{} does not have the values before the caps: {detail}; set the limits by hand and remove the file",
        path.display()
    )]
    Form { path: PathBuf, detail: String },
}

/// Control that was not restored, or file that could not be written.
#[derive(Debug, Error)]
#[error("unit `{unit}`: {error}")]
pub struct CapFailure {
    /// Name of the unit.
    pub unit: String,
    /// The error.
    pub error: CapError,
}

/// State of a unit that the keeper may cap.
#[derive(Debug)]
pub struct Kept {
    /// Name of the unit.
    pub unit: String,
    /// The operator's choice for the unit.
    pub choice: CapChoice,
    /// Lowest and highest cap; `None` if the unit cannot be capped.
    pub range: Option<(Power, Power)>,
    /// Values of the unit's controls.
    pub held: Result<Originals, CapError>,
    /// True if the values are a cap, and the originals are saved.
    pub capped: bool,
}

/// The file.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Saved {
    schema: u32,
    units: Vec<SavedUnit>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SavedUnit {
    unit: String,
    /// Cap as the operator wrote it.
    cap: String,
    /// Lowest and highest cap, which some controls show only while they have their original values.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    range: Option<(Power, Power)>,
    originals: Originals,
}

struct CappedUnit {
    name: String,
    choice: CapChoice,
    cap: Box<dyn Cap>,
    range: Option<(Power, Power)>,
    /// Original values to restore.
    originals: Originals,
}

/// Caps of one node.
pub struct Keeper {
    path: PathBuf,
    site: Site,
    units: Vec<CappedUnit>,
    /// Values of an earlier daemon that could not be restored.
    left: Vec<(SavedUnit, CapChoice)>,
    closed: bool,
}

impl Keeper {
    /// Restores the values of an earlier daemon, and asks each unit's cap for its range. `path` is the file with the
    /// original values; no other process may use it. The returned failures harm nothing else and should be logged.
    ///
    /// # Errors
    /// [`KeeperError`] if the file cannot be understood: then nothing may be capped.
    pub fn open(
        path: &Path,
        site: &Site,
        units: Vec<(String, CapChoice)>,
    ) -> Result<(Self, Vec<CapFailure>), KeeperError> {
        Self::opened(path, site, units, |_| false)
    }

    /// Does the same, but units with the same caps as before go on under the caps of an earlier daemon.
    ///
    /// # Errors
    /// As [`Keeper::open`].
    pub fn resume(
        path: &Path,
        site: &Site,
        units: Vec<(String, CapChoice)>,
    ) -> Result<(Self, Vec<CapFailure>), KeeperError> {
        Self::opened(path, site, units, |saved| saved.range.is_some())
    }

    fn opened(
        path: &Path,
        site: &Site,
        units: Vec<(String, CapChoice)>,
        goes_on: impl Fn(&SavedUnit) -> bool,
    ) -> Result<(Self, Vec<CapFailure>), KeeperError> {
        let mut left = read(path)?;
        let capped = |(name, choice): (String, CapChoice)| {
            let is_same = |saved: &SavedUnit| saved.unit == name && saved.cap == choice.as_str();
            let found = left.iter().position(|(saved, _)| is_same(saved) && goes_on(saved));
            let saved = found.map(|at| left.remove(at).0);
            let (range, originals) = saved.map(|saved| (saved.range, saved.originals)).unwrap_or_default();
            CappedUnit { name, cap: choice.cap(site), choice, range, originals }
        };
        let units = units.into_iter().map(capped).collect();
        let mut keeper = Self { path: path.to_owned(), site: site.clone(), units, left, closed: false };
        let unrestored = keeper.restore_left();
        let mut failures = keeper.save_after(unrestored);
        for index in 0..keeper.units.len() {
            if keeper.units[index].range.is_none()
                && let Err(error) = keeper.find_range(index)
            {
                failures.push(CapFailure { unit: keeper.units[index].name.clone(), error });
            }
        }
        Ok((keeper, failures))
    }

    /// Returns true if any value may differ from the original.
    pub fn is_capping(&self) -> bool {
        !self.left.is_empty() || self.units.iter().any(|unit| !unit.originals.is_empty())
    }

    /// Finds and remembers the range of a unit, which must not share controls with another.
    fn find_range(&mut self, index: usize) -> Result<(Power, Power), CapError> {
        let unit = &mut self.units[index];
        let (name, controls) = (unit.name.clone(), unit.cap.capture()?);
        let others = self.units.iter_mut().enumerate().filter(|(at, other)| *at != index && other.range.is_some());
        for (_, other) in others {
            let theirs = other.cap.capture()?;
            if let Some(control) = theirs.into_keys().find(|control| controls.contains_key(control)) {
                return Err(CapError::Taken { unit: name, other: other.name.clone(), control });
            }
        }
        let unit = &mut self.units[index];
        let range = unit.cap.range()?;
        unit.range = Some(range);
        Ok(range)
    }

    /// Returns the lowest and highest cap of a unit; `None` if it cannot be capped.
    pub fn range(&self, unit: &str) -> Option<(Power, Power)> {
        self.units.iter().find(|known| known.name == unit)?.range
    }

    /// Returns every unit that may be capped, with the values of its controls. Writes nothing.
    pub fn units(&mut self) -> Vec<Kept> {
        let kept = |unit: &mut CappedUnit| Kept {
            unit: unit.name.clone(),
            choice: unit.choice.clone(),
            range: unit.range,
            held: unit.cap.capture(),
            capped: !unit.originals.is_empty(),
        };
        self.units.iter_mut().map(kept).collect()
    }

    /// Caps a unit, or restores its original values. A limit above the range becomes the highest cap. A limit below it
    /// sets the lowest and returns an error. Idempotent.
    ///
    /// # Errors
    /// [`CapError`] if the limit does not hold.
    pub fn set(&mut self, unit: &str, limit: Option<Power>) -> Result<(), CapError> {
        if self.closed {
            return Err(CapError::Closed);
        }
        let index = self.units.iter().position(|known| known.name == unit);
        let (index, limit) = match (index, limit) {
            (Some(index), Some(limit)) => (index, limit),
            (Some(index), None) => return self.lift(index),
            (None, Some(_)) => return Err(CapError::NoCap { unit: unit.to_owned() }),
            (None, None) => return Ok(()),
        };
        let (low, high) = match self.units[index].range {
            Some(range) => range,
            None => {
                // A value that an earlier daemon's cap left behind would be taken for the highest limit. If it still
                // cannot be restored, it stays in the file, and the following error gives the reason.
                let left = self.restore_left();
                self.save_after(left);
                self.find_range(index)?
            }
        };
        let found = self.units[index].cap.capture()?;
        self.remember(index, found)?;
        self.units[index].cap.set(limit.max(low).min(high))?;
        if limit < low { Err(CapError::TooLow { unit: unit.to_owned(), limit, low }) } else { Ok(()) }
    }

    /// Returns all pairs of clocks of a unit, ascending. Writes nothing.
    ///
    /// # Errors
    /// [`CapError`] if the unit has no pairs.
    pub fn clock_pairs(&mut self, unit: &str) -> Result<Vec<ClockPair>, CapError> {
        let (_, clocks) = self.clocks(unit)?;
        clocks.pairs()
    }

    /// Sets the clocks of a unit. `set(unit, None)` restores the original ones, together with the values before a cap.
    ///
    /// # Errors
    /// [`CapError`] if the unit has no pairs, or does not hold this one.
    pub fn set_clocks(&mut self, unit: &str, pair: ClockPair) -> Result<(), CapError> {
        if self.closed {
            return Err(CapError::Closed);
        }
        let (index, clocks) = self.clocks(unit)?;
        let found = clocks.capture()?;
        self.remember(index, found)?;
        self.clocks(unit)?.1.set(pair)
    }

    fn clocks(&mut self, unit: &str) -> Result<(usize, &mut ApplicationClocks), CapError> {
        let known = self.units.iter_mut().enumerate().find(|(_, known)| known.name == unit);
        let clocks = known.and_then(|(index, known)| Some((index, known.cap.clocks()?)));
        clocks.ok_or_else(|| CapError::NoPairs { unit: unit.to_owned() })
    }

    /// Saves the values of controls before the first of them is written, unless they are known.
    fn remember(&mut self, index: usize, found: Originals) -> Result<(), CapError> {
        let known = &self.units[index].originals;
        if found.keys().all(|control| known.contains_key(control)) {
            return Ok(());
        }
        let before = (self.units[index].originals.clone(), self.left.clone());
        for (control, value) in found {
            let mut earlier = self.left.iter_mut().filter_map(|(left, _)| left.originals.remove(&control));
            let value = earlier.next().unwrap_or(value);
            self.units[index].originals.entry(control).or_insert(value);
        }
        self.save().map_err(|source| {
            (self.units[index].originals, self.left) = before;
            CapError::Save { path: self.path.clone(), source }
        })
    }

    fn lift(&mut self, index: usize) -> Result<(), CapError> {
        let unit = &mut self.units[index];
        let failures = put_back(&unit.name, unit.cap.as_mut(), &mut unit.originals);
        self.save_after(failures).into_iter().next().map_or(Ok(()), |failure| Err(failure.error))
    }

    /// Restores everything. The next call, or the next daemon, retries failures.
    pub fn restore(&mut self) -> Vec<CapFailure> {
        let mut failures = self.restore_left();
        for unit in &mut self.units {
            failures.extend(put_back(&unit.name, unit.cap.as_mut(), &mut unit.originals));
        }
        self.save_after(failures)
    }

    /// Restores the values of an earlier daemon.
    fn restore_left(&mut self) -> Vec<CapFailure> {
        let mut failures = Vec::new();
        for (saved, choice) in &mut self.left {
            let mut cap = choice.cap(&self.site);
            failures.extend(put_back(&saved.unit, cap.as_mut(), &mut saved.originals));
        }
        failures
    }

    /// Restores everything for good: nothing can be capped afterwards.
    pub fn close(&mut self) -> Vec<CapFailure> {
        self.closed = true;
        self.restore()
    }

    /// Saves the values that are still to be restored; a failure to write is added.
    fn save_after(&mut self, mut failures: Vec<CapFailure>) -> Vec<CapFailure> {
        self.left.retain(|(left, _)| !left.originals.is_empty());
        if let Err(source) = self.save() {
            let error = CapError::Save { path: self.path.clone(), source };
            failures.push(CapFailure { unit: "all".to_owned(), error });
        }
        failures
    }

    fn save(&self) -> io::Result<()> {
        let capped = self.units.iter().filter(|unit| !unit.originals.is_empty()).map(|unit| SavedUnit {
            unit: unit.name.clone(),
            cap: unit.choice.as_str().to_owned(),
            range: unit.range,
            originals: unit.originals.clone(),
        });
        let left = self.left.iter().map(|(left, _)| left).filter(|left| !left.originals.is_empty()).cloned();
        let units: Vec<SavedUnit> = capped.chain(left).collect();
        if units.is_empty() { remove(&self.path) } else { write(&self.path, &Saved { schema: SCHEMA, units }) }
    }
}

/// Restores what it can, and leaves the rest in `originals`.
fn put_back(unit: &str, cap: &mut dyn Cap, originals: &mut Originals) -> Vec<CapFailure> {
    let mut failures = Vec::new();
    originals.retain(|control, value| match cap.restore(control, value) {
        Ok(()) => false,
        Err(error) => {
            failures.push(CapFailure { unit: unit.to_owned(), error });
            true
        }
    });
    failures
}

fn read(path: &Path) -> Result<Vec<(SavedUnit, CapChoice)>, KeeperError> {
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(source) => return Err(KeeperError::Read { path: path.to_owned(), source }),
    };
    let form = |detail: String| KeeperError::Form { path: path.to_owned(), detail };
    let saved: Saved = serde_json::from_str(&text).map_err(|error| form(error.to_string()))?;
    if !(1..=SCHEMA).contains(&saved.schema) {
        return Err(form(format!("it has the schema {}, but this version knows only 1 to {SCHEMA}", saved.schema)));
    }
    let parsed = |saved: SavedUnit| match saved.cap.parse() {
        Ok(choice) => Ok((saved, choice)),
        Err(error) => Err(form(CapChoiceError::to_string(&error))),
    };
    saved.units.into_iter().map(parsed).collect()
}

/// Writes the file atomically and durably.
fn write(path: &Path, saved: &Saved) -> io::Result<()> {
    let text = serde_json::to_vec_pretty(saved)?;
    limo_files::replace(path, 0o600, Outlasts::Crash, |file| file.write_all(&text))
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Ok(()) => limo_files::sync_name(path),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}
