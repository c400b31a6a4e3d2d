//! A backup on its way from the master to an operator's client, which requests one part after the other.

use serde::{Deserialize, Serialize};

/// Most bytes in one part, well below the limit of a frame.
pub const BACKUP_PART: u64 = 256 << 10;

/// The files of a backup. The master keeps them until the connection that requested them ends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackupReport {
    /// Files in the order of the archive.
    pub files: Vec<BackupFile>,
    /// User and group that run the master.
    pub uid: u32,
    /// See [`BackupReport::uid`].
    pub gid: u32,
}

/// Bytes of the journal's file and its write-ahead log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct JournalSizes {
    /// Sizes at the beginning of the compaction.
    pub before: u64,
    /// Sizes at its end.
    pub after: u64,
}

/// A file of the state directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackupFile {
    /// Path in the state directory.
    pub name: String,
    /// Size; does not change while the backup is kept.
    pub bytes: u64,
}
