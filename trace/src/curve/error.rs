//! Errors of a curve's file, with file, line and column.

use std::io;

use limo_model::CurrencyError;
use thiserror::Error;

/// Reason why a file is not a curve.
#[derive(Debug, Error)]
#[expect(missing_docs, reason = "the messages say what each variant is")]
pub enum CurveFileError {
    #[error("{file}: the file cannot be opened")]
    Open { file: String, source: io::Error },
    #[error("{file}:{line}: reading failed")]
    Read { file: String, line: u64, source: io::Error },
    #[error("{file}:{line}: the gzip stream is truncated: fetch the file again")]
    Truncated { file: String, line: u64 },
    #[error("{file}:{line}: the line has more than {} bytes", crate::input::LINE_LIMIT)]
    LongLine { file: String, line: u64 },
    #[error("{file}: the file has no row with a value")]
    Empty { file: String },
    #[error("{file}:{line}: the columns are `{found}`: write `{wanted}`")]
    Columns { file: String, line: u64, found: String, wanted: String },
    #[error("{file}:{line}: {source}")]
    Currency { file: String, line: u64, source: CurrencyError },
    #[error("{file}:{line}: the row has {found} cells, but the header has {wanted}")]
    Cells { file: String, line: u64, found: usize, wanted: usize },
    #[error("{file}:{line}:{column}: {name} is `{value}`: {reason}")]
    Value { file: String, line: u64, column: usize, name: String, value: String, reason: String },
}
