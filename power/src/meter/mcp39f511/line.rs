//! Serial line to the chip: raw, 115,200 baud, with a limit for each exchange. Garbage, silence and refusals lead to a
//! retry, and after some attempts to an error.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::fcntl::OFlag;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::termios::{self, BaudRate, ControlFlags, FlushArg, SetArg};

use super::error::Mcp39f511Error as Error;
use super::frame::{Ask, Refusal, Reply};

/// Limit of one attempt. A reply takes 3 ms at most; the rest is for USB and a busy machine.
pub const LIMIT: Duration = Duration::from_millis(300);

/// Attempts for a request. A chip that waits for the rest of an incomplete request takes the next one for that rest
/// and refuses it; the third succeeds.
const ATTEMPTS: usize = 3;

/// Silence after which a possible answer is complete; the bytes of a reply are 0.1 ms apart.
const QUIET: Duration = Duration::from_millis(20);

/// Most bytes of an answer in an error.
const SHOWN: usize = 16;

/// Longest reply, including bytes before it.
const LONGEST: usize = 256;

/// An open line.
#[derive(Debug)]
pub struct Line {
    file: File,
    path: PathBuf,
    limit: Duration,
}

impl Line {
    pub fn open(path: &Path, limit: Duration) -> Result<Self, Error> {
        let flags = OFlag::O_NOCTTY | OFlag::O_NONBLOCK;
        let file = OpenOptions::new().read(true).write(true).custom_flags(flags.bits()).open(path);
        let file = file.map_err(|source| Error::Open { path: path.to_owned(), source })?;
        let line = Self { file, path: path.to_owned(), limit };
        line.make_raw().map_err(|error| match error {
            nix::Error::ENOTTY | nix::Error::EINVAL => Error::NoLine { path: path.to_owned() },
            error => Error::Open { path: path.to_owned(), source: error.into() },
        })?;
        Ok(line)
    }

    fn make_raw(&self) -> nix::Result<()> {
        let mut settings = termios::tcgetattr(&self.file)?;
        termios::cfmakeraw(&mut settings);
        termios::cfsetspeed(&mut settings, BaudRate::B115200)?;
        settings.control_flags |= ControlFlags::CLOCAL | ControlFlags::CREAD;
        settings.control_flags &= !(ControlFlags::CSTOPB | ControlFlags::CRTSCTS);
        termios::tcsetattr(&self.file, SetArg::TCSANOW, &settings)
    }

    /// Returns the data that answers `ask`; empty for a write.
    pub fn exchange(&mut self, ask: Ask) -> Result<Vec<u8>, Error> {
        let mut attempt = 1;
        loop {
            match self.attempt(ask) {
                Err(error) if attempt < ATTEMPTS && error.is_passing() => attempt += 1,
                other => return other,
            }
        }
    }

    fn attempt(&mut self, ask: Ask) -> Result<Vec<u8>, Error> {
        let end = Instant::now() + self.limit;
        // A late answer would be taken for the answer to this request.
        termios::tcflush(&self.file, FlushArg::TCIFLUSH).map_err(|error| self.gone(error.into()))?;
        self.send(&ask.frame(), end)?;
        let mut bytes = Vec::new();
        loop {
            let reply = ask.reply(&bytes);
            let until = match reply {
                Reply::Done(data) => return Ok(data),
                Reply::Unless(_) => end.min(Instant::now() + QUIET),
                Reply::Begun | Reply::Nothing => end,
            };
            if bytes.len() < LONGEST && self.wait(PollFlags::POLLIN, until)? {
                self.receive(&mut bytes)?;
                continue;
            }
            let path = self.path.clone();
            return match reply {
                Reply::Unless(Refusal::Accepted) => Ok(Vec::new()),
                Reply::Unless(Refusal::Refused) => Err(Error::Refused { path, ask }),
                Reply::Unless(Refusal::ChecksumFailed) => Err(Error::Checksum { path }),
                _ if bytes.is_empty() => Err(Error::Silent { path, limit: self.limit }),
                _ => Err(Error::Garbled { path, found: hex(&bytes) }),
            };
        }
    }

    fn send(&mut self, frame: &[u8], end: Instant) -> Result<(), Error> {
        let mut left = frame;
        while !left.is_empty() {
            match self.file.write(left) {
                Ok(count) => left = &left[count..],
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    if !self.wait(PollFlags::POLLOUT, end)? {
                        return Err(Error::Silent { path: self.path.clone(), limit: self.limit });
                    }
                }
                Err(error) => return Err(self.gone(error)),
            }
        }
        Ok(())
    }

    /// Reads the available bytes.
    fn receive(&mut self, bytes: &mut Vec<u8>) -> Result<(), Error> {
        let mut buffer = [0; LONGEST];
        match self.file.read(&mut buffer) {
            Ok(0) => Err(self.gone(ErrorKind::UnexpectedEof.into())),
            Ok(count) => {
                bytes.extend_from_slice(&buffer[..count]);
                Ok(())
            }
            Err(error) if matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::WouldBlock) => Ok(()),
            Err(error) => Err(self.gone(error)),
        }
    }

    /// Waits until the line is ready; returns false at `end`.
    fn wait(&self, what: PollFlags, end: Instant) -> Result<bool, Error> {
        loop {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(false);
            }
            // One millisecond is added to the rounded time, so that the last round does not spin.
            let timeout = PollTimeout::try_from(left + Duration::from_millis(1)).unwrap_or(PollTimeout::MAX);
            match poll(&mut [PollFd::new(self.file.as_fd(), what)], timeout) {
                Ok(0) | Err(nix::Error::EINTR) => {}
                Ok(_) => return Ok(true),
                Err(error) => return Err(self.gone(error.into())),
            }
        }
    }

    fn gone(&self, source: io::Error) -> Error {
        Error::Gone { path: self.path.clone(), source }
    }
}

fn hex(bytes: &[u8]) -> String {
    let words: Vec<String> = bytes.iter().take(SHOWN).map(|byte| format!("{byte:02x}")).collect();
    let more = if bytes.len() > SHOWN { " …" } else { "" };
    format!("`{}{more}`", words.join(" "))
}
