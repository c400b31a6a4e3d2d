//! Energy counters of the processors (RAPL), as Linux powercap shows them in `class/powercap` of sysfs.
//!
//! - A node's draw is that of `psys`, which covers the whole board, if it exists; else that of all packages and all
//!   memory (`dram`). `core` and `uncore` are inside their package and never added.
//! - Zones are known by their names. `intel-rapl:0` may be `package-1`, and may be another zone after a reload of the
//!   module. `intel-rapl-mmio:N` shows the same counters a second time and is skipped.
//! - There is no power to read, only energy: the draw is the difference of two samples by the time between them. A
//!   counter wraps around at `max_energy_range_uj`; if that cannot be read, the sample is dropped.
//! - The zones are searched again when the directory has other entries: reading the names of all zones costs more than
//!   reading the counters.
//! - AMD's processors have the same zones without limits; only their energy is read here.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use limo_model::Power;

use super::error::MeterError;
use super::files;
use super::{Meter, Reading, plausible};

/// Samples further apart are not compared: the smallest counters hold 65 kJ, which a 350 W processor fills in three
/// minutes, and a second wrap would go unnoticed.
const LONGEST: Duration = Duration::from_secs(120);

/// A counter without change for this long does not count; working ones are updated each millisecond.
const STILL: Duration = Duration::from_secs(1);

/// Draw above which a zone's value is not plausible. A counter that was reset, by a reload of its module, looks as if
/// it had wrapped around, and most of its range would be counted.
const ZONE_LIMIT: Power = Power::from_watts(20_000);

/// Draw by the counters of this machine.
#[derive(Debug)]
pub struct Powercap {
    dir: PathBuf,
    known: Option<Known>,
    last: Option<Sample>,
}

/// Zones that make up a node, and the entries of the directory in which they were found.
#[derive(Debug)]
struct Known {
    entries: Vec<(OsString, u64)>,
    zones: BTreeMap<String, PathBuf>,
}

/// Counters that make up a node, at one time.
#[derive(Debug)]
struct Sample {
    at: Duration,
    /// By name: `psys`, `package-0`, `package-0/dram`.
    zones: BTreeMap<String, EnergyCounter>,
}

#[derive(Debug)]
struct EnergyCounter {
    dir: PathBuf,
    energy_uj: u64,
}

impl Powercap {
    /// Makes a meter. `sysfs` is the mount point of sysfs, such as `/sys`.
    pub fn new(sysfs: &Path) -> Self {
        Self { dir: sysfs.join("class/powercap"), known: None, last: None }
    }

    /// Returns the names of the zones that make up the node's draw: `psys`, or `package-0`, `package-0/dram` and so on.
    ///
    /// # Errors
    /// [`MeterError`] if there are none, or the directory cannot be read.
    pub fn zones(&self) -> Result<Vec<String>, MeterError> {
        Ok(self.counted()?.into_keys().collect())
    }

    /// Returns the directories of the zones that count, by name.
    fn counted(&self) -> Result<BTreeMap<String, PathBuf>, MeterError> {
        let mut all: BTreeMap<String, PathBuf> = BTreeMap::new();
        let dirs = files::entries(&self.dir)?;
        for dir in dirs.into_iter().filter(|dir| files::name(dir).starts_with("intel-rapl:")) {
            let name = self.full_name(&dir)?;
            if let Some(first) = all.get(&name) {
                return Err(MeterError::SameZone { name, first: first.clone(), second: dir });
            }
            all.insert(name, dir);
        }
        let is_psys = |name: &str| name == "psys" || name.starts_with("psys-");
        if all.keys().any(|name| is_psys(name)) {
            all.retain(|name, _| is_psys(name));
        } else {
            all.retain(|name, _| is_package(name) || name.ends_with("/dram"));
        }
        if all.is_empty() { Err(MeterError::NoZones { path: self.dir.clone() }) } else { Ok(all) }
    }

    /// Returns the name of a zone after that of its parent zone, because the parts of all packages have equal names.
    fn full_name(&self, dir: &Path) -> Result<String, MeterError> {
        let own = files::text(&dir.join("name"))?;
        // `intel-rapl:0:1` is part of `intel-rapl:0`.
        match files::name(dir).rsplit_once(':') {
            Some((parent, _)) if parent.contains(':') => {
                Ok(format!("{}/{own}", files::text(&self.dir.join(parent).join("name"))?))
            }
            _ => Ok(own),
        }
    }

