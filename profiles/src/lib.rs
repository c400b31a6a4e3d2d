//! The profile database (limo-2018, section 3.3.3): (application, hardware, cap, size class) -> duration, power, energy.
//!
//! [`statistics`] turns the runs of one key into its profile, [`text`] is the file that people read and write, `store`
//! (with the feature of that name) keeps both learned and imported profiles. Does not estimate for keys that it has
//! never seen, and does not decide which runs are worth learning from.

#![warn(missing_docs)]

pub mod statistics;
#[cfg(feature = "store")]
pub mod store;
pub mod text;

#[cfg(feature = "store")]
pub use store::{LEARNED_WINS, ProfileDb, Run, StoreError};
