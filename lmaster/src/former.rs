//! Files of earlier versions whose content is now in the journal: `nodes/NAME.json`, `prices.json` and `grid.json`.
//! They are imported once, and removed when the journal has their content.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use limo_journal::NodeRow;
use serde::Deserialize;

use crate::controller::{KEPT_GRID, KEPT_PRICES};

const NODES: &str = "nodes";
const SUFFIX: &str = ".json";

/// Names of the texts, and their files.
const TEXTS: [(&str, &str); 2] = [(KEPT_PRICES, "prices.json"), (KEPT_GRID, "grid.json")];

/// The incarnation of a node.
#[derive(Deserialize)]
struct FormerIncarnation {
    instance: String,
    boot: String,
}

/// Contents and paths of the files.
#[derive(Debug, Default)]
pub struct Former {
    pub nodes: Vec<NodeRow>,
    pub kept: BTreeMap<String, String>,
    paths: Vec<PathBuf>,
}

impl Former {
    /// Reads the files of a state directory. A file that cannot be read counts as missing: jobs of an unknown
    /// incarnation are lost, and feeds and the grid report again.
    pub fn read(dir: &Path) -> Self {
        let mut former = Self::default();
        for entry in fs::read_dir(dir.join(NODES)).into_iter().flatten().flatten() {
            let path = entry.path();
            let Some(bytes) = content(&path) else { continue };
            former.paths.push(path.clone());
            let Some(name) = path.file_name().and_then(|name| name.to_str()?.strip_suffix(SUFFIX)) else { continue };
            match serde_json::from_slice(&bytes) {
                Ok(FormerIncarnation { instance, boot }) => {
                    former.nodes.push(NodeRow { name: name.to_owned(), instance, boot })
                }
                Err(error) => tracing::warn!(%error, path = %path.display(), "a node's incarnation is no longer known"),
            }
        }
        for (name, file) in TEXTS {
            let path = dir.join(file);
            let Some(bytes) = content(&path) else { continue };
            former.paths.push(path);
            if let Ok(text) = String::from_utf8(bytes) {
                former.kept.insert(name.to_owned(), text);
            }
        }
        former
    }

    pub fn is_empty(&self) -> bool {
        self.paths.is_empty()
    }

    /// Removes the files; the journal has their content.
    pub fn remove(self, dir: &Path) {
        let removed =
            self.paths.iter().try_for_each(fs::remove_file).and_then(|()| match fs::remove_dir(dir.join(NODES)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
                _ => Ok(()),
            });
        if let Err(error) = removed {
            tracing::warn!(%error, dir = %dir.display(), "files that are no longer used cannot be removed");
        }
    }
}

/// Returns the content of a file if it exists.
fn content(path: &Path) -> Option<Vec<u8>> {
    match fs::read(path) {
        Ok(bytes) => Some(bytes),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => {
            tracing::warn!(%error, path = %path.display(), "a file of an earlier program cannot be read");
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_taken_up_and_damage_is_forgetting() {
        let dir = tempfile::tempdir().expect("a directory");
        assert!(Former::read(dir.path()).is_empty());
        fs::create_dir(dir.path().join(NODES)).expect("made");
        let write = |name: &str, text: &str| fs::write(dir.path().join(name), text).expect("written");
        write("nodes/...json", r#"{"instance":"i","boot":"b"}"#);
        write("nodes/n2.json", "{\"inst");
        write("nodes/n3.tmp", "half");
        write("grid.json", "{}");
        let former = Former::read(dir.path());
        assert_eq!(former.nodes, [NodeRow { name: "..".into(), instance: "i".into(), boot: "b".into() }]);
        assert_eq!(former.kept, BTreeMap::from([(KEPT_GRID.to_owned(), "{}".to_owned())]));
        former.remove(dir.path());
        assert_eq!(fs::read_dir(dir.path()).expect("readable").count(), 0);
    }
}
