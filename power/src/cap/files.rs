//! Writes small files of sysfs and reads them back.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;

use limo_model::Power;

use super::{CapError, power};
use crate::meter::files;

/// Writes into an existing file.
pub fn write(path: &Path, value: &str) -> Result<(), CapError> {
    // The value is truncated first, since a regular file would keep the end of a longer one. sysfs ignores this.
    let written =
        OpenOptions::new().write(true).truncate(true).open(path).and_then(|mut file| file.write_all(value.as_bytes()));
    written.map_err(|source| CapError::Write { path: path.to_owned(), value: value.to_owned(), source })
}

/// Writes microwatts; the value read back may differ by `tolerance`, for devices with larger steps.
pub fn write_uw(path: &Path, wanted_uw: u64, tolerance: Power) -> Result<(), CapError> {
    write(path, &wanted_uw.to_string())?;
    let found = files::number(path)?;
    if found.abs_diff(wanted_uw) <= super::uw(tolerance) {
        return Ok(());
    }
    Err(CapError::NotKept { place: path.display().to_string(), wanted: power(wanted_uw), found: power(found) })
}

/// Parses a captured number.
pub fn captured(control: &str, value: &str) -> Result<u64, CapError> {
    value.parse().map_err(|_| CapError::Captured { control: control.to_owned(), value: value.to_owned() })
}
