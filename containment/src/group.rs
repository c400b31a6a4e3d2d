//! The control group of one attempt.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use crate::cores::Cores;
use crate::device::{self, entry, number, set, write};
use crate::error::{ContainError, failed};
use crate::mounts::Controller;
use crate::subtree::copy_from_above;

/// Name of the hierarchy of version 2, before the directory in messages.
const UNIFIED: &str = "unified";

/// Most groups that a job may have made below its own.
const BELOW: usize = 10_000;

/// Memory that the kernel charges at once at most, in bytes. An allocation that fails may leave so much below the limit.
const CHARGED: u64 = 1 << 20;

/// Length of a directory in messages and errors, in bytes.
const SHOWN: usize = 256;

/// A control group: a directory of the same name in each hierarchy that it uses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    pub(crate) unified: Option<PathBuf>,
    pub(crate) v1: BTreeMap<Controller, PathBuf>,
}

/// Descriptors through which a process enters a group.
#[derive(Debug, Default)]
pub struct Entry {
    /// The directory of version 2, for `CLONE_INTO_CGROUP`.
    pub unified: Option<OwnedFd>,
    /// Files of version 1 to which a process of one thread writes `0`. Unlike `cgroup.procs`, they need no lock that
    /// all processes share.
    pub tasks: Vec<OwnedFd>,
}

/// CPU time of all processes that were in a group, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the type says what its fields are")]
pub struct Usage {
    pub user_cpu: u64,
    pub system_cpu: u64,
}

