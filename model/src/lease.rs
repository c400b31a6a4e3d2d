//! Time for which a node may run a requeueable job without contact to the master.

use serde::{Deserialize, Serialize};

use crate::time::Span;

/// Margin of the master for differing clock rates and messages in transit.
const MARGIN: Span = Span::from_secs(5);

/// The right of a node to run one attempt. The node counts from the time of sending the newest answered ping; the
/// master counts from its last answer or later. So the node's lease ends first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    /// Time without an answer after which the node ends the attempt with TERM. Positive.
    pub span: Span,
    /// Time from TERM to KILL.
    pub grace: Span,
}

impl Lease {
    /// Returns the time without a connection after which the master may assume that all processes of the attempt have
    /// ended.
    pub fn fenced_after(self) -> Span {
        self.span + self.grace + MARGIN
    }
}
