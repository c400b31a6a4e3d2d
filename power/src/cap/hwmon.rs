//! Limits that Linux hwmon shows as `power1_cap`, in microwatts: sockets of AMD's servers (chip `amd_hsmp_hwmon`), and
//! GPUs (chip `amdgpu` and others).
//!
//! - A chip is known by its name, and among equal ones by its device (`0000:03:00.0`), never by its `hwmonN`.
//! - Without a device, all chips of the name share the cap evenly; this is meant for sockets.
//! - The range is `power1_cap_min` to `power1_cap_max`; a socket has no minimum, so 10 W apply. A range of one value
//!   is common: such a device accepts only its present value.

use std::path::{Path, PathBuf};

use limo_model::Power;

use super::{Cap, CapError, FLOOR, Originals, checked, power};
use crate::cap::files::{captured, write_uw};
use crate::meter::files;

/// The chip of AMD's sockets.
pub(super) const HSMP: &str = "amd_hsmp_hwmon";

/// This allows for drivers that round to whole watts.
const TOLERANCE: Power = Power::from_watts(1);

/// Cap on chips of one name.
#[derive(Debug)]
pub struct HwmonCap {
    dir: PathBuf,
    chip: String,
    device: Option<String>,
    range: Option<(Power, Power)>,
}

#[derive(Debug)]
struct CappedChip {
    dir: PathBuf,
    /// `amdgpu@0000:03:00.0/power1_cap_uw`.
    control: String,
}

impl HwmonCap {
    /// Makes a cap. `sysfs` is the mount point of sysfs; `device` is the last part of the chip's `device` link.
    pub fn new(sysfs: &Path, chip: &str, device: Option<&str>, range: Option<(Power, Power)>) -> Self {
        let device = device.map(str::to_owned);
        Self { dir: sysfs.join("class/hwmon"), chip: chip.to_owned(), device, range }
    }

    /// Returns the devices that can be capped besides sockets: `CHIP@DEVICE`, for [`Self::new`]. `sysfs` is the mount
    /// point of sysfs.
    ///
    /// # Errors
    /// [`CapError`] if a directory or the name of a chip cannot be read.
    pub fn cards(sysfs: &Path) -> Result<Vec<String>, CapError> {
        let mut cards = Vec::new();
        for dir in files::entries(&sysfs.join("class/hwmon"))? {
            let chip = files::text(&dir.join("name"))?;
            if chip != HSMP && dir.join("power1_cap").exists() {
                cards.push(format!("{chip}@{}", device(&dir)));
            }
        }
        Ok(cards)
    }

    fn chips(&self) -> Result<Vec<CappedChip>, CapError> {
        let mut chips = Vec::new();
        for dir in files::entries(&self.dir)? {
            let cap = dir.join("power1_cap");
            if files::text(&dir.join("name"))? != self.chip || !cap.exists() {
                continue;
            }
            let device = device(&dir);
            if self.device.as_deref().is_none_or(|wanted| *wanted == device) {
                let control = format!("{}@{device}/power1_cap_uw", self.chip);
                chips.push(CappedChip { dir, control });
            }
        }
        if chips.is_empty() {
            let remedy = match self.chip.as_str() {
                HSMP => ": load the kernel module with `modprobe amd_hsmp`, and enable HSMP in the firmware's setup",
                _ => ": `lslave --probe` lists the chips",
            };
            let chip = self.device.as_ref().map_or(self.chip.clone(), |device| format!("{}@{device}", self.chip));
            return Err(CapError::NoChip { path: self.dir.clone(), chip, remedy });
        }
        Ok(chips)
    }
}

/// Returns the name of a chip's device, or its own number if it has none.
fn device(dir: &Path) -> String {
    let link = std::fs::canonicalize(dir.join("device")).unwrap_or_else(|_| dir.to_owned());
    files::name(&link).to_owned()
}

impl CappedChip {
    fn cap(&self) -> PathBuf {
        self.dir.join("power1_cap")
    }

    /// Returns the chip's own range.
    fn range(&self) -> Result<(Power, Power), CapError> {
        let low = self.dir.join("power1_cap_min");
        let low = if low.exists() { power(files::number(&low)?).max(Power::from_watts(1)) } else { FLOOR };
        Ok((low, power(files::number(&self.dir.join("power1_cap_max"))?)))
    }
}

impl Cap for HwmonCap {
    fn range(&mut self) -> Result<(Power, Power), CapError> {
        let chips = self.chips()?;
        let (mut low, mut high) = (Power::ZERO, Power::ZERO);
        for chip in &chips {
            if self.range.is_none() {
                let (lowest, highest) = checked(|| chip.dir.display().to_string(), chip.range()?)?;
                low += lowest;
                high += highest;
            }
            write_uw(&chip.cap(), files::number(&chip.cap())?, TOLERANCE)?;
        }
        checked(|| format!("the chip `{}`", self.chip), self.range.unwrap_or((low, high)))
    }

    fn capture(&mut self) -> Result<Originals, CapError> {
        let chips = self.chips()?.into_iter();
        chips.map(|chip| Ok((chip.control.clone(), files::number(&chip.cap())?.to_string()))).collect()
    }

    fn set(&mut self, limit: Power) -> Result<(), CapError> {
        let chips = self.chips()?;
        let each_uw = super::uw(limit) / chips.len() as u64;
        let results: Vec<_> = chips.iter().map(|chip| write_uw(&chip.cap(), each_uw, TOLERANCE)).collect();
        results.into_iter().collect()
    }

    fn restore(&mut self, control: &str, value: &str) -> Result<(), CapError> {
        match self.chips()?.into_iter().find(|chip| chip.control == control) {
            Some(chip) => write_uw(&chip.cap(), captured(control, value)?, TOLERANCE),
            None => Err(CapError::Gone {
                place: self.dir.display().to_string(),
                control: control.to_owned(),
                value: value.to_owned(),
            }),
        }
    }
}
