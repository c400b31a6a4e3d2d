//! What feeds told, kept over restarts: one small file, `prices.json`, in the state directory.
//!
//! A file and not a table of the journal: all of it is some hundred slots, read once and written whole about once an hour;
//! the prices that hold are in the journal anyway, as events. It is replaced in one step, and what cannot be read is as good
//! as nothing, since the feeds tell it again.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::whole;

const FILE: &str = "prices.json";

/// A later form of the file has another number.
const FORM: u32 = 1;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    form: u32,
    /// By [`key`].
    feeds: BTreeMap<String, Value>,
}

/// The file.
pub struct Kept {
    path: PathBuf,
    feeds: BTreeMap<String, Value>,
    /// Whether the last attempt to write it failed: said once.
    failing: bool,
}

/// What a feed is known by: slots of another currency are not its own.
pub fn key(kind: &str, name: &str, currency: &str) -> String {
    format!("{kind} {name} in {currency}")
}

impl Kept {
    /// Reads the file of a state directory, where there is one.
    pub fn open(state_dir: &Path) -> Self {
        let path = state_dir.join(FILE);
        let feeds = match read(&path) {
            Ok(feeds) => feeds,
            Err(error) => {
                tracing::warn!(%error, path = %path.display(), "what the feeds told before is not known any more");
                BTreeMap::new()
            }
        };
        Self { path, feeds, failing: false }
    }

    pub fn of(&self, key: &str) -> Option<Value> {
        self.feeds.get(key).cloned()
    }

    /// Replaces the file where something in it has changed; durable when this returns. A failure is logged once.
    pub fn keep(&mut self, feeds: BTreeMap<String, Value>) {
        if feeds == self.feeds && !self.failing {
            return;
        }
        self.feeds = feeds;
        let failed = self.failing;
        let written = self.write();
        self.failing = written.is_err();
        match (written, failed) {
            (Ok(()), true) => tracing::info!(path = %self.path.display(), "what the feeds tell is kept again"),
            (Err(error), false) => {
                tracing::warn!(%error, path = %self.path.display(), "what the feeds tell is not kept over a restart");
            }
            (Ok(()), false) | (Err(_), true) => {}
        }
    }

    fn write(&self) -> io::Result<()> {
        let bytes = serde_json::to_vec(&Stored { form: FORM, feeds: self.feeds.clone() })?;
        whole::replace(&self.path, &bytes)
    }
}

fn read(path: &Path) -> io::Result<BTreeMap<String, Value>> {
    let bytes = match fs::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
        other => other?,
    };
    let stored: Stored = serde_json::from_slice(&bytes)?;
    if stored.form != FORM {
        let reason = format!("its form is {}: this program reads form {FORM}", stored.form);
        return Err(io::Error::new(io::ErrorKind::InvalidData, reason));
    }
    Ok(stored.feeds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_kept_is_there_again_and_damage_is_forgetting() {
        let dir = tempfile::tempdir().expect("a directory");
        let key = key("price", "awattar DE", "EUR");
        let feeds = || BTreeMap::from([(key.clone(), serde_json::json!([1]))]);
        let mut kept = Kept::open(dir.path());
        assert_eq!(kept.of(&key), None);
        kept.keep(feeds());
        assert_eq!(Kept::open(dir.path()).of(&key), Some(serde_json::json!([1])));
        for wrong in ["{\"form\":1,\"fee", "{\"form\":2,\"feeds\":{}}", "[]", "\u{0}"] {
            fs::write(dir.path().join(FILE), wrong).expect("writable");
            assert_eq!(Kept::open(dir.path()).of(&key), None, "{wrong}");
        }
    }

    #[test]
    fn a_failure_is_made_good_by_the_next_attempt() {
        let dir = tempfile::tempdir().expect("a directory");
        let state = dir.path().join("later");
        let mut kept = Kept::open(&state);
        kept.keep(BTreeMap::from([("a".into(), Value::Null)]));
        assert!(kept.failing);
        fs::create_dir(&state).expect("writable");
        kept.keep(BTreeMap::from([("a".into(), Value::Null)]));
        assert!(!kept.failing && Kept::open(&state).of("a") == Some(Value::Null));
    }
}
