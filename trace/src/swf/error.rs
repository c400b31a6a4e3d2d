//! Errors of a workload file, with file, line and field.

use std::io;

use thiserror::Error;

use super::record::{FIELDS, Field, LineFault};
use crate::input::{self, LINE_LIMIT};

/// Reason why a file is not in the Standard Workload Format.
#[derive(Debug, Error)]
#[expect(missing_docs, reason = "the messages say what each variant is")]
pub enum SwfError {
    #[error("{file}: the file cannot be opened")]
    Open { file: String, source: io::Error },
    #[error("{file}:{line}: reading failed")]
    Read { file: String, line: u64, source: io::Error },
    #[error("{file}:{line}: the gzip stream is truncated: fetch the file again")]
    Truncated { file: String, line: u64 },
    #[error("{file}:{line}: this is not text (`{value}`): a workload must be plain or gzipped text")]
    Binary { file: String, line: u64, value: String },
    #[error("{file}:{line}: the line has more than {LINE_LIMIT} bytes")]
    LongLine { file: String, line: u64 },
    #[error("{file}:{line}: field {} ({}) is `{value}`: that is not a number", field.number(), field.name())]
    NoNumber { file: String, line: u64, field: Field, value: String },
    #[error("{file}:{line}: field {} ({}) is `{value}`: that is out of range ({limits})", field.number(), field.name())]
    OutOfRange { file: String, line: u64, field: Field, value: String, limits: &'static str },
    #[error("{file}:{line}: the line has {fields} of {FIELDS} fields; the next is {} ({}): write -1 for unknown", fields + 1, Field::ALL[(*fields).min(FIELDS - 1)].name())]
    Missing { file: String, line: u64, fields: usize },
    #[error("{file}:{line}: `{value}` follows the {FIELDS} fields of the line")]
    Extra { file: String, line: u64, value: String },
    #[error("{file}: the file has no usable job ({lines} lines with jobs, {dropped} left out)")]
    NoJobs { file: String, lines: u64, dropped: u64 },
}

impl SwfError {
    pub(super) fn of_line(file: &str, line: u64, text: &[u8], fault: LineFault<'_>) -> Self {
        let file = file.to_owned();
        // A line with control characters is a sign of another file format, and not of a mistyped number.
        if let Some(at) =
            text.iter().position(|byte| (*byte < b' ' && *byte != b'\t' && *byte != b'\r') || *byte == 0x7f)
        {
            let from = at.saturating_sub(8);
            return Self::Binary { file, line, value: input::shown(&text[from..text.len().min(from + 16)]) };
        }
        match fault {
            LineFault::NoNumber { field, value } => Self::NoNumber { file, line, field, value: input::shown(value) },
            LineFault::OutOfRange { field, value } => {
                let limits = "at most 9223372036854775 either way";
                Self::OutOfRange { file, line, field, value: input::shown(value), limits }
            }
            LineFault::Missing { fields } => Self::Missing { file, line, fields },
            LineFault::Extra { value } => Self::Extra { file, line, value: input::shown(value) },
        }
    }

    pub(super) fn of_input(file: &str, line: u64, fault: input::InputFault) -> Self {
        let file = file.to_owned();
        match fault {
            input::InputFault::Truncated => Self::Truncated { file, line },
            input::InputFault::Long => Self::LongLine { file, line },
            input::InputFault::Io(source) => Self::Read { file, line, source },
        }
    }
}

/// Reason why a workload could not be written. No file with the requested name is left.
#[derive(Debug, Error)]
#[error("{file}: writing failed")]
pub struct WriteError {
    /// Requested name.
    pub file: String,
    /// Error of the system.
    pub source: io::Error,
}
