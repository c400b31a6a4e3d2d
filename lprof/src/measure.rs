//! Measuring: the time and the energy of a command on this machine, and how far the figures can be trusted.
//!
//! `window`, `statistics`, `step`, `verdict` and `sheet` are pure: they use no clock and do no I/O. `recorder` samples the meter,
//! `gpu_watch` the
//! limits of a GPU, `process` runs the command, `command_report` receives what it reports, `baseline` sees the rest of the machine, and `run`
//! puts them together.

pub mod baseline;
pub mod command_report;
pub mod gpu_watch;
pub mod process;
pub mod recorder;
pub mod run;
pub mod sheet;
pub mod statistics;
pub mod step;
pub mod verdict;
pub mod window;
