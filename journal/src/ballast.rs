//! A file that only occupies space. When the disk is full it is deleted, so that the ends of running jobs can still be
//! written. While it is missing, the master accepts no new jobs. Other modules decide both.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

use crate::directory::{free_bytes, space};
use crate::error::{BallastError, NoRoom};

/// Size of the ballast in bytes. The end of a job takes about 2 KiB of journal, and SQLite writes a page again for each
/// commit. 1 MiB has space for the ends of some hundred jobs, or for one commit of 200 pages.
pub const BALLAST_BYTES: u64 = 1 << 20;

/// Free space that is required before the ballast is written, so that some remains.
const ROOM_NEEDED: u64 = 2 * BALLAST_BYTES;

/// Free space that new jobs need, or an eighth of the file system if that is less. Several batches of large
/// submissions may be queued before the first one is refused.
const ROOM_FOR_JOBS: u64 = 32 << 20;

#[derive(Clone)]
pub(crate) struct Ballast {
    dir: PathBuf,
    present: Arc<AtomicBool>,
}

impl Ballast {
    /// Checks if the ballast exists in full size.
    pub(crate) fn find(dir: &Path) -> Self {
        let present = fs::metadata(dir.join("ballast")).is_ok_and(|found| found.len() == BALLAST_BYTES);
        Self { dir: dir.to_owned(), present: Arc::new(AtomicBool::new(present)) }
    }

    /// Returns a flag that is true while the ballast exists, for any thread.
    pub(crate) fn presence(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.present)
    }

    pub(crate) fn is_present(&self) -> bool {
        self.present.load(Ordering::Acquire)
    }

    /// Returns the free space if it is too little for new jobs. `unused` bytes are free in the journal itself.
    /// Returns `None` if the file system does not answer.
    pub(crate) fn no_room(&self, unused: u64) -> Option<NoRoom> {
        let (free, size) = space(&self.dir).ok()?;
        let (free, needed) = (free.saturating_add(unused), ROOM_FOR_JOBS.min(size / 8).max(ROOM_NEEDED));
        (free < needed).then_some(NoRoom { free, needed })
    }

    /// Writes the ballast if it is missing.
    pub(crate) fn restore(&self) -> Result<(), BallastError> {
        if self.is_present() {
            return Ok(());
        }
        let path = self.dir.join("ballast");
        let failed = |source| BallastError::Write { path: path.clone(), source };
        let free = free_bytes(&self.dir).map_err(failed)?;
        if free < ROOM_NEEDED {
            return Err(NoRoom { free, needed: ROOM_NEEDED }.into());
        }
        if let Err(error) = write(&path) {
            // A part of the ballast would only occupy space that is needed elsewhere.
            let _ = fs::remove_file(&path);
            return Err(failed(error));
        }
        limo_files::sync_directory(&self.dir).map_err(failed)?;
        self.present.store(true, Ordering::Release);
        Ok(())
    }

    /// Deletes the ballast; returns true if that freed any space.
    pub(crate) fn release(&self) -> bool {
        self.present.store(false, Ordering::Release);
        match fs::remove_file(self.dir.join("ballast")) {
            Ok(()) => true,
            Err(error) => {
                if error.kind() != io::ErrorKind::NotFound {
                    tracing::error!(%error, dir = %self.dir.display(), "cannot delete the ballast");
                }
                false
            }
        }
    }
}

/// Writes noise instead of zeros: a compressing file system would store zeros without using space.
fn write(path: &Path) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
    let mut noise = vec![0; BALLAST_BYTES as usize];
    SplitMix64::seed_from_u64(0).fill_bytes(&mut noise);
    file.write_all(&noise)?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partial_ballast_does_not_count() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("ballast");
        let ballast = Ballast::find(dir.path());
        assert!(!ballast.presence().load(Ordering::Acquire) && !ballast.release());
        ballast.restore().expect("room");
        assert_eq!(fs::metadata(&file).expect("there").len(), BALLAST_BYTES);
        assert!(Ballast::find(dir.path()).presence().load(Ordering::Acquire));
        assert!(ballast.release() && !file.exists());
        fs::write(&file, "half").expect("writable");
        assert!(!Ballast::find(dir.path()).presence().load(Ordering::Acquire));
    }
}
