//! What is remembered of nodes beside the journal: the life in which each got its last assignments. One small file for
//! each node in DIR/nodes, durable before the node gets an assignment in that life. Losing one is safe: what may have
//! been started in an unknown life counts as lost.

use std::collections::HashMap;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::desk::Life;
use crate::whole;

/// A name of a node may be `..`; with this it is a file.
const SUFFIX: &str = ".json";

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    instance: String,
    boot: String,
}

pub struct Lives {
    dir: PathBuf,
}

impl Lives {
    /// Opens the directory and reads what is in it. A file that cannot be read is as good as none.
    ///
    /// # Errors
    /// Where the directory cannot be made or read.
    pub fn open(state_dir: &Path) -> Result<(Self, HashMap<String, Life>)> {
        let dir = state_dir.join("nodes");
        let place = || format!("cannot use {}", dir.display());
        DirBuilder::new().recursive(true).mode(0o700).create(&dir).with_context(place)?;
        let mut lives = HashMap::new();
        for entry in fs::read_dir(&dir).with_context(place)? {
            let path = entry.with_context(place)?.path();
            let Some(name) = path.file_name().and_then(|name| name.to_str()?.strip_suffix(SUFFIX)) else { continue };
            let stored = fs::read(&path).map(|bytes| serde_json::from_slice::<Stored>(&bytes));
            match stored {
                Ok(Ok(Stored { instance, boot })) => drop(lives.insert(name.to_owned(), Life { instance, boot })),
                Ok(Err(error)) => tracing::warn!(%error, path = %path.display(), "a node's life is not known any more"),
                Err(error) => tracing::warn!(%error, path = %path.display(), "a node's life is not known any more"),
            }
        }
        Ok((Self { dir }, lives))
    }

    /// Remembers the life of a node; durable when this returns.
    ///
    /// # Errors
    /// Where it cannot be written; the life before may then still be remembered.
    pub fn remember(&self, node: &str, life: &Life) -> io::Result<()> {
        let stored = Stored { instance: life.instance.clone(), boot: life.boot.clone() };
        whole::replace(&self.dir.join(format!("{node}{SUFFIX}")), &serde_json::to_vec(&stored)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lives_outlast_the_process_and_damage_is_forgetting() {
        let dir = tempfile::tempdir().expect("a directory");
        let (lives, known) = Lives::open(dir.path()).expect("writable");
        assert!(known.is_empty());
        let life = |boot: &str| Life { instance: "i".into(), boot: boot.into() };
        for (node, boot) in [("n1", "old"), ("..", "b"), ("n1", "new"), ("n2", "b")] {
            lives.remember(node, &life(boot)).expect("writable");
        }
        fs::write(dir.path().join("nodes/n2.json"), "{\"inst").expect("writable");
        let (_, known) = Lives::open(dir.path()).expect("readable");
        assert_eq!(known, HashMap::from([("n1".into(), life("new")), ("..".into(), life("b"))]));
    }
}
