//! Collects ended children, including those inherited from jobs, with the resources that they used.

use std::mem::MaybeUninit;

use nix::libc;
use nix::unistd::Pid;

/// An ended child, with the resources of the children that it had waited for.
#[derive(Debug)]
pub struct Collected {
    /// Status as in `waitpid(2)`.
    pub status: i32,
    /// CPU time in user mode, in milliseconds.
    pub user_cpu: u64,
    /// CPU time in system mode, in milliseconds.
    pub system_cpu: u64,
    /// Largest resident memory, in bytes.
    pub max_rss: u64,
}

/// Returns an ended child that is not collected yet, so that its number is still valid.
pub fn ended_child() -> Option<Pid> {
    let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
    let flags = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
    // SAFETY: `info` is valid for writing, and zero is a valid siginfo_t, which means that no child has ended.
    let pid = unsafe {
        if libc::waitid(libc::P_ALL, 0, info.as_mut_ptr(), flags) != 0 {
            return None;
        }
        info.assume_init().si_pid()
    };
    (pid > 0).then(|| Pid::from_raw(pid))
}

/// Collects a child that [`ended_child`] returned.
pub fn collect(child: Pid) -> Option<Collected> {
    let mut status = 0;
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: status and usage are valid for writing, and zero is a valid rusage.
    let usage = unsafe {
        if libc::wait4(child.as_raw(), &raw mut status, libc::WNOHANG, usage.as_mut_ptr()) != child.as_raw() {
            return None;
        }
        usage.assume_init()
    };
    // The kernel counts in KiB.
    let max_rss = u64::try_from(usage.ru_maxrss).unwrap_or(0).saturating_mul(1024);
    Some(Collected { status, user_cpu: ms(usage.ru_utime), system_cpu: ms(usage.ru_stime), max_rss })
}

fn ms(time: libc::timeval) -> u64 {
    let ms = time.tv_sec.saturating_mul(1000).saturating_add(time.tv_usec / 1000);
    u64::try_from(ms).unwrap_or(0)
}
