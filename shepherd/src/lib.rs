//! The protocol between `lslave` and `lshepherd`, the process that launches jobs and enforces their ends: orders,
//! answers, and the socket for both.
//!
//! A message is a kind and a list of tagged fields. A receiver ignores unknown tags and kinds, and a sender never
//! changes the meaning of a tag, so that programs of different releases understand each other.

#![warn(missing_docs)]

mod answer;
mod boottime;
mod channel;
mod fields;
mod order;
mod plan;
pub mod processes;
mod ring;

pub use answer::{Answer, CommandFailure, Ended, Holds, Why};
pub use boottime::BootTime;
pub use channel::{ChannelError, MAX_DESCRIPTORS, Received, Taken, pair, receive, send, send_launch, take_plan};
pub use fields::DecodeError;
pub use order::{Claim, Handle, Kept, Launch, Order};
pub use plan::{Carried, Identity, Output, PamSession, Plan, Step};
pub use ring::Ring;

/// Size of the memory for the unacknowledged bytes of an output, and of stdin.
pub const RING_SIZE: usize = 512 << 10;

/// Most descriptors of a job that `lshepherd` keeps: its own ends of the streams, and the end of emulated work.
pub const MOST_KEPT: usize = 4;

/// Number of the first descriptor that a job inherits besides stdin, stdout and stderr; the others follow it.
pub const FIRST_INHERITED: i32 = 3;

/// Most descriptors that a job may inherit besides stdin, stdout and stderr.
pub const MOST_INHERITED: usize = 4;
