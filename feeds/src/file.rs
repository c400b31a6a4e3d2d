//! Reads files of this machine: only regular files, since opening a pipe would wait for its writer, and only up to a
//! limit.

use std::fs::{File, Metadata};
use std::io::Read;
use std::path::{Path, PathBuf};

use thiserror::Error;

/// Reason why a file cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[expect(missing_docs, reason = "the messages say what each variant is")]
pub enum FileError {
    #[error("cannot read {}: {reason}", path.display())]
    Read { path: PathBuf, reason: String },
    #[error("{} is not a regular file", path.display())]
    Kind { path: PathBuf },
    #[error("{} is longer than {limit} bytes", path.display())]
    Size { path: PathBuf, limit: usize },
}

/// Returns the bytes of a regular file, at most `limit`, and its metadata.
///
/// # Errors
/// [`FileError`].
pub fn read(path: &Path, limit: usize) -> Result<(Vec<u8>, Metadata), FileError> {
    let unreadable = |error: std::io::Error| FileError::Read { path: path.to_owned(), reason: error.to_string() };
    // Checked first, because opening a pipe would wait.
    if !std::fs::metadata(path).map_err(unreadable)?.is_file() {
        return Err(FileError::Kind { path: path.to_owned() });
    }
    let file = File::open(path).map_err(unreadable)?;
    let metadata = file.metadata().map_err(unreadable)?;
    let mut bytes = Vec::new();
    file.take(limit as u64 + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() > limit { Err(FileError::Size { path: path.to_owned(), limit }) } else { Ok((bytes, metadata)) }
}
