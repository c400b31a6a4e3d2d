//! Profile database (limo-2018, section 3.3.3): (application, hardware, cap, size class) -> duration, power, energy.
//!
//! [`statistics`] computes the profile of a key from its runs, [`text`] and [`variation`] are file formats, `store` (with the feature
//! `store`) keeps learned and imported profiles. [`predict`] predicts jobs without a profile from their requests. The caller
//! chooses the runs to learn from.

#![warn(missing_docs)]

pub mod predict;
pub mod statistics;
#[cfg(feature = "store")]
pub mod store;
mod table;
pub mod text;
pub mod variation;

#[cfg(feature = "store")]
pub use store::{FINISHED_LIMIT, LEARNED_WINS, ProfileDb, Run, StoreError, StoredModel};
