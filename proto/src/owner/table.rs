//! The owner of a socket from `/proc/net/tcp`, which lists all sockets.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Code of the state TCP_ESTABLISHED.
const ESTABLISHED: &str = "01";

/// The same as [`super::owner`].
pub(super) fn owner(peer: SocketAddr, local: SocketAddr) -> io::Result<Option<u32>> {
    let read = |path: &str| std::fs::read_to_string(path);
    // A socket of the IPv6 family may call an IPv4 address, and is then in the IPv6 table.
    let found = match peer.ip() {
        IpAddr::V4(_) => search(&read("/proc/net/tcp")?, peer, local),
        IpAddr::V6(_) => None,
    };
    match found {
        None => read("/proc/net/tcp6").map(|table| search(&table, peer, local)).or_else(|error| {
            // A kernel without IPv6 has no such table.
            if error.kind() == io::ErrorKind::NotFound { Ok(None) } else { Err(error) }
        }),
        found => Ok(found),
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

/// Converts IPv4 addresses in IPv6 form to plain ones.
fn plain(address: SocketAddr) -> (IpAddr, u16) {
    (address.ip().to_canonical(), address.port())
}

/// Parses `0100007F:1AA1`: the address as 32-bit words in memory order, the port as a number.
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
