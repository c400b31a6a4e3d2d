//! Digest of a file, to notice that it has changed.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use limo_model::Digest;

/// Digests a file's bytes.
///
/// # Errors
/// The errors of reading.
pub fn of_file(path: &Path) -> io::Result<Digest> {
    let (mut file, mut piece, mut digest) = (File::open(path)?, vec![0; 1 << 16], Digest::new());
    loop {
        match file.read(&mut piece)? {
            0 => return Ok(digest),
            count => digest = digest.with(&piece[..count]),
        }
    }
}