impl Group {
    /// Returns the group with these directories, which [`Group::directories`] has returned; `None` without any.
    ///
    /// # Errors
    /// If one of them is invalid.
    pub fn of<'a>(directories: impl IntoIterator<Item = &'a [u8]>) -> Result<Option<Self>, ContainError> {
        let mut group = Self { unified: None, v1: BTreeMap::new() };
        for directory in directories {
            let invalid = || {
                let shown = String::from_utf8_lossy(&directory[..directory.len().min(SHOWN)]);
                ContainError::Directory { directory: shown.escape_debug().collect() }
            };
            let at = directory.iter().position(|byte| *byte == b'=').ok_or_else(invalid)?;
            let path = Path::new(OsStr::from_bytes(&directory[at + 1..]));
            let is_plain = path.components().all(|part| matches!(part, Component::RootDir | Component::Normal(_)));
            if !path.is_absolute() || !is_plain || path.parent().is_none() {
                return Err(invalid());
            }
            match std::str::from_utf8(&directory[..at]).map_err(|_| invalid())? {
                UNIFIED => group.unified = Some(path.to_owned()),
                name => drop(group.v1.insert(Controller::of(name).ok_or_else(invalid)?, path.to_owned())),
            }
        }
        Ok(Some(group).filter(|group| !group.all().is_empty()))
    }

    /// Returns its directories as `HIERARCHY=PATH`, for another process.
    pub fn directories(&self) -> Vec<Vec<u8>> {
        let unified = self.unified.iter().map(|path| (UNIFIED, path));
        let all = unified.chain(self.v1.iter().map(|(controller, path)| (controller.name(), path)));
        all.map(|(name, path)| [name.as_bytes(), b"=", path.as_os_str().as_bytes()].concat()).collect()
    }

    /// Returns its directories, each once.
    pub(crate) fn all(&self) -> BTreeSet<&Path> {
        self.unified.iter().chain(self.v1.values()).map(PathBuf::as_path).collect()
    }

    /// Returns the path of a controller's file.
    pub(crate) fn file(&self, controller: Controller, v2: &str, v1: &str) -> Option<PathBuf> {
        // A controller that version 1 has is not in version 2.
        let own = self.v1.get(&controller).map(|path| path.join(v1));
        own.or_else(|| self.unified.as_ref().map(|path| path.join(v2)))
    }

    /// Opens the descriptors for a process that is to enter it.
    ///
    /// # Errors
    /// If one of them cannot be opened.
    pub fn entry(&self) -> Result<Entry, ContainError> {
        let unified = self.unified.as_ref().map(|path| File::open(path).map_err(failed("open", path)));
        let v1: BTreeSet<&PathBuf> = self.v1.values().collect();
        let tasks = v1.into_iter().map(|path| {
            let path = path.join("tasks");
            OpenOptions::new().write(true).open(&path).map(OwnedFd::from).map_err(failed("open", path))
        });
        Ok(Entry { unified: unified.transpose()?.map(OwnedFd::from), tasks: tasks.collect::<Result<_, _>>()? })
    }

    /// Returns true if it has no process, nor have the groups below it.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn is_empty(&self) -> Result<bool, ContainError> {
        if let Some(path) = self.unified.as_ref().map(|path| path.join("cgroup.events")) {
            let text = device::read(&path)?;
            return text.map_or(Ok(true), |text| Ok(entry(&path, &text, "populated")? == 0));
        }
        Ok(self.processes()?.is_empty())
    }

    /// Returns its processes, and those of the groups below it.
    pub(crate) fn processes(&self) -> Result<BTreeSet<i32>, ContainError> {
        let freezer = self.v1.get(&Controller::Freezer);
        let Some(top) = self.unified.as_ref().or(freezer).or(self.v1.values().next()) else {
            return Ok(BTreeSet::new());
        };
        let mut all = BTreeSet::new();
        for directory in with_all_below(top)? {
            let path = directory.join("cgroup.procs");
            for line in device::read(&path)?.unwrap_or_default().lines() {
                let pid = number(&path, "a process", line)?;
                // A process of another namespace has the number 0.
                all.extend(i32::try_from(pid).ok().filter(|pid| *pid > 0));
            }
        }
        Ok(all)
    }

    /// Stops all of its processes, or continues them. Returns false if no hierarchy can do this.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn freeze(&self, on: bool) -> Result<bool, ContainError> {
        match (&self.unified, self.v1.get(&Controller::Freezer)) {
            (Some(path), _) => write(&path.join("cgroup.freeze"), if on { "1" } else { "0" }),
            (None, Some(path)) => write(&path.join("freezer.state"), if on { "FROZEN" } else { "THAWED" }),
            (None, None) => Ok(false),
        }
    }

    /// Returns true if [`Group::freeze`] works.
    pub fn can_freeze(&self) -> bool {
        match &self.unified {
            Some(path) => path.join("cgroup.freeze").exists(),
            None => self.v1.contains_key(&Controller::Freezer),
        }
    }

    /// Returns the CPU time of its processes, including those that have ended; `None` if nothing counts it.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn usage(&self) -> Result<Option<Usage>, ContainError> {
        if let Some(path) = self.unified.as_ref().map(|path| path.join("cpu.stat")) {
            let Some(text) = device::read(&path)? else { return Ok(None) };
            let ms = |what| Ok::<_, ContainError>(entry(&path, &text, what)? / 1_000);
            return Ok(Some(Usage { user_cpu: ms("user_usec")?, system_cpu: ms("system_usec")? }));
        }
        let Some(directory) = self.v1.get(&Controller::Cpuacct) else { return Ok(None) };
        let ms = |name: &str| {
            let path = directory.join(name);
            let text = device::read(&path)?;
            text.map(|text| Ok(number(&path, "a time", &text)? / 1_000_000)).transpose()
        };
        let both = (ms("cpuacct.usage_user")?, ms("cpuacct.usage_sys")?);
        Ok(both.0.zip(both.1).map(|(user_cpu, system_cpu)| Usage { user_cpu, system_cpu }))
    }

    /// Returns the CPU time as [`Group::usage`], for the script of a job with that of its steps.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn usage_with_steps(&self) -> Result<Option<Usage>, ContainError> {
        self.above().filter(|_| self.is_script()).as_ref().unwrap_or(self).usage()
    }

    /// Returns the most memory that its processes had together, with the files that the kernel caches for them, in bytes;
    /// `None` if nothing counts it. That of the script of a job includes its steps.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn peak_memory(&self) -> Result<Option<u64>, ContainError> {
        self.memory("memory.peak", "memory.max_usage_in_bytes")
    }

    /// Returns the memory that its processes have together now, otherwise like [`Group::peak_memory`].
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn present_memory(&self) -> Result<Option<u64>, ContainError> {
        self.memory("memory.current", "memory.usage_in_bytes")
    }

    fn memory(&self, v2: &str, v1: &str) -> Result<Option<u64>, ContainError> {
        let above = self.above().filter(|_| self.is_script());
        let Some(path) = above.as_ref().unwrap_or(self).file(Controller::Memory, v2, v1) else { return Ok(None) };
        device::read(&path)?.map(|text| number(&path, "a size", &text)).transpose()
    }

    /// Returns the limit of its memory in bytes, or that of its job, if the kernel has killed one of its processes because of it.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn exceeded_memory(&self) -> Result<Option<u64>, ContainError> {
        let groups: Vec<Self> = [Some(self.clone()), self.above()].into_iter().flatten().collect();
        let events =
            groups.iter().filter_map(|group| group.file(Controller::Memory, "memory.events", "memory.oom_control"));
        for events in events {
            // Without the controller, the group above counts for this one.
            let Some(text) = device::read(&events)? else { continue };
            if entry(&events, &text, "oom_kill")? == 0 {
                return Ok(None);
            }
            break;
        }
        for group in &groups {
            if let Some(limit) = group.reached_limit()? {
                return Ok(Some(limit));
            }
        }
        Ok(None)
    }

    /// Returns its own limit of memory if its processes reached it together.
    fn reached_limit(&self) -> Result<Option<u64>, ContainError> {
        let of = |v2, v1| self.file(Controller::Memory, v2, v1);
        let Some((path, events)) =
            of("memory.max", "memory.limit_in_bytes").zip(of("memory.events", "memory.oom_control"))
        else {
            return Ok(None);
        };
        // Without its own limit, it was killed because of one above it.
        let limit = device::read(&path)?.filter(|text| text.trim() != "max");
        let limit = limit.map(|text| number(&path, "a limit", &text)).transpose()?;
        let Some((limit, text)) = limit.zip(device::read(&events)?) else { return Ok(None) };
        Ok(self.has_reached(limit, &events, &text)?.then_some(limit))
    }

    /// Returns true if its processes reached the limit together. The kernel also kills processes when the machine has no
    /// memory left, and counts both.
    fn has_reached(&self, limit: u64, events: &Path, text: &str) -> Result<bool, ContainError> {
        if !self.v1.contains_key(&Controller::Memory) {
            return Ok(entry(events, text, "oom")? > 0);
        }
        let Some(path) = self.file(Controller::Memory, "memory.peak", "memory.max_usage_in_bytes") else {
            return Ok(true);
        };
        let peak = device::read(&path)?.map(|text| number(&path, "a size", &text)).transpose()?;
        Ok(peak.is_none_or(|peak| peak.saturating_add(CHARGED) >= limit))
    }

    /// Limits the memory of all of its processes together, in bytes. Swap does not extend it.
    pub(crate) fn limit_memory(&self, bytes: u64) -> Result<(), ContainError> {
        let bytes = bytes.to_string();
        if let Some(path) = self.v1.get(&Controller::Memory) {
            set(&path.join("memory.limit_in_bytes"), &bytes)?;
            // The file is missing if the kernel does not count swap.
            return write(&path.join("memory.memsw.limit_in_bytes"), &bytes).map(drop);
        }
        if let Some(path) = &self.unified {
            set(&path.join("memory.max"), &bytes)?;
            write(&path.join("memory.swap.max"), "0")?;
            // A job that lost one of its processes rarely ends by itself.
            write(&path.join("memory.oom.group"), "1")?;
        }
        Ok(())
    }

    /// Binds all of its processes to these CPUs.
    ///
    /// # Errors
    /// If no hierarchy can do this, or the kernel refuses.
    pub(crate) fn bind(&self, cores: &Cores) -> Result<(), ContainError> {
        let v1 = self.v1.get(&Controller::Cpuset);
        let path = v1.or(self.unified.as_ref()).ok_or(ContainError::NoBinding)?;
        set(&path.join("cpuset.cpus"), &cores.to_string())?;
        v1.map_or(Ok(()), |path| copy_from_above(path, "cpuset.mems"))
    }

    /// Returns the CPUs to which it is bound; `None` if it is not.
    ///
    /// # Errors
    /// If they cannot be read.
    pub fn cores(&self) -> Result<Option<Cores>, ContainError> {
        // In version 2, a group that is not bound itself has the CPUs of the one above.
        for group in [Some(self.clone()), self.above()].into_iter().flatten() {
            let Some(path) = group.file(Controller::Cpuset, "cpuset.cpus", "cpuset.cpus") else { continue };
            if let Some(text) = device::read(&path)?.filter(|text| !text.trim().is_empty()) {
                return Cores::parse(&path, &text).map(Some);
            }
        }
        Ok(None)
    }

    /// Removes it, with the groups that its processes made below it, and that of its job if it is the last one there. Does
    /// nothing if it does not exist.
    ///
    /// # Errors
    /// If it still has processes, or the kernel refuses.
    pub fn close(&self) -> Result<(), ContainError> {
        self.all().into_iter().try_for_each(remove)?;
        self.leave_above();
        Ok(())
    }
}

