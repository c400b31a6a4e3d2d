//! Finds what belongs to a job, its process group and every process that carries its cookie, and kills, stops or continues
//! it.
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

/// Between two looks at processes that got their signal and have not obeyed yet.
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
    until_none(patience, || carriers(cookie).inspect(|process| process.signal(libc::SIGKILL)).count())
}

/// Stops every process with this cookie outside of the group of `leader` and waits until none runs, at most `patience`. How
/// many still run. The group is the business of [`group`], which reaches all of it in one step.
///
/// Blocks, as [`sweep`].
pub fn halt(cookie: &str, leader: Pid, patience: Duration) -> usize {
    let ran = |process: &Carrier| match process.state_outside(leader) {
        None | Some('T' | 't') => false,
        Some(state) => {
            process.signal(libc::SIGSTOP);
            // D is a wait that no signal ends, as for a child that was stopped between vfork and exec: with the signal
            // pending, no instruction of its own follows.
            state != 'D'
        }
    };
    until_none(patience, || carriers(cookie).filter(ran).count())
}

/// Continues every process with this cookie outside of the group of `leader`. One pass: a process that is stopped starts no
/// other.
///
/// Blocks, as [`sweep`].
pub fn go_on(cookie: &str, leader: Pid) {
    let outside = carriers(cookie).filter(|process| process.state_outside(leader).is_some());
    outside.for_each(|process| process.signal(libc::SIGCONT));
}

/// Looks again and again until nothing is found, at most for `patience`; how many were found last.
fn until_none(patience: Duration, look: impl Fn() -> usize) -> usize {
    let end = Instant::now() + patience;
    // A process that forks and ends while the list is read can slip through once, so two looks must find nothing.
    let mut clean = 0;
    loop {
        let found = look();
        clean = if found == 0 { clean + 1 } else { 0 };
        if clean == 2 || Instant::now() > end {
            return found;
        }
        if found > 0 {
            thread::sleep(PAUSE);
        }
    }
}

/// Whether nothing of any job is left but what stands below one of `leaders`: whatever outlives its parent becomes a child of
/// this process, so that a look at its own children tells. `false` also where the kernel does not say.
///
/// For the first thread of the process, which has these children and alone collects them: a list from which nobody takes
/// anything while it is read is whole (proc_pid_task_children(5)).
pub fn is_alone_with(leaders: impl Fn(Pid) -> bool) -> bool {
    let own = std::process::id();
    let Ok(children) = fs::read_to_string(format!("/proc/self/task/{own}/children")) else { return false };
    children.split_ascii_whitespace().all(|child| child.parse().is_ok_and(|pid| leaders(Pid::from_raw(pid))))
}

fn processes() -> impl Iterator<Item = i32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// A process that carries a cookie.
struct Carrier {
    pid: i32,
    process: OwnedFd,
}

fn carriers(cookie: &str) -> impl Iterator<Item = Carrier> {
    let entry = format!("{COOKIE}={cookie}");
    processes().filter_map(move |pid| {
        // The descriptor is taken first: if the number passes to another process in between, no signal reaches that.
        let process = open_process(pid)?;
        let environment = fs::read(format!("/proc/{pid}/environ")).ok()?;
        let carries = environment.split(|byte| *byte == 0).any(|one| one == entry.as_bytes());
        carries.then_some(Carrier { pid, process })
    })
}

impl Carrier {
    /// One that has just ended is not there at the next look.
    fn signal(&self, signal: i32) {
        // SAFETY: a descriptor that is open, no siginfo, no flags.
        unsafe { libc::syscall(libc::SYS_pidfd_send_signal, self.process.as_raw_fd(), signal, 0, 0) };
    }

    /// The kernel's letter for its state; `None` where it is gone, or in the group of `leader`.
    fn state_outside(&self, leader: Pid) -> Option<char> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.pid)).ok()?;
        // State, parent, group; the name before them may hold anything, a bracket too.
        let mut fields = stat.rsplit_once(") ")?.1.split(' ');
        let (state, group) = (fields.next()?.chars().next()?, fields.nth(1)?);
        (group.parse() != Ok(leader.as_raw())).then_some(state)
    }
}

fn open_process(pid: i32) -> Option<OwnedFd> {
    // SAFETY: no memory is involved; the flags are none. The kernel makes the descriptor close-on-exec.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
    let fd = i32::try_from(fd).ok().filter(|fd| *fd >= 0)?;
    // SAFETY: the kernel has just made it, and nobody else knows it.
    Some(unsafe { OwnedFd::from_raw_fd(fd) })
}
