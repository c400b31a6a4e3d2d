//! Meters of real machines: one trait, one implementation a file, and what an operator writes to choose one.
//!
//! A meter that cannot tell what is drawn says so; it never shows a zero in place of "unknown".

mod batch;
pub(crate) mod choice;
mod command;
mod error;
pub(crate) mod files;
mod hwmon;
pub(crate) mod ipmi;
pub(crate) mod json;
mod mcp39f511;
mod nvidia_smi;
mod nvml;
mod powercap;
mod redfish;
pub(crate) mod run;
mod shelly;
mod sum;
mod tasmota;

use std::time::Duration;

use limo_model::Power;

pub use batch::{Batch, Summary};
pub use choice::{ChoiceError, MeterChoice};
pub use command::Command;
pub use error::MeterError;
pub use hwmon::{Channel, Hwmon, Sensor, sensors};
pub use ipmi::{Ipmi, IpmiError};
pub use json::JsonError;
pub use mcp39f511::{Chip, Mcp39f511, Mcp39f511Error, Wattmeter, wattmeters};
pub use nvidia_smi::NvidiaSmi;
pub use nvml::Nvml;
pub use powercap::Powercap;
pub use redfish::Redfish;
pub use shelly::Shelly;
pub use sum::Sum;
pub use tasmota::Tasmota;

/// More than one node draws: whole racks are rated for about this much.
const NODE_LIMIT: Power = Power::from_watts(100_000);

/// What a meter says when it is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the variants say what their fields are")]
pub enum Reading {
    /// Draw of the whole of what it measures, now. Above zero.
    Draw(Power),
    /// The mean draw over the time `over` before it, which a counter of energy tells exactly. Above zero.
    Mean { draw: Power, over: Duration },
    /// Too early to say: the draw follows from two looks at a counter, and this was the first that counts.
    NotYet,
}

impl Reading {
    /// What is drawn, where it is known.
    pub fn draw(self) -> Option<Power> {
        match self {
            Self::Draw(draw) | Self::Mean { draw, .. } => Some(draw),
            Self::NotYet => None,
        }
    }
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
