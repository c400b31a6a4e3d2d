//! NVIDIA GPUs, through the library of their driver.
//!
//! Adds all GPUs of the machine and nothing else, so it is meant for sums such as `powercap+nvml`. A GPU with an energy
//! counter reports the mean since the last sample. For others, and for samples close together, the driver's draw
//! counts, which on some GPUs is itself a mean over a second. A GPU that disappears makes the meter fail: without it
//! the machine would seem to draw less.

use std::path::Path;
use std::time::Duration;

use limo_model::Power;

use super::{Meter, MeterError, Reading, plausible};
use crate::nvml::{GpuError, GpuId, Gpus, milliwatts};

/// Counters are updated about ten times a second: closer samples mean little.
const SHORTEST: Duration = Duration::from_millis(500);

/// Longest interval between compared samples, longer than any sampling interval. In a longer time another driver may
/// have reset the counters.
const LONGEST: Duration = Duration::from_secs(120);

/// Draw of all GPUs.
#[derive(Debug)]
pub struct Nvml {
    gpus: Gpus,
    /// Number of GPUs at the first reading.
    most: u32,
    /// Time of the last sample, and the counters: millijoules by index, `None` without a counter.
    last: Option<(Duration, Vec<Option<u64>>)>,
    /// Draw by the driver at the last sample.
    shown: Option<Power>,
}

impl Nvml {
    /// Makes a meter without loading the library. `library` is a path, or a name that the dynamic loader knows.
    pub fn new(library: &Path) -> Self {
        Self { gpus: Gpus::new(library), most: 0, last: None, shown: None }
    }

    /// Returns the draw and the energy counter of one GPU.
    fn look(&mut self, index: u32) -> Result<(Power, Option<u64>), GpuError> {
        self.gpus.ask(&GpuId::Index(index), "read the draw of", |gpu| {
            Ok((milliwatts(gpu.power_usage()?), gpu.total_energy_consumption().ok()))
        })
    }
}

impl Meter for Nvml {
    fn shown(&self) -> Option<Power> {
        self.shown
    }

    fn read(&mut self, now: Duration) -> Result<Reading, MeterError> {
        let whence = || "the NVIDIA library".to_owned();
        let count = self.gpus.count()?;
        if count == 0 {
            return Err(MeterError::NoGpus);
        }
        if count < self.most {
            return Err(MeterError::GpusGone { found: count as usize, before: self.most as usize });
        }
        self.most = count;
        let looks: Vec<(Power, Option<u64>)> =
            (0..count).map(|index| self.look(index)).collect::<Result<_, GpuError>>()?;
        let shown = looks.iter().map(|(draw, _)| *draw).sum();
        self.shown = Some(shown);
        let counters: Vec<Option<u64>> = looks.into_iter().map(|(_, counter)| counter).collect();
        let Some((since, before)) = &self.last else {
            self.last = Some((now, counters));
            return plausible(shown, whence);
        };
        let over = now.saturating_sub(*since);
        if over < SHORTEST {
            return plausible(shown, whence);
        }
        let mean = if over <= LONGEST { mean(before, &counters, over) } else { None };
        self.last = Some((now, counters));
        match mean {
            Some(draw) => plausible(draw, whence).map(|_| Reading::Mean { draw, over }),
            None => plausible(shown, whence),
        }
    }
}

/// Returns the mean draw between two samples; `None` if a GPU has no counter, its counter was reset, or it is another
/// GPU.
fn mean(before: &[Option<u64>], now: &[Option<u64>], over: Duration) -> Option<Power> {
    if before.len() != now.len() {
        return None;
    }
    let mut energy_mj: u64 = 0;
    for (before, now) in before.iter().zip(now) {
        energy_mj = energy_mj.checked_add((*now)?.checked_sub((*before)?)?)?;
    }
    let nanos = over.as_nanos().max(1);
    let mw = (u128::from(energy_mj) * 1_000_000_000 + nanos / 2) / nanos;
    Some(Power::from_mw(i64::try_from(mw).ok()?)).filter(|draw| *draw > Power::ZERO)
}
