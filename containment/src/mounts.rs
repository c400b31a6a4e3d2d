//! The hierarchies of control groups that are mounted.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use crate::device;
use crate::error::ContainError;

/// A controller of version 1 that has its own hierarchy, or of version 2.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Controller {
    /// Limits memory.
    Memory,
    /// Limits the use of CPUs.
    Cpu,
    /// Limits the number of processes and threads.
    Pids,
    /// Counts CPU time. Version 2 always does.
    Cpuacct,
    /// Freezes processes. Version 2 always can.
    Freezer,
    /// Binds processes to CPUs.
    Cpuset,
}

impl Controller {
    /// All controllers that groups can use.
    pub const ALL: [Self; 6] = [Self::Memory, Self::Cpu, Self::Pids, Self::Cpuacct, Self::Freezer, Self::Cpuset];

    /// The controllers of groups whose jobs are not bound to cores.
    pub const UNBOUND: [Self; 5] = [Self::Memory, Self::Cpu, Self::Pids, Self::Cpuacct, Self::Freezer];

    /// Returns the kernel's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Cpu => "cpu",
            Self::Pids => "pids",
            Self::Cpuacct => "cpuacct",
            Self::Freezer => "freezer",
            Self::Cpuset => "cpuset",
        }
    }

    /// Returns the controller of that name, if groups use it.
    pub(crate) fn of(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|controller| controller.name() == name)
    }
}

/// Mount points of hierarchies.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Mounts {
    /// Version 2.
    pub unified: Option<PathBuf>,
    /// Version 1. Controllers may share a hierarchy.
    pub v1: BTreeMap<Controller, PathBuf>,
}

impl Mounts {
    /// Finds the hierarchies that this process sees.
    ///
    /// # Errors
    /// If the list of mounts cannot be read.
    pub fn find() -> Result<Self, ContainError> {
        let path = Path::new("/proc/self/mountinfo");
        Ok(Self::parse(&device::read(path)?.unwrap_or_default()))
    }

    /// Returns true if there is none.
    pub fn is_empty(&self) -> bool {
        self.unified.is_none() && self.v1.is_empty()
    }

    fn parse(mountinfo: &str) -> Self {
        let mut mounts = Self::default();
        for line in mountinfo.lines() {
            // The fields before the separator vary in number (proc_pid_mountinfo(5)).
            let Some((before, after)) = line.split_once(" - ") else { continue };
            let Some(point) = before.split(' ').nth(4).map(unescaped) else { continue };
            let mut after = after.split(' ');
            match after.next() {
                Some("cgroup2") => drop(mounts.unified.get_or_insert(point)),
                Some("cgroup") => {
                    for controller in after.nth(1).unwrap_or_default().split(',').filter_map(Controller::of) {
                        mounts.v1.entry(controller).or_insert_with(|| point.clone());
                    }
                }
                _ => {}
            }
        }
        mounts
    }
}

/// Returns a path without the kernel's octal escapes of spaces and backslashes.
fn unescaped(field: &str) -> PathBuf {
    let bytes = field.as_bytes();
    let (mut path, mut at) = (Vec::with_capacity(bytes.len()), 0);
    while let Some(&byte) = bytes.get(at) {
        let code =
            field.get(at + 1..at + 4).filter(|_| byte == b'\\').and_then(|code| u8::from_str_radix(code, 8).ok());
        path.push(code.unwrap_or(byte));
        at += if code.is_some() { 4 } else { 1 };
    }
    OsString::from_vec(path).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hierarchies_are_found_in_the_list_of_mounts() {
        let mounts = Mounts::parse(
            "22 1 0:20 / /sys rw,nosuid shared:7 - sysfs sysfs rw\n\
             30 22 0:25 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw,nsdelegate\n\
             31 22 0:26 / /sys/fs/cgroup/cpu,cpuacct rw shared:9 master:1 - cgroup cgroup rw,cpu,cpuacct\n\
             32 22 0:27 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,xattr,name=systemd\n\
             33 22 0:28 / /mnt/a\\040b rw - cgroup cgroup rw,memory\n\
             34 22 0:25 / /elsewhere rw - cgroup2 none rw\n",
        );
        assert_eq!(mounts.unified, Some("/sys/fs/cgroup/unified".into()));
        let shared = PathBuf::from("/sys/fs/cgroup/cpu,cpuacct");
        let expected = [
            (Controller::Memory, PathBuf::from("/mnt/a b")),
            (Controller::Cpu, shared.clone()),
            (Controller::Cpuacct, shared),
        ];
        assert_eq!(mounts.v1, BTreeMap::from(expected));
        assert!(Mounts::parse("junk\n1 2 - cgroup2\n").is_empty());
    }
}
