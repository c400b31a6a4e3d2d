//! Clocks of an NVIDIA GPU for its applications: a pair of graphics and memory clock, which are set together.
//!
//! limo-2018, section 4.2, measures all pairs of a GPU. A pair does not limit the draw, so it is not a cap: the keeper sets
//! pairs for measurements, and restores the original pair like the value before a cap.

use std::fmt;
use std::path::Path;

use nvml_wrapper::Device;
use nvml_wrapper::enum_wrappers::device::Clock;
use nvml_wrapper::error::NvmlError;
use serde::{Deserialize, Serialize};

use super::{CapError, Originals};
use crate::nvml::{GpuId, Gpus};

/// Name of a captured pair, after the GPU's UUID. Its value is graphics and memory clock in MHz.
const PAIR: &str = "applications_clocks_mhz";

/// Most pairs that a GPU may report. The 290 of limo-2018 are few; current GPUs have up to 800.
const MOST_PAIRS: usize = 10_000;

/// Graphics and memory clock of a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names have the units")]
pub struct ClockPair {
    pub graphics_mhz: u32,
    pub memory_mhz: u32,
}

impl fmt::Display for ClockPair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} MHz, memory {} MHz", self.graphics_mhz, self.memory_mhz)
    }
}

/// Clocks of one GPU for its applications.
#[derive(Debug)]
pub struct ApplicationClocks {
    gpus: Gpus,
    gpu: GpuId,
}

impl ApplicationClocks {
    pub(super) fn new(library: &Path, gpu: GpuId) -> Self {
        Self { gpus: Gpus::new(library), gpu }
    }

    /// Returns all pairs that the GPU supports, in ascending order. Changes nothing.
    ///
    /// # Errors
    /// [`CapError`] if the GPU does not report them.
    pub fn pairs(&mut self) -> Result<Vec<ClockPair>, CapError> {
        let mut pairs = self.gpus.ask(&self.gpu, "read the clocks of", |gpu| {
            let mut pairs = Vec::new();
            for memory_mhz in gpu.supported_memory_clocks()?.into_iter().filter(|clock| *clock > 0) {
                let graphics = gpu.supported_graphics_clocks(memory_mhz)?.into_iter().filter(|clock| *clock > 0);
                pairs.extend(graphics.map(|graphics_mhz| ClockPair { graphics_mhz, memory_mhz }));
                pairs.truncate(MOST_PAIRS);
            }
            Ok(pairs)
        })?;
        pairs.sort_unstable();
        pairs.dedup();
        if pairs.is_empty() { Err(CapError::NoClocks { gpu: format!("GPU {}", self.gpu) }) } else { Ok(pairs) }
    }

    /// Returns the present pair as the value of a control. Changes nothing.
    pub(super) fn capture(&mut self) -> Result<Originals, CapError> {
        let read = |gpu: &mut Device<'_>| Ok((gpu.uuid()?, held(gpu)?));
        let (uuid, pair) = self.gpus.ask(&self.gpu, "read the clocks of", read)?;
        Ok(Originals::from([(format!("{uuid}/{PAIR}"), format!("{} {}", pair.graphics_mhz, pair.memory_mhz))]))
    }

    /// Sets a pair, and reads it back.
    pub(super) fn set(&mut self, pair: ClockPair) -> Result<(), CapError> {
        let gpu = self.gpu.clone();
        self.write(&gpu, pair)
    }

    /// Restores the value of a control; `None` if the control is not a pair of clocks.
    pub(super) fn restore(&mut self, control: &str, value: &str) -> Option<Result<(), CapError>> {
        let (uuid, _) = control.split_once('/').filter(|(_, name)| *name == PAIR)?;
        let numbers = value.split_once(' ').map(|(graphics, memory)| (graphics.parse(), memory.parse()));
        Some(match numbers {
            Some((Ok(graphics_mhz), Ok(memory_mhz))) => {
                self.write(&GpuId::Uuid(uuid.to_owned()), ClockPair { graphics_mhz, memory_mhz })
            }
            _ => Err(CapError::Captured { control: control.to_owned(), value: value.to_owned() }),
        })
    }

    fn write(&mut self, gpu: &GpuId, wanted: ClockPair) -> Result<(), CapError> {
        let set = |gpu: &mut Device<'_>| {
            gpu.set_applications_clocks(wanted.memory_mhz, wanted.graphics_mhz)?;
            held(gpu)
        };
        let found = self.gpus.ask(gpu, "set the clocks of", set)?;
        if found == wanted {
            return Ok(());
        }
        Err(CapError::Clocks { gpu: format!("GPU {gpu}"), wanted, found })
    }
}

fn held(gpu: &Device<'_>) -> Result<ClockPair, NvmlError> {
    let clock = |of| gpu.applications_clock(of);
    Ok(ClockPair { graphics_mhz: clock(Clock::Graphics)?, memory_mhz: clock(Clock::Memory)? })
}
