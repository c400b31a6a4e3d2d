//! Finds and kills what belongs to a job: its process group, and every process that carries its cookie.
//!
//! The cookie is a random value of `LIMO_ATTEMPT` in the environment, which children inherit, so that a process that
//! starts a session of its own is found too. One that also clears its environment is not; that takes control groups.

use std::fs;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::thread;
use std::time::{Duration, Instant};

use nix::libc;
use nix::unistd::Pid;

pub const COOKIE: &str = "LIMO_ATTEMPT";

/// Between two looks at processes that were killed and are not gone yet.
const PAUSE: Duration = Duration::from_millis(5);

/// Sends `signal` to the process group of `leader`. Whether there was anyone to get it.
///
/// The leader must not have been reaped before: until then its number is nobody else's.
pub fn group(leader: Pid, signal: i32) -> bool {
    // SAFETY: no memory is involved. A raw number, because `nix` does not know the real-time signals.
    unsafe { libc::killpg(leader.as_raw(), signal) == 0 }
}

/// Kills every process with this cookie and waits until none is left, at most `patience`. How many are left.
///
/// Blocks; reads the environment of every process that it may.
pub fn sweep(cookie: &str, patience: Duration) -> usize {
    let entry = format!("{COOKIE}={cookie}");
    let end = Instant::now() + patience;
    // A process that forks and ends while the list is read can slip through once, so two looks must find nothing.
    let mut clean = 0;
    loop {
        let found = processes().filter(|pid| kill_carrier(*pid, entry.as_bytes())).count();
        clean = if found == 0 { clean + 1 } else { 0 };
        if clean == 2 || Instant::now() > end {
            return found;
        }
        if found > 0 {
            thread::sleep(PAUSE);
        }
    }
}

fn processes() -> impl Iterator<Item = i32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// Kills `pid` if it carries the cookie; whether it does.
fn kill_carrier(pid: i32, entry: &[u8]) -> bool {
    // The descriptor is taken first: if the number passes to another process in between, the signal does not reach it.
    let Some(process) = open_process(pid) else { return false };
    let Ok(environment) = fs::read(format!("/proc/{pid}/environ")) else { return false };
    if !environment.split(|byte| *byte == 0).any(|one| one == entry) {
        return false;
    }
    // SAFETY: a descriptor that is open, no siginfo, no flags.
    unsafe { libc::syscall(libc::SYS_pidfd_send_signal, process.as_raw_fd(), libc::SIGKILL, 0, 0) };
    true
}

fn open_process(pid: i32) -> Option<OwnedFd> {
    // SAFETY: no memory is involved; the flags are none. The kernel makes the descriptor close-on-exec.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
    let fd = i32::try_from(fd).ok().filter(|fd| *fd >= 0)?;
    // SAFETY: the kernel has just made it, and nobody else knows it.
    Some(unsafe { OwnedFd::from_raw_fd(fd) })
}
