//! Small files that are kept over restarts: replaced in one step, so that each is there whole, as it is now or as it was.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

/// Replaces the file at `path`; durable when this returns. Its neighbour with the extension `tmp` is overwritten.
///
/// # Errors
/// Where it cannot be written; what was there before then still is, or is already replaced but perhaps not durable.
pub fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let unfinished = path.with_extension("tmp");
    let mut file = File::create(&unfinished)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&unfinished, path)?;
    File::open(path.parent().unwrap_or(Path::new("/")))?.sync_all()
}
