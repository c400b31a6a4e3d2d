//! Watts: meters of real machines, and emulated hardware.
//!
//! A meter (`meter`) says what the machine that it hangs on draws, and a cap (`cap`) limits what a unit of it may; devices
//! on the network are asked over HTTP (`http`), with what a file says of how to get into them (`access`), and GPUs of
//! NVIDIA through their driver's library (`nvml`). A TOML file describes emulated machines, and a model
//! says what each run on them draws and how long it takes: jobs on emulated hardware are real processes; only their
//! watts are modelled. Neither asks a clock for the time of what it says: its owner hands the time in. The model starts
//! nothing; of the meters only `command` and `ipmi` do, of the caps only those by a program.

#![warn(missing_docs)]

mod access;
mod attribution;
mod cap;
mod digest;
mod error;
mod file;
mod http;
mod machine;
mod meter;
mod model;
mod noise;
mod nvml;
mod percent;
mod site;

pub use access::{Access, AccessError};
pub use attribution::{Attributed, Attribution};
pub use cap::{
    Cap, CapChoice, CapChoiceError, CapError, CapFailure, ClockCap, HwmonCap, IpmiCap, Keeper, KeeperError, Kept,
    NVIDIA_SMI, NvmlCap, Originals, Rapl, RedfishCap, SmiCap,
};
pub use error::{CapRefused, HardwareError, Mistake, PlanError};
pub use http::{Http, HttpError, Scheme, check_url};
pub use machine::{Application, EmulatedUnit, Hardware, Machine};
pub use meter::{
    Batch, Channel, Chip, ChoiceError, Command, Hwmon, Ipmi, IpmiError, JsonError, Mcp39f511, Mcp39f511Error, Meter,
    MeterChoice, MeterError, NvidiaSmi, Nvml, Powercap, Reading, Redfish, Sensor, Shelly, Sum, Summary, Tasmota,
    Wattmeter, sensors, wattmeters,
};
pub use model::{Emulated, Plan, Share};
pub use noise::Noise;
pub use nvml::{Gpu, GpuError, GpuId, Gpus, LIBRARY as NVML_LIBRARY};
pub use percent::{Percent, PercentError};
pub use site::Site;
