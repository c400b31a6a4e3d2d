//! Power limits on real hardware: one trait, one implementation a file, the operator's choice, and the keeper, which
//! restores the original values.
//!
//! A limit counts as set once it was read back. The draw itself is decided elsewhere.

mod applications;
mod choice;
mod clocks;
mod cpufreq;
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

pub use applications::{ApplicationClocks, ClockPair};
pub use choice::{CapChoice, CapChoiceError};
pub use clocks::ClockCap;
pub use cpufreq::CpufreqCap;
pub use error::CapError;
pub use hwmon::HwmonCap;
pub use ipmi::IpmiCap;
pub use keeper::{CapFailure, Keeper, KeeperError, Kept};
pub use nvidia_smi::{PROGRAM as NVIDIA_SMI, SmiCap};
pub use nvml::NvmlCap;
pub use rapl::Rapl;
pub use redfish::RedfishCap;

/// Lowest cap of a processor package or socket without another range: limo-2018 (section 4.3) saw no effect of caps
/// below about 10 W, the idle draw of its processor.
const FLOOR: Power = Power::from_watts(10);

/// Original values of controls by name. The name of a control is the same after a restart.
pub type Originals = BTreeMap<String, String>;

/// Limit on the draw of one unit.
///
/// There is no call to lift a limit: the original values are restored, control by control.
pub trait Cap: Send {
    /// Returns the lowest and the highest limit, positive. If only a write can show that a limit can be set, writes
    /// its present value once more. Call this while no cap is set.
    ///
    /// # Errors
    /// [`CapError`] if it cannot be capped: missing, locked, read-only, or with an empty range.
    fn range(&mut self) -> Result<(Power, Power), CapError>;

    /// Returns the values of its controls. Changes nothing.
    ///
    /// # Errors
    /// [`CapError`] if one cannot be read.
    fn capture(&mut self) -> Result<Originals, CapError>;

    /// Sets a limit within the range, and reads it back. After an error of one control it still sets the others.
    ///
    /// # Errors
    /// [`CapError`] of the first control that does not hold it.
    fn set(&mut self, limit: Power) -> Result<(), CapError>;

    /// Restores one value from [`Self::capture`], or from [`ApplicationClocks`], and reads it back.
    ///
    /// # Errors
    /// [`CapError`] if the control is missing, or does not hold the value.
    fn restore(&mut self, control: &str, value: &str) -> Result<(), CapError>;

    /// Returns the clocks of the unit, if it is a GPU whose clocks can be set in pairs.
    fn clocks(&mut self) -> Option<&mut ApplicationClocks> {
        None
    }
}

/// Converts to microwatts of sysfs; no limit is negative.
fn uw(power: Power) -> u64 {
    u64::try_from(power.mw()).unwrap_or(0).saturating_mul(1000)
}

/// Converts microwatts of sysfs, rounded down: a limit that is a little too low does no harm.
fn power(uw: u64) -> Power {
    Power::from_mw(i64::try_from(uw / 1000).unwrap_or(i64::MAX))
}

/// Checks that the lowest cap is positive and below the highest.
fn checked(place: impl FnOnce() -> String, (low, high): (Power, Power)) -> Result<(Power, Power), CapError> {
    if low > Power::ZERO && low < high { Ok((low, high)) } else { Err(CapError::NoRoom { place: place(), low, high }) }
}
