//! Limits of the cluster's power from outside, for now or a later time.
//!
//! [`arbiter`] decides which of them hold, without a clock or socket. The other files are sources: each is a task that
//! reports the messages of one source.

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
