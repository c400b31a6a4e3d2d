//! Reads the small files of sysfs.

use std::ffi::OsString;
use std::io;
use std::os::unix::fs::DirEntryExt;
use std::path::{Path, PathBuf};

use super::error::MeterError;

/// Returns the first line.
pub fn text(path: &Path) -> Result<String, MeterError> {
    let text = std::fs::read_to_string(path).map_err(|source| unreadable(path, source))?;
    Ok(text.lines().next().unwrap_or_default().trim().to_owned())
}

pub fn number(path: &Path) -> Result<u64, MeterError> {
    let text = text(path)?;
    text.parse().map_err(|_| MeterError::Number { path: path.to_owned(), found: text })
}

/// Returns the entries of a directory by name; none if it does not exist.
pub fn entries(dir: &Path) -> Result<Vec<PathBuf>, MeterError> {
    let read = || -> io::Result<Vec<PathBuf>> {
        std::fs::read_dir(dir)?.map(|entry| entry.map(|entry| entry.path())).collect()
    };
    match read() {
        Ok(mut paths) => {
            paths.sort();
            Ok(paths)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(unreadable(dir, error)),
    }
}

/// Returns the entries of a directory in the kernel's order, each with its inode. The list differs for another
/// directory, and after a change of entries, even with the same names. Empty if it does not exist.
pub fn listing(dir: &Path) -> Result<Vec<(OsString, u64)>, MeterError> {
    let read = || -> io::Result<Vec<(OsString, u64)>> {
        std::fs::read_dir(dir)?.map(|entry| entry.map(|entry| (entry.file_name(), entry.ino()))).collect()
    };
    match read() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        other => other.map_err(|error| unreadable(dir, error)),
    }
}

/// Returns the last part of a path; empty if the part is not UTF-8.
pub fn name(path: &Path) -> &str {
    path.file_name().and_then(|name| name.to_str()).unwrap_or_default()
}

fn unreadable(path: &Path, source: io::Error) -> MeterError {
    MeterError::Read { path: path.to_owned(), source }
}
