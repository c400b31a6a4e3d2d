//! Room for messages from clients. A large frame is read only when its user has room for it, over all connections
//! together. Until then it stays with its sender.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use limo_proto::{ConnectionError, Reader, Received};
use serde::de::DeserializeOwned;
use tokio::sync::OwnedSemaphorePermit;

use crate::accounts::Account;

/// Frames of up to this size need no room.
const SMALL: usize = 8 * 1024;

/// Longest time for a frame to arrive while others of its user wait for its room.
const FRAME_TIME: Duration = Duration::from_secs(10);

/// The room of one connection.
pub struct Room {
    /// `None` for a node, which belongs to an operator and always has room.
    account: Option<Arc<Account>>,
    /// Room for the frame that is being read.
    held: Option<OwnedSemaphorePermit>,
}

impl Room {
    pub fn new(account: Option<Arc<Account>>) -> Self {
        Self { account, held: None }
    }

    /// Returns the next input. Safe to cancel.
    ///
    /// # Errors
    /// Same as [`Reader::receive`], and if a frame takes too long while others wait for its room.
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

    /// Takes the room of the received frame, to be kept until the frame counts elsewhere.
    pub fn take(&mut self) -> Option<OwnedSemaphorePermit> {
        self.held.take()
    }
}
