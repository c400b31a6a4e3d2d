//! The state directory: created, locked for one master, and refused on a network file system. Independent of its
//! contents.

use std::fmt;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use nix::sys::statfs::statfs;
use nix::sys::statvfs::statvfs;

use crate::error::OpenError;

/// The lock on a state directory; held until this is dropped, or the process ends in any way.
pub(crate) struct Claim {
    _lock: Flock<File>,
}

/// Longest wait of a master for the lock. A killed process keeps its locks until the kernel has removed it, which takes
/// as long as its last write to the disk.
pub(crate) const LOCK_PATIENCE: Duration = Duration::from_secs(5);
const LOCK_PAUSE: Duration = Duration::from_millis(10);

/// Creates `dir` if it is missing and takes its lock; blocks this thread for at most `patience`. Only the owner has
/// access, because launches contain environments, which contain secrets. The lock is on a separate file, because
/// closing a file that SQLite has open would release SQLite's locks.
pub(crate) fn claim(dir: &Path, patience: Duration) -> Result<Claim, OpenError> {
    let failed = |source| OpenError::Directory { dir: dir.to_owned(), source };
    DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(failed)?;
    let magic = statfs(dir).map_err(|errno| failed(errno.into()))?.filesystem_type().0;
    // The magic number has 32 bits, but its type differs between C libraries.
    if let Some(kind) = network_kind(magic as u32) {
        return Err(OpenError::Network { dir: dir.to_owned(), kind });
    }
    let file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(dir.join("lock"));
    let lock = lock(file.map_err(failed)?, dir, patience).map_err(|errno| match errno {
        Errno::EWOULDBLOCK => OpenError::Locked { dir: dir.to_owned() },
        errno => failed(errno.into()),
    })?;
    Ok(Claim { _lock: lock })
}

fn lock(mut file: File, dir: &Path, patience: Duration) -> Result<Flock<File>, Errno> {
    let begin = Instant::now();
    let mut said = false;
    loop {
        match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(lock) => return Ok(lock),
            Err((unlocked, Errno::EWOULDBLOCK)) if begin.elapsed() < patience => file = unlocked,
            Err((_, errno)) => return Err(errno),
        }
        if !said {
            tracing::info!(dir = %dir.display(), ?patience, "another process holds the state directory; waiting for its lock");
            said = true;
        }
        thread::sleep(LOCK_PAUSE);
    }
}

/// Creates a missing file for the database, empty and for its owner only, and makes its name durable.
pub(crate) fn prepare_file(path: &Path) -> io::Result<()> {
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
        Ok(file) => file.sync_all()?,
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(()),
        Err(error) => return Err(error),
    }
    limo_files::sync_name(path)
}

/// Returns the number of bytes that this process may still write to the file system of `dir`.
pub(crate) fn free_bytes(dir: &Path) -> io::Result<u64> {
    space(dir).map(|(free, _)| free)
}

/// Returns the number of bytes that this process may still write to the file system of `dir`, and the size of the file
/// system.
pub(crate) fn space(dir: &Path) -> io::Result<(u64, u64)> {
    let stat = statvfs(dir)?;
    let bytes = |blocks: u64| blocks.saturating_mul(stat.fragment_size());
    Ok((bytes(stat.blocks_available()), bytes(stat.blocks())))
}

/// Reason why a file system accepts no more data from this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Blocked {
    /// No block or inode is free.
    Full,
    /// The user's quota is used up.
    Quota,
    /// The file system is mounted read-only, or the kernel made it so after an error.
    ReadOnly,
}

impl fmt::Display for Blocked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Full => "full",
            Self::Quota => "full by the quota of its user",
            Self::ReadOnly => "read-only",
        })
    }
}

impl Blocked {
    /// Returns the reason; `None` for errors with other causes.
    fn of(error: &io::Error) -> Option<Self> {
        match error.kind() {
            io::ErrorKind::StorageFull => Some(Self::Full),
            io::ErrorKind::QuotaExceeded => Some(Self::Quota),
            io::ErrorKind::ReadOnlyFilesystem => Some(Self::ReadOnly),
            _ => None,
        }
    }
}

