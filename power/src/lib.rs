//! Watts: meters and caps of real machines, and emulated hardware.
//!
//! A meter (`meter`) measures the draw of its machine, and a cap (`cap`) limits the draw of a unit. Network devices are
//! reached over HTTP (`http`), with credentials from a file (`access`), and NVIDIA GPUs through their driver's library
//! (`nvml`). A TOML file describes emulated machines, and a model computes the draw and duration of each run on them.
//! Jobs on emulated hardware are real processes; only their watts are modelled. `names` names the hardware of this
//! machine.
//!
//! The caller passes the time in. Only the meters `command`, `ipmi` and `nvidia-smi`, and caps by a program, start
//! processes.

#![warn(missing_docs)]

mod access;
pub mod answers;
mod attribution;
mod cap;
mod digest;
mod error;
mod file;
mod http;
mod machine;
mod meter;
mod model;
mod names;
mod noise;
mod nvml;
mod percent;
mod site;

pub use access::{Access, AccessError};
pub use attribution::{Attributed, Attribution};
pub use cap::{
    ApplicationClocks, Cap, CapChoice, CapChoiceError, CapError, CapFailure, ClockCap, ClockPair, CpufreqCap, HwmonCap,
    IpmiCap, Keeper, KeeperError, Kept, NVIDIA_SMI, NvmlCap, Originals, Rapl, RedfishCap, SmiCap,
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
pub use names::{cores, gpu_name, processor};
pub use noise::Noise;
pub use nvml::{ClockLimits, Gpu, GpuError, GpuId, Gpus, LIBRARY as NVML_LIBRARY};
pub use percent::{Percent, PercentError};
pub use site::Site;
