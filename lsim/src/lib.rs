//! Simulator: the core of the master over a workload, in simulated time. The program `lsim` is its command line;
//! `lab` uses it as a library. Accesses only files and folders from its caller.

pub mod commands;
pub mod engine;
mod history;
pub mod output;
pub mod record;
pub mod setup;
mod sweep;

pub use sweep::workers;