/// Size of two steps of the shared index of SQLite's write-ahead log.
const PROBE_BYTES: usize = 64 << 10;

/// Checks by writing and removing a file in `dir`. statvfs(3) shows neither a quota nor a file system that the kernel
/// has made read-only after an error.
pub(crate) fn blocked(dir: &Path) -> Option<Blocked> {
    let path = dir.join("probe");
    let file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&path);
    let written = file.and_then(|mut file| file.write_all(&[0; PROBE_BYTES]));
    let _ = fs::remove_file(&path);
    Blocked::of(&written.err()?)
}

/// Returns the name of a network file system by its magic number of statfs(2), else `None`: SQLite's locks and shared
/// memory are unreliable there. The numbers are from linux/magic.h and the sources of the file systems.
fn network_kind(magic: u32) -> Option<&'static str> {
    Some(match magic {
        0x6969 => "NFS",
        0x517b => "SMB",
        0xff53_4d42 => "CIFS",
        0xfe53_4d42 => "SMB 2",
        0x564c => "NCP",
        0x7375_7245 => "Coda",
        0x5346_414f | 0x6b41_4653 => "AFS",
        0x00c3_6400 => "Ceph",
        0x0bd0_0bd0 => "Lustre",
        0x4750_4653 => "GPFS",
        0x1983_0326 => "BeeGFS",
        0x2003_0528 => "OrangeFS",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn network_file_systems_are_known_by_their_magic() {
        assert_eq!(network_kind(0x6969), Some("NFS"));
        assert_eq!(network_kind(0xfe53_4d42), Some("SMB 2"));
        for (name, local) in [("ext4", 0xef53), ("xfs", 0x5846_5342), ("tmpfs", 0x0102_1994), ("btrfs", 0x9123_683e)] {
            assert_eq!(network_kind(local), None, "{name}");
        }
    }

    #[test]
    fn a_full_disk_differs_from_other_errors() {
        let dir = tempfile::tempdir().expect("a directory");
        assert_eq!(blocked(dir.path()), None);
        assert_eq!(fs::read_dir(dir.path()).expect("readable").count(), 0, "the file is gone");
        assert_eq!(blocked(&dir.path().join("missing")), None);
        let of = |errno: Errno| Blocked::of(&io::Error::from_raw_os_error(errno as i32));
        assert_eq!(of(Errno::ENOSPC), Some(Blocked::Full));
        assert_eq!(of(Errno::EDQUOT), Some(Blocked::Quota));
        assert_eq!(of(Errno::EROFS), Some(Blocked::ReadOnly));
        assert_eq!(of(Errno::EIO), None);
    }

    #[test]
    fn a_second_claim_is_refused_until_the_first_is_dropped() {
        let dir = tempfile::tempdir().expect("a directory");
        let first = claim(dir.path(), Duration::ZERO).expect("nobody holds it");
        assert!(matches!(claim(dir.path(), Duration::ZERO), Err(OpenError::Locked { .. })));
        drop(first);
        claim(dir.path(), Duration::ZERO).expect("free again");
    }

    #[test]
    fn a_lock_that_is_released_soon_is_waited_for() {
        let dir = tempfile::tempdir().expect("a directory");
        let first = claim(dir.path(), Duration::ZERO).expect("nobody holds it");
        let path = dir.path().to_owned();
        let second = thread::spawn(move || claim(&path, Duration::from_secs(60)).map(drop));
        drop(first);
        second.join().expect("no panic").expect("free again");
    }

    #[test]
    fn files_are_readable_by_their_owner_only() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().expect("a directory");
        let state = dir.path().join("a/b");
        let _claim = claim(&state, Duration::ZERO).expect("nobody holds it");
        prepare_file(&state.join("file")).expect("writable");
        let mode = |path: &Path| fs::metadata(path).expect("there").permissions().mode() & 0o777;
        assert_eq!((mode(&state), mode(&state.join("lock")), mode(&state.join("file"))), (0o700, 0o600, 0o600));
    }
}
