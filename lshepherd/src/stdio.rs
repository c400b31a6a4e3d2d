//! The streams of a job: moves bytes between the job's pipes and the memory that is shared with `lslave`. An output is
//! read only as far as there is room, so a job whose output nobody takes blocks in its own `write`.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use limo_shepherd::{Kept, RING_SIZE, Ring};
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::libc;
use nix::poll::PollFlags;

/// Size of the pipes: larger pieces cost fewer wake-ups.
const PIPE: i32 = 256 << 10;

/// Longest piece of an output that is dropped at once.
const DROPPED: usize = 64 << 10;

/// The memory of a job's streams: stdin, stdout and stderr.
pub struct Rings(pub [Ring; 3]);

impl Rings {
    /// Makes the memory.
    ///
    /// # Errors
    /// If the kernel has none.
    pub fn new() -> io::Result<Self> {
        Ok(Self([Ring::new(RING_SIZE)?, Ring::new(RING_SIZE)?, Ring::new(RING_SIZE)?]))
    }

    /// Prepares the memory for the next job.
    pub fn reset(&self) {
        self.0.iter().for_each(Ring::reset);
    }
}

/// Index of stdin in [`Rings`] and [`Stdio`]; stdout and stderr follow.
const STDIN: usize = 0;

/// Descriptors that are kept for a job.
#[derive(Default)]
pub struct Stdio {
    kept: Kept,
    /// Stdin, stdout and stderr, as long as they are open.
    streams: [Option<File>; 3],
    terminal: Option<OwnedFd>,
    work: Option<OwnedFd>,
    /// True if nobody reads the output.
    discards: bool,
}

impl Stdio {
    /// Takes the descriptors in the order of [`Kept`].
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn new(kept: Kept, descriptors: Vec<OwnedFd>) -> io::Result<Self> {
        let mut next = descriptors.into_iter();
        let mut take = |is_kept: bool| if is_kept { next.next() } else { None };
        let [stdin, stdout, stderr] = [take(kept.stdin), take(kept.stdout), take(kept.stderr)];
        let (terminal, work) = (take(kept.terminal), take(kept.work));
        let mut streams = [stdin, stdout, stderr];
        if let Some(terminal) = &terminal {
            streams = [Some(terminal.try_clone()?), Some(terminal.try_clone()?), None];
        }
        for stream in streams.iter().flatten() {
            let flags = OFlag::from_bits_retain(fcntl(stream, FcntlArg::F_GETFL)?);
            fcntl(stream, FcntlArg::F_SETFL(flags | OFlag::O_NONBLOCK))?;
        }
        for pipe in streams.iter().flatten().filter(|_| terminal.is_none()) {
            // A user with very many pipes gets no larger ones.
            let _ = fcntl(pipe, FcntlArg::F_SETPIPE_SZ(PIPE));
        }
        Ok(Self { kept, streams: streams.map(|stream| stream.map(File::from)), terminal, work, discards: false })
    }

    /// Returns what a later `lslave` has to know.
    pub fn kept(&self) -> Kept {
        if self.discards { Kept { work: self.kept.work, ..Kept::default() } } else { self.kept }
    }

    /// Returns the streams that can make progress when they are ready, and announces the others to `lslave`.
    pub fn interest(&self, rings: &Rings) -> impl Iterator<Item = (usize, BorrowedFd<'_>, PollFlags)> {
        let wanted = |index: usize, ring: &Ring| {
            let can = || if index == STDIN { has_input(ring) } else { self.discards || ring.room() > 0 };
            if can() {
                return true;
            }
            // `lslave` may move the stream between these two lines, so this looks again.
            if index == STDIN {
                ring.reader_waits()
            } else {
                ring.writer_waits()
            }
            can()
        };
        let open = self.streams.iter().zip(&rings.0).enumerate();
        let ready: Vec<_> = open
            .filter_map(|(index, (stream, ring))| {
                let stream = stream.as_ref().filter(|_| wanted(index, ring))?;
                Some((index, stream.as_fd(), if index == STDIN { PollFlags::POLLOUT } else { PollFlags::POLLIN }))
            })
            .collect();
        ready.into_iter()
    }

