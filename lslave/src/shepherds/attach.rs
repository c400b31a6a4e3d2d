//! Finds the shepherds that an earlier daemon left, by their sockets. Nothing is missed: a shepherd takes the name of an
//! attempt before it starts anything, and it obeys all orders of the earlier daemon before it answers this one.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use limo_shepherd::processes::ProcessHandle;
use limo_shepherd::{Answer, Claim, Holds, receive};
use nix::errno::Errno;
use nix::libc;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, UnixAddr, connect, getsockopt, socket, sockopt};
use nix::unistd::geteuid;
use tracing::{error, warn};

use super::process::{Rings, open_rings};

/// Longest wait for the answer of a shepherd. One that does not answer is killed, with its job.
const PATIENCE: Duration = Duration::from_secs(5);

/// Longest search. Without every answer, a job could be started twice.
const LONGEST: Duration = Duration::from_secs(30);

/// Pause before a socket is tried again.
const PAUSE: Duration = Duration::from_millis(5);

/// A shepherd that answered.
pub struct Found {
    pub socket: OwnedFd,
    pub pid: i32,
    pub rings: Rings,
    pub holds: Option<Holds>,
}

/// Everything in the directory.
#[derive(Default)]
pub struct Attached {
    pub found: Vec<Found>,
    /// Attempts whose shepherds have ended without a release.
    pub abandoned: BTreeSet<Claim>,
}

/// State of a socket.
enum Answered {
    Found(Found),
    /// The process has ended, or gave its socket another name.
    Gone,
}

/// Connects to every shepherd in the directory; removes the sockets of those that ended without an attempt.
///
/// # Errors
/// If the directory cannot be read, or the state of a socket cannot be found out.
pub fn attach(path: &Path, directory: BorrowedFd<'_>) -> io::Result<Attached> {
    let mut attached = Attached::default();
    let mut known = BTreeSet::new();
    let begin = Instant::now();
    loop {
        let end = Instant::now() + PATIENCE;
        let mut calls = BTreeMap::new();
        let mut again = None;
        for entry in fs::read_dir(path)? {
            let Ok(name) = entry?.file_name().into_string() else { continue };
            if known.contains(&name) {
                continue;
            }
            match call(directory, &name) {
                Ok(socket) => drop(calls.insert(name, socket)),
                Err(Errno::ECONNREFUSED) => {
                    match name.parse() {
                        Ok(claim) => drop(attached.abandoned.insert(claim)),
                        // It held nothing.
                        Err(_) => drop(fs::remove_file(path.join(&name))),
                    }
                    known.insert(name);
                }
                Err(error) => again = Some(error),
            }
        }
        if !calls.is_empty() {
            again.get_or_insert(Errno::EAGAIN);
        }
        for (name, socket) in calls {
            if let Answered::Found(found) = answered(&name, socket, end) {
                // A name may have changed before the answer, but it does not change afterwards.
                known.extend(found.holds.as_ref().map(|holds| holds.claim.to_string()));
                known.insert(name);
                attached.found.push(found);
            }
        }
        match again {
            None => return Ok(attached),
            Some(error) if begin.elapsed() > LONGEST => return Err(error.into()),
            Some(_) => {}
        }
        thread::sleep(PAUSE);
    }
}

fn call(directory: BorrowedFd<'_>, name: &str) -> Result<OwnedFd, Errno> {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let socket = socket(AddressFamily::Unix, SockType::SeqPacket, flags, None)?;
    // The path of the directory may be longer than an address.
    let address = UnixAddr::new(format!("/proc/self/fd/{}/{name}", directory.as_raw_fd()).as_str())?;
    connect(socket.as_raw_fd(), &address)?;
    Ok(socket)
}

/// Waits for the first answer of a shepherd.
fn answered(name: &str, socket: OwnedFd, end: Instant) -> Answered {
    let peer = getsockopt(&socket, sockopt::PeerCredentials);
    if !peer.is_ok_and(|peer| peer.uid() == geteuid().as_raw()) {
        error!(socket = name, "a process of another user listens in the directory of the shepherds");
        return Answered::Gone;
    }
    loop {
        match receive(socket.as_fd()) {
            Ok(Some(received)) => {
                let answer = Answer::decode(&received.bytes).map_err(|error| error.to_string());
                let rings = open_rings(received.descriptors).map_err(|error| error.to_string());
                match (answer, rings) {
                    (Ok(Answer::Hello { pid, holds }), Ok(rings)) => {
                        return Answered::Found(Found { socket, pid, rings, holds: holds.map(|holds| *holds) });
                    }
                    (answer, rings) => {
                        error!(socket = name, ?answer, rings = ?rings.err(), "a shepherd is not understood");
                        break;
                    }
                }
            }
            Ok(None) => return Answered::Gone,
            Err(error) if error.is_would_block() => {}
            Err(_) => return Answered::Gone,
        }
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            warn!(socket = name, "a shepherd does not answer; it is killed, and its job is lost");
            break;
        }
        let mut fds = [PollFd::new(socket.as_fd(), PollFlags::POLLIN)];
        let _ = poll(&mut fds, PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX));
    }
    if let Ok(peer) = peer {
        kill(&socket, peer.pid());
    }
    Answered::Gone
}

/// Kills the process at the other end of the connection.
pub(super) fn kill(socket: &OwnedFd, pid: i32) {
    let Some(process) = ProcessHandle::open(pid) else { return };
    // While the connection is open, the process lives, so that the number was its own.
    let mut fds = [PollFd::new(socket.as_fd(), PollFlags::empty())];
    let is_open = poll(&mut fds, PollTimeout::ZERO).is_ok_and(|count| count == 0);
    if is_open {
        process.signal(libc::SIGKILL);
    }
}
