//! Power limit of an NVIDIA GPU, through the library of its driver.
//!
//! The value read back is the enforced limit, which includes limits from elsewhere, such as a management controller.
//! A lower limit from there is accepted. Limits end with the driver. Without persistence mode, this happens when the
//! last program that uses the GPU ends. The daemon is one such program.

use std::path::Path;

use limo_model::Power;

use super::{ApplicationClocks, Cap, CapError, Originals, checked};
use crate::nvml::{GpuId, Gpus, milliwatts};

/// Name of a captured limit, after the GPU's UUID.
pub const LIMIT: &str = "power_limit_mw";

/// This allows for drivers that round to whole watts.
const TOLERANCE: Power = Power::from_watts(1);

/// Cap on one GPU.
#[derive(Debug)]
pub struct NvmlCap {
    gpus: Gpus,
    gpu: GpuId,
    range: Option<(Power, Power)>,
    pairs: ApplicationClocks,
}

impl NvmlCap {
    /// Makes a cap. `library` is as for [`Gpus::new`]. Without a range, the GPU's own range counts.
    pub fn new(library: &Path, gpu: GpuId, range: Option<(Power, Power)>) -> Self {
        let pairs = ApplicationClocks::new(library, gpu.clone());
        Self { gpus: Gpus::new(library), gpu, range, pairs }
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

    fn clocks(&mut self) -> Option<&mut ApplicationClocks> {
        Some(&mut self.pairs)
    }

    fn restore(&mut self, control: &str, value: &str) -> Result<(), CapError> {
        if let Some(restored) = self.pairs.restore(control, value) {
            return restored;
        }
        let captured = || CapError::Captured { control: control.to_owned(), value: value.to_owned() };
        let mw: u32 = value.parse().map_err(|_| captured())?;
        // The GPU that was capped, even if another one has its index now.
        let (uuid, _) = control.split_once('/').filter(|(_, name)| *name == LIMIT).ok_or_else(captured)?;
        self.write(&GpuId::Uuid(uuid.to_owned()), milliwatts(mw))
    }
}
