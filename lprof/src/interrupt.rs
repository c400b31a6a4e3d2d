//! Events that the main thread waits for: the end of a command, and a signal that ends `lprof`.

use std::process::{ExitCode, ExitStatus};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context;
use thiserror::Error;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// An event of a run.
#[derive(Debug)]
pub enum Event {
    /// The command ended at this instant.
    Ended(Instant, std::io::Result<ExitStatus>),
    /// A signal with this number arrived.
    Signal(i32),
}

/// A signal ended the measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("interrupted by signal {0}; the caps are restored")]
pub struct Interrupted(pub i32);

impl Interrupted {
    /// Returns the exit code, as a shell reports it.
    pub fn exit_code(self) -> ExitCode {
        // The caught signals are 1, 2 and 15.
        ExitCode::from(u8::try_from(128 + self.0).unwrap_or(u8::MAX))
    }
}

/// Source of events.
#[derive(Debug)]
pub struct Events {
    sender: Sender<Event>,
    events: Receiver<Event>,
}

impl Events {
    /// Catches SIGINT, SIGTERM and SIGHUP from now on.
    ///
    /// # Errors
    /// If the system does not allow it.
    pub fn catch() -> anyhow::Result<Self> {
        let (sender, events) = mpsc::channel();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let caught = {
            let _inside = runtime.enter();
            [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()]
                .into_iter()
                .map(|kind| Ok((kind, signal(kind)?)))
                .collect::<std::io::Result<Vec<_>>>()
                .context("cannot catch signals")?
        };
        for (kind, mut signal) in caught {
            let sender = sender.clone();
            runtime.spawn(async move { forward(&mut signal, kind.as_raw_value(), &sender).await });
        }
        // The thread ends with the process.
        thread::spawn(move || runtime.block_on(std::future::pending::<()>()));
        Ok(Self { sender, events })
    }

    /// Returns a sender for the ends of commands.
    pub fn sender(&self) -> Sender<Event> {
        self.sender.clone()
    }

    /// Waits for the end of the command, or until `end`. Returns `None` at `end`.
    ///
    /// # Errors
    /// [`Interrupted`] after a signal.
    pub fn wait(&self, end: Option<Instant>) -> Result<Option<(Instant, std::io::Result<ExitStatus>)>, Interrupted> {
        let event = match end {
            Some(end) => self.events.recv_timeout(end.saturating_duration_since(Instant::now())),
            // There is always a sender.
            None => self.events.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        match event {
            Ok(Event::Ended(at, status)) => Ok(Some((at, status))),
            Ok(Event::Signal(number)) => Err(Interrupted(number)),
            Err(_) => Ok(None),
        }
    }

    /// Waits for this time.
    ///
    /// # Errors
    /// [`Interrupted`] after a signal.
    pub fn pause(&self, time: Duration) -> Result<(), Interrupted> {
        let end = Instant::now() + time;
        while Instant::now() < end {
            self.wait(Some(end))?;
        }
        Ok(())
    }
}

async fn forward(signal: &mut Signal, number: i32, sender: &Sender<Event>) {
    while signal.recv().await.is_some() {
        // Nobody waits when the process ends.
        let _ = sender.send(Event::Signal(number));
    }
}
