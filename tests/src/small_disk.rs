//! A small file system, which fills up without harm to others. Only root can mount one.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::process::Command;

use limo_requirements::{Requirement, skip};
use tempfile::{NamedTempFile, TempDir};

use crate::until::until;

/// Gone when dropped.
pub struct SmallDisk {
    dir: TempDir,
    /// What holds its bytes, if they are not in memory.
    image: Option<NamedTempFile>,
}

impl SmallDisk {
    /// `None`, after saying so, if this process may not mount a file system.
    pub fn mount(mebibytes: u64) -> Option<Self> {
        let disk = Self { dir: tempfile::tempdir().expect("a directory"), image: None };
        let options = format!("size={mebibytes}m,mode=0700");
        let mut mount = Command::new("mount");
        mounted(mount.args(["-t", "tmpfs", "-o", &options, "limo-test"]).arg(disk.path()))?;
        Some(disk)
    }

    /// The same with ext4, which [`SmallDisk::fail`] can make read-only.
    pub fn mount_ext4(mebibytes: u64) -> Option<Self> {
        let image = NamedTempFile::new().expect("a file");
        image.as_file().set_len(mebibytes << 20).expect("room for a file with holes");
        mounted(Command::new("mkfs.ext4").arg("-q").arg(image.path()))?;
        let disk = Self { dir: tempfile::tempdir().expect("a directory"), image: Some(image) };
        mounted(&mut disk.mount_image())?;
        Some(disk)
    }

    fn mount_image(&self) -> Command {
        let image = self.image.as_ref().expect("a disk with ext4");
        let mut mount = Command::new("mount");
        mount.args(["-o", "loop"]).arg(image.path()).arg(self.path());
        mount
    }

    /// Makes the kernel treat the disk as one that has failed: it becomes read-only, also for files that are open.
    pub fn fail(&self) {
        done(Command::new("mount").args(["-o", "remount,abort"]).arg(self.path())).expect("ext4 can be aborted");
    }

    /// Makes a disk that failed writable again. No process may have a file on it.
    pub fn repair(&self) {
        until("nobody uses the disk", || done(Command::new("umount").arg(self.path())).ok());
        done(&mut self.mount_image()).expect("it was mounted before");
    }

    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Takes up every byte that is left.
    pub fn fill(&self) {
        let mut file = File::create(self.path().join("filler")).expect("room for a name");
        let mut piece = 1024 * 1024;
        while piece > 0 {
            if file.write_all(&vec![1; piece]).is_err() {
                piece /= 2;
            }
        }
    }

    pub fn make_room(&self) {
        fs::remove_file(self.path().join("filler")).expect("it is there");
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

/// `None`, after saying so, if the command fails.
fn mounted(command: &mut Command) -> Option<()> {
    let failed = done(command).err();
    if let Some(reason) = &failed {
        skip(Requirement::SmallDisk, &format!("{command:?} fails: {reason}"));
    }
    failed.is_none().then_some(())
}
