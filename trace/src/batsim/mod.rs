//! Batsim's inputs: workloads as JSON and platforms as SimGrid's XML, limited to homogeneous clusters of processors.
//!
//! A job's profile must determine its running time: a delay, or computation alone on hosts of known speed. Jobs that
//! communicate, do input and output or follow each other are refused by name.

mod platform;
mod workload;

pub use platform::{BatsimPlatform, PlatformXmlError, parse_platform, platform};
pub use workload::{Options, WorkloadJsonError, parse, workload};
