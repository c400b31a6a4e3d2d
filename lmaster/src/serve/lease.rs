//! A master with its journal on a server serves only while it has the lease: it stands by before, and says nothing
//! after.

use std::time::Duration;

use anyhow::Result;
use limo_journal::{CommitError, LeaseLost, RecoverError, Recovered};
use limo_model::ClusterId;
use limo_program::Notifier;
use tokio::sync::mpsc::UnboundedSender;
use tokio::time::{Instant, interval};

use super::sources::Sources;
use crate::config::ProgramSettings;
use crate::controller::Input;
use crate::store::Store;

/// Interval of the signs of life of a standby to its service manager.
const ALIVE_EVERY: Duration = Duration::from_secs(1);

/// Opens the store. A standby counts as ready, because it may wait for years.
pub(super) async fn open_store(
    settings: &ProgramSettings,
    cluster: Option<ClusterId>,
    answers: UnboundedSender<Input>,
    notifier: &mut Notifier,
) -> Result<(Store, Recovered)> {
    let opening = Store::open((&settings.state_dir, settings.journal.as_ref()), cluster, answers);
    if settings.journal.is_none() {
        return opening.await;
    }
    notifier.ready();
    let mut clock = interval(ALIVE_EVERY);
    let mut opening = std::pin::pin!(opening);
    loop {
        tokio::select! {
            opened = &mut opening => return opened,
            _ = clock.tick() => notifier.alive(Instant::now().into_std()),
        }
    }
}

/// Returns the loss of the lease that an answer of the journal reports.
pub(super) fn loss(input: &Input) -> Option<LeaseLost> {
    match input {
        Input::Committed(Err(CommitError::Lost(lost))) | Input::Recovered(Err(RecoverError::Lost(lost))) => {
            Some(lost.clone())
        }
        _ => None,
    }
}

impl Sources {
    /// Waits until the master certainly has the lease. Returns false if it was told to stop meanwhile.
    ///
    /// # Errors
    /// [`LeaseLost`] if another master has it.
    pub(super) async fn confirmed(&mut self, store: &Store) -> Result<bool, LeaseLost> {
        tokio::select! {
            biased;
            confirmed = store.confirmed() => confirmed.map(|()| true),
            _ = self.terminate.recv() => Ok(false),
            _ = self.interrupt.recv() => Ok(false),
        }
    }
}
