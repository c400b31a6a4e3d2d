//! A command that prints watts, for every meter that Limo does not know itself.
//!
//! The first number on stdout counts, with an optional unit: `41.5`, `Power: 41.5 W`, `0.0415 kW`. What follows it on its
//! line must be nothing or a unit, so that volts, or a number with a decimal comma, are not taken for watts.
//!
//! A clock is looked at here, for the time limit alone. Whoever reads waits for the command; its processes are a group,
//! which is killed where it does not end in time.

use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use limo_model::Power;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

use super::error::MeterError;
use super::{Meter, Reading, plausible};

/// Long for any meter, and half of the age at which the master no longer counts a reading.
const LIMIT: Duration = Duration::from_secs(5);

/// More than that is no answer to a question for watts.
const LONGEST_OUTPUT: usize = 4096;

/// How much of what a command printed an error shows, in characters.
const SHOWN: usize = 200;

/// Between two looks whether a command that has closed its output has ended.
const PAUSE: Duration = Duration::from_millis(2);

/// How long a command that was killed is waited for. One that the kernel holds longer is left to the daemon to collect.
const KILLED: Duration = Duration::from_millis(200);

/// The units that a command may print, and as the model writes them. `Watts` is what `ipmitool` says.
const UNITS: [(&str, &str); 5] = [("W", "W"), ("mW", "mW"), ("kW", "kW"), ("Watts", "W"), ("watts", "W")];

/// Draw by a command.
#[derive(Debug)]
pub struct Command {
    text: String,
    limit: Duration,
}

/// What a command printed, and how it ended; `None` where it did not in time.
struct Ran {
    stdout: String,
    stderr: String,
    status: Option<ExitStatus>,
}

impl Command {
    /// `text` is for `sh -c`. It may take 5 s.
    pub fn new(text: &str) -> Self {
        Self { text: text.to_owned(), limit: LIMIT }
    }

    /// The same with another time limit.
    pub fn with_limit(self, limit: Duration) -> Self {
        Self { limit, ..self }
    }

    fn run(&self) -> io::Result<Ran> {
        let mut command = std::process::Command::new("sh");
        command.arg("-c").arg(&self.text).process_group(0);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let end = Instant::now() + self.limit;
        let mut child = command.spawn()?;
        let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
        let read = match (child.stdout.take(), child.stderr.take()) {
            (Some(out), Some(err)) => collect((out, &mut stdout), (err, &mut stderr), end),
            _ => Ok(true),
        };
        let ended = match read {
            Ok(true) => await_end(&mut child, end),
            // Something of it still runs, even where the command itself has ended.
            other => other.map(|_| None),
        };
        if !matches!(ended, Ok(Some(_))) {
            // Not collected yet, so the number is its own. A group that is gone needs no signal.
            let _ = i32::try_from(child.id()).map(|group| killpg(Pid::from_raw(group), Signal::SIGKILL));
            let _ = await_end(&mut child, Instant::now() + KILLED);
        }
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Ok(Ran { stdout: text(stdout), stderr: text(stderr), status: ended? })
    }
}

impl Meter for Command {
    fn read(&mut self, _now: Duration) -> Result<Reading, MeterError> {
        let command = self.text.clone();
        let ran = match self.run() {
            Ok(ran) => ran,
            Err(source) => return Err(MeterError::Run { command, source }),
        };
        let printed = ran.shown();
        match ran.status {
            None => Err(MeterError::Late { command, limit: self.limit, printed }),
            Some(status) if !status.success() => {
                Err(MeterError::Failed { command, status: status.to_string(), printed })
            }
            Some(_) if ran.stdout.trim().is_empty() && ran.stderr.trim().is_empty() => {
                Err(MeterError::Silent { command })
            }
            Some(_) => match watts(&ran.stdout) {
                Some(draw) => plausible(draw, || format!("the meter command `{command}`")),
                None => Err(MeterError::Nonsense { command, printed }),
            },
        }
    }
}

impl Ran {
    /// On one line.
    fn shown(&self) -> String {
        let words: Vec<&str> = self.stdout.split_whitespace().chain(self.stderr.split_whitespace()).collect();
        let text = words.join(" ");
        match text.chars().count() {
            0 => "nothing".to_owned(),
            count if count <= SHOWN => format!("`{text}`"),
            _ => format!("`{}…`", text.chars().take(SHOWN).collect::<String>()),
        }
    }
}

/// Reads both to their ends, or until `end`; whether they ended. What is too long is read and dropped.
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
        // One millisecond more than what is rounded off, so that the last round does not spin.
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

/// What is there now; what is too long is dropped. Whether there may be more.
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

/// Whether it ended, and how.
fn await_end(child: &mut Child, end: Instant) -> io::Result<Option<ExitStatus>> {
    loop {
        let status = child.try_wait()?;
        if status.is_some() || Instant::now() >= end {
            return Ok(status);
        }
        thread::sleep(PAUSE);
    }
}

/// The first number of a text and the unit after it; watts where there is none.
fn watts(text: &str) -> Option<Power> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let is_number = |c: char| c.is_ascii_digit() || c == '.';
    text.lines().find_map(|line| {
        let starts = |(at, c): &(usize, char)| {
            c.is_ascii_digit() && !line[..*at].ends_with(|before| is_word(before) || before == '.')
        };
        let (digits, _) = line.char_indices().find(starts)?;
        let start = if line[..digits].ends_with('-') { digits - 1 } else { digits };
        Some(quantity(&line[start..], is_number))
    })?
}

/// `41.5 W`, where nothing but a unit and what is separate from it follows.
fn quantity(text: &str, is_number: impl Fn(char) -> bool) -> Option<Power> {
    let end =
        text.char_indices().find(|(at, c)| !is_number(*c) && (*at > 0 || *c != '-')).map_or(text.len(), |(at, _)| at);
    let rest = &text[end..];
    let word = rest.trim_start();
    let unit = if word.is_empty() {
        "W"
    } else {
        let length = word.find(|c: char| !c.is_alphanumeric()).unwrap_or(word.len());
        UNITS.iter().find(|(printed, _)| *printed == &word[..length])?.1
    };
    format!("{} {unit}", &text[..end]).parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_units() {
        let check = |text: &str, expected: Option<i64>| assert_eq!(watts(text).map(Power::mw), expected, "{text:?}");
        check("41.5\n", Some(41_500));
        check("41.5 W\n", Some(41_500));
        check("Power: 250mW, mean\n", Some(250));
        check("\n\n0.0415 kW", Some(41_500));
        check("    Instantaneous power reading:                   220 Watts\n    Minimum: 4 Watts\n", Some(220_000));
        check("eth0: 12 W", Some(12_000));
        check("-3 W", Some(-3_000));
        check("", None);
        check("no sensor", None);
        check("230 V 0.2 A 46 W", None);
        check("45,2 W", None);
        check("1.2.3", None);
        check("4.5e1", None);
        check("12 at noon", None);
        check("99999999999999999999999 W", None);
    }
}
