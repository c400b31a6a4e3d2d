//! Work that may block on a user's files or processes. Each piece runs in a separate process that can be killed.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};

use limo_shepherd::{BootTime, Identity};
use nix::fcntl::OFlag;
use nix::libc;
use nix::sys::signal::{Signal, kill};
use nix::unistd::{ForkResult, Gid, Pid, Uid, fork, pipe2, setgroups, setresgid, setresuid};

/// Longest reason of a worker, in bytes; more is cut off.
const REASON: usize = 512;

/// A process at work.
pub struct Worker {
    pub pid: Pid,
    /// Time at which the worker is killed.
    pub deadline: BootTime,
    reason: File,
}

/// The result of a worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Finished {
    /// The worker ended by itself with this code; 0 is success.
    Code(u8),
    /// The worker ended by itself with an error code and a reason.
    Failed(String),
    /// The worker was killed.
    Killed,
}

/// Starts `work` in a new process, as `identity` unless that is `None`. The worker exits with its code, and sends its
/// reason back.
///
/// # Errors
/// If the process cannot be created.
pub fn start(
    identity: Option<&Identity>,
    deadline: BootTime,
    work: impl FnOnce() -> Result<u8, String>,
) -> nix::Result<Worker> {
    let (reason, theirs) = pipe2(OFlag::O_CLOEXEC | OFlag::O_NONBLOCK)?;
    // SAFETY: this process has one thread, so the child finds no lock taken.
    match unsafe { fork() }? {
        ForkResult::Parent { child } => Ok(Worker { pid: child, deadline, reason: reason.into() }),
        ForkResult::Child => {
            let code = live(identity, theirs, work);
            // SAFETY: the call ends the process; no buffer of the parent is flushed or dropped here.
            unsafe { libc::_exit(code.into()) }
        }
    }
}

fn live(identity: Option<&Identity>, reason: OwnedFd, work: impl FnOnce() -> Result<u8, String>) -> u8 {
    let Some(mut reason) = alone(reason) else { return 1 };
    let result = identity.map_or(Ok(()), become_user).and_then(|()| {
        // This comes after the change of user, which would reset the setting: a worker does not outlive this process.
        // SAFETY: no memory is involved.
        unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
        work()
    });
    result.unwrap_or_else(|text| {
        // Without a reader the reason is not needed.
        let _ = reason.write_all(&text.as_bytes()[..text.len().min(REASON)]);
        1
    })
}

/// Closes every descriptor except stderr and the pipe, so that no job and no connection depends on this process.
fn alone(reason: OwnedFd) -> Option<File> {
    // SAFETY: the call takes numbers of descriptors only. 3 to 9 are unused placeholders (`surroundings`).
    let kept = unsafe {
        libc::dup2(libc::STDIN_FILENO + 3, libc::STDIN_FILENO);
        libc::dup3(reason.as_raw_fd(), 3, libc::O_CLOEXEC)
    };
    std::mem::forget(reason);
    // SAFETY: as above. This process uses no descriptor that is closed here.
    unsafe { libc::syscall(libc::SYS_close_range, 4, u32::MAX, 0) };
    // SAFETY: the descriptor was just made, and no other code owns it.
    (kept == 3).then(|| unsafe { std::os::fd::FromRawFd::from_raw_fd(3) })
}

fn become_user(Identity { uid, gid, groups }: &Identity) -> Result<(), String> {
    let groups: Vec<Gid> = groups.iter().copied().map(Gid::from_raw).collect();
    let (uid, gid) = (Uid::from_raw(*uid), Gid::from_raw(*gid));
    let changed = setgroups(&groups).and_then(|()| setresgid(gid, gid, gid)).and_then(|()| setresuid(uid, uid, uid));
    changed.map_err(|error| format!("cannot become user id {uid}: {error}"))
}

impl Worker {
    pub fn kill(&self) {
        // The worker is not collected yet, so its number is still valid.
        let _ = kill(self.pid, Signal::SIGKILL);
    }

    /// Returns the result for the status from `waitpid(2)`.
    pub fn finished(mut self, status: i32) -> Finished {
        if !libc::WIFEXITED(status) {
            return Finished::Killed;
        }
        let mut reason = vec![0; REASON];
        let length = self.reason.read(&mut reason).unwrap_or(0);
        match (length, libc::WEXITSTATUS(status)) {
            (0, code) => Finished::Code(u8::try_from(code).unwrap_or(u8::MAX)),
            _ => Finished::Failed(String::from_utf8_lossy(&reason[..length]).into_owned()),
        }
    }
}
