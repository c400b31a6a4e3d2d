//! Kills all processes of a group.

use std::fs::File;
use std::os::fd::AsFd;
use std::thread;
use std::time::{Duration, Instant};

use limo_shepherd::processes::ProcessHandle;
use nix::libc;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::device::write;
use crate::error::ContainError;
use crate::group::Group;

/// Interval between two passes, unless the kernel reports the end of the last process.
const PAUSE: Duration = Duration::from_millis(5);

impl Group {
    /// Kills its processes and those of the groups below it. Waits until none is left, at most for `patience`, and
    /// returns the number of remaining processes.
    ///
    /// Blocks.
    ///
    /// # Errors
    /// If it cannot be read, or the kernel refuses.
    pub fn kill(&self, patience: Duration) -> Result<usize, ContainError> {
        let end = Instant::now() + patience;
        loop {
            if self.is_empty()? {
                return Ok(0);
            }
            self.kill_once()?;
            let now = Instant::now();
            if now >= end {
                return Ok(self.processes()?.len());
            }
            self.wait(PAUSE.min(end - now));
        }
    }

    /// Sends SIGKILL to all processes.
    fn kill_once(&self) -> Result<(), ContainError> {
        if let Some(path) = &self.unified
            && write(&path.join("cgroup.kill"), "1")?
        {
            return Ok(());
        }
        // Frozen processes start no others. In version 1 they end only when they continue.
        self.freeze(true)?;
        let opened: Vec<_> = self.processes()?.into_iter().map(|pid| (pid, ProcessHandle::open(pid))).collect();
        // A number may belong to a new process. If it is still listed, the new process is in the group, too.
        let listed = self.processes()?;
        for process in opened.into_iter().filter(|(pid, _)| listed.contains(pid)).filter_map(|(_, process)| process) {
            process.signal(libc::SIGKILL);
        }
        self.freeze(false).map(drop)
    }

    /// Waits until its population changes, at most for `longest`.
    fn wait(&self, longest: Duration) {
        let events = self.unified.as_ref().and_then(|path| File::open(path.join("cgroup.events")).ok());
        match events {
            Some(events) if self.is_empty().is_ok_and(|empty| !empty) => {
                let mut fds = [PollFd::new(events.as_fd(), PollFlags::POLLPRI)];
                let _ = poll(&mut fds, PollTimeout::try_from(longest).unwrap_or(PollTimeout::ZERO));
            }
            Some(_) => {}
            None => thread::sleep(longest),
        }
    }
}
