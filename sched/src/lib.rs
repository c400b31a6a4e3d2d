//! The scheduling core: state, policies, plan checker. Pure: no clock, no file, no socket, no randomness.

mod check;
mod event;
mod options;
mod round;

pub use check::Violation;
pub use event::Event;
pub use options::{Mode, ModeSetting, Options, Preset, PriceRule};
pub use round::{Account, Command, Finished, JobEnd, Round, StopReason, Wait};
