//! Descriptors, signals and limits that this process inherits, and those that jobs inherit.

use std::fs;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use anyhow::{Context, bail};
use nix::fcntl::OFlag;
use nix::libc;
use nix::sys::signal::{SigSet, SigmaskHow, Signal, sigprocmask};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::socket::{SockType, getsockopt, sockopt};
use nix::sys::stat::Mode;

/// Descriptors below this number are reserved for a job's own.
const PLACES: i32 = 10;

/// Prepares this process; returns the connection to `lslave` and the source of ended children.
///
/// # Errors
/// If `lslave` did not start this process, or the kernel refuses.
pub fn prepare() -> anyhow::Result<(OwnedFd, SignalFd)> {
    let stdin = std::io::stdin();
    if getsockopt(&stdin, sockopt::SockType).ok() != Some(SockType::SeqPacket) {
        bail!("lshepherd is started by lslave and cannot be used by itself");
    }
    // SAFETY: the call takes numbers of descriptors only. This process uses none above stderr yet.
    unsafe { libc::syscall(libc::SYS_close_range, 3, u32::MAX, 0) };
    for fd in open_descriptors() {
        // This is for a kernel without that call. SAFETY: as above.
        unsafe { libc::close(fd) };
    }
    let null = nix::fcntl::open("/dev/null", OFlag::O_RDWR | OFlag::O_CLOEXEC, Mode::empty()).context("/dev/null")?;
    fill_places(null.as_fd())?;
    let socket = nix::fcntl::fcntl(stdin.as_fd(), nix::fcntl::FcntlArg::F_DUPFD_CLOEXEC(PLACES))?;
    // SAFETY: the descriptor was just made, and no other code owns it.
    let socket: OwnedFd = unsafe { std::os::fd::FromRawFd::from_raw_fd(socket) };
    // SAFETY: both descriptors are open. Placeholders are never closed.
    unsafe {
        libc::dup2(null.as_raw_fd(), libc::STDIN_FILENO);
        libc::dup2(null.as_raw_fd(), libc::STDOUT_FILENO);
    }
    if null.as_raw_fd() < PLACES {
        std::mem::forget(null);
    }
    // A job inherits ignored signals, so all are reset, including the handlers of the standard library.
    for signal in 1..=libc::SIGRTMAX() {
        // This is the kernel's structure with zeros: the default action and no flags. The C library refuses two
        // signals that it uses itself.
        let default = [0_u64; 4];
        // SAFETY: the structure is only read, and lives until the call returns. SIGKILL and SIGSTOP are refused.
        unsafe { libc::syscall(libc::SYS_rt_sigaction, signal, default.as_ptr(), std::ptr::null::<u64>(), 8) };
    }
    sigprocmask(SigmaskHow::SIG_SETMASK, Some(&SigSet::all()), None).context("cannot block signals")?;
    let mut child = SigSet::empty();
    child.add(Signal::SIGCHLD);
    let ended = SignalFd::with_flags(&child, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK);
    let ended = ended.context("cannot be notified of ended children")?;
    // A signal to the group of `lslave`, for example from its terminal, must not reach this process or its jobs.
    let _ = nix::unistd::setsid();
    nix::unistd::chdir("/").context("/")?;
    nix::sys::prctl::set_child_subreaper(true).context("cannot become the reaper of the jobs' processes")?;
    // Children that run as a user share this memory for a moment, so other processes must not read or trace them.
    nix::sys::prctl::set_dumpable(false).context("cannot protect this process from others")?;
    // When memory runs out, jobs are as likely to be killed as other programs, even if `lslave` is protected. A child
    // cannot set this itself: while it shares this memory, the kernel would set it for both.
    let _ = fs::write("/proc/self/oom_score_adj", "0");
    Ok((socket, ended))
}

/// Returns the open descriptors above stderr.
fn open_descriptors() -> Vec<i32> {
    let entries = fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    let all: Vec<i32> = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    all.into_iter().filter(|fd| *fd > libc::STDERR_FILENO).collect()
}

/// Opens every place, so that no later descriptor gets one of these numbers.
fn fill_places(null: BorrowedFd<'_>) -> anyhow::Result<()> {
    for place in 3..PLACES {
        // SAFETY: the call takes numbers of descriptors only; no other descriptor is open there.
        let done =
            place == null.as_raw_fd() || unsafe { libc::dup3(null.as_raw_fd(), place, libc::O_CLOEXEC) } == place;
        if !done {
            bail!("cannot reserve descriptor {place}: {}", std::io::Error::last_os_error());
        }
    }
    Ok(())
}
