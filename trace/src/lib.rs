//! Workloads, platforms and curves as files: reads what researchers have, writes what they can read again.
//!
//! Knows formats and their quirks. Decides nothing about schedules and knows no clock.

mod decimal;
pub mod generate;
mod input;
pub mod swf;
mod workload;

pub use workload::{Job, Workload};
