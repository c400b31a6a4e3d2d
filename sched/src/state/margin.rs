//! The margins of predicted jobs on nodes.

use limo_model::Power;
use serde::{Deserialize, Serialize};

/// The margin of a predicted job above its mean draw.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct JobMargin {
    pub whole: Power,
    /// The part of it that is in the estimate.
    pub counted: Power,
}

impl JobMargin {
    pub(super) fn is_none(&self) -> bool {
        self.whole.is_zero()
    }
}
