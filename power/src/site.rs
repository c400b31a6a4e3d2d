//! Facts about the machine that all meters and caps need. Opens nothing.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::access::Access;
use crate::cap::NVIDIA_SMI;
use crate::nvml::LIBRARY;

/// The interfaces of this machine, and the access data for other devices.
#[derive(Debug, Clone)]
pub struct Site {
    /// Mount point of sysfs: `/sys`.
    pub sysfs: PathBuf,
    /// Access to devices on the network.
    pub access: Access,
    /// Interval between readings of the meter.
    pub interval: Duration,
    /// The library of NVIDIA's driver: a path, or a name for the dynamic loader.
    pub nvml: PathBuf,
    /// NVIDIA's program: a path, or a name to be found in `PATH`.
    pub nvidia_smi: PathBuf,
}

impl Site {
    /// Makes a site without access to devices on the network, with one reading a second and the usual paths.
    pub fn new(sysfs: &Path) -> Self {
        Self {
            sysfs: sysfs.to_owned(),
            access: Access::default(),
            interval: Duration::from_secs(1),
            nvml: LIBRARY.into(),
            nvidia_smi: NVIDIA_SMI.into(),
        }
    }
}
