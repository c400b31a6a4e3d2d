//! What Batsim reads: workloads as JSON, platforms as SimGrid's XML; of both the part that a homogeneous cluster of
//! processors needs.
//!
//! A job's profile must say how long it runs: a delay, or computation alone on hosts whose speed is given. Jobs that
//! communicate, do input and output or follow each other are refused by name; nothing is simulated here.

mod platform;
mod workload;

pub use platform::{BatsimPlatform, PlatformXmlError, parse_platform, platform};
pub use workload::{Options, WorkloadJsonError, parse, workload};
