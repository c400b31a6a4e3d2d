//! The JSON that clients print: what every listing has in common. Bare numbers carry their unit in their key; what is
//! not known is `null`.

mod estimate;
mod job;
mod node;

pub use estimate::CandidateJson;
use estimate::EstimateJson;
pub use job::JobJson;
pub use node::{NodeDetailJson, NodesJson};

/// The version of these documents: it grows when a key changes its meaning or goes; new keys do not count.
pub const SCHEMA: u32 = 1;
