//! A small file system, which can be filled without harm to others. Only root can mount one.

use std::fs::{self, File, OpenOptions};
use std::io::Error;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::Command;

use nix::errno::Errno;
use nix::fcntl::{FallocateFlags, fallocate};
use nix::libc;
use nix::sys::statvfs::statvfs;
use tempfile::{NamedTempFile, TempDir};

use crate::{Requirement, skip};

/// `_IOR('X', 125, u32)` of fs/ext4/ext4.h in Linux.
const EXT4_IOC_SHUTDOWN: libc::Ioctl = 0x8004_587d;

/// A separate file system. Unmounted when dropped, even if files on it are open.
pub struct SmallDisk {
    dir: TempDir,
    /// File with the content of the file system, if it is not in memory.
    image: Option<NamedTempFile>,
}

impl SmallDisk {
    /// Mounts a tmpfs of that size in bytes, which is rounded up to whole pages. Skips the rest of the test with `None` if this
    /// process may not mount.
    ///
    /// # Panics
    /// If no directory can be made; also panics like [`skip`].
    pub fn mount(bytes: u64) -> Option<Self> {
        // This is part of a test, which fails without it.
        let disk = Self { dir: tempfile::tempdir().expect("a directory"), image: None };
        let options = format!("size={bytes},mode=0700");
        let mut mount = Command::new("mount");
        mounted(mount.args(["-t", "tmpfs", "-o", &options, "limo-test"]).arg(disk.path()))?;
        Some(disk)
    }

    /// Mounts ext4 instead, for [`SmallDisk::abort`] and [`SmallDisk::fail`].
    ///
    /// # Panics
    /// The same as for [`SmallDisk::mount`].
    pub fn mount_ext4(bytes: u64) -> Option<Self> {
        // This is part of a test, which fails without it.
        let image = NamedTempFile::new().expect("a file");
        // The file consists of holes.
        image.as_file().set_len(bytes).expect("room for a file with holes");
        mounted(Command::new("mkfs.ext4").arg("-q").arg(image.path()))?;
        // This is part of a test, which fails without it.
        let disk = Self { dir: tempfile::tempdir().expect("a directory"), image: Some(image) };
        mounted(&mut disk.mount_image())?;
        Some(disk)
    }

    fn mount_image(&self) -> Command {
        // This is called for disks with ext4 only.
        let image = self.image.as_ref().expect("a disk with ext4");
        let mut mount = Command::new("mount");
        mount.args(["-o", "loop"]).arg(image.path()).arg(self.path());
        mount
    }

    /// Makes the kernel set a disk with ext4 read-only, as after an error, also for open files. Linux 6.18 may lose what it
    /// confirms meanwhile as synchronised.
    ///
    /// # Panics
    /// If it cannot be remounted.
    pub fn abort(&self) {
        // This is part of a test, which fails without it.
        done(Command::new("mount").args(["-o", "remount,abort"]).arg(self.path())).expect("ext4 can be aborted");
    }

    /// Makes the kernel treat a disk with ext4 as failed: each access to its files is an error from then on. What was
    /// written before is kept.
    ///
    /// # Panics
    /// If the kernel refuses.
    pub fn fail(&self) {
        // This is part of a test, which fails without it.
        let directory = File::open(self.path()).expect("it is mounted");
        let flags: u32 = 0;
        // SAFETY: the descriptor is open, and the kernel reads a number of this size at the pointer.
        let result = unsafe { libc::ioctl(directory.as_raw_fd(), EXT4_IOC_SHUTDOWN, &raw const flags) };
        assert_eq!(result, 0, "ext4 cannot be shut down: {}", Error::last_os_error());
    }

    /// Makes a disk that was aborted or failed usable again. Returns false, and changes nothing, while a process has a file
    /// on it.
    ///
    /// # Panics
    /// If it cannot be mounted again.
    pub fn repair(&self) -> bool {
        let is_unused = done(Command::new("umount").arg(self.path())).is_ok();
        if is_unused {
            // This is part of a test, which fails without it.
            done(&mut self.mount_image()).expect("it was mounted before");
        }
        is_unused
    }

    /// Returns the mount point.
    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    fn filler(&self) -> PathBuf {
        self.path().join("filler")
    }

    /// Fills the space that is free now. Space that a process frees meanwhile stays free, so that the process can use it.
    ///
    /// # Panics
    /// If the disk has no space for a file name, or refuses for another reason than its size.
    pub fn fill(&self) {
        let file = OpenOptions::new().create(true).append(true).open(self.filler());
        // This is part of a test, which fails without it.
        let file = file.expect("room for a name");
        // This is part of a test, which fails without it.
        let (length, disk) = (file.metadata().expect("open").len(), statvfs(self.path()).expect("it is mounted"));
        let (page, mut free) = (disk.fragment_size(), disk.blocks_available() * disk.fragment_size());
        while free > 0 {
            let end = i64::try_from(length + free).unwrap_or(i64::MAX);
            match fallocate(&file, FallocateFlags::empty(), 0, end) {
                Ok(()) => return,
                // A process has written meanwhile.
                Err(Errno::ENOSPC) => free -= page,
                Err(error) => panic!("a disk cannot be filled: {error}"),
            }
        }
    }

    /// Frees the space that [`SmallDisk::fill`] used.
    ///
    /// # Panics
    /// If it was not filled.
    pub fn make_room(&self) {
        // This is part of a test, which fails without it.
        fs::remove_file(self.filler()).expect("it is filled");
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(self.path()).output();
    }
}

/// Runs the command; returns the reason if it fails.
fn done(command: &mut Command) -> Result<(), String> {
    match command.output() {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

/// Runs the command. If it fails, prints the reason and returns `None`.
fn mounted(command: &mut Command) -> Option<()> {
    let failed = done(command).err();
    if let Some(reason) = &failed {
        skip(Requirement::SmallDisk, &format!("{command:?} fails: {reason}"));
    }
    failed.is_none().then_some(())
}
