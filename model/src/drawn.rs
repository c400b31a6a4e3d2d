//! What was drawn in an interval, as tables of readings have it. How it is counted is the master's business.

use serde::{Deserialize, Serialize};

use crate::time::{Span, Time};
use crate::units::{Energy, Power};

/// What a node, or the cluster, drew in one interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Drawn {
    /// When the interval begins.
    pub at: Time,
    /// Over `seen`, weighted by time and rounded to mW; that of the looks where nothing was seen for any time.
    pub mean: Power,
    /// The lowest draw that was seen.
    pub low: Power,
    /// The highest draw that was seen.
    pub high: Power,
    /// In the time that was seen.
    pub energy: Energy,
    /// For how much of the interval the draw is known.
    pub seen: Span,
    /// How often a meter was looked at.
    pub looks: u64,
}
