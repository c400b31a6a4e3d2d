//! The user at the other end of a connection over loopback, as the kernel knows it.
//!
//! Sockets that are closed or not yet accepted have no owner, and the kernel lists them under uid 0. So only an
//! established socket with an inode counts. A peer that disconnects before the look-up has no owner. Listening sockets
//! are never looked up: the result could be a socket other than the connected one.

mod diag;
mod table;

use std::io;
use std::net::SocketAddr;

use nix::unistd::{Uid, User};

/// The kernel's default uid for users outside this user namespace.
pub(crate) const OVERFLOW_UID: u32 = 65_534;

/// Returns the uid of the owner of the socket at `peer` with a connection to our socket at `local`; `None` if no such
/// socket exists.
///
/// # Errors
/// If the kernel does not answer.
pub(crate) fn owner(peer: SocketAddr, local: SocketAddr) -> io::Result<Option<u32>> {
    // Some sandboxes lack such netlink sockets. The table has the same data, but reading it takes longer with more
    // sockets.
    let found = diag::owner(peer, local).or_else(|_| table::owner(peer, local))?;
    Ok(found.filter(|uid| *uid != OVERFLOW_UID))
}

/// Looks up the owner without reading the whole table.
///
/// # Errors
/// If that is impossible; [`owner`] may succeed, but takes longer.
pub(crate) fn owner_at_once(peer: SocketAddr, local: SocketAddr) -> io::Result<Option<u32>> {
    Ok(diag::owner(peer, local)?.filter(|uid| *uid != OVERFLOW_UID))
}

/// Returns the name of a user, or its number if it has none.
pub fn user_name(uid: u32) -> String {
    match User::from_uid(Uid::from_raw(uid)) {
        Ok(Some(user)) => user.name,
        _ => uid.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::net::{TcpListener, TcpStream};
    use std::os::unix::process::CommandExt;
    use std::process::{Command, Stdio};

    use limo_requirements::{Requirement, skip};

    type Way = fn(SocketAddr, SocketAddr) -> io::Result<Option<u32>>;
    const WAYS: [(&str, Way); 3] = [("netlink", diag::owner), ("table", table::owner), ("either", owner)];

    fn own_uid() -> u32 {
        nix::unistd::geteuid().as_raw()
    }

    #[test]
    fn a_connection_of_ones_own() {
        for bind in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(listener) = TcpListener::bind(bind) else { continue };
            let client = TcpStream::connect(listener.local_addr().expect("bound")).expect("connected");
            let (server, peer) = listener.accept().expect("a caller");
            let local = server.local_addr().expect("connected");
            for (way, owner) in WAYS {
                assert_eq!(owner(peer, local).expect(way), Some(own_uid()), "{way}, {bind}");
            }
            drop(client);
            for (way, owner) in WAYS {
                assert_eq!(
                    owner(peer, local).expect(way),
                    None,
                    "a closed socket has no owner, least of all root: {way}"
                );
            }
        }
    }

    #[test]
    fn a_child_of_another_user_is_that_user() {
        if own_uid() != 0 {
            return skip(Requirement::Root, "only root can start a process of another user");
        }
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("bound").port();
        let script = format!("exec 3<>/dev/tcp/127.0.0.1/{port}; read -r line");
        let mut child = Command::new("bash");
        child.args(["-c", &script]).uid(1).gid(1).stdin(Stdio::piped());
        let mut child = child.spawn().expect("bash");
        let (mut server, peer) = listener.accept().expect("a caller");
        for (way, owner) in WAYS {
            assert_eq!(owner(peer, server.local_addr().expect("connected")).expect(way), Some(1), "{way}");
        }
        drop(child.stdin.take());
        child.wait().expect("ended");
        assert_eq!(server.read(&mut [0]).expect("closed"), 0);
    }
}
