//! The tasks of a job that has several on this node: a process between the daemon and them, which is the job's leader. It
//! starts them, gives them stdin, joins their output by whole lines, and ends as the worst of them.
//!
//! It is this program again (`/proc/self/exe`), run as the job's user, so that for everything else the daemon has one
//! process with one stdin, one stdout and one stderr, as of any other job. Its signals are blocked: those that the daemon
//! sends to the process group are the tasks' own. A job of one task has no such process.

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
use limo_model::{Outcome, Span};
use limo_proto::{DoExec, FileNames, Parallel, Share, decode_stored, encode_stored};
use nix::libc;
use nix::sys::signal::{SigSet, Signal};
use serde::{Deserialize, Serialize};

/// What this program is called when it is started for the tasks of a job.
pub const NAME: &str = "limo-tasks";

/// What there is to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    pub node: String,
    pub argv: Vec<Vec<u8>>,
    /// The number of the first task here.
    pub first: u32,
    /// How many there are on all nodes.
    pub total: u32,
    pub parallel: Parallel,
    /// For each task here: the files that it has for itself.
    pub files: Vec<FileNames>,
    pub append: bool,
    /// From TERM to KILL, where one task's failure ends the others.
    pub grace: Span,
}

/// The share of a job that this node runs through such a process; `None` where its command is started by itself.
pub fn share(exec: &DoExec) -> Option<(&Share, Parallel)> {
    exec.share.as_ref().zip(exec.launch.parallel)
}

impl Plan {
    /// A file that holds it, at its beginning. It is gone when nobody has it open any more.
    ///
    /// # Errors
    /// Where the kernel gives none.
    pub fn hand_over(&self) -> io::Result<File> {
        let encoded = encode_stored(self).map_err(io::Error::other)?;
        // SAFETY: the name is a string that lives until the call returns.
        let fd = unsafe { libc::memfd_create(c"limo-tasks".as_ptr(), libc::MFD_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel has just made it, and nobody else knows it.
        let mut file = unsafe { File::from_raw_fd(fd) };
        file.write_all(&encoded)?;
        file.rewind()?;
        Ok(file)
    }

    /// Takes up what was handed over as this descriptor.
    fn take_up(fd: RawFd) -> anyhow::Result<Self> {
        let mut encoded = Vec::new();
        // SAFETY: whoever started this process gave it the descriptor for itself; a wrong one fails to be read.
        let mut file = unsafe { File::from_raw_fd(fd) };
        // SAFETY: the descriptor is open, or this fails. No task inherits it.
        unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETFD, libc::FD_CLOEXEC) };
        file.read_to_end(&mut encoded).context("cannot read what there is to do")?;
        decode_stored(&encoded).context("cannot read what there is to do")
    }
}

/// Runs the tasks that descriptor `fd` tells of, and ends as they did.
pub fn main(fd: Option<RawFd>) -> ExitCode {
    match fd.context("this name is for a process of lslave's own").and_then(run) {
        Ok(worst) => end_as(&worst),
        Err(error) => {
            eprintln!("limo: {error:#}");
            ExitCode::from(126)
        }
    }
}

fn run(fd: RawFd) -> anyhow::Result<Outcome> {
    let plan = Plan::take_up(fd)?;
    // The runtime learns by it that a task is over.
    let mut child = SigSet::empty();
    child.add(Signal::SIGCHLD);
    child.thread_unblock().context("cannot hear of tasks that end")?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    Ok(runtime.block_on(supervise::supervise(plan)))
}

/// The daemon sees the end of this process: where a signal ended the worst task, one ends this, too.
fn end_as(worst: &Outcome) -> ExitCode {
    if let Outcome::Signaled(signal) = *worst {
        let no_core = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: memory is only read, and lives until the calls return. The signal is one that ended a process.
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
