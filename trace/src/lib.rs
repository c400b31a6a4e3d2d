//! Workloads, platforms and curves as files: reads what researchers have, writes what they can read again.
//!
//! Knows formats and their quirks. Decides nothing about schedules and knows no clock.

#![warn(missing_docs)]

pub mod batsim;
pub mod curve;
mod decimal;
pub mod filter;
pub mod generate;
mod input;
pub mod platform;
pub mod swf;
mod weeks;
mod workload;

pub use platform::Platform;
pub use weeks::{WEEK, Week};
pub use workload::{Application, Job, Treatment, Workload};
