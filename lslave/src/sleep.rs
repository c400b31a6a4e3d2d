//! Puts this machine to sleep: runs the configured command between two connections to the master, and returns when the
//! machine is awake again. The node decides when.

use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use limo_shepherd::BootTime;
use tokio::time::Instant;
use tracing::{info, warn};

/// Longest time that the master may take to end the connection.
pub const FAREWELL: Duration = Duration::from_secs(2);

/// Interval between checks if the machine has slept.
const LOOK: Duration = Duration::from_millis(200);

/// Least difference between the clock that includes sleep and the other clock if the machine has slept; reading both
/// takes less.
const SLEPT: Duration = Duration::from_millis(500);

/// Runs a command of the settings. This needs another thread than the loop's, which collects all of its children.
///
/// # Errors
/// If it cannot be run, or fails.
pub fn run(command: &str) -> Result<(), String> {
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", command]).stdin(Stdio::null()).stdout(Stdio::null()).process_group(0);
    match shell.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("`{command}` failed with {status}")),
        Err(error) => Err(format!("cannot run `{command}`: {error}")),
    }
}

/// Command that puts the machine to sleep, and a flag that requests it.
#[derive(Debug, Clone)]
pub struct Sleeper {
    command: Arc<str>,
    /// Time after which the machine has failed to sleep.
    patience: Duration,
    wanted: Arc<AtomicBool>,
}

impl Sleeper {
    pub fn new(command: &str, patience: Duration) -> Self {
        Self { command: command.into(), patience, wanted: Arc::default() }
    }

    /// Requests sleep as soon as the connection has ended.
    pub fn want(&self) {
        self.wanted.store(true, Ordering::Relaxed);
    }

    /// Returns true from the request until the connection has ended or the machine is awake again.
    pub fn is_wanted(&self) -> bool {
        self.wanted.load(Ordering::Relaxed)
    }

    /// Waits for a request, and then as long as the master may take to end the connection.
    pub async fn farewell(&self) {
        while !self.is_wanted() {
            tokio::time::sleep(LOOK).await;
        }
        tokio::time::sleep(FAREWELL).await;
    }

    /// Sleeps if requested, and returns when the machine is awake again.
    ///
    /// # Errors
    /// Reason why it did not sleep.
    pub async fn sleep(&self) -> Result<(), String> {
        if !self.is_wanted() {
            return Ok(());
        }
        let slept = self.run().await;
        self.wanted.store(false, Ordering::Relaxed);
        match &slept {
            Ok(()) => info!("the machine is awake again"),
            Err(reason) => warn!(reason, "the machine does not sleep"),
        }
        slept
    }

    async fn run(&self) -> Result<(), String> {
        let command = Arc::clone(&self.command);
        info!(%command, "the machine goes to sleep");
        let (begin, boot) = (Instant::now(), BootTime::now());
        let mut running = tokio::task::spawn_blocking(move || run(&command));
        let mut has_ended = false;
        loop {
            tokio::select! {
                status = &mut running, if !has_ended => {
                    has_ended = true;
                    match status {
                        Ok(result) => result?,
                        Err(error) => return Err(format!("cannot run `{}`: {error}", self.command)),
                    }
                }
                () = tokio::time::sleep(LOOK) => {}
            }
            let awake = begin.elapsed();
            if BootTime::now().since(boot) > awake + SLEPT {
                return Ok(());
            }
            if awake >= self.patience {
                let patience = self.patience.as_secs();
                return Err(format!("the machine is still awake {patience} s after `{}`", self.command));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn refused(command: &str, patience: Duration) -> String {
        let sleeper = Sleeper::new(command, patience);
        sleeper.want();
        let refused = sleeper.sleep().await.expect_err("awake");
        assert!(!sleeper.is_wanted());
        refused
    }

    #[tokio::test]
    async fn a_machine_that_cannot_sleep_reports_why() {
        let long = Duration::from_secs(60);
        assert_eq!(refused("exit 4", long).await, "`exit 4` failed with exit status: 4");
        assert_eq!(refused("true", Duration::ZERO).await, "the machine is still awake 0 s after `true`");
    }

    #[tokio::test]
    async fn without_a_request_no_command_runs() {
        let sleeper = Sleeper::new("exit 1", Duration::ZERO);
        assert_eq!(sleeper.sleep().await, Ok(()));
    }
}
