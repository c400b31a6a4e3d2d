//! Structures that make the cost of a round proportional to the changes: sets of positions, queues searched by need,
//! nodes by free cores.
//!
//! They contain only numbers, and do not know jobs, nodes, policies or times.

mod bits;
mod jobs;
mod levels;
mod queue;
mod rows;
#[cfg(test)]
mod tests;
mod waiting;

pub(crate) use bits::Bits;
pub use jobs::JobMap;
pub(crate) use jobs::JobSet;
pub(crate) use levels::Levels;
pub use queue::Queue;
pub(crate) use rows::Rows;
pub(crate) use waiting::{Need, Waiting};
