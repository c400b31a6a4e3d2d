//! Finds the processes of a job, and kills, stops or continues them: its process group, and every process with its
//! cookie.
//!
//! The cookie is a random value of `LIMO_ATTEMPT` in the environment, which children inherit, so a process in a new
//! session is also found. A process that also clears its environment is not found; that would require control groups.
//!
//! Reading an environment can block for as long as its owner likes. So only processes of the job's user are read, in
//! processes or threads that have a deadline.

use std::fs;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::thread;
use std::time::{Duration, Instant};

use nix::libc;
use nix::unistd::Pid;

/// The variable that holds a job's cookie.
pub const COOKIE: &str = "LIMO_ATTEMPT";

/// Interval between two checks of processes that have a signal but have not acted on it.
const PAUSE: Duration = Duration::from_millis(5);

/// Sends `signal` to the process group of `leader`. Returns true if the group had a process.
///
/// The leader must not have been reaped before: until then its number is not reused.
pub fn group(leader: Pid, signal: i32) -> bool {
    // SAFETY: no memory is involved. The number is raw, because `nix` does not know the real-time signals.
    unsafe { libc::killpg(leader.as_raw(), signal) == 0 }
}

/// Description of a job's processes: those with the cookie that belong to the user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mark {
    /// Value of `LIMO_ATTEMPT` in their environment.
    pub cookie: String,
    /// User of the processes: real, effective, saved or of the file system.
    pub uid: u32,
}

/// Kills every process of the job and waits until none is left, at most `patience`. Returns the number of remaining
/// processes.
///
/// Blocks; reads the environments of all processes of the user.
pub fn sweep(mark: &Mark, patience: Duration) -> usize {
    until_none(patience, || carriers(mark).inspect(|process| process.signal(libc::SIGKILL)).count())
}

/// Stops every process of the job outside of the group of `leader` and waits until none runs, at most `patience`.
/// Returns the number of processes that still run. [`group`] reaches the group in one step, and must be called before.
///
/// Blocks, as [`sweep`].
pub fn halt(mark: &Mark, leader: Pid, patience: Duration) -> usize {
    // A shell must not see its foreground job stop before it is stopped itself: it would take the terminal back when
    // it continues.
    let runs = || !matches!(state_and_group(leader.as_raw()), None | Some(('T' | 't' | 'D' | 'Z', _)));
    until_none(patience, || usize::from(runs()));
    let ran = |process: &Carrier| match process.state_outside(leader) {
        None | Some('T' | 't') => false,
        Some(state) => {
            process.signal(libc::SIGSTOP);
            // State D is a wait that no signal ends, such as for a child that was stopped between vfork and exec.
            // With a pending signal, the process executes no further instruction.
            state != 'D'
        }
    };
    until_none(patience, || carriers(mark).filter(ran).count())
}

/// Continues every process of the job outside of the group of `leader`. One pass is enough, because a stopped process
/// starts no process.
///
/// Blocks, as [`sweep`].
pub fn go_on(mark: &Mark, leader: Pid) {
    let outside = carriers(mark).filter(|process| process.state_outside(leader).is_some());
    outside.for_each(|process| process.signal(libc::SIGCONT));
}

/// Repeats the search until nothing is found, at most for `patience`. Returns the number of processes in the last
/// search.
fn until_none(patience: Duration, look: impl Fn() -> usize) -> usize {
    let end = Instant::now() + patience;
    // A process that forks and ends while the list is read may be missed once, so two searches must find nothing.
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

/// Returns the children of this process, including ended ones; `None` if the kernel does not answer.
///
/// For a process of one thread. The list is complete if no child is reaped while it is read
/// (proc_pid_task_children(5)).
pub fn children() -> Option<Vec<Pid>> {
    let own = std::process::id();
    let list = fs::read_to_string(format!("/proc/self/task/{own}/children")).ok()?;
    Some(list.split_ascii_whitespace().filter_map(|child| child.parse().ok()).map(Pid::from_raw).collect())
}

fn processes() -> impl Iterator<Item = i32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// A process that carries a cookie.
struct Carrier {
    pid: i32,
    process: ProcessHandle,
}

fn carriers(mark: &Mark) -> impl Iterator<Item = Carrier> {
    let entry = format!("{COOKIE}={}", mark.cookie);
    processes().filter_map(move |pid| {
        // The descriptor is opened first. If another process gets the number afterwards, that process gets no signal.
        let process = ProcessHandle::open(pid)?;
        if !is_of(pid, mark.uid) {
            return None;
        }
        let environment = fs::read(format!("/proc/{pid}/environ")).ok()?;
        let carries = environment.split(|byte| *byte == 0).any(|one| one == entry.as_bytes());
        carries.then_some(Carrier { pid, process })
    })
}

/// Returns true if the process has the user as its real, effective or saved one.
fn is_of(pid: i32, uid: u32) -> bool {
    // The owner of the directory is the effective user, or root if the process has changed its privileges.
    match fs::metadata(format!("/proc/{pid}")).map(|directory| directory.uid()) {
        Ok(owner) if owner == uid => return true,
        Ok(0) => {}
        _ => return false,
    }
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("Uid:"));
    line.is_some_and(|line| line.split_ascii_whitespace().any(|one| one.parse() == Ok(uid)))
}

impl Carrier {
    /// Sends a signal. A process that has just ended is absent in the next search.
    fn signal(&self, signal: i32) {
        self.process.signal(signal);
    }

    /// Returns the kernel's letter for its state; `None` if it is gone, or in the group of `leader`.
    fn state_outside(&self, leader: Pid) -> Option<char> {
        let (state, group) = state_and_group(self.pid)?;
        (group != leader.as_raw()).then_some(state)
    }
}

/// Returns the kernel's letter for a process's state, and its group; `None` if it is gone.
fn state_and_group(pid: i32) -> Option<(char, i32)> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The fields are state, parent and group. The name before them may contain any characters, even a bracket.
    let mut fields = stat.rsplit_once(") ")?.1.split(' ');
    Some((fields.next()?.chars().next()?, fields.nth(1)?.parse().ok()?))
}

/// A process that keeps its identity: it gets signals, and a later process with the same number does not.
pub struct ProcessHandle(OwnedFd);

impl AsFd for ProcessHandle {
    /// Returns the descriptor, which becomes readable when the process has ended.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl ProcessHandle {
    /// Opens the process that has the number now; `None` if there is none, or the kernel refuses.
    pub fn open(pid: i32) -> Option<Self> {
        // SAFETY: the call takes numbers only, without flags. The kernel makes the descriptor close-on-exec.
        let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
        let fd = i32::try_from(fd).ok().filter(|fd| *fd >= 0)?;
        // SAFETY: the kernel has just made the descriptor, and no other code owns it.
        Some(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Sends a signal; does nothing if the process has ended.
    pub fn signal(&self, signal: i32) {
        // SAFETY: the descriptor is open; the call gets neither signal information nor flags.
        unsafe { libc::syscall(libc::SYS_pidfd_send_signal, self.0.as_raw_fd(), signal, 0, 0) };
    }
}
