//! Measuring: the time and the energy of a command on this machine, and how far the figures can be trusted.
//!
//! `window`, `statistics` and `verdict` are pure: they use no clock and do no I/O.

pub mod statistics;
pub mod verdict;
pub mod window;
