//! Workloads, platforms and curves as files: reads what researchers have, writes what they can read again.
//!
//! Knows formats and their quirks. Decides nothing about schedules and knows no clock.

pub mod generate;
mod workload;

pub use workload::{Job, Workload};
