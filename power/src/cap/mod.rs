//! Limits of power on real hardware: one trait, one implementation a file, what an operator writes to choose one, and the
//! keeper, which puts back what was there.
//!
//! A limit counts as set once it was read back. Nothing here decides how much anything may draw.

mod choice;
mod clocks;
mod error;
mod files;
mod hwmon;
mod ipmi;
mod keeper;
mod nvidia_smi;
mod nvml;
mod program;
mod rapl;
mod redfish;

use std::collections::BTreeMap;

use limo_model::Power;

pub use choice::{CapChoice, CapChoiceError};
pub use clocks::ClockCap;
pub use error::CapError;
pub use hwmon::HwmonCap;
pub use ipmi::IpmiCap;
pub use keeper::{CapFailure, Keeper, KeeperError, Kept};
pub use nvidia_smi::{PROGRAM as NVIDIA_SMI, SmiCap};
pub use nvml::NvmlCap;
pub use rapl::Rapl;
pub use redfish::RedfishCap;

/// The lowest cap of a processor package or socket where nothing says otherwise: limo-2018 (section 4.3) saw no effect of
/// caps below about 10 W, because the processor draws that doing nothing.
const FLOOR: Power = Power::from_watts(10);

/// What controls held before anything was set: the name of each, which is the same after a restart, and its value.
pub type Originals = BTreeMap<String, String>;

/// Something that limits the draw of one unit.
///
/// There is no call to lift a limit: what was there before the first one is put back, control by control.
pub trait Cap: Send {
    /// The lowest and the highest limit that it obeys, positive. Where only a write tells whether a limit can be set, what
    /// it holds is written once more. To be asked while nothing is set.
    ///
    /// # Errors
    /// [`CapError`] where it cannot be capped: not there, locked, read-only, or without any room.
    fn range(&mut self) -> Result<(Power, Power), CapError>;

    /// What its controls hold. Changes nothing.
    ///
    /// # Errors
    /// [`CapError`] where one cannot be read.
    fn capture(&mut self) -> Result<Originals, CapError>;

    /// Sets a limit within the range, and reads it back. One control that fails does not keep it from the others.
    ///
    /// # Errors
    /// [`CapError`] of the first control that does not hold it.
    fn set(&mut self, limit: Power) -> Result<(), CapError>;

    /// Puts one value back that [`Self::capture`] gave, and reads it back.
    ///
    /// # Errors
    /// [`CapError`] where it is not there, or does not hold it.
    fn restore(&mut self, control: &str, value: &str) -> Result<(), CapError>;
}

/// Microwatts as sysfs counts them; no limit is negative.
fn uw(power: Power) -> u64 {
    u64::try_from(power.mw()).unwrap_or(0).saturating_mul(1000)
}

/// From the microwatts of sysfs, rounded down: a limit that is known a little too low does no harm.
fn power(uw: u64) -> Power {
    Power::from_mw(i64::try_from(uw / 1000).unwrap_or(i64::MAX))
}

/// A range that leaves room.
fn checked(place: impl FnOnce() -> String, (low, high): (Power, Power)) -> Result<(Power, Power), CapError> {
    if low > Power::ZERO && low < high { Ok((low, high)) } else { Err(CapError::NoRoom { place: place(), low, high }) }
}
