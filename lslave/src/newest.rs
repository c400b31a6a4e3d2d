//! The record of the newest master, in the file `newest-master` of the state directory. A node does not obey an older
//! master of the same journal, also after a restart.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use limo_files::Outlasts;
use limo_model::{Epoch, JournalId};
use limo_proto::{Identity, Newest};
use serde::{Deserialize, Serialize};
use tracing::warn;

#[derive(Serialize, Deserialize)]
struct NewestRecord {
    journal: JournalId,
    epoch: Epoch,
}

/// The newest master that this node has met.
pub struct Masters {
    path: PathBuf,
    pub newest: Newest,
}

impl Masters {
    /// Reads the record. Without a readable one, the node obeys any master.
    pub fn read(state_dir: &Path) -> Self {
        let path = state_dir.join("newest-master");
        let read = match fs::read(&path) {
            Ok(bytes) => serde_json::from_slice(&bytes).map(Some).map_err(io::Error::from),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        };
        let record = read.unwrap_or_else(|error| {
            warn!(%error, path = %path.display(), "cannot read the record of the newest master");
            None
        });
        let newest = record.map_or(Newest::default(), |NewestRecord { journal, epoch }| Newest::of(journal, epoch));
        Self { path, newest }
    }

    /// Records a master before the node obeys it.
    pub async fn meet(&mut self, identity: &Identity) {
        if !self.newest.meet(identity) {
            return;
        }
        let (path, record) = (self.path.clone(), NewestRecord { journal: identity.journal, epoch: identity.epoch });
        let written = tokio::task::spawn_blocking(move || write(&path, &record)).await.map_err(io::Error::other);
        if let Err(error) = written.and_then(|written| written) {
            // It is remembered until this daemon ends.
            warn!(%error, path = %self.path.display(), "cannot record the newest master");
        }
    }
}

fn write(path: &Path, record: &NewestRecord) -> io::Result<()> {
    let text = serde_json::to_string(record)?;
    limo_files::replace(path, 0o600, Outlasts::Crash, |file| file.write_all(text.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_restarted_node_refuses_a_master_of_a_lower_epoch() {
        let dir = tempfile::tempdir().expect("a directory");
        let master = |epoch| Identity { epoch: Epoch(epoch), ..Identity::default() };
        let mut masters = Masters::read(dir.path());
        assert_eq!(masters.newest.later_than(&master(1)), None);
        masters.meet(&master(4)).await;
        let again = Masters::read(dir.path());
        assert_eq!(again.newest.later_than(&master(3)), Some(Epoch(4)));
        fs::write(dir.path().join("newest-master"), "{").expect("written");
        assert_eq!(Masters::read(dir.path()).newest, Newest::default());
    }
}
