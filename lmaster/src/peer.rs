//! Who is calling over loopback: the kernel knows which user owns the other end of a connection on this machine.
//!
//! A socket that its process has closed has no owner any more, and the kernel lists it under uid 0. So only a socket that
//! is established and still has an inode counts; a caller that is gone before it was looked up is nobody.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use nix::unistd::{Uid, User};

/// TCP_ESTABLISHED in /proc/net/tcp.
const ESTABLISHED: &str = "01";

/// The uid of users that this user namespace does not know: nobody in particular. The default of the kernel.
const OVERFLOW_UID: u32 = 65_534;

/// The uid that owns the socket at `peer` which is connected to our socket at `local`; `None` where there is none.
///
/// # Errors
/// Where the kernel's table cannot be read.
pub fn owner(peer: SocketAddr, local: SocketAddr) -> io::Result<Option<u32>> {
    let read = |path: &str| std::fs::read_to_string(path);
    // A socket of the IPv6 family may call an IPv4 address; it is then in the IPv6 table.
    let found = match peer.ip() {
        IpAddr::V4(_) => search(&read("/proc/net/tcp")?, peer, local),
        IpAddr::V6(_) => None,
    };
    let found = match found {
        None => read("/proc/net/tcp6").map(|table| search(&table, peer, local)).or_else(|error| {
            // A kernel without IPv6 has no such table.
            if error.kind() == io::ErrorKind::NotFound { Ok(None) } else { Err(error) }
        })?,
        found => found,
    };
    Ok(found.filter(|uid| *uid != OVERFLOW_UID))
}

/// The name of a user, or its number where it has none.
pub fn user_name(uid: u32) -> String {
    match User::from_uid(Uid::from_raw(uid)) {
        Ok(Some(user)) => user.name,
        _ => uid.to_string(),
    }
}

fn search(table: &str, peer: SocketAddr, local: SocketAddr) -> Option<u32> {
    table.lines().skip(1).find_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let &[_, from, to, state, _, _, _, uid, _, inode, ..] = fields.as_slice() else { return None };
        let ours =
            state == ESTABLISHED && inode != "0" && address(from)? == plain(peer) && address(to)? == plain(local);
        if ours { uid.parse().ok() } else { None }
    })
}

/// IPv4 addresses in IPv6 clothes as what they are.
fn plain(address: SocketAddr) -> (IpAddr, u16) {
    (address.ip().to_canonical(), address.port())
}

/// `0100007F:1AA1`: the address as 32-bit words as they lie in memory, the port as a number.
fn address(text: &str) -> Option<(IpAddr, u16)> {
    let (ip, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let mut bytes = Vec::with_capacity(16);
    for at in (0..ip.len()).step_by(8) {
        bytes.extend(u32::from_str_radix(ip.get(at..at + 8)?, 16).ok()?.to_ne_bytes());
    }
    let ip = match bytes.len() {
        4 => IpAddr::V4(Ipv4Addr::from(<[u8; 4]>::try_from(bytes).ok()?)),
        16 => IpAddr::V6(Ipv6Addr::from(<[u8; 16]>::try_from(bytes).ok()?)),
        _ => return None,
    };
    Some((ip.to_canonical(), port))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::net::{TcpListener, TcpStream};
    use std::os::unix::process::CommandExt;
    use std::process::{Command, Stdio};

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
            assert_eq!(owner(peer, local).expect("a table"), Some(own_uid()));
            drop(client);
            assert_eq!(owner(peer, local).expect("a table"), None, "closed sockets have no owner, least of all root");
        }
    }

    #[test]
    fn a_child_of_another_user_is_that_user() {
        if own_uid() != 0 {
            eprintln!("skipped: only root can start a process of another user");
            return;
        }
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("bound").port();
        let script = format!("exec 3<>/dev/tcp/127.0.0.1/{port}; read -r line");
        let mut child = Command::new("bash");
        child.args(["-c", &script]).uid(1).gid(1).stdin(Stdio::piped());
        let mut child = child.spawn().expect("bash");
        let (mut server, peer) = listener.accept().expect("a caller");
        assert_eq!(owner(peer, server.local_addr().expect("connected")).expect("a table"), Some(1));
        drop(child.stdin.take());
        child.wait().expect("ended");
        assert_eq!(server.read(&mut [0]).expect("closed"), 0);
    }

    #[test]
    fn the_kernels_way_to_write_addresses() {
        assert_eq!(address("0100007F:1AA1"), Some(("127.0.0.1".parse().expect("an address"), 6817)));
        let loopback = "::1".parse().expect("an address");
        assert_eq!(address("00000000000000000000000001000000:0001"), Some((loopback, 1)));
        let mapped = address("0000000000000000FFFF00000100007F:0001");
        assert_eq!(mapped, Some(("127.0.0.1".parse().expect("an address"), 1)));
        assert_eq!((address("0100007F"), address("01:1"), address("zz00007F:1")), (None, None, None));
    }
}