    /// Moves bytes of one stream. Returns true if `lslave` waits for this.
    pub fn move_bytes(&mut self, index: usize, rings: &mut Rings) -> bool {
        let (Some(stream), Some(ring)) = (self.streams.get_mut(index), rings.0.get_mut(index)) else { return false };
        match index {
            STDIN => feed(stream, ring),
            _ if self.discards => drop_output(stream),
            _ => read(stream, ring),
        }
    }

    /// Moves stdin after `lslave` has added bytes. Returns true if `lslave` waits for the result.
    pub fn woken(&mut self, rings: &mut Rings) -> bool {
        self.move_bytes(STDIN, rings)
    }

    /// Drops the streams: stdin ends, and the output goes nowhere.
    pub fn discard(&mut self) {
        self.discards = true;
        self.streams[STDIN] = None;
    }

    /// Closes stdin, because the command is over.
    pub fn close_stdin(&mut self) {
        self.streams[STDIN] = None;
    }

    /// Returns true if an output is open.
    pub fn is_open(&self) -> bool {
        self.streams[1..].iter().any(Option::is_some)
    }

    /// Ends all outputs, though a process may still hold them open. Returns true if `lslave` waits for this.
    pub fn close(&mut self, rings: &mut Rings) -> bool {
        self.streams = [const { None }; 3];
        let ended = rings.0[1..].iter_mut().map(|ring| {
            ring.end();
            ring.wakes_reader()
        });
        ended.fold(false, |woken, one| woken | one)
    }

    /// Ends the work on emulated hardware.
    pub fn end_work(&mut self) {
        self.work = None;
    }

    /// Sets the size of the terminal, if there is one.
    pub fn resize(&self, rows: u16, columns: u16) {
        let size = libc::winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        if let Some(terminal) = &self.terminal {
            // SAFETY: the descriptor is open, and the size outlives the call. A job without a terminal needs no size.
            unsafe { libc::ioctl(terminal.as_raw_fd(), libc::TIOCSWINSZ, &raw const size) };
        }
    }
}

fn has_input(ring: &Ring) -> bool {
    ring.head() < ring.tail() + u64::from(ring.has_ended())
}

/// Returns true if the call can be repeated later.
fn is_temporary(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

/// Reads an output once.
fn read(stream: &mut Option<File>, ring: &mut Ring) -> bool {
    let Some(open) = stream else { return false };
    let read = open.read_vectored(&mut ring.spare());
    match read {
        Ok(count @ 1..) => ring.publish(count),
        Err(error) if is_temporary(&error) => return false,
        // A terminal ends with an error when no process has it open.
        Ok(_) | Err(_) => {
            *stream = None;
            ring.end();
        }
    }
    ring.wakes_reader()
}

fn drop_output(stream: &mut Option<File>) -> bool {
    let Some(open) = stream else { return false };
    match open.read(&mut [0; DROPPED]) {
        Ok(1..) => {}
        Err(error) if is_temporary(&error) => {}
        Ok(_) | Err(_) => *stream = None,
    }
    false
}

/// Writes bytes of stdin once. If the job has closed its stdin, all bytes count as taken, because their sender does not
/// know this and must not wait.
fn feed(stream: &mut Option<File>, ring: &Ring) -> bool {
    let (head, tail) = (ring.head(), ring.tail());
    if let Some(open) = stream
        && head < tail
    {
        match open.write_vectored(&ring.unread(head, usize::MAX)) {
            Ok(count @ 1..) => ring.release(head + count as u64),
            Err(error) if is_temporary(&error) => return false,
            Ok(_) | Err(_) => *stream = None,
        }
    }
    // The end is read before the tail, which does not change afterwards.
    if ring.has_ended() && ring.head() == ring.tail() {
        *stream = None;
    }
    while stream.is_none() && has_input(ring) {
        ring.release(ring.tail() + u64::from(ring.has_ended()));
        // No event tells about further bytes.
        ring.reader_waits();
    }
    ring.wakes_writer()
}
