//! Meters of real machines: one trait, one implementation a file, and what an operator writes to choose one.
//!
//! A meter that cannot tell what is drawn says so; it never shows a zero in place of "unknown".

mod choice;
mod command;
mod error;
pub(crate) mod files;
mod hwmon;
mod powercap;

use std::time::Duration;

use limo_model::Power;

pub use choice::{ChoiceError, MeterChoice};
pub use command::Command;
pub use error::MeterError;
pub use hwmon::{Channel, Hwmon, Sensor, sensors};
pub use powercap::Powercap;

/// More than one node draws: whole racks are rated for about this much.
const NODE_LIMIT: Power = Power::from_watts(100_000);

/// What a meter says when it is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reading {
    /// Draw of the whole of what it measures: now, or the mean since it was asked before. Above zero.
    Draw(Power),
    /// Too early to say: the draw follows from two looks at a counter, and this was the first that counts.
    NotYet,
}

/// Something that measures the draw of this machine.
pub trait Meter: Send {
    /// `now` is the time since some instant, by a clock that is never set. May block for as long as the kernel, or a
    /// command, takes to answer.
    ///
    /// # Errors
    /// [`MeterError`], naming what failed, where, and what helps. The meter can be asked again.
    fn read(&mut self, now: Duration) -> Result<Reading, MeterError>;
}

/// A draw that can be: a machine that is asked is running, so it draws something.
fn plausible(draw: Power, whence: impl FnOnce() -> String) -> Result<Reading, MeterError> {
    if draw > Power::ZERO && draw <= NODE_LIMIT {
        Ok(Reading::Draw(draw))
    } else {
        Err(MeterError::Implausible { whence: whence(), draw, limit: NODE_LIMIT })
    }
}
