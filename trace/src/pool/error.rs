//! Errors of the files of a pool, with file and line.

use std::io;

use thiserror::Error;

use super::{ATTRIBUTE_LIMIT, NAME_LIMIT, OPEN_LIMIT, RECORD_LIMIT};
use crate::input::InputFault;

/// Reason why a file of a pool cannot be read or written.
#[derive(Debug, Error)]
#[expect(missing_docs, reason = "the messages say what each variant is")]
pub enum PoolError {
    #[error("{file}: the file cannot be opened")]
    Open { file: String, source: io::Error },
    #[error("{file}:{line}: reading failed")]
    Read { file: String, line: u64, source: io::Error },
    #[error("{file}:{line}: the gzip stream is truncated: fetch the file again")]
    Truncated { file: String, line: u64 },
    #[error("{file}:{line}: the record that begins here has no end: the file is truncated")]
    NoEnd { file: String, line: u64 },
    #[error("{file}:{line}: the line has more than {RECORD_LIMIT} bytes")]
    LongLine { file: String, line: u64 },
    #[error("{file}:{line}: the record that begins here has more than {RECORD_LIMIT} bytes")]
    LongRecord { file: String, line: u64 },
    #[error("{file}:{line}: the record that begins here has more than {ATTRIBUTE_LIMIT} attributes")]
    Attributes { file: String, line: u64 },
    #[error(
        "{file}:{line}: `{value}` begins neither a history (`Name = value`, XML, JSON) nor an event log of HTCondor"
    )]
    Form { file: String, line: u64, value: String },
    #[error("{file}:{line}: `{value}` stands between two records")]
    Between { file: String, line: u64, value: String },
    #[error("{file}:{line}: the record that begins here is wrong: {reason}")]
    Record { file: String, line: u64, reason: String },
    #[error("{file}:{line}: `{value}` does not begin an event: expected `000 (1.0.0) 2010-01-31 12:00:00 ...`")]
    Event { file: String, line: u64, value: String },
    #[error("{file}:{line}: the time `{value}` has no year: give that of the first event with --year")]
    NoYear { file: String, line: u64, value: String },
    #[error("{file}:{line}: more than {OPEN_LIMIT} jobs are submitted and have not ended: import fewer files at once")]
    OpenJobs { file: String, line: u64 },
    #[error("{file}: the first line is `{value}`: expected `{wanted}`")]
    Head { file: String, value: String, wanted: &'static str },
    #[error("{file}:{line}: the line has {found} cells, but needs {wanted}")]
    Cells { file: String, line: u64, found: usize, wanted: &'static str },
    #[error("{file}:{line}: {name} is `{value}`: {reason}")]
    Cell { file: String, line: u64, name: &'static str, value: String, reason: String },
    #[error("{file}:{line}: more than {limit} {what}: import fewer files at once")]
    TooMany { file: String, line: u64, what: &'static str, limit: usize },
    #[error("a file for sorting cannot be used (in TMPDIR)")]
    Sorting { source: io::Error },
    #[error("{file}: writing failed")]
    Write { file: String, source: io::Error },
    #[error("{file}: the salt has {found} bytes, but needs 16 to 4096: make one with `head -c 32 /dev/urandom`")]
    Salt { file: String, found: usize },
}

impl PoolError {
    pub(super) fn of_input(file: &str, line: u64, fault: InputFault) -> Self {
        let file = file.to_owned();
        match fault {
            InputFault::Truncated => Self::Truncated { file, line },
            InputFault::Long => Self::LongLine { file, line },
            InputFault::Io(source) => Self::Read { file, line, source },
        }
    }

    /// Makes the error of a name that is too long.
    pub(super) fn long_name(file: &str, line: u64, name: &'static str, value: &[u8]) -> Self {
        let reason = format!("it has more than {NAME_LIMIT} bytes");
        Self::Cell { file: file.to_owned(), line, name, value: crate::input::shown(value), reason }
    }
}
