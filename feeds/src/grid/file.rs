//! File of limits that another program writes, in TOML if its name ends in `.toml`, else in JSON. It is polled, and
//! accepted after two equal reads, so that an incomplete file is not accepted. An invalid file is reported, and changes
//! nothing. Each change of its content or its modification time is a message: a writer with a heartbeat touches it.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::document;
use super::limit::{Limit, Word};
use super::teller::Teller;
use crate::fetch::now;
use crate::file::read;

/// Most bytes; a thousand limits need a fifth of this.
const SIZE_LIMIT: usize = 1 << 20;

/// File and its polling interval.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Watched {
    /// Path of the file, which may be missing.
    pub path: PathBuf,
    /// Interval between reads; positive.
    pub poll: Duration,
}

/// Result of a read.
#[derive(Debug, PartialEq, Eq)]
enum Look {
    Found { bytes: Vec<u8>, modified: Option<SystemTime> },
    Failed(String),
}

/// State of the file from earlier reads.
#[derive(Debug, Default)]
struct Memory {
    last: Option<Look>,
    /// True if the last content has been reported.
    told: bool,
    /// Last valid bytes, and their limits.
    understood: Option<(Vec<u8>, Vec<Limit>)>,
}

/// Polls until the receiver is closed.
pub async fn run(watched: Watched, teller: Teller) {
    let mut memory = Memory::default();
    loop {
        let path = watched.path.clone();
        // Fails only if the runtime ends.
        let Ok(look) = tokio::task::spawn_blocking(move || look(&path)).await else { return };
        if let Some(word) = memory.word(look, &watched.path)
            && teller.tell(word).await.is_err()
        {
            return;
        }
        tokio::time::sleep(watched.poll).await;
    }
}

fn look(path: &Path) -> Look {
    match read(path, SIZE_LIMIT) {
        Ok((bytes, metadata)) => Look::Found { bytes, modified: metadata.modified().ok() },
        Err(error) => Look::Failed(error.to_string()),
    }
}

impl Memory {
    /// Returns the message after this read.
    fn word(&mut self, look: Look, path: &Path) -> Option<Word> {
        if self.last.as_ref() != Some(&look) {
            self.last = Some(look);
            self.told = false;
            return None;
        }
        if std::mem::replace(&mut self.told, true) {
            return None;
        }
        let bytes = match look {
            Look::Failed(reason) => return Some(Word::Fault(reason)),
            Look::Found { bytes, .. } => bytes,
        };
        // A touched file with the same content keeps the time of its first read.
        if let Some((_, limits)) = self.understood.as_ref().filter(|(known, _)| *known == bytes) {
            return Some(Word::Limits(limits.clone()));
        }
        let toml = path.extension().is_some_and(|extension| extension == "toml");
        let parse = if toml { document::from_toml } else { document::from_json };
        Some(match parse(&bytes, now()) {
            Ok(limits) => {
                self.understood = Some((bytes, limits.clone()));
                Word::Limits(limits)
            }
            Err(error) => Word::Fault(format!("{}: {error}", path.display())),
        })
    }
}
