//! A sysfs with the files that a test adds, and with ways to make writes fail.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use limo_model::Power;
use tempfile::TempDir;

pub fn watts(watts: i64) -> Power {
    Power::from_watts(watts)
}

pub struct Tree {
    root: TempDir,
    fixed: Vec<PathBuf>,
    mounted: bool,
}

impl Tree {
    pub fn new() -> Self {
        Self { root: tempfile::tempdir().expect("a directory"), fixed: Vec::new(), mounted: false }
    }

    pub fn path(&self) -> &Path {
        self.root.path()
    }

    pub fn write(&self, path: &str, content: &str) {
        let path = self.path().join(path);
        fs::create_dir_all(path.parent().expect("below the root")).expect("made");
        fs::write(path, format!("{content}\n")).expect("written");
    }

    pub fn read(&self, path: &str) -> String {
        fs::read_to_string(self.path().join(path)).expect("readable").trim().to_owned()
    }

    /// Adds a zone of powercap with a long-term limit and a short-term one of 250 W, whose number comes first.
    pub fn zone(&self, dir: &str, name: &str, limit_uw: u64) {
        let file = |file: &str, content: &str| self.write(&format!("class/powercap/{dir}/{file}"), content);
        file("name", name);
        file("enabled", "1");
        file("energy_uj", "1");
        file("constraint_0_name", "short_term");
        file("constraint_0_power_limit_uw", "250000000");
        file("constraint_1_name", "long_term");
        file("constraint_1_power_limit_uw", &limit_uw.to_string());
        file("constraint_1_max_power_uw", "17000000");
    }

    pub fn limit(dir: &str) -> String {
        format!("class/powercap/{dir}/constraint_1_power_limit_uw")
    }

    pub fn limit_of(&self, dir: &str) -> String {
        self.read(&Self::limit(dir))
    }

    pub fn enabled(&self, dir: &str) -> String {
        self.read(&format!("class/powercap/{dir}/enabled"))
    }

    /// Makes a file that not even root can write, like a limit that firmware has locked. Returns false if the file
    /// system cannot do that.
    pub fn fix(&mut self, path: &str) -> bool {
        let path = self.path().join(path);
        let done = Command::new("chattr").arg("+i").arg(&path).output().is_ok_and(|output| output.status.success());
        if done {
            self.fixed.push(path);
        } else {
            println!("skipped: no file can be made immutable here");
        }
        done
    }

    pub fn unfix(&mut self) {
        for path in self.fixed.drain(..) {
            let _ = Command::new("chattr").arg("-i").arg(path).output();
        }
    }

    /// Mounts the tree on itself, read-only. Returns false if this machine does not allow that.
    pub fn mount_read_only(&mut self) -> bool {
        let path = self.path().to_str().expect("UTF-8").to_owned();
        let mount = |arguments: &[&str]| {
            let output = Command::new("mount").args(arguments).arg(&path).output();
            output.is_ok_and(|output| output.status.success())
        };
        self.mounted = mount(&["--bind", &path]);
        let done = self.mounted && mount(&["-o", "remount,bind,ro"]);
        if !done {
            println!("skipped: nothing can be mounted here");
        }
        done
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        self.unfix();
        if self.mounted {
            let _ = Command::new("umount").arg(self.path()).output();
        }
    }
}
