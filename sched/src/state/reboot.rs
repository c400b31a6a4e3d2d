//! Daily reboots of nodes.

use limo_model::Time;
use serde::{Deserialize, Serialize};

/// Progress of the reboot of a node by the rule of its group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reboot {
    /// Its turn has come: it takes no new jobs, and reboots when it has no job and no owner, but not after `until`. If
    /// it `evicts`, its jobs end and run again, provided that all of them may.
    Wanted { until: Time, evicts: bool },
    /// It was ordered to reboot, and had this boot id.
    Ordered { boot: String },
    /// It did not reboot, for this reason, and takes jobs again.
    Failed { reason: String },
}

impl Reboot {
    /// Returns true while it keeps jobs from its node.
    pub(crate) fn closes(&self) -> bool {
        !matches!(self, Self::Failed { .. })
    }
}
