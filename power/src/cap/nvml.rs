//! The power limit of an NVIDIA GPU, through the library of its driver.
//!
//! What is read back is the limit that is enforced: the one that was set does not show what was set beside the driver, by
//! a management controller. A lower one that comes from there is fine. Limits end with the driver: without persistence
//! mode that is when the last program that uses the GPU ends, and the daemon is one such program.

use std::path::Path;

use limo_model::Power;

use super::{Cap, CapError, Originals, checked};
use crate::nvml::{GpuId, Gpus, milliwatts};

/// How a captured limit is called, after the GPU's UUID.
pub const LIMIT: &str = "power_limit_mw";

/// Some drivers keep whole watts.
const TOLERANCE: Power = Power::from_watts(1);

/// The cap on one GPU.
#[derive(Debug)]
pub struct NvmlCap {
    gpus: Gpus,
    gpu: GpuId,
    range: Option<(Power, Power)>,
}

impl NvmlCap {
    /// `library` as for [`Gpus::new`]. Without a range, what the GPU takes.
    pub fn new(library: &Path, gpu: GpuId, range: Option<(Power, Power)>) -> Self {
        Self { gpus: Gpus::new(library), gpu, range }
    }

    fn write(&mut self, gpu: &GpuId, limit: Power) -> Result<(), CapError> {
        let mw = u32::try_from(limit.mw()).unwrap_or(u32::MAX);
        self.gpus.ask(gpu, "limit the power of", |gpu| gpu.set_power_management_limit(mw))?;
        let enforced = self.gpus.ask(gpu, "read the power limit of", |gpu| gpu.enforced_power_limit())?;
        let found = milliwatts(enforced);
        if found <= limit + TOLERANCE {
            return Ok(());
        }
        Err(CapError::NotKept { place: format!("GPU {gpu}"), wanted: limit, found })
    }
}

impl Cap for NvmlCap {
    fn range(&mut self) -> Result<(Power, Power), CapError> {
        let id = self.gpu.clone();
        let limits = self.gpus.ask(&id, "read the power limits of", |gpu| gpu.power_management_limit_constraints())?;
        let held = self.gpus.ask(&id, "read the power limit of", |gpu| gpu.power_management_limit())?;
        self.gpus.ask(&id, "limit the power of", |gpu| gpu.set_power_management_limit(held))?;
        let (lowest, highest) = (milliwatts(limits.min_limit), milliwatts(limits.max_limit));
        let (low, high) = self.range.unwrap_or((lowest, highest));
        checked(|| format!("GPU {id}"), (low.max(lowest), high.min(highest)))
    }

    fn capture(&mut self) -> Result<Originals, CapError> {
        let read =
            self.gpus.ask(&self.gpu, "read the power limit of", |gpu| Ok((gpu.uuid()?, gpu.power_management_limit()?)));
        let (uuid, limit) = read?;
        Ok(Originals::from([(format!("{uuid}/{LIMIT}"), limit.to_string())]))
    }

    fn set(&mut self, limit: Power) -> Result<(), CapError> {
        let gpu = self.gpu.clone();
        self.write(&gpu, limit)
    }

    fn restore(&mut self, control: &str, value: &str) -> Result<(), CapError> {
        let captured = || CapError::Captured { control: control.to_owned(), value: value.to_owned() };
        let mw: u32 = value.parse().map_err(|_| captured())?;
        // The GPU that was capped, whichever has its index now.
        let (uuid, _) = control.split_once('/').filter(|(_, name)| *name == LIMIT).ok_or_else(captured)?;
        self.write(&GpuId::Uuid(uuid.to_owned()), milliwatts(mw))
    }
}
