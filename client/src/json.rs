//! Common parts of the JSON that clients print. The key of a number names its unit; unknown values are `null`.

mod estimate;
mod job;
mod node;

pub use estimate::CandidateJson;
use estimate::EstimateJson;
pub use job::JobJson;
pub use node::{NodeDetailJson, NodesJson};

/// Version of these documents. It grows when a key changes its meaning or is removed, but not for new keys.
pub const SCHEMA: u32 = 1;
