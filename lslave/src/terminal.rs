//! Pseudo-terminal of a job: created here, and kept by the job's shepherd.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{OpenOptionsExt, fchown};

use limo_proto::WindowSize;
use nix::fcntl::OFlag;
use nix::libc;
use nix::pty::{grantpt, posix_openpt, ptsname_r, unlockpt};

/// Both sides of a pseudo-terminal.
pub struct Pair {
    pub ours: OwnedFd,
    pub jobs: OwnedFd,
}

/// Creates a terminal of this size for `owner`, if that is not the daemon's user.
///
/// # Errors
/// If the machine has none left, or its owner cannot be changed.
pub fn open(size: WindowSize, owner: Option<u32>) -> io::Result<Pair> {
    // The descriptor is close-on-exec from the beginning, so that no other job inherits it.
    let ours = posix_openpt(OFlag::O_RDWR | OFlag::O_NOCTTY | OFlag::O_CLOEXEC)?;
    grantpt(&ours)?;
    unlockpt(&ours)?;
    let jobs: File = OpenOptions::new().read(true).write(true).custom_flags(libc::O_NOCTTY).open(ptsname_r(&ours)?)?;
    fchown(&jobs, owner, None)?;
    // SAFETY: the descriptor is open and owned by `ours`, which gives it up here.
    let ours: OwnedFd = unsafe { std::os::fd::FromRawFd::from_raw_fd(std::os::fd::IntoRawFd::into_raw_fd(ours)) };
    resize(&ours, size)?;
    Ok(Pair { ours, jobs: jobs.into() })
}

fn resize(terminal: &OwnedFd, size: WindowSize) -> io::Result<()> {
    let size = libc::winsize { ws_row: size.rows, ws_col: size.columns, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: the descriptor is open, and the size outlives the call.
    match unsafe { libc::ioctl(terminal.as_raw_fd(), libc::TIOCSWINSZ, &raw const size) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
