//! Reads and writes workloads, platforms and curves in researchers' file formats.

#![warn(missing_docs)]

pub mod batsim;
mod compact;
pub mod curve;
pub mod filter;
pub mod generate;
pub mod hot_start;
pub mod input;
pub mod log_crypt;
pub mod platform;
pub mod pool;
pub mod swf;
mod weeks;
mod workload;

pub use compact::{CompactSpan, Index};
pub use platform::Platform;
pub use weeks::{WEEK, Week};
pub use workload::{Application, Chunks, Job, Moldable, Treatment, Workload};
