//! A command of the operator, which exits with 0 if the owner is there.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

use crate::error::OwnerError;
use crate::source::Source;

/// Interval between runs.
const INTERVAL: Duration = Duration::from_secs(10);

/// Time limit of a run.
const LIMIT: Duration = Duration::from_secs(5);

/// First and longest pause between checks for the end of the command.
const PAUSES: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(100));

/// Exit codes from here on are those of the shell: the command cannot be run, or a signal has ended it.
const OF_SHELL: i32 = 126;

/// Command for `sh -c`.
pub struct Asked {
    command: String,
    limit: Duration,
    told: Option<bool>,
}

impl Asked {
    pub fn new(command: &str) -> Self {
        Self { command: command.to_owned(), limit: LIMIT, told: None }
    }

    fn ask(&self) -> Result<bool, OwnerError> {
        let command = self.command.clone();
        let ran = run(&self.command, self.limit);
        let ended = ran.map_err(|source| OwnerError::Run { command: command.clone(), source })?;
        let Some(status) = ended else { return Err(OwnerError::Late { command, limit: self.limit }) };
        match status.code() {
            Some(code) if code < OF_SHELL => Ok(code == 0),
            _ => Err(OwnerError::Failed { command, status }),
        }
    }
}

impl Source for Asked {
    fn next(&mut self) -> Result<bool, OwnerError> {
        loop {
            let is_there = self.ask()?;
            if self.told.replace(is_there) != Some(is_there) {
                return Ok(is_there);
            }
            thread::sleep(INTERVAL);
        }
    }
}

/// Runs a command and returns its status; `None` if it was killed at the time limit.
fn run(command: &str, limit: Duration) -> io::Result<Option<ExitStatus>> {
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(command).process_group(0);
    let mut child = shell.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
    let ended = await_end(&mut child, Instant::now() + limit);
    if !matches!(ended, Ok(Some(_))) {
        // The child is not collected yet, so its number still belongs to it.
        let _ = i32::try_from(child.id()).map(|group| killpg(Pid::from_raw(group), Signal::SIGKILL));
        child.wait()?;
    }
    ended
}

fn await_end(child: &mut Child, end: Instant) -> io::Result<Option<ExitStatus>> {
    let (mut pause, longest) = PAUSES;
    loop {
        let status = child.try_wait()?;
        if status.is_some() || Instant::now() >= end {
            return Ok(status);
        }
        thread::sleep(pause);
        pause = longest.min(2 * pause);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(asked: &Asked, expected: &str) {
        let error = asked.ask().expect_err("an error").to_string();
        assert!(error.contains(expected), "`{expected}` is not in: {error}");
    }

    #[test]
    fn the_exit_code_is_the_answer() {
        assert!(Asked::new("true").ask().expect("there"));
        assert!(!Asked::new("exit 3").ask().expect("away"));
    }

    #[test]
    fn a_command_that_fails_is_no_answer() {
        refused(&Asked::new("/nonexistent/owner"), "`/nonexistent/owner` failed: exit status: 127");
        refused(&Asked::new("kill -9 $$"), "failed: signal: 9");
        let slow = Asked { limit: Duration::from_millis(10), ..Asked::new("sleep 600") };
        refused(&slow, "`sleep 600` did not end within");
    }
}
