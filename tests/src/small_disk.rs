//! A small file system, which fills up without harm to others. Only root can mount one.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

/// Gone when dropped.
pub struct SmallDisk(TempDir);

impl SmallDisk {
    /// `None`, after saying so, if this process may not mount a file system.
    pub fn mount(mebibytes: u64) -> Option<Self> {
        let disk = Self(tempfile::tempdir().expect("a directory"));
        let mut mount = Command::new("mount");
        let options = format!("size={mebibytes}m,mode=0700");
        mount.args(["-t", "tmpfs", "-o", &options, "limo-test"]).arg(disk.path());
        let reason = match mount.output() {
            Ok(output) if output.status.success() => return Some(disk),
            Ok(output) => String::from_utf8_lossy(&output.stderr).trim().to_owned(),
            Err(error) => error.to_string(),
        };
        println!("skipped: a tmpfs cannot be mounted here: {reason}");
        None
    }

    pub fn path(&self) -> &Path {
        self.0.path()
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
