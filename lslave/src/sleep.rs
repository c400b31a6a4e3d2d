//! Puts this machine to sleep: runs the command of the settings between two connections to the master, and says when the
//! machine is awake again. Decides nothing; the node asks for it.

use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use limo_shepherd::BootTime;
use tokio::time::Instant;
use tracing::{info, warn};

/// How long the master may take to end the connection once it was told.
pub const FAREWELL: Duration = Duration::from_secs(2);

/// Between two looks whether the machine has slept.
const LOOK: Duration = Duration::from_millis(200);

/// A clock that goes on while the machine sleeps is ahead of one that stands still, by more than they are read apart.
const SLEPT: Duration = Duration::from_millis(500);

/// The command that puts the machine to sleep, and whether that is wanted now.
#[derive(Debug, Clone)]
pub struct Sleeper {
    command: Arc<str>,
    /// A machine that is still awake after this long does not sleep.
    patience: Duration,
    wanted: Arc<AtomicBool>,
}

impl Sleeper {
    pub fn new(command: &str, patience: Duration) -> Self {
        Self { command: command.into(), patience, wanted: Arc::default() }
    }

    /// The machine is to sleep as soon as the connection has ended.
    pub fn want(&self) {
        self.wanted.store(true, Ordering::Relaxed);
    }

    /// Until the connection has ended, or the machine was awake again.
    pub fn is_wanted(&self) -> bool {
        self.wanted.load(Ordering::Relaxed)
    }

    /// Waits until sleep is wanted, and for as long as the master may take then.
    pub async fn farewell(&self) {
        while !self.is_wanted() {
            tokio::time::sleep(LOOK).await;
        }
        tokio::time::sleep(FAREWELL).await;
    }

    /// Sleeps where that is wanted, and returns when the machine is awake again.
    ///
    /// # Errors
    /// Why it did not sleep.
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
        // On a thread of its own: the loop's thread collects whatever children it has.
        let mut running = tokio::task::spawn_blocking(move || {
            let mut shell = Command::new("/bin/sh");
            shell.args(["-c", &*command]).stdin(Stdio::null()).stdout(Stdio::null()).process_group(0);
            shell.status()
        });
        let mut has_ended = false;
        loop {
            tokio::select! {
                status = &mut running, if !has_ended => {
                    has_ended = true;
                    match status {
                        Ok(Ok(status)) if status.success() => {}
                        Ok(Ok(status)) => return Err(format!("`{}` failed with {status}", self.command)),
                        Ok(Err(error)) => return Err(format!("cannot run `{}`: {error}", self.command)),
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
    async fn a_machine_that_does_not_sleep_says_why() {
        let long = Duration::from_secs(60);
        assert_eq!(refused("exit 4", long).await, "`exit 4` failed with exit status: 4");
        assert_eq!(refused("true", Duration::ZERO).await, "the machine is still awake 0 s after `true`");
    }

    #[tokio::test]
    async fn nothing_is_run_where_nobody_wants_sleep() {
        let sleeper = Sleeper::new("exit 1", Duration::ZERO);
        assert_eq!(sleeper.sleep().await, Ok(()));
    }
}
