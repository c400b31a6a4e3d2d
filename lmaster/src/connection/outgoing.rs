//! Messages of the master, as far as a connection has to know them.

use limo_proto::{MasterToClient, MasterToNode, Replace};
use serde::Serialize;

/// A message of the master over a connection.
pub trait Outgoing: Serialize + Replace + Send + Sync + 'static {
    /// Returns true if the peer asked for it, and has to take it soon.
    fn is_answer(&self) -> bool;

    /// Whether the peer must give signs of life. A client need not: its user may have stopped it.
    const WATCHED: bool;

    /// Tells a peer why nothing more is read from it.
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
