//! The simulator: the core of the master over a workload, in simulated time. The program `lsim` is its command line; `lab`
//! uses it as a library. Knows no place outside of what it is told.

pub mod commands;
pub mod engine;
mod history;
pub mod output;
pub mod record;
pub mod setup;
mod sweep;
