//! Output file that is written row by row through a buffer.
//!
//! Independent of columns. Errors name the file.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use super::line::LineBuffer;
use crate::record::WriteError;

/// Size of a write, in bytes. Measured: larger writes are not faster, and leave the cache.
const PIECE: usize = 64 * 1024;

#[derive(Debug)]
pub struct Sheet {
    path: PathBuf,
    file: File,
    line: LineBuffer,
}

impl Sheet {
    /// Creates or overwrites a file, and writes its row of column names.
    pub fn create(path: &Path, columns: &str) -> Result<Self, WriteError> {
        let file = File::create(path).map_err(|source| WriteError::new(path, source))?;
        let mut line = LineBuffer::with_capacity(PIECE + PIECE / 4);
        line.raw(columns.as_bytes());
        line.byte(b'\n');
        Ok(Self { path: path.to_owned(), file, line })
    }

    /// Returns the buffer for the next row.
    pub fn line(&mut self) -> &mut LineBuffer {
        &mut self.line
    }

    /// Ends the row.
    pub fn end_row(&mut self) -> Result<(), WriteError> {
        self.line.byte(b'\n');
        if self.line.len() >= PIECE { self.flush() } else { Ok(()) }
    }

    /// Writes the buffer; the file is complete only after this.
    pub fn flush(&mut self) -> Result<(), WriteError> {
        let written = self.file.write_all(self.line.bytes());
        self.line.clear();
        written.map_err(|source| WriteError::new(&self.path, source))
    }
}

#[cfg(test)]
mod tests {
    use limo_requirements::{Requirement, skip};

    use super::*;

    #[test]
    fn a_full_disk_is_named_with_its_file() {
        let full = Path::new("/dev/full");
        if !full.exists() {
            return skip(Requirement::Platform, "there is no /dev/full");
        }
        let mut sheet = Sheet::create(full, "a,b").expect("opens");
        let error = sheet.flush().expect_err("no space").to_string();
        assert!(error.starts_with("cannot write /dev/full: ") && error.contains("--out"), "{error}");
    }

    #[test]
    fn a_full_disk_is_met_before_the_end() {
        let full = Path::new("/dev/full");
        if !full.exists() {
            return skip(Requirement::Platform, "there is no /dev/full");
        }
        let mut sheet = Sheet::create(full, "a,b").expect("opens");
        let row = [b'x'; 1000];
        let failed = (0..100).find(|_| {
            sheet.line().raw(&row);
            sheet.end_row().is_err()
        });
        // The header is 4 bytes and a row 1,001, so the 66th row passes 65,536.
        assert_eq!(failed, Some(65));
    }
}