    fn sample(&mut self, at: Duration) -> Result<Sample, MeterError> {
        // The directory is listed before the zones are searched, so that the next sample notices changes meanwhile.
        let entries = files::listing(&self.dir)?;
        let known = match self.known.take() {
            Some(known) if known.entries == entries => known,
            _ => Known { entries, zones: self.counted()? },
        };
        let look = |(name, dir): (&String, &PathBuf)| -> Result<_, MeterError> {
            let energy_uj = files::number(&dir.join("energy_uj"))?;
            Ok((name.clone(), EnergyCounter { dir: dir.clone(), energy_uj }))
        };
        let zones = known.zones.iter().map(look).collect::<Result<_, _>>()?;
        // After a failure the zones are searched again.
        self.known = Some(known);
        Ok(Sample { at, zones })
    }

    /// Reports zones that are in only one of the samples. Without a zone a node would seem to draw less.
    fn compare(&self, last: &Sample, new: &Sample) -> Result<(), MeterError> {
        let missing = |from: &Sample, of: &Sample| {
            let names = of.zones.keys().filter(|name| !from.zones.contains_key(*name));
            names.map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
        };
        let (gone, zones) = (missing(new, last), missing(last, new));
        let path = self.dir.clone();
        // This comes before missing zones: when psys appears, the packages no longer count.
        if !zones.is_empty() {
            return Err(MeterError::ZonesNew { path, zones });
        }
        if gone.is_empty() { Ok(()) } else { Err(MeterError::ZonesGone { path, zones: gone }) }
    }
}

impl Meter for Powercap {
    fn read(&mut self, now: Duration) -> Result<Reading, MeterError> {
        let new = self.sample(now)?;
        let Some(last) = &self.last else {
            self.last = Some(new);
            return Ok(Reading::NotYet);
        };
        let elapsed = now.saturating_sub(last.at);
        let same = self.compare(last, &new);
        let drawn = match same {
            Ok(()) if elapsed.is_zero() => return Ok(Reading::NotYet),
            Ok(()) if elapsed > LONGEST => Ok(None),
            Ok(()) => drawn(last, &new, elapsed),
            // The missing zones may reappear.
            Err(MeterError::ZonesGone { .. }) => return same.map(|()| Reading::NotYet),
            Err(error) => Err(error),
        };
        if matches!(drawn, Err(MeterError::Still { .. })) && elapsed < STILL {
            return Ok(Reading::NotYet);
        }
        self.last = Some(new);
        match drawn? {
            Some(draw) => {
                plausible(draw, || format!("the sum of the zones in {}", self.dir.display()))?;
                Ok(Reading::Mean { draw, over: elapsed })
            }
            None => Ok(Reading::NotYet),
        }
    }
}

fn is_package(name: &str) -> bool {
    name.starts_with("package-") && !name.contains('/')
}

/// Returns the mean draw of all zones between two samples; `None` if a counter wrapped around at an unknown range.
fn drawn(last: &Sample, new: &Sample, elapsed: Duration) -> Result<Option<Power>, MeterError> {
    let mut total = Power::ZERO;
    for ((name, new), old) in new.zones.iter().zip(last.zones.values()) {
        let Some(energy_uj) = counted(old.energy_uj, new) else { return Ok(None) };
        let power = mean(energy_uj, elapsed);
        if power > ZONE_LIMIT {
            return Ok(None);
        }
        // A zone of memory may lack a counter, and one of several `psys` may count for all.
        if energy_uj == 0 && is_package(name) {
            return Err(MeterError::Still { path: new.dir.join("energy_uj"), still: elapsed });
        }
        total += power;
    }
    match new.zones.values().next() {
        Some(zone) if total.is_zero() => Err(MeterError::Still { path: zone.dir.join("energy_uj"), still: elapsed }),
        _ => Ok(Some(total)),
    }
}

/// Returns the microjoules since the counter of `zone` showed `last`; `None` if it wrapped around at an unknown range.
fn counted(last: u64, zone: &EnergyCounter) -> Option<u64> {
    match zone.energy_uj.checked_sub(last) {
        Some(energy) => Some(energy),
        None => {
            let range = files::number(&zone.dir.join("max_energy_range_uj")).ok()?;
            range.checked_sub(last)?.checked_add(zone.energy_uj)
        }
    }
}

/// Rounds to milliwatts, half up. `elapsed` is positive.
fn mean(energy_uj: u64, elapsed: Duration) -> Power {
    let nanos = elapsed.as_nanos().max(1);
    // 1 uJ in 1 ns is 1 kW, a million milliwatts.
    let mw = (u128::from(energy_uj) * 1_000_000 + nanos / 2) / nanos;
    Power::from_mw(i64::try_from(mw).unwrap_or(i64::MAX))
}
