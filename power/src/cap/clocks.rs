//! Cap on an NVIDIA GPU by its clocks, for GPUs without a power limit (limo-2018, section 4.2, caps its Quadro in this
//! way).
//!
//! The range is the GPU's largest draw with its clocks locked to the lowest, and to the highest. The clock for a cap is
//! on the straight line between them. The draw of a chip grows faster than its clock, because its voltage also rises.
//! So at each clock it is below that line, and the cap holds.
//!
//! The driver does not report locked clocks: lifting the cap unlocks them, and the value that is read back is the
//! current clock.

use std::path::Path;
use std::thread;
use std::time::Duration;

use limo_model::Power;
use nvml_wrapper::enum_wrappers::device::Clock;
use nvml_wrapper::enums::device::GpuLockedClocksSetting;

use super::{ApplicationClocks, Cap, CapError, Originals, checked};
use crate::nvml::{GpuId, Gpus};

/// Name of a captured lock, after the GPU's UUID.
const LOCK: &str = "locked_clocks";
/// Value that is restored.
const UNLOCKED: &str = "unlocked";

/// Number and interval of checks that the clock has come down; it follows within some milliseconds.
const LOOKS: u32 = 20;
const BETWEEN: Duration = Duration::from_millis(25);

/// Cap on one GPU.
#[derive(Debug)]
pub struct ClockCap {
    gpus: Gpus,
    gpu: GpuId,
    range: Option<(Power, Power)>,
    pairs: ApplicationClocks,
}

impl ClockCap {
    /// Makes a cap. `library` is as for [`Gpus::new`]. The range is the GPU's draw at its lowest and highest clock.
    pub fn new(library: &Path, gpu: GpuId, range: Option<(Power, Power)>) -> Self {
        let pairs = ApplicationClocks::new(library, gpu.clone());
        Self { gpus: Gpus::new(library), gpu, range, pairs }
    }

    fn known_range(&self) -> Result<(Power, Power), CapError> {
        let place = || format!("GPU {}", self.gpu);
        checked(place, self.range.ok_or_else(|| CapError::NoRange { place: place() })?)
    }

    /// Returns the clocks that can be locked, in MHz, ascending.
    fn lockable(&mut self) -> Result<Vec<u32>, CapError> {
        let mut clocks = self.gpus.ask(&self.gpu, "read the clocks of", |gpu| {
            let memory = gpu.supported_memory_clocks()?.into_iter().max().unwrap_or(0);
            gpu.supported_graphics_clocks(memory)
        })?;
        // Unused entries are zero.
        clocks.retain(|clock| *clock > 0);
        clocks.sort_unstable();
        if clocks.is_empty() { Err(CapError::NoClocks { gpu: format!("GPU {}", self.gpu) }) } else { Ok(clocks) }
    }

    fn uuid(&mut self) -> Result<String, CapError> {
        Ok(self.gpus.ask(&self.gpu, "name", |gpu| gpu.uuid())?)
    }
}

/// Returns the highest of the ascending clocks on or below the line from the lowest at `low` to the highest at `high`.
fn clock_for(limit: Power, range: (Power, Power), clocks: &[u32]) -> Option<u32> {
    let highest = on_line(limit, range, (*clocks.first()?, *clocks.last()?));
    clocks.iter().copied().rfind(|clock| *clock <= highest)
}

/// Returns the clock, rounded down, at `limit` on the straight line from the first clock at `low` to the last at `high`.
/// `first` must not be above `last`.
pub(super) fn on_line(limit: Power, (low, high): (Power, Power), (first, last): (u32, u32)) -> u32 {
    let above = i128::from((limit.min(high) - low).at_least_zero().mw());
    let more = i128::from(last - first) * above / i128::from((high - low).mw().max(1));
    // It is between the two clocks.
    first + u32::try_from(more).unwrap_or(last - first)
}

impl Cap for ClockCap {
    fn range(&mut self) -> Result<(Power, Power), CapError> {
        let range = self.known_range()?;
        self.lockable()?;
        // Locks cannot be read and are not touched: setting persistence mode to its own value needs the same
        // permission.
        self.gpus.ask(&self.gpu, "set the persistence mode of", |gpu| {
            let persistent = gpu.is_in_persistent_mode()?;
            gpu.set_persistent(persistent)
        })?;
        Ok(range)
    }

    fn capture(&mut self) -> Result<Originals, CapError> {
        Ok(Originals::from([(format!("{}/{LOCK}", self.uuid()?), UNLOCKED.to_owned())]))
    }

    fn set(&mut self, limit: Power) -> Result<(), CapError> {
        let (range, clocks) = (self.known_range()?, self.lockable()?);
        let none = || CapError::NoClocks { gpu: format!("GPU {}", self.gpu) };
        let wanted = clock_for(limit, range, &clocks).ok_or_else(none)?;
        let lock = GpuLockedClocksSetting::Numeric { min_clock_mhz: clocks[0], max_clock_mhz: wanted };
        self.gpus.ask(&self.gpu, "lock the clocks of", |gpu| gpu.set_gpu_locked_clocks(lock))?;
        let mut found = 0;
        for _ in 0..LOOKS {
            found = self.gpus.ask(&self.gpu, "read the clock of", |gpu| gpu.clock_info(Clock::Graphics))?;
            if found <= wanted {
                return Ok(());
            }
            thread::sleep(BETWEEN);
        }
        Err(CapError::Clock { gpu: format!("GPU {}", self.gpu), wanted, found })
    }

    fn clocks(&mut self) -> Option<&mut ApplicationClocks> {
        Some(&mut self.pairs)
    }

    fn restore(&mut self, control: &str, value: &str) -> Result<(), CapError> {
        if let Some(restored) = self.pairs.restore(control, value) {
            return restored;
        }
        let named = control.split_once('/').filter(|(_, name)| *name == LOCK && value == UNLOCKED);
        let (uuid, _) =
            named.ok_or_else(|| CapError::Captured { control: control.to_owned(), value: value.to_owned() })?;
        let gpu = GpuId::Uuid(uuid.to_owned());
        Ok(self.gpus.ask(&gpu, "unlock the clocks of", |gpu| gpu.reset_gpu_locked_clocks())?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Uses a line of 0.05 W per MHz from 500 MHz at 20 W to 1500 MHz at 70 W.
    #[test]
    fn clocks_lie_on_or_below_the_line() {
        let check = |mw: i64, expected: u32| {
            let range = (Power::from_watts(20), Power::from_watts(70));
            assert_eq!(clock_for(Power::from_mw(mw), range, &[500, 810, 1075, 1240, 1500]), Some(expected), "{mw} mW");
        };
        check(20_000, 500);
        check(35_499, 500);
        check(35_500, 810);
        check(48_750, 1075);
        check(69_999, 1240);
        check(70_000, 1500);
        check(90_000, 1500);
        check(1_000, 500);
        assert_eq!(clock_for(Power::from_watts(30), (Power::from_watts(20), Power::from_watts(70)), &[]), None);
    }
}
