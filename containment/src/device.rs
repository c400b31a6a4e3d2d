//! Files of control groups. Their content is not trusted: reads are bounded, and errors name the file and the value.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::Path;

use crate::error::{ContainError, failed};

/// Most bytes of a file. The longest is a list of processes, with up to 8 bytes for each.
const LONGEST: usize = 4 << 20;

/// Most characters of a value in an error.
const SHOWN: usize = 64;

/// Reads a file; `None` if it does not exist.
///
/// # Errors
/// If it cannot be read, is too long or is not UTF-8.
pub fn read(path: &Path) -> Result<Option<String>, ContainError> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed("read", path)(error)),
    };
    bounded(file, LONGEST, path).map(Some)
}

fn bounded(file: impl Read, limit: usize, path: &Path) -> Result<String, ContainError> {
    let mut text = String::new();
    match file.take(limit as u64 + 1).read_to_string(&mut text) {
        Ok(length) if length > limit => Err(ContainError::TooLong { path: path.to_owned(), limit }),
        Ok(_) => Ok(text),
        // A group that is removed while its file is open.
        Err(error) if error.raw_os_error() == Some(nix::libc::ENODEV) => Ok(String::new()),
        Err(error) => Err(failed("read", path)(error)),
    }
}

/// Writes a value in one call; returns false if the file does not exist.
///
/// # Errors
/// If the kernel refuses the value.
pub fn write(path: &Path, value: &str) -> Result<bool, ContainError> {
    let refused = |source| ContainError::Write { path: path.to_owned(), value: value.to_owned(), source };
    match OpenOptions::new().write(true).open(path) {
        Ok(mut file) => file.write_all(value.as_bytes()).map(|()| true).map_err(refused),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(refused(error)),
    }
}

/// Writes a value to a file that must exist.
///
/// # Errors
/// If it does not exist, or the kernel refuses the value.
pub fn set(path: &Path, value: &str) -> Result<(), ContainError> {
    match write(path, value)? {
        true => Ok(()),
        false => {
            let source = io::ErrorKind::NotFound.into();
            Err(ContainError::Write { path: path.to_owned(), value: value.to_owned(), source })
        }
    }
}

/// Parses a number.
///
/// # Errors
/// If it is none; names the file and the value.
pub fn number(path: &Path, what: &'static str, text: &str) -> Result<u64, ContainError> {
    let value = || text.trim().chars().take(SHOWN).collect();
    text.trim().parse().map_err(|_| ContainError::Number { path: path.to_owned(), what, value: value() })
}

/// Returns the number after a word at the beginning of a line.
///
/// # Errors
/// If the line or its number is missing.
pub fn entry(path: &Path, text: &str, what: &'static str) -> Result<u64, ContainError> {
    let line = text.lines().find_map(|line| line.strip_prefix(what)?.strip_prefix(' '));
    number(path, what, line.ok_or_else(|| ContainError::Missing { path: path.to_owned(), what })?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_bounded_and_errors_name_file_and_value() {
        let path = Path::new("/cg/cpu.stat");
        let text = "usage_usec 12\nuser_usec x\n";
        assert_eq!(entry(path, text, "usage_usec").expect("a number"), 12);
        let check = |error: Result<u64, ContainError>, expected: &str| {
            assert_eq!(error.expect_err("refused").to_string(), expected);
        };
        check(entry(path, text, "user_usec"), "/cg/cpu.stat has `x` for user_usec: a whole number is needed");
        check(entry(path, text, "system_usec"), "/cg/cpu.stat has no `system_usec`");
        let long = "9".repeat(100);
        let shown = "9".repeat(64);
        check(number(path, "n", &long), &format!("/cg/cpu.stat has `{shown}` for n: a whole number is needed"));
        assert_eq!(bounded(&b"12345"[..], 5, path).expect("as long as allowed"), "12345");
        let refused = bounded(&b"123456"[..], 5, path).expect_err("too long").to_string();
        assert_eq!(refused, "/cg/cpu.stat has more than 5 bytes");
    }
}
