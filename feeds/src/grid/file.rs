//! A file of limits that somebody else writes, in TOML where its name ends in `.toml`, else in JSON. It is looked at again
//! and again, and taken when it was the same at two looks, so that half a file is not taken for a whole one. What cannot
//! be understood is reported, and changes nothing. Each change of its content or its time of modification is a word: a
//! writer that is watched by a heartbeat touches it.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::document;
use super::limit::{Limit, Word};
use super::teller::Teller;
use crate::fetch::now;
use crate::file::read;

/// A thousand limits are a fifth of it.
const SIZE_LIMIT: usize = 1 << 20;

/// Where the file is, and the pause between two looks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Watched {
    /// Of the file; it may be missing.
    pub path: PathBuf,
    /// Between two looks; positive.
    pub poll: Duration,
}

/// What a look found.
#[derive(Debug, PartialEq, Eq)]
enum Look {
    Found { bytes: Vec<u8>, modified: Option<SystemTime> },
    Failed(String),
}

/// What is known of the file from looks before.
#[derive(Debug, Default)]
struct Memory {
    last: Option<Look>,
    /// Whether what was last seen has been told.
    told: bool,
    /// The last bytes that were understood, and what they say.
    understood: Option<(Vec<u8>, Vec<Limit>)>,
}

/// Looks until nobody listens.
pub async fn run(watched: Watched, teller: Teller) {
    let mut memory = Memory::default();
    loop {
        let path = watched.path.clone();
        // Ends in an error only where the runtime does.
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
    /// What is to be told after this look.
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
        // What was only touched says the same, and began when it was first read.
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
