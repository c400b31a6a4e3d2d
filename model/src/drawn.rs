//! Draw in an interval, as in tables of readings. The master computes it.

use serde::{Deserialize, Serialize};

use crate::time::{Span, Time};
use crate::units::{Energy, Power};

/// Draw of a node or of the cluster in one interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Drawn {
    /// Begin of the interval.
    pub at: Time,
    /// Mean draw over `seen`, weighted by time and rounded to mW. Falls back to the unweighted mean of the samples.
    pub mean: Power,
    /// The lowest measured draw.
    pub low: Power,
    /// The highest measured draw.
    pub high: Power,
    /// Energy in the time `seen`.
    pub energy: Energy,
    /// Part of the interval in which the draw is known.
    pub seen: Span,
    /// Number of samples of the meter.
    pub looks: u64,
}
