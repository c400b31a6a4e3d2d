//! Messages of the master, as a connection sees them.

use limo_proto::{MasterToClient, MasterToNode, Replace};
use serde::Serialize;

/// A message of the master over a connection.
pub trait Outgoing: Serialize + Replace + Send + Sync + 'static {
    /// Returns true if the peer requested the message, and must read it soon.
    fn is_answer(&self) -> bool;

    /// True if the peer must give signs of life. Clients need not, because their users may have stopped them.
    const WATCHED: bool;

    /// Returns the message that tells a peer the reason for the end of its connection.
    fn refusal(reason: String) -> Option<Self>
    where
        Self: Sized;
}

impl Outgoing for MasterToNode {
    const WATCHED: bool = true;

    fn is_answer(&self) -> bool {
        false
    }

    fn refusal(_: String) -> Option<Self> {
        None
    }
}

impl Outgoing for MasterToClient {
    const WATCHED: bool = false;

    fn is_answer(&self) -> bool {
        matches!(self, Self::Answer(_) | Self::Piece(_) | Self::Refused { .. })
    }

    fn refusal(reason: String) -> Option<Self> {
        Some(Self::Refused { reason, hint: None })
    }
}
