//! A sweep: the cross product of the lists of a file, each configuration simulated once, here or on a Limo cluster, and
//! the table and the plot of all of them.
//!
//! What a simulation needs is read by [`crate::setup`] and run by [`crate::engine`]; this module decides which there are,
//! remembers which are done, and sums up.

pub mod cells;
pub mod cluster;
pub mod configuration;
mod digest;
pub mod file;
mod glob;
pub mod local;
pub mod measures;
pub mod plot;
pub mod progress;
pub mod results;
mod source;
pub mod table;
pub mod workers;
