//! Reads and removes the record files of earlier daemons.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

use limo_model::{Attempt, JobId};
use limo_node::Found;
use limo_proto::decode_stored_as;

use super::{Key, SpoolError, failed, first};

/// Format of an intent or end in its own file. Format 1 can also be read: see [`first`].
const FORMAT: u8 = 2;

/// Reads the files of `attempts`; removes those without an intent.
///
/// # Errors
/// If the directory or a file in it cannot be read.
pub(super) fn read(attempts: &Path) -> Result<BTreeMap<Key, Found>, SpoolError> {
    let mut found: BTreeMap<Key, Found> = BTreeMap::new();
    let mut intents = Vec::new();
    let directory = match fs::read_dir(attempts) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(found),
        other => other.map_err(failed("read", attempts))?,
    };
    for entry in directory {
        let path = entry.map_err(failed("read", attempts))?.path();
        let Some((job, attempt, kind)) = path.file_name().and_then(|name| parse_name(name.to_str()?)) else {
            // The record is unfinished.
            let _ = fs::remove_file(&path);
            continue;
        };
        let one = found.entry((job, attempt)).or_default();
        let bytes = fs::read(&path).map_err(failed("read", &path))?;
        match kind {
            Kind::Intent => {
                intents.push((job, attempt));
                one.intent = decode_stored_as(FORMAT, &bytes).or_else(|_| first::decode(&bytes)).ok();
            }
            Kind::Going => one.going = true,
            Kind::End => one.end = decode_stored_as(FORMAT, &bytes).or_else(|_| first::decode_end(&bytes)).ok(),
        }
    }
    for key in found.keys().filter(|key| !intents.contains(key)) {
        remove(attempts, *key)?;
    }
    found.retain(|key, _| intents.contains(key));
    Ok(found)
}

/// Removes the files of an attempt.
///
/// # Errors
/// If a file exists and cannot be removed.
pub(super) fn remove(attempts: &Path, (job, attempt): Key) -> Result<(), SpoolError> {
    // The intent is removed first, because the others are ignored without it.
    for kind in ["intent", "going", "end"] {
        let path = attempts.join(format!("{job}.{attempt}.{kind}"));
        match fs::remove_file(&path) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => {
                return Err(SpoolError::Io { what: "remove", path, source });
            }
            _ => {}
        }
    }
    Ok(())
}

enum Kind {
    Intent,
    Going,
    End,
}

fn parse_name(name: &str) -> Option<(JobId, Attempt, Kind)> {
    let mut parts = name.split('.');
    let (job, attempt, kind) = (parts.next()?, parts.next()?, parts.next()?);
    let kind = match (kind, parts.next()) {
        ("intent", None) => Kind::Intent,
        ("going", None) => Kind::Going,
        ("end", None) => Kind::End,
        _ => return None,
    };
    Some((job.parse().ok()?, Attempt(attempt.parse().ok()?), kind))
}
