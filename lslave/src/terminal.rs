//! Pseudo-terminal of a job: created here; the daemon's side is read and written without blocking.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{OpenOptionsExt, fchown};
use std::sync::Arc;

use limo_proto::WindowSize;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::libc;
use nix::pty::{grantpt, posix_openpt, ptsname_r, unlockpt};
use tokio::io::unix::AsyncFd;

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

/// Daemon's side, for its reader and its writer.
#[derive(Debug, Clone)]
pub struct Terminal(Arc<AsyncFd<OwnedFd>>);

impl Terminal {
    /// Registers the daemon's side with the runtime.
    ///
    /// # Errors
    /// If the runtime refuses it.
    pub fn new(ours: OwnedFd) -> io::Result<Self> {
        let flags = OFlag::from_bits_retain(fcntl(&ours, FcntlArg::F_GETFL)?);
        fcntl(&ours, FcntlArg::F_SETFL(flags | OFlag::O_NONBLOCK))?;
        // SAFETY: the descriptor is owned and stays open until this is dropped.
        Ok(Self(Arc::new(unsafe { AsyncFd::register(ours) }?)))
    }

    /// Reads at least one byte of the job's output.
    ///
    /// # Errors
    /// If no process has the terminal open.
    pub async fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let mut ready = self.0.readable().await?;
            if let Ok(done) = ready.try_io(|fd| Ok(nix::unistd::read(fd.get_ref(), buffer)?)) {
                return done;
            }
        }
    }

    /// Writes bytes as if typed.
    ///
    /// # Errors
    /// If no process has the terminal open.
    pub async fn write_all(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let mut ready = self.0.writable().await?;
            if let Ok(done) = ready.try_io(|fd| Ok(nix::unistd::write(fd.get_ref(), bytes)?)) {
                bytes = &bytes[done?..];
            }
        }
        Ok(())
    }

    /// Sets the size; the kernel signals the processes in the foreground.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn resize(&self, size: WindowSize) -> io::Result<()> {
        resize(self.0.get_ref(), size)
    }
}
