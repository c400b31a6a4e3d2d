//! The owner of a socket from the kernel's `sock_diag` netlink interface, which looks up exactly one socket: see
//! sock_diag(7) and `linux/inet_diag.h`.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsRawFd;

use nix::errno::Errno;
use nix::sys::socket::sockopt::ReceiveTimeout;
use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, recv, send, setsockopt, socket};
use nix::sys::time::{TimeVal, TimeValLike};

const SOCK_DIAG_BY_FAMILY: u16 = 20;
const NLMSG_ERROR: u16 = 2;
const NLM_F_REQUEST: u16 = 1;
const IPPROTO_TCP: u8 = 6;
const TCP_ESTABLISHED: u8 = 1;
/// Value for a look-up without a cookie: the addresses alone identify the socket.
const NO_COOKIE: [u8; 8] = [0xff; 8];

/// Bytes of `nlmsghdr` and `inet_diag_req_v2`.
const REQUEST: usize = 16 + 56;
/// Bytes of `nlmsghdr` and `inet_diag_msg`.
const ANSWER: usize = 16 + 72;

/// Time limit against a broken kernel; a working one answers at once.
const PATIENCE_MS: i64 = 1_000;

/// Same as [`super::owner`].
pub(super) fn owner(peer: SocketAddr, local: SocketAddr) -> io::Result<Option<u32>> {
    let protocol = SockProtocol::NetlinkSockDiag;
    let kernel = socket(AddressFamily::Netlink, SockType::Datagram, SockFlag::SOCK_CLOEXEC, protocol)?;
    setsockopt(&kernel, ReceiveTimeout, &TimeVal::milliseconds(PATIENCE_MS))?;
    send(kernel.as_raw_fd(), &request(peer, local), MsgFlags::empty())?;
    let mut answer = [0; 512];
    let length = recv(kernel.as_raw_fd(), &mut answer, MsgFlags::empty())?;
    read(answer.get(..length).unwrap_or_default())
}

fn request(peer: SocketAddr, local: SocketAddr) -> Vec<u8> {
    let family = if peer.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
    let mut out = Vec::with_capacity(REQUEST);
    out.extend((REQUEST as u32).to_ne_bytes());
    out.extend(SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    out.extend(NLM_F_REQUEST.to_ne_bytes());
    // Sequence number and port are zero, because there is one request and one answer.
    out.extend([0; 8]);
    out.extend([family as u8, IPPROTO_TCP, 0, 0]);
    out.extend(u32::MAX.to_ne_bytes());
    out.extend(peer.port().to_be_bytes());
    out.extend(local.port().to_be_bytes());
    out.extend(address(peer.ip()));
    out.extend(address(local.ip()));
    out.extend([0; 4]);
    out.extend(NO_COOKIE);
    out
}

/// Encodes an address as four 32-bit words.
fn address(ip: IpAddr) -> [u8; 16] {
    let mut words = [0; 16];
    match ip {
        IpAddr::V4(ip) => words[..4].copy_from_slice(&ip.octets()),
        IpAddr::V6(ip) => words = ip.octets(),
    }
    words
}

fn read(answer: &[u8]) -> io::Result<Option<u32>> {
    let short = || io::Error::new(io::ErrorKind::InvalidData, "the kernel's answer is too short");
    let word = |at: usize| answer.get(at..at + 4).and_then(|bytes| Some(u32::from_ne_bytes(bytes.try_into().ok()?)));
    let kind = answer.get(4..6).ok_or_else(short)?;
    if kind == NLMSG_ERROR.to_ne_bytes() {
        let code = word(16).ok_or_else(short)?.cast_signed();
        let errno = Errno::from_raw(code.wrapping_neg());
        return if errno == Errno::ENOENT { Ok(None) } else { Err(errno.into()) };
    }
    if kind != SOCK_DIAG_BY_FAMILY.to_ne_bytes() || answer.len() < ANSWER {
        return Err(short());
    }
    let (state, uid, inode) = (answer[17], word(80).ok_or_else(short)?, word(84).ok_or_else(short)?);
    Ok((state == TCP_ESTABLISHED && inode != 0).then_some(uid))
}
