//! Runs a command for a meter, with limits for its time and its output.
//!
//! Reads a clock for the time limit only. The caller waits for the command; its processes are a group, which is killed
//! at the time limit.

use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

use super::error::MeterError;

/// Time limit: long for any meter, and half the age at which the master ignores a reading.
pub const LIMIT: Duration = Duration::from_secs(5);

/// Most bytes of output that are kept; no answer of a meter is longer.
const LONGEST_OUTPUT: usize = 4096;

/// Most characters of output in an error.
const SHOWN: usize = 200;

/// Interval between checks for the end of a command that has closed its output.
const PAUSE: Duration = Duration::from_millis(2);

/// Longest wait for a killed command. If the kernel blocks the command longer, the daemon collects it.
const KILLED: Duration = Duration::from_millis(200);

/// Output of a command, and its status; `None` if it did not end in time.
pub struct Ran {
    pub stdout: String,
    pub stderr: String,
    pub status: Option<ExitStatus>,
}

/// Runs `command` within `limit`.
fn run(mut command: Command, limit: Duration) -> io::Result<Ran> {
    command.process_group(0);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let end = Instant::now() + limit;
    let mut child = command.spawn()?;
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    let read = match (child.stdout.take(), child.stderr.take()) {
        (Some(out), Some(err)) => collect((out, &mut stdout), (err, &mut stderr), end),
        _ => Ok(true),
    };
    let ended = match read {
        Ok(true) => await_end(&mut child, end),
        // A process of the group still runs, even if the command itself has ended.
        other => other.map(|_| None),
    };
    if !matches!(ended, Ok(Some(_))) {
        // The child is not collected yet, so its number still belongs to it. A group that has ended needs no signal.
        let _ = i32::try_from(child.id()).map(|group| killpg(Pid::from_raw(group), Signal::SIGKILL));
        let _ = await_end(&mut child, Instant::now() + KILLED);
    }
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    Ok(Ran { stdout: text(stdout), stderr: text(stderr), status: ended? })
}

/// Returns the output of `command`, if it ended well and in time. Errors call it `shown`.
///
/// # Errors
/// [`MeterError::Run`], [`MeterError::Late`], [`MeterError::Failed`].
pub fn succeeded(command: Command, shown: &str, limit: Duration) -> Result<Ran, MeterError> {
    let command = run(command, limit).map_err(|source| MeterError::Run { command: shown.to_owned(), source });
    let ran = command?;
    let (command, printed) = (shown.to_owned(), ran.shown());
    match ran.status {
        None => Err(MeterError::Late { command, limit, printed }),
        Some(status) if !status.success() => Err(MeterError::Failed { command, status: status.to_string(), printed }),
        Some(_) => Ok(ran),
    }
}

impl Ran {
    /// Formats the output on one line.
    pub fn shown(&self) -> String {
        let words: Vec<&str> = self.stdout.split_whitespace().chain(self.stderr.split_whitespace()).collect();
        let text = words.join(" ");
        match text.chars().count() {
            0 => "nothing".to_owned(),
            count if count <= SHOWN => format!("`{text}`"),
            _ => format!("`{}…`", text.chars().take(SHOWN).collect::<String>()),
        }
    }
}

/// Reads both streams to their ends, or until `end`; returns true if they ended. Excess output is read and dropped.
fn collect<A, B>(
    (mut out, to_out): (A, &mut Vec<u8>),
    (mut err, to_err): (B, &mut Vec<u8>),
    end: Instant,
) -> io::Result<bool>
where
    A: Read + AsFd,
    B: Read + AsFd,
{
    let (mut out_open, mut err_open) = (true, true);
    while out_open || err_open {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(false);
        }
        // One millisecond is added to the rounded time, so that the last round does not spin.
        let timeout = PollTimeout::try_from(left + Duration::from_millis(1)).unwrap_or(PollTimeout::MAX);
        let mut waited = Vec::new();
        waited.extend(out_open.then(|| PollFd::new(out.as_fd(), PollFlags::POLLIN)));
        waited.extend(err_open.then(|| PollFd::new(err.as_fd(), PollFlags::POLLIN)));
        match poll(&mut waited, timeout) {
            Ok(_) => {}
            Err(nix::Error::EINTR) => continue,
            Err(error) => return Err(error.into()),
        }
        let ready: Vec<bool> = waited.iter().map(|fd| fd.any().unwrap_or(false)).collect();
        let mut ready = ready.into_iter();
        if out_open && ready.next() == Some(true) {
            out_open = take(&mut out, to_out)?;
        }
        if err_open && ready.next() == Some(true) {
            err_open = take(&mut err, to_err)?;
        }
    }
    Ok(true)
}

/// Reads the available output; drops the excess. Returns true if there may be more.
fn take(from: &mut impl Read, to: &mut Vec<u8>) -> io::Result<bool> {
    let mut buffer = [0; 1024];
    let count = match from.read(&mut buffer) {
        Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(true),
        other => other?,
    };
    let room = LONGEST_OUTPUT.saturating_sub(to.len());
    to.extend_from_slice(&buffer[..count.min(room)]);
    Ok(count > 0)
}

/// Returns the child's status if it ended before `end`.
fn await_end(child: &mut Child, end: Instant) -> io::Result<Option<ExitStatus>> {
    loop {
        let status = child.try_wait()?;
        if status.is_some() || Instant::now() >= end {
            return Ok(status);
        }
        thread::sleep(PAUSE);
    }
}
