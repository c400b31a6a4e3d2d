//! Meters of real machines: one trait, one implementation a file, and the operator's choice.
//!
//! A meter without a value returns an error, never zero.

mod batch;
pub(crate) mod choice;
pub(crate) mod command;
mod error;
pub(crate) mod files;
mod hwmon;
pub(crate) mod ipmi;
pub(crate) mod json;
pub(crate) mod mcp39f511;
mod nvidia_smi;
mod nvml;
mod powercap;
mod redfish;
pub(crate) mod run;
mod shelly;
mod sum;
pub(crate) mod tasmota;

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

/// Draw above which a reading is not plausible for a node: the rating of a whole rack.
const NODE_LIMIT: Power = Power::from_watts(100_000);

/// Answer of a meter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the variants say what their fields are")]
pub enum Reading {
    /// Present draw of everything that the meter measures. Above zero.
    Draw(Power),
    /// Mean draw over the time `over` before it, exact for an energy counter. Above zero.
    Mean { draw: Power, over: Duration },
    /// No value yet: a counter needs two samples, and this was the first.
    NotYet,
}

impl Reading {
    /// Returns the draw, if known.
    pub fn draw(self) -> Option<Power> {
        match self {
            Self::Draw(draw) | Self::Mean { draw, .. } => Some(draw),
            Self::NotYet => None,
        }
    }
}

/// Meter of this machine.
pub trait Meter: Send {
    /// Reads the meter. `now` is on a monotonic clock. May block for as long as the kernel or a command takes to
    /// answer.
    ///
    /// # Errors
    /// [`MeterError`], naming what failed, the place and a remedy. The meter can be read again.
    fn read(&mut self, now: Duration) -> Result<Reading, MeterError>;

    /// Returns the draw that the device showed beside its energy counter at the last reading; `None` if it does not
    /// show both.
    fn shown(&self) -> Option<Power> {
        None
    }
}

/// Checks a draw: a machine that runs this code draws power.
fn plausible(draw: Power, whence: impl FnOnce() -> String) -> Result<Reading, MeterError> {
    if draw > Power::ZERO && draw <= NODE_LIMIT {
        Ok(Reading::Draw(draw))
    } else {
        Err(MeterError::Implausible { whence: whence(), draw, limit: NODE_LIMIT })
    }
}
