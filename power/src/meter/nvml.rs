//! NVIDIA GPUs, through the library of their driver.
//!
//! Adds all GPUs of the machine and nothing else, so it is meant for sums such as `powercap+nvml`. A GPU with an energy
//! counter reports the mean since the last sample. For others the mean of the values counts that the driver has recorded
//! since then, several a second. Without these, and for samples close together, the driver's draw counts, which on some
//! GPUs is itself a mean over a second. A GPU that disappears makes the meter fail: without it
//! the machine would seem to draw less.

use std::path::Path;
use std::time::Duration;

use limo_model::Power;
use nvml_wrapper::Device;
use nvml_wrapper::enum_wrappers::device::Sampling;
use nvml_wrapper::enums::device::SampleValue;

use super::{Meter, MeterError, Reading, plausible};
use crate::nvml::{GpuError, GpuId, Gpus, milliwatts};

/// Counters are updated about ten times a second: closer samples mean little.
const SHORTEST: Duration = Duration::from_millis(500);

/// Longest interval between compared samples, longer than any sampling interval. In a longer time another driver may
/// have reset the counters.
const LONGEST: Duration = Duration::from_secs(120);

/// State of the readings of one GPU.
#[derive(Debug, Clone, Copy)]
struct GpuLook {
    draw: Power,
    /// Energy counter, in millijoules.
    counter: Option<u64>,
    /// Values that the driver recorded; used without a counter.
    recorded: Option<Recorded>,
}

/// Values that the driver recorded since the last time.
#[derive(Debug, Clone, Copy)]
struct Recorded {
    /// Time of the newest one, on the clock of the driver.
    newest_us: u64,
    mean_mw: u64,
}

/// Draw of all GPUs.
#[derive(Debug)]
pub struct Nvml {
    gpus: Gpus,
    /// Number of GPUs at the first reading.
    most: u32,
    /// Time of the last sample, and what the GPUs showed.
    last: Option<(Duration, Vec<GpuLook>)>,
    /// Draw by the driver at the last sample.
    shown: Option<Power>,
}

impl Nvml {
    /// Makes a meter without loading the library. `library` is a path, or a name that the dynamic loader knows.
    pub fn new(library: &Path) -> Self {
        Self { gpus: Gpus::new(library), most: 0, last: None, shown: None }
    }

    /// Returns what one GPU shows.
    fn look(&mut self, index: u32) -> Result<GpuLook, GpuError> {
        let before = self.last.as_ref().and_then(|(_, looks)| looks.get(index as usize)?.recorded);
        self.gpus.ask(&GpuId::Index(index), "read the draw of", |gpu| {
            let (draw, counter) = (milliwatts(gpu.power_usage()?), gpu.total_energy_consumption().ok());
            let recorded = if counter.is_none() { recorded(gpu, before) } else { None };
            Ok(GpuLook { draw, counter, recorded })
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
        let looks: Vec<GpuLook> = (0..count).map(|index| self.look(index)).collect::<Result<_, GpuError>>()?;
        let shown = looks.iter().map(|look| look.draw).sum();
        self.shown = Some(shown);
        let Some((since, before)) = &self.last else {
            self.last = Some((now, looks));
            return plausible(shown, whence);
        };
        let over = now.saturating_sub(*since);
        if over < SHORTEST {
            return plausible(shown, whence);
        }
        let mean = if over <= LONGEST { mean(before, &looks, over) } else { None };
        self.last = Some((now, looks));
        match mean {
            Some(draw) => plausible(draw, whence).map(|_| Reading::Mean { draw, over }),
            None => plausible(shown, whence),
        }
    }
}

/// Returns the values that the driver recorded after `before`; `None` if it records none, or nothing new.
fn recorded(gpu: &Device<'_>, before: Option<Recorded>) -> Option<Recorded> {
    let since_us = before.map_or(0, |before| before.newest_us);
    let samples = gpu.samples(Sampling::Power, since_us).ok()?;
    let (mut newest_us, mut sum_mw, mut count) = (since_us, 0_u64, 0_u64);
    for sample in samples.iter().filter(|sample| sample.timestamp > since_us) {
        let SampleValue::U32(mw) = sample.value else { return None };
        newest_us = newest_us.max(sample.timestamp);
        (sum_mw, count) = (sum_mw + u64::from(mw), count + 1);
    }
    Some(Recorded { newest_us, mean_mw: sum_mw.checked_div(count)? })
}

/// Returns the mean draw between two samples; `None` if a GPU shows none, its counter was reset, or it is another GPU.
fn mean(before: &[GpuLook], now: &[GpuLook], over: Duration) -> Option<Power> {
    if before.len() != now.len() {
        return None;
    }
    let (mut energy_mj, mut recorded_mw) = (0_u64, 0_u64);
    for (before, now) in before.iter().zip(now) {
        match (now.counter, now.recorded) {
            (Some(counter), _) => energy_mj = energy_mj.checked_add(counter.checked_sub(before.counter?)?)?,
            // The first time, the values reach back before the last sample.
            (None, Some(recorded)) => {
                recorded_mw = recorded_mw.checked_add(before.recorded.and(Some(recorded.mean_mw))?)?
            }
            (None, None) => return None,
        }
    }
    let nanos = over.as_nanos().max(1);
    let mw = (u128::from(energy_mj) * 1_000_000_000 + nanos / 2) / nanos + u128::from(recorded_mw);
    Some(Power::from_mw(i64::try_from(mw).ok()?)).filter(|draw| *draw > Power::ZERO)
}
