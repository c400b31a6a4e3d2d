//! Memory for messages from clients. A large frame is read only when its user has enough memory for it, over all
//! connections together. Until then it stays with its sender.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use limo_proto::{ConnectionError, Reader, Received};
use serde::de::DeserializeOwned;
use tokio::sync::OwnedSemaphorePermit;

use crate::accounts::Account;

/// Size of frames that need no reservation of memory.
const SMALL: usize = 8 * 1024;

/// Longest time for a frame to arrive while others of its user wait for its memory.
const FRAME_TIME: Duration = Duration::from_secs(10);

/// The reserved memory of one connection.
pub struct Room {
    /// Account of the user; `None` for a node, which belongs to an operator and is never limited.
    account: Option<Arc<Account>>,
    /// Memory for the frame that is being read.
    held: Option<OwnedSemaphorePermit>,
}

impl Room {
    pub fn new(account: Option<Arc<Account>>) -> Self {
        Self { account, held: None }
    }

    /// Returns the next input. Safe to cancel.
    ///
    /// # Errors
    /// Same as [`Reader::receive`], and if a frame takes too long while others wait for its memory.
    pub async fn receive<In: DeserializeOwned>(
        &mut self,
        reader: &mut Reader<In>,
    ) -> Result<Option<Received<In>>, ConnectionError> {
        let Some(account) = &self.account else { return reader.receive().await };
        if self.held.is_none()
            && let Some(size) = reader.announced().await?
            && size > SMALL
        {
            self.held = account.room(size).await;
        }
        if self.held.is_none() {
            return reader.receive().await;
        }
        tokio::select! {
            biased;
            received = reader.receive() => received,
            () = account.crowded(FRAME_TIME) => {
                let seconds = FRAME_TIME.as_secs();
                let reason = format!(
                    "a message did not arrive completely within {seconds} s, while others of its user waited for room \
                     (limits.reading)"
                );
                Err(io::Error::new(io::ErrorKind::TimedOut, reason).into())
            }
        }
    }

    /// Takes the memory of the received frame, to be kept until the frame counts elsewhere.
    pub fn take(&mut self) -> Option<OwnedSemaphorePermit> {
        self.held.take()
    }
}
