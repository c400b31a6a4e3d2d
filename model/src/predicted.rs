//! Predictions of draws, for jobs whose application has no profile.

use serde::{Deserialize, Serialize};

use crate::time::Span;
use crate::units::Power;

/// Most types of units for which a job has a prediction.
pub const PREDICTED_LIMIT: usize = 16;

/// Prediction of a job's draw on one type of unit: that of one chunk on one unit, above idle and without a cap. The
/// master makes it when the job is submitted, so that estimates need no model.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Predicted {
    /// Type of the unit.
    pub hardware: String,
    /// Cores of the unit that the chunk takes.
    pub cores: u32,
    /// Number of the model.
    pub model: u32,
    /// Expected mean draw.
    pub mean: Power,
    /// Standard deviation of the mean draw from the expected one.
    pub deviation: Power,
    /// The mean draw stays below this one in 90 % of all cases.
    pub high: Power,
    /// Expected duration.
    pub duration: Span,
}
