//! A backup on its way from the master to an operator, who asks for one part after the other.

use serde::{Deserialize, Serialize};

/// Most bytes in one part: well below what one frame takes.
pub const BACKUP_PART: u64 = 256 << 10;

/// The files of a backup. The master keeps them for as long as the connection lasts on which they were asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackupReport {
    /// In the order in which an archive has them.
    pub files: Vec<BackupFile>,
    /// User and group that run the master.
    pub uid: u32,
    /// See [`BackupReport::uid`].
    pub gid: u32,
}

/// Bytes of the journal's file and its write-ahead log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct JournalSizes {
    /// When the compaction began.
    pub before: u64,
    /// When it ended.
    pub after: u64,
}

/// One file of the state directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackupFile {
    /// Its path in the state directory.
    pub name: String,
    /// Its size; it does not change while the backup is kept.
    pub bytes: u64,
}
