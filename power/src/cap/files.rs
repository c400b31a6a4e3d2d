//! Writes the small files of sysfs, and reads back what they hold then.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;

use limo_model::Power;

use super::{CapError, power};
use crate::meter::files;

/// Writes into a file that is there.
pub fn write(path: &Path, value: &str) -> Result<(), CapError> {
    // Shortened first, which sysfs ignores: a file on a disk would keep the end of a longer value.
    let written =
        OpenOptions::new().write(true).truncate(true).open(path).and_then(|mut file| file.write_all(value.as_bytes()));
    written.map_err(|source| CapError::Write { path: path.to_owned(), value: value.to_owned(), source })
}

/// Writes microwatts; what is read back may differ by `tolerance`, for devices that count in larger steps.
pub fn write_uw(path: &Path, wanted_uw: u64, tolerance: Power) -> Result<(), CapError> {
    write(path, &wanted_uw.to_string())?;
    let found = files::number(path)?;
    if found.abs_diff(wanted_uw) <= super::uw(tolerance) {
        return Ok(());
    }
    Err(CapError::NotKept { place: path.display().to_string(), wanted: power(wanted_uw), found: power(found) })
}

/// Microwatts from what was captured.
pub fn captured_uw(control: &str, value: &str) -> Result<u64, CapError> {
    value.parse().map_err(|_| CapError::Captured { control: control.to_owned(), value: value.to_owned() })
}
