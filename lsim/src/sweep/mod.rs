//! Sweep: simulates each configuration of a file once, here or on a cluster, and makes a table and a plot.
//!
//! [`crate::setup`] reads the inputs and [`crate::engine`] simulates; this module makes the configurations, remembers
//! finished ones, and sums up.

pub mod array;
pub mod cells;
pub mod configuration;
mod digest;
pub mod file;
mod glob;
pub mod local;
pub mod measures;
pub mod page;
pub mod progress;
pub mod results;
mod source;
pub mod table;
pub mod timed;
pub mod workers;
