//! Emulated hardware: a TOML file describes machines, and a model says what each run on them draws and how long it takes.
//!
//! Jobs on emulated hardware are real processes; only their watts are modelled. The model knows no clock and starts
//! nothing: its owner hands the time in and runs the processes.

mod error;
mod file;
mod machine;
mod model;
mod noise;
mod percent;

pub use error::{HardwareError, Mistake, PlanError};
pub use machine::{Application, Hardware, Machine, Unit};
pub use model::{Emulated, Plan, Share};
pub use percent::{Percent, PercentError};
