//! Watts: meters of real machines, and emulated hardware.
//!
//! A meter (`meter`) says what the machine that it hangs on draws, and a cap (`cap`) limits what a unit of it may. A TOML file describes emulated machines, and a model
//! says what each run on them draws and how long it takes: jobs on emulated hardware are real processes; only their
//! watts are modelled. Neither asks a clock for the time of what it says: its owner hands the time in. The model starts
//! nothing; of the meters only `command` does.

mod cap;
mod error;
mod file;
mod machine;
mod meter;
mod model;
mod noise;
mod nvml;
mod percent;

pub use cap::{
    Cap, CapChoice, CapChoiceError, CapError, CapFailure, ClockCap, HwmonCap, Interfaces, Keeper, KeeperError, NvmlCap,
    Originals, Rapl,
};
pub use error::{HardwareError, Mistake, PlanError};
pub use machine::{Application, Hardware, Machine, Unit};
pub use meter::{
    Channel, ChoiceError, Command, Hwmon, Meter, MeterChoice, MeterError, Powercap, Reading, Sensor, sensors,
};
pub use model::{Emulated, Plan, Share};
pub use nvml::{Gpu, GpuError, GpuId, Gpus, LIBRARY as NVML_LIBRARY};
pub use percent::{Percent, PercentError};
