//! Reports of the master as JSON, which clients print and the master's web server answers, and the words in them. The
//! key of a number names its unit; unknown values are `null`.

#![warn(missing_docs)]

mod change;
mod clock;
mod conditions;
mod ending;
mod energy;
mod estimate;
mod explanation;
mod job;
mod node;
mod used;

pub use change::{ChangeJson, HistoryJson, ItemJson};
pub use clock::{Clock, DAYS_LIMIT, TimeError, elapsed};
pub use conditions::dependencies;
pub use ending::{end_in_words, parse_signal, signal_name};
pub use energy::{EnergyJson, is_of_nodes};
pub use estimate::CandidateJson;
use estimate::EstimateJson;
pub use explanation::ExplanationJson;
pub use job::{JobJson, JobsJson, LiveUsageJson};
pub use node::{NodeDetailJson, NodeJson, NodesJson};
pub use used::Used;

/// Version of these documents. It grows when a key changes its meaning or is removed, but not for new keys.
pub const SCHEMA: u32 = 1;
