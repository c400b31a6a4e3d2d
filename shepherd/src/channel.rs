//! The socket between `lslave` and `lshepherd`: one message per packet, with descriptors.

use std::cell::RefCell;
use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut, Read, Seek, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use nix::cmsg_space;
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::socket::{
    AddressFamily, ControlMessage, ControlMessageOwned, MsgFlags, SockFlag, SockType, recvmsg, sendmsg, socketpair,
};
use thiserror::Error;

use crate::fields::{DecodeError, Fields};
use crate::order::{KEPT, Kept, Launch, PLAN};
use crate::plan::Plan;

/// Largest packet; a larger plan is sent in a separate file.
const PACKET: usize = 64 << 10;

/// Most descriptors with one message: a plan, stdin, stdout, stderr, those that the job inherits, and those that
/// `lshepherd` keeps.
pub const MAX_DESCRIPTORS: usize = 4 + crate::MOST_INHERITED + crate::MOST_KEPT;

/// A failure of the socket, or an invalid message.
#[derive(Debug, Error)]
#[expect(missing_docs, reason = "the messages say what each variant is")]
pub enum ChannelError {
    #[error("cannot {what}: {source}")]
    Io { what: &'static str, source: io::Error },
    #[error("a message of more than {PACKET} bytes arrived")]
    TooLong,
    #[error(transparent)]
    Decode(#[from] DecodeError),
}

fn failed(what: &'static str) -> impl FnOnce(Errno) -> ChannelError {
    move |errno| ChannelError::Io { what, source: errno.into() }
}

/// Returns both ends of a new connection; neither blocks, and both are closed on `exec`.
///
/// # Errors
/// If the kernel cannot create it.
pub fn pair() -> Result<(OwnedFd, OwnedFd), ChannelError> {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    socketpair(AddressFamily::Unix, SockType::SeqPacket, None, flags).map_err(failed("make a pair of sockets"))
}

/// Sends one message.
///
/// # Errors
/// `WouldBlock` if the other end is slow; the message can be sent again then.
pub fn send(socket: BorrowedFd<'_>, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
    let raw: Vec<RawFd> = descriptors.iter().map(AsRawFd::as_raw_fd).collect();
    let rights = [ControlMessage::ScmRights(&raw)];
    let beside = if raw.is_empty() { &[][..] } else { &rights[..] };
    let flags = MsgFlags::MSG_NOSIGNAL | MsgFlags::MSG_DONTWAIT;
    sendmsg::<()>(socket.as_raw_fd(), &[IoSlice::new(bytes)], beside, flags, None)?;
    Ok(())
}

/// A received message.
#[derive(Debug)]
pub struct Received {
    /// Bytes of [`crate::Order::encode`] or [`crate::Answer::encode`].
    pub bytes: Vec<u8>,
    /// Descriptors, at most [`MAX_DESCRIPTORS`].
    pub descriptors: Vec<OwnedFd>,
}

/// Returns the next message; `None` at the end of the connection.
///
/// # Errors
/// [`ChannelError`]; of the kind `WouldBlock` if no message has arrived yet.
pub fn receive(socket: BorrowedFd<'_>) -> Result<Option<Received>, ChannelError> {
    thread_local! {
        // Most messages are short, so clearing a buffer for each of them would take longer than reading them.
        static BUFFER: RefCell<Vec<u8>> = RefCell::new(vec![0; PACKET]);
    }
    BUFFER.with_borrow_mut(|bytes| receive_in(socket, bytes))
}

fn receive_in(socket: BorrowedFd<'_>, bytes: &mut [u8]) -> Result<Option<Received>, ChannelError> {
    let mut space = cmsg_space!([RawFd; MAX_DESCRIPTORS]);
    let (length, descriptors, cut) = {
        let mut slices = [IoSliceMut::new(bytes)];
        let flags = MsgFlags::MSG_CMSG_CLOEXEC | MsgFlags::MSG_DONTWAIT;
        let message = recvmsg::<()>(socket.as_raw_fd(), &mut slices, Some(&mut space), flags);
        let message = message.map_err(failed("receive a message"))?;
        let rights = message.cmsgs().map_err(failed("receive descriptors"))?.flat_map(|one| match one {
            ControlMessageOwned::ScmRights(raw) => raw,
            _ => Vec::new(),
        });
        // SAFETY: the kernel has just made the descriptors, and no other code owns them.
        let descriptors: Vec<_> = rights.map(|raw| unsafe { OwnedFd::from_raw_fd(raw) }).collect();
        (message.bytes, descriptors, message.flags.contains(MsgFlags::MSG_TRUNC))
    };
    if cut {
        return Err(ChannelError::TooLong);
    }
    Ok((length > 0).then(|| Received { bytes: bytes[..length].to_vec(), descriptors }))
}

impl ChannelError {
    /// Returns true if no message can be received now.
    pub fn is_would_block(&self) -> bool {
        matches!(self, Self::Io { source, .. } if source.kind() == io::ErrorKind::WouldBlock)
    }
}

/// Returns the bytes of a launch, and a descriptor with its plan if the plan is too large for a packet. It precedes
/// the other descriptors: stdin, stdout, stderr, and those that the job inherits.
///
/// # Errors
/// If the kernel cannot create a memory file.
pub fn send_launch(launch: &Launch, plan: &Plan) -> Result<(Vec<u8>, Option<OwnedFd>), ChannelError> {
    let (mut message, plan) = (launch.writer(), plan.encode());
    let with_plan = launch.writer().bytes(PLAN, &plan).finish();
    if with_plan.len() <= PACKET {
        return Ok((with_plan, None));
    }
    let flags = MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING;
    let mut file: File = memfd_create(c"limo-plan", flags).map_err(failed("make a memory file"))?.into();
    file.write_all(&plan).map_err(|source| ChannelError::Io { what: "write a plan", source })?;
    let seals = SealFlag::F_SEAL_SEAL | SealFlag::F_SEAL_SHRINK | SealFlag::F_SEAL_GROW | SealFlag::F_SEAL_WRITE;
    fcntl(file.as_fd(), FcntlArg::F_ADD_SEALS(seals)).map_err(failed("seal a plan"))?;
    Ok((message.finish(), Some(file.into())))
}

/// The plan of a received launch, with its descriptors.
#[derive(Debug)]
pub struct Taken {
    /// The plan.
    pub plan: Plan,
    /// Stdin, stdout, stderr and the inherited ones.
    pub descriptors: Vec<OwnedFd>,
    /// Those of `Launch::kept`.
    pub kept: Vec<OwnedFd>,
}

/// Returns the plan of a received launch.
///
/// # Errors
/// If the plan or its descriptors are incomplete.
pub fn take_plan(received: Received) -> Result<Taken, ChannelError> {
    let Received { bytes, mut descriptors } = received;
    let fields = Fields::read(&bytes)?;
    let kept = Kept::of(fields.maybe(KEPT)?.unwrap_or(0)).count();
    let plan = match fields.bytes(PLAN) {
        Some(plan) => Plan::decode(plan)?,
        None if descriptors.is_empty() => return Err(DecodeError::Missing { tag: PLAN }.into()),
        None => {
            let mut file = File::from(descriptors.remove(0));
            let mut plan = Vec::new();
            // The sender may have moved the file's position by writing.
            let read = file.rewind().and_then(|()| file.read_to_end(&mut plan));
            read.map_err(|source| ChannelError::Io { what: "read a plan", source })?;
            Plan::decode(&plan)?
        }
    };
    let expected = 3 + plan.inherited + kept;
    if descriptors.len() != expected || plan.inherited > crate::MOST_INHERITED || plan.until_exec > plan.inherited {
        return Err(DecodeError::Descriptors { found: descriptors.len(), expected }.into());
    }
    let kept = descriptors.split_off(3 + plan.inherited);
    Ok(Taken { plan, descriptors, kept })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::order::{Handle, Order};

    fn launch() -> Launch {
        Launch {
            handle: Handle(1),
            time_limit: None,
            warning: None,
            checkpoint: None,
            kill_grace: 0,
            lease: None,
            launch_deadline: 1,
            claim: None,
            kept: Kept { stdout: true, ..Kept::default() },
        }
    }

    #[test]
    fn plans_of_any_size_arrive_with_their_descriptors() {
        let (ours, theirs) = pair().expect("sockets");
        for size in [10, PACKET, 1 << 20] {
            let plan = Plan { argv: vec![vec![b'x'; size]], inherited: 1, ..Plan::default() };
            let (bytes, file) = send_launch(&launch(), &plan).expect("encoded");
            let null: Vec<File> = (0..5).map(|_| File::open("/dev/null").expect("there")).collect();
            let all: Vec<_> = file.iter().map(AsFd::as_fd).chain(null.iter().map(AsFd::as_fd)).collect();
            send(ours.as_fd(), &bytes, &all).expect("sent");
            let received = receive(theirs.as_fd()).expect("received").expect("open");
            assert_eq!(Order::decode(&received.bytes), Ok(Order::Launch(launch())));
            let Taken { plan: found, descriptors, kept } = take_plan(received).expect("whole");
            assert_eq!((found, descriptors.len(), kept.len()), (plan, 4, 1));
        }
        assert!(receive(theirs.as_fd()).is_err_and(|error| error.is_would_block()));
        drop(ours);
        assert!(receive(theirs.as_fd()).expect("the end").is_none());
    }

    #[test]
    fn missing_descriptors_are_an_error() {
        let (bytes, _) = send_launch(&launch(), &Plan::default()).expect("encoded");
        let found =
            take_plan(Received { bytes, descriptors: Vec::new() }).map(|_| ()).map_err(|error| error.to_string());
        assert_eq!(found, Err("the message comes with 0 descriptors instead of 4".to_owned()));
    }
}