/// Removes a directory with those below it.
fn remove(top: &Path) -> Result<(), ContainError> {
    let removed = |path: &Path| match fs::remove_dir(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    };
    // Hardly any job has groups below its own.
    if removed(top).is_ok() {
        return Ok(());
    }
    let busy = |error: io::Error, path: PathBuf| match error.raw_os_error() {
        Some(nix::libc::EBUSY) => ContainError::Busy { path },
        _ => failed("remove", path)(error),
    };
    with_all_below(top)?.into_iter().rev().try_for_each(|path| removed(&path).map_err(|error| busy(error, path)))
}

/// Returns a directory and all below it; each is before those below it.
fn with_all_below(top: &Path) -> Result<Vec<PathBuf>, ContainError> {
    let (mut all, mut at) = (vec![top.to_owned()], 0);
    while let Some(path) = all.get(at).cloned() {
        at += 1;
        all.extend(directories(&path)?.into_iter().map(|name| path.join(name)));
        if all.len() > BELOW {
            return Err(ContainError::TooMany { path: top.to_owned(), limit: BELOW });
        }
    }
    Ok(all)
}

/// Returns the names of the directories in a directory; none if it does not exist.
///
/// # Errors
/// If it cannot be read.
pub(crate) fn directories(path: &Path) -> Result<Vec<std::ffi::OsString>, ContainError> {
    let entries = match fs::read_dir(path) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(failed("read", path)(error)),
    };
    // One more than the bound is enough to notice that it is exceeded.
    let entries = entries.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    Ok(entries.take(BELOW + 1).map(|entry| entry.file_name()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_survive_the_way_and_invalid_ones_are_refused() {
        let unified = Some("/cg/unified/limo/7.1".into());
        let group = Group { unified, v1: BTreeMap::from([(Controller::Memory, "/cg/memory/limo/7.1".into())]) };
        let directories = group.directories();
        assert_eq!(directories[1], b"memory=/cg/memory/limo/7.1");
        assert_eq!(Group::of(directories.iter().map(Vec::as_slice)).expect("valid"), Some(group));
        assert_eq!(Group::of([]).expect("none"), None);
        for invalid in ["unified", "unified=cg/x", "unified=/cg/../x", "unified=/", "blkio=/cg/x", "=/cg/x"] {
            let error = Group::of([invalid.as_bytes()]).expect_err(invalid).to_string();
            assert_eq!(error, format!("`{invalid}` does not name a control group"));
        }
    }
}
