//! Threads with blocking reads and writes between the session and this process's stdin, stdout and stderr.

use std::io;
use std::os::fd::AsFd;
use std::sync::mpsc as blocking;
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use limo_proto::{CHUNK, Channel};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal};
use nix::unistd;
use tokio::sync::mpsc;

/// Interval at which a background process checks if it is in the foreground again. The kernel sends no event for that.
const BACKGROUND_LOOK: Duration = Duration::from_millis(500);

/// Result of writing output.
#[derive(Debug)]
pub enum Report {
    /// Number of bytes of this node that were written or discarded; the end of the stream counts as one.
    Written(Channel, u32, u64),
    /// Output cannot be written; the rest is discarded.
    Blocked(Channel, Errno),
}

/// Starts reading stdin. The last piece is empty. At most one piece waits in the channel.
pub fn read_stdin() -> mpsc::Receiver<Bytes> {
    let (pieces, taken) = mpsc::channel(1);
    thread::spawn(move || {
        // With SIGTTIN blocked, a read from the background fails instead of stopping this process.
        let mut background = SigSet::empty();
        background.add(Signal::SIGTTIN);
        let _ = background.thread_block();
        let mut buffer = vec![0; CHUNK];
        loop {
            let piece = read(&mut buffer);
            let ended = piece.is_empty();
            if pieces.blocking_send(piece).is_err() || ended {
                return;
            }
        }
    });
    taken
}

/// Returns the next piece; empty at the end and after an error.
fn read(buffer: &mut [u8]) -> Bytes {
    let stdin = io::stdin();
    loop {
        match unistd::read(stdin.as_fd(), buffer) {
            Ok(count) => return Bytes::copy_from_slice(&buffer[..count]),
            Err(Errno::EINTR) => {}
            Err(Errno::EAGAIN) => ready(stdin.as_fd(), PollFlags::POLLIN),
            Err(Errno::EIO) if in_background(stdin.as_fd()) => thread::sleep(BACKGROUND_LOOK),
            Err(_) => return Bytes::new(),
        }
    }
}

/// Returns true if `terminal` is this process's terminal and has another process group in its foreground.
pub fn in_background(terminal: impl AsFd) -> bool {
    unistd::tcgetpgrp(terminal).is_ok_and(|owner| owner != unistd::getpgrp())
}

/// Waits for a descriptor that another process may have made non-blocking.
fn ready(fd: std::os::fd::BorrowedFd<'_>, flags: PollFlags) {
    // If polling fails, the following read or write reports the error.
    let _ = poll(&mut [PollFd::new(fd, flags)], PollTimeout::NONE);
}

/// Index of a node, and a piece of its output. An empty piece is the end.
pub type Piece = (u32, Bytes);

/// Writes stdout or stderr from a thread that is started by the first piece.
pub struct OutputWriter {
    channel: Channel,
    reports: mpsc::UnboundedSender<Report>,
    pieces: Option<blocking::Sender<Piece>>,
}

impl OutputWriter {
    pub fn new(channel: Channel, reports: mpsc::UnboundedSender<Report>) -> Self {
        Self { channel, reports, pieces: None }
    }

    /// Queues a piece, and reports the result.
    pub fn write(&mut self, piece: Piece) {
        let (part, bytes) = &piece;
        if bytes.is_empty() && self.pieces.is_none() {
            // Most commands leave one of the streams empty. The receiver of reports exists as long as this process.
            let _ = self.reports.send(Report::Written(self.channel, *part, 1));
            return;
        }
        let (channel, reports) = (self.channel, &self.reports);
        let pieces = self.pieces.get_or_insert_with(|| start(channel, reports.clone()));
        // The thread ends only with this process, so it takes every piece.
        let _ = pieces.send(piece);
    }
}

fn start(channel: Channel, reports: mpsc::UnboundedSender<Report>) -> blocking::Sender<Piece> {
    let (pieces, taken) = blocking::channel::<Piece>();
    thread::spawn(move || {
        let mut blocked = false;
        while let Ok((part, piece)) = taken.recv() {
            if !blocked && let Err(error) = write(channel, &piece) {
                blocked = true;
                let _ = reports.send(Report::Blocked(channel, error));
            }
            let count = (piece.len() as u64).max(1);
            if reports.send(Report::Written(channel, part, count)).is_err() {
                return;
            }
        }
    });
    pieces
}

fn write(channel: Channel, mut piece: &[u8]) -> Result<(), Errno> {
    let (stdout, stderr) = (io::stdout(), io::stderr());
    let fd = if channel == Channel::Stderr { stderr.as_fd() } else { stdout.as_fd() };
    while !piece.is_empty() {
        match unistd::write(fd, piece) {
            Ok(count) => piece = &piece[count..],
            Err(Errno::EINTR) => {}
            Err(Errno::EAGAIN) => ready(fd, PollFlags::POLLOUT),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
