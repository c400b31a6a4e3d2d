//! The long-term limit of processor packages (RAPL), as Linux powercap shows it in `class/powercap` of sysfs.
//!
//! - Zones and constraints are known by their names, `package-N` and `long_term`: their numbers change.
//! - `intel-rapl:` (registers) and `intel-rapl-mmio:` (memory) are two interfaces of one processor. A processor obeys
//!   the lower limit, or only the second interface. Both are written; one that refuses makes the cap fail.
//! - A limit counts only if the zone is enabled, so the zone is enabled as well. Firmware that locks the limit shows
//!   by a write that is refused, by a value that does not stay, or by a zone that stays disabled.
//! - The packages of a node share its cap evenly.
//! - The highest cap is the limit that was there, not `max_power_uw`, which is often far below it. Only a meter shows
//!   the effect of the limit: it is averaged over a window of up to minutes, and the short-term limit does not change.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use limo_model::Power;

use super::{Cap, CapError, FLOOR, Originals, checked, power};
use crate::cap::files::{captured, write, write_uw};
use crate::meter::files;

/// Largest deviation of a kept limit. Most processors use steps of an eighth of a watt; the largest step of others is
/// half a watt.
const TOLERANCE: Power = Power::from_mw(500);

/// Prefixes of the zones' names: two interfaces to a package.
const WAYS: [&str; 2] = ["intel-rapl", "intel-rapl-mmio"];

/// Cap on all packages of this machine.
#[derive(Debug)]
pub struct Rapl {
    dir: PathBuf,
    range: Option<(Power, Power)>,
}

/// Limit of one package through one interface.
#[derive(Debug)]
struct PackageLimit {
    /// `package-0`.
    package: String,
    /// Name that does not depend on the zone's number, such as `intel-rapl/package-0`.
    name: String,
    enabled: PathBuf,
    limit: PathBuf,
}

impl Rapl {
    /// Makes a cap. `sysfs` is the mount point of sysfs. Without a range, it goes from 10 W a package to the present
    /// limits.
    pub fn new(sysfs: &Path, range: Option<(Power, Power)>) -> Self {
        Self { dir: sysfs.join("class/powercap"), range }
    }

    fn zones(&self) -> Result<Vec<PackageLimit>, CapError> {
        let mut zones = Vec::new();
        for dir in files::entries(&self.dir)? {
            // `intel-rapl:0:0` is a part of a package.
            let Some((way, number)) = files::name(&dir).split_once(':') else { continue };
            if !WAYS.contains(&way) || number.contains(':') {
                continue;
            }
            let package = files::text(&dir.join("name"))?;
            if !package.starts_with("package-") {
                continue;
            }
            let Some(limit) = long_term(&dir)? else { continue };
            let name = format!("{way}/{package}");
            zones.push(PackageLimit { package, name, enabled: dir.join("enabled"), limit });
        }
        if zones.is_empty() { Err(CapError::NoPackages { path: self.dir.clone() }) } else { Ok(zones) }
    }

    fn zone(&self, control: &str, value: &str) -> Result<PackageLimit, CapError> {
        let found =
            self.zones()?.into_iter().find(|zone| control == zone.limit_name() || control == zone.enabled_name());
        found.ok_or_else(|| CapError::Gone {
            place: self.dir.display().to_string(),
            control: control.to_owned(),
            value: value.to_owned(),
        })
    }
}

impl PackageLimit {
    fn limit_name(&self) -> String {
        format!("{}/long_term_uw", self.name)
    }

    fn enabled_name(&self) -> String {
        format!("{}/enabled", self.name)
    }

    fn set(&self, limit_uw: u64) -> Result<(), CapError> {
        // The limit is written first, because a disabled zone may hold any value.
        write_uw(&self.limit, limit_uw, TOLERANCE)?;
        self.enable("1")
    }

    fn enable(&self, wanted: &str) -> Result<(), CapError> {
        write(&self.enabled, wanted)?;
        match files::text(&self.enabled)? {
            found if found == wanted => Ok(()),
            found => Err(CapError::Locked { path: self.enabled.clone(), wanted: wanted.to_owned(), found }),
        }
    }
}

/// Finds the limit of the long-term constraint, regardless of its number.
fn long_term(dir: &Path) -> Result<Option<PathBuf>, CapError> {
    for path in files::entries(dir)? {
        let Some(constraint) = files::name(&path).strip_suffix("_name").filter(|name| name.starts_with("constraint_"))
        else {
            continue;
        };
        if files::text(&path)? == "long_term" {
            return Ok(Some(dir.join(format!("{constraint}_power_limit_uw"))));
        }
    }
    Ok(None)
}

fn packages(zones: &[PackageLimit]) -> usize {
    let names: std::collections::BTreeSet<&str> = zones.iter().map(|zone| zone.package.as_str()).collect();
    names.len().max(1)
}

impl Cap for Rapl {
    fn range(&mut self) -> Result<(Power, Power), CapError> {
        let zones = self.zones()?;
        // The lower limit of a package holds.
        let mut limits: BTreeMap<&str, Power> = BTreeMap::new();
        for zone in &zones {
            let held_uw = files::number(&zone.limit)?;
            files::number(&zone.enabled)?;
            write_uw(&zone.limit, held_uw, TOLERANCE)?;
            let lowest = limits.entry(&zone.package).or_insert(Power::MAX);
            *lowest = power(held_uw).min(*lowest);
        }
        let found = || {
            let count = i64::try_from(limits.len()).unwrap_or(i64::MAX);
            (FLOOR.scaled(count, 1), limits.values().copied().sum())
        };
        checked(|| format!("the processor in {}", self.dir.display()), self.range.unwrap_or_else(found))
    }

    fn capture(&mut self) -> Result<Originals, CapError> {
        let mut originals = Originals::new();
        for zone in self.zones()? {
            originals.insert(zone.limit_name(), files::number(&zone.limit)?.to_string());
            originals.insert(zone.enabled_name(), files::number(&zone.enabled)?.to_string());
        }
        Ok(originals)
    }

    fn set(&mut self, limit: Power) -> Result<(), CapError> {
        let zones = self.zones()?;
        let each_uw = super::uw(limit) / packages(&zones) as u64;
        let results: Vec<_> = zones.iter().map(|zone| zone.set(each_uw)).collect();
        results.into_iter().collect()
    }

    fn restore(&mut self, control: &str, value: &str) -> Result<(), CapError> {
        let zone = self.zone(control, value)?;
        if control == zone.enabled_name() {
            return zone.enable(value);
        }
        write_uw(&zone.limit, captured(control, value)?, TOLERANCE)
    }
}
