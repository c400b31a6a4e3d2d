//! The directory in which this process listens, so that a later `lslave` finds it and its job. While it holds an
//! attempt, its socket has the attempt's name.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use limo_shepherd::Claim;
use nix::fcntl::renameat;
use nix::libc;
use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockType, UnixAddr, accept4, bind, getsockopt, listen, socket, sockopt,
};
use nix::unistd::{UnlinkatFlags, geteuid, unlinkat};

/// Longest name of a socket, in bytes.
const NAME: usize = 64;

/// The listening socket, and its place.
pub struct Home {
    directory: OwnedFd,
    listener: OwnedFd,
    /// Name without an attempt.
    own: String,
    /// Present name.
    name: String,
}

impl Home {
    /// Listens in `directory`.
    ///
    /// # Errors
    /// If the name is invalid or taken, or the kernel refuses.
    pub fn open(directory: OwnedFd, name: String) -> io::Result<Self> {
        if name.is_empty() || name.len() > NAME || name.contains(['/', '\0']) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "the name of the socket is invalid"));
        }
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let listener = socket(AddressFamily::Unix, SockType::SeqPacket, flags, None)?;
        // The path of the directory may be longer than an address.
        let address = UnixAddr::new(format!("/proc/self/fd/{}/{name}", directory.as_raw_fd()).as_str())?;
        bind(listener.as_raw_fd(), &address)?;
        listen(&listener, Backlog::new(4)?)?;
        Ok(Self { directory, listener, own: name.clone(), name })
    }

    pub fn listener(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }

    /// Returns the next connection of this process's own user or of root; closes connections of others.
    pub fn accept(&self) -> Option<OwnedFd> {
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let raw = accept4(self.listener.as_raw_fd(), flags).ok()?;
        // SAFETY: the kernel has just made the descriptor, and no other code owns it.
        let connection = unsafe { OwnedFd::from_raw_fd(raw) };
        let peer = getsockopt(&connection, sockopt::PeerCredentials).ok()?.uid();
        (peer == 0 || peer == geteuid().as_raw()).then_some(connection)
    }

    /// Gives the socket the name of an attempt, or takes it away.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn claim(&mut self, claim: Option<Claim>) -> io::Result<()> {
        let name = claim.map_or_else(|| self.own.clone(), |claim| claim.to_string());
        renameat(&self.directory, self.name.as_str(), &self.directory, name.as_str())?;
        self.name = name;
        Ok(())
    }

    /// Removes the socket, because this process ends.
    pub fn leave(&self) {
        // A socket without a process is removed by the next `lslave`.
        let _ = unlinkat(&self.directory, self.name.as_str(), UnlinkatFlags::NoRemoveDir);
    }
}

/// Replaces stderr by /dev/null: whoever reads it must not wait for this process, which outlives `lslave`.
pub fn leave_stderr() {
    // SAFETY: the call takes numbers of descriptors only; stdin is /dev/null.
    unsafe { libc::dup2(libc::STDIN_FILENO, libc::STDERR_FILENO) };
}
