//! Simulator: the core of the master over a workload, in simulated time. The program `lsim` is its command line; `lab`
//! uses it as a library. Uses only files and folders that it is given.

pub mod commands;
pub mod engine;
mod history;
pub mod output;
pub mod plot;
pub mod record;
pub mod setup;
mod sweep;
