//! Process between the daemon and the tasks of a job with several tasks on this node; it is the job's leader. It
//! starts the tasks, passes stdin to them, joins their output by whole lines, and ends like the worst task.
//!
//! It runs this program (`/proc/self/exe`) as the job's user, so that the daemon sees one process with one stdin,
//! stdout and stderr, as for any other job. It blocks signals, because the daemon's signals to the process group are
//! meant for the tasks. A job of one task has no such process.

mod binding;
mod broadcast;
mod lines;
mod report;
mod start;
mod supervise;

use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::fd::{AsRawFd, FromRawFd, RawFd};
use std::process::ExitCode;

use anyhow::Context;
use limo_model::{CpuBind, Outcome, Span};
use limo_proto::{DoExec, FileNames, Hold, Parallel, Share, decode_stored, encode_stored};
use nix::libc;
use nix::sys::signal::{SigSet, Signal};
use serde::{Deserialize, Serialize};

/// Name of this program when it runs the tasks of a job.
pub const NAME: &str = "limo-tasks";

/// Work of this process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    pub node: String,
    pub argv: Vec<Vec<u8>>,
    /// Number of the first task on this node.
    pub first: u32,
    /// Number of tasks on all nodes.
    pub total: u32,
    pub parallel: Parallel,
    /// Files of each task on this node.
    pub files: Vec<FileNames>,
    pub append: bool,
    /// Time from TERM to KILL if one failed task ends the others.
    pub grace: Span,
    /// Binding of the tasks to cores of the job.
    pub bind: CpuBind,
    /// Number of cores of the job on this node.
    pub cores: u32,
}

/// Returns this node's share of a job that needs such a process; `None` if its command is started directly.
pub fn share(exec: &DoExec) -> Option<(&Share, Parallel)> {
    exec.share.as_ref().zip(exec.launch.parallel).filter(|_| exec.launch.hold == Hold::Nothing)
}

impl Plan {
    /// Writes the plan into an anonymous file, positioned at its beginning.
    ///
    /// # Errors
    /// If the kernel cannot create the file.
    pub fn hand_over(&self) -> io::Result<File> {
        let encoded = encode_stored(self).map_err(io::Error::other)?;
        // SAFETY: the name is a static C string.
        let fd = unsafe { libc::memfd_create(c"limo-tasks".as_ptr(), libc::MFD_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel has just created the descriptor, which nothing else uses.
        let mut file = unsafe { File::from_raw_fd(fd) };
        file.write_all(&encoded)?;
        file.rewind()?;
        Ok(file)
    }

    /// Reads the plan from this descriptor.
    fn take_up(fd: RawFd) -> anyhow::Result<Self> {
        let mut encoded = Vec::new();
        // SAFETY: the parent passed the descriptor to this process only, and reading a wrong one fails.
        let mut file = unsafe { File::from_raw_fd(fd) };
        // SAFETY: the call fails if the descriptor is not open. No task inherits it.
        unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETFD, libc::FD_CLOEXEC) };
        file.read_to_end(&mut encoded).context("cannot read the plan of the tasks")?;
        decode_stored(&encoded).context("cannot read the plan of the tasks")
    }
}

/// Runs the tasks of the plan in descriptor `fd`, and ends like the worst of them.
pub fn main(fd: Option<RawFd>) -> ExitCode {
    match fd.context("this name is reserved for a process of lslave").and_then(run) {
        Ok(worst) => end_as(&worst),
        Err(error) => {
            eprintln!("limo: {error:#}");
            ExitCode::from(126)
        }
    }
}

fn run(fd: RawFd) -> anyhow::Result<Outcome> {
    let plan = Plan::take_up(fd)?;
    // The runtime needs SIGCHLD to notice the end of a task.
    let mut child = SigSet::empty();
    child.add(Signal::SIGCHLD);
    child.thread_unblock().context("cannot watch for the ends of tasks")?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    Ok(runtime.block_on(supervise::supervise(plan)))
}

/// Ends this process like the worst task, with the same signal if there was one.
fn end_as(worst: &Outcome) -> ExitCode {
    if let Outcome::Signaled(signal) = *worst {
        let no_core = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: memory is only read, and outlives the calls. The signal is one that ended a process.
        unsafe {
            libc::setrlimit(libc::RLIMIT_CORE, &raw const no_core);
            libc::signal(signal, libc::SIG_DFL);
            let mut set = std::mem::zeroed();
            libc::sigemptyset(&raw mut set);
            libc::sigaddset(&raw mut set, signal);
            libc::sigprocmask(libc::SIG_UNBLOCK, &raw const set, std::ptr::null_mut());
            libc::raise(signal);
        }
    }
    ExitCode::from(worst.exit_code())
}
