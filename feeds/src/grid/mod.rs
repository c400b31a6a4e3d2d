//! What the grid allows: limits of the cluster's power that somebody outside sets, now or for a later time.
//!
//! [`arbiter`] decides which of them hold, with no clock and no socket. The other files are sources: each is a task that
//! tells what it hears of one of them. None of them knows what holds.

pub mod arbiter;
pub mod contact;
pub mod document;
pub mod file;
pub mod limit;
pub mod openadr;
pub mod pull;
pub mod push;
pub mod schedule;
mod standing;
pub mod teller;

pub use arbiter::{Arbiter, Kept, KeptSource, Report, same_from};
pub use limit::{Failsafe, Limit, Source, Word};
pub use standing::Mode;
pub use teller::Teller;
