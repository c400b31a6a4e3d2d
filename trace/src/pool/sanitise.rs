//! Histories and event logs without what only their owners may know: numbers of an allow-list of attributes, and
//! pseudonyms in place of its texts.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::attribute::Attribute;
use super::clock::PoolClock;
use super::error::PoolError;
use super::prepared;
use super::pseudonym::Pseudonyms;
use super::reader::RecordReader;
use super::record::{PoolRecord, Slot};

/// Writes the records of all files in the form of `condor_history -long`, and returns their number. The form can be
/// imported, also for event logs.
///
/// # Errors
/// [`PoolError`] if a file cannot be read or written; an earlier file of that name is then unchanged.
pub fn sanitise(
    files: &[PathBuf],
    output: &Path,
    pseudonyms: &Pseudonyms,
    mut clock: PoolClock,
) -> Result<u64, PoolError> {
    let mut records = 0;
    prepared::file(output, |out| {
        let mut record = PoolRecord::default();
        for file in files {
            let mut reader = RecordReader::open(file)?;
            while reader.advance(&mut record, &mut clock)? {
                let written = write(&record, pseudonyms, out);
                written.map_err(|source| PoolError::Write { file: output.display().to_string(), source })?;
                records += 1;
            }
        }
        Ok(())
    })?;
    Ok(records)
}

/// Writes what may be known of a record. Nothing is copied: a number is written again, and a text is replaced.
fn write(record: &PoolRecord, pseudonyms: &Pseudonyms, out: &mut dyn Write) -> io::Result<()> {
    for attribute in Attribute::ALL {
        let name = attribute.name();
        match record.slot(*attribute) {
            Slot::Number(value) => writeln!(out, "{name} = {value}")?,
            Slot::Text(..) => {
                let text = record.text(*attribute).unwrap_or_default();
                writeln!(out, "{name} = \"{}\"", pseudonyms.of(text))?;
            }
            Slot::Missing | Slot::Mistyped => {}
        }
    }
    out.write_all(b"\n")
}
