//! Draw of nodes over time.

use limo_model::{Drawn, Time};
use serde::{Deserialize, Serialize};

/// Asks for the draw of a node or of the cluster in the intervals that begin in `[from, until)`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadingsQuery {
    /// Name of the node; `None` for the cluster.
    pub node: Option<String>,
    /// Begin of the time.
    pub from: Time,
    /// Exclusive end of the time.
    pub until: Time,
}

/// The answer to a [`ReadingsQuery`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadingsReport {
    /// True if any of the watts are emulated.
    pub emulated: bool,
    /// Intervals in the order of time.
    pub intervals: Vec<Drawn>,
}
