//! Collects children that ended, those inherited from jobs too, with what they used.
//!
//! Only those of the calling thread, which is the one that the loop starts jobs on. What jobs leave behind comes to it as
//! well: the kernel gives orphans to the first thread of the process. The command of a meter is started on another one,
//! which must learn by itself how it ended.

use std::mem::MaybeUninit;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use limo_model::{Memory, Outcome, Span};
use nix::libc;
use nix::unistd::Pid;

/// A child that ended, and the children that it had waited for.
#[derive(Debug)]
pub struct Collected {
    pub outcome: Outcome,
    pub user_cpu: Span,
    pub system_cpu: Span,
    pub max_rss: Memory,
}

/// A child that ended and is not collected yet, so that its number is still its own.
pub fn ended_child() -> Option<Pid> {
    let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
    let flags = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT | libc::__WNOTHREAD;
    // SAFETY: `info` is valid for writing, and zero is a valid siginfo_t, which says that no child has ended.
    let pid = unsafe {
        if libc::waitid(libc::P_ALL, 0, info.as_mut_ptr(), flags) != 0 {
            return None;
        }
        info.assume_init().si_pid()
    };
    (pid > 0).then(|| Pid::from_raw(pid))
}

/// Collects a child that [`ended_child`] named.
pub fn collect(child: Pid) -> Option<Collected> {
    let mut status = 0;
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: both are valid for writing, and zero is a valid rusage.
    let usage = unsafe {
        if libc::wait4(child.as_raw(), &raw mut status, libc::WNOHANG, usage.as_mut_ptr()) != child.as_raw() {
            return None;
        }
        usage.assume_init()
    };
    let status = ExitStatus::from_raw(status);
    let outcome = match (status.code(), status.signal()) {
        (Some(code), _) => Outcome::Exited(u8::try_from(code).unwrap_or(u8::MAX)),
        (None, signal) => Outcome::Signaled(signal.unwrap_or(libc::SIGKILL)),
    };
    Some(Collected {
        outcome,
        user_cpu: span(usage.ru_utime),
        system_cpu: span(usage.ru_stime),
        // The kernel counts in KiB.
        max_rss: Memory::from_bytes(u64::try_from(usage.ru_maxrss).unwrap_or(0).saturating_mul(1024)),
    })
}

fn span(time: libc::timeval) -> Span {
    Span::from_ms(time.tv_sec.saturating_mul(1000).saturating_add(time.tv_usec / 1000))
}
