//! A backup of the state directory: copies of its files at one instant. The copies are open files without names, so
//! they vanish when they are dropped or the process ends.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt};
use std::path::Path;

use anyhow::{Context, Result};
use limo_journal::Journal;
use limo_profiles::ProfileDb;
use limo_proto::{BACKUP_PART, BackupFile, BackupReport};

/// Directory of the copies. Like the whole state directory, only the master's user can access it.
const DIR: &str = "backup";

/// The copies.
#[derive(Debug)]
pub struct Copies {
    files: Vec<(BackupFile, File)>,
}

/// Removes the remains of an unfinished backup of an earlier process.
pub fn clean(state_dir: &Path) {
    let dir = state_dir.join(DIR);
    if let Err(error) = fs::remove_dir_all(&dir)
        && error.kind() != io::ErrorKind::NotFound
    {
        tracing::warn!(%error, dir = %dir.display(), "cannot remove the remains of a backup");
    }
}

impl Copies {
    /// Copies the journal, then the profiles. A master that opens the copies creates the other files again.
    ///
    /// # Errors
    /// If the disk is full, or a file cannot be copied. No copy remains then.
    pub async fn make(state_dir: &Path, journal: &Journal, profiles: &ProfileDb) -> Result<Self> {
        clean(state_dir);
        let made = Self::make_in(state_dir, journal, profiles).await;
        // Open files stay readable without their names.
        clean(state_dir);
        made
    }

    async fn make_in(state_dir: &Path, journal: &Journal, profiles: &ProfileDb) -> Result<Self> {
        let dir = state_dir.join(DIR);
        DirBuilder::new().mode(0o700).create(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
        let mut files = Vec::new();
        journal.backup(&dir.join("journal.db")).await?;
        files.push(opened(&dir, "journal.db")?);
        profiles.backup(&dir.join("profiles.db")).await?;
        files.push(opened(&dir, "profiles.db")?);
        Ok(Self { files })
    }

    pub fn report(&self) -> BackupReport {
        let files = self.files.iter().map(|(file, _)| file.clone()).collect();
        let (uid, gid) = (nix::unistd::geteuid().as_raw(), nix::unistd::getegid().as_raw());
        BackupReport { files, uid, gid }
    }

    /// Returns bytes of a file from `offset` on: one part, or the remaining bytes.
    ///
    /// # Errors
    /// If the file or the offset does not exist, or the file cannot be read.
    pub fn part(&self, file: u32, offset: u64) -> Result<Vec<u8>> {
        let (of, file) = self.files.get(file as usize).with_context(|| format!("the backup has no file {file}"))?;
        let left = of.bytes.checked_sub(offset).with_context(|| format!("{} has no byte {offset}", of.name))?;
        let mut bytes = vec![0; usize::try_from(left.min(BACKUP_PART)).unwrap_or_default()];
        file.read_exact_at(&mut bytes, offset).with_context(|| format!("cannot read the copy of {}", of.name))?;
        Ok(bytes)
    }
}

fn opened(dir: &Path, name: &str) -> Result<(BackupFile, File)> {
    let path = dir.join(name);
    let file = File::open(&path).with_context(|| format!("cannot open {}", path.display()))?;
    let bytes = file.metadata().with_context(|| format!("cannot inspect {}", path.display()))?.len();
    Ok((BackupFile { name: name.to_owned(), bytes }, file))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn a_large_file_comes_in_parts() {
        let dir = tempfile::tempdir().expect("a directory");
        let content: Vec<u8> = (0..2 * BACKUP_PART + 7).map(|at| (at.wrapping_mul(0x9e37_79b9) >> 24) as u8).collect();
        File::create(dir.path().join("journal.db")).expect("made").write_all(&content).expect("written");
        let copies = Copies { files: vec![opened(dir.path(), "journal.db").expect("there")] };
        let part = |offset: u64| copies.part(0, offset);
        let parts: Vec<Vec<u8>> = [0, BACKUP_PART, 2 * BACKUP_PART].map(|at| part(at).expect("readable")).into();
        let sizes: Vec<u64> = parts.iter().map(|part| part.len() as u64).collect();
        assert_eq!((sizes, parts.concat() == content), (vec![BACKUP_PART, BACKUP_PART, 7], true));
        assert!(part(2 * BACKUP_PART + 7).expect("its end").is_empty());
        let beyond = part(2 * BACKUP_PART + 8).expect_err("beyond").to_string();
        assert_eq!(beyond, format!("journal.db has no byte {}", 2 * BACKUP_PART + 8));
        assert_eq!(copies.part(1, 0).expect_err("one file").to_string(), "the backup has no file 1");
    }
}
