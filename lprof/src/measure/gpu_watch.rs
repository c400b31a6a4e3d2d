//! The clock limits of a GPU during runs: whether its power limit holds it down, and whether it is too hot.

use limo_power::{ClockLimits, GpuId, Gpus};
use serde::{Deserialize, Serialize};

use super::window::TimeRange;

/// A GPU whose limits are sampled together with the meter.
#[derive(Debug)]
pub struct GpuWatch {
    gpus: Gpus,
    gpu: GpuId,
}

impl GpuWatch {
    /// Watches a GPU.
    pub fn new(gpus: Gpus, gpu: GpuId) -> Self {
        Self { gpus, gpu }
    }

    /// Returns the present limits; `None` if the GPU does not report them.
    pub(super) fn look(&mut self) -> Option<ClockLimits> {
        self.gpus.clock_limits(&self.gpu).ok()
    }
}

/// Numbers of samples in a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names say what they are")]
pub struct LimitCounts {
    pub looks: u32,
    /// Samples at which the power limit held the GPU down.
    pub power: u32,
    /// Samples at which it was too hot.
    pub heat: u32,
}

impl LimitCounts {
    /// Counts the samples in a run; `None` if there are none.
    pub fn of(limits: &[(f64, ClockLimits)], run: TimeRange) -> Option<Self> {
        let mut counts = Self::default();
        for (_, found) in limits.iter().filter(|(at_s, _)| *at_s >= run.begin_s && *at_s <= run.end_s) {
            counts.looks += 1;
            counts.power += u32::from(found.power);
            counts.heat += u32::from(found.heat);
        }
        (counts.looks > 0).then_some(counts)
    }

    /// Returns the sum of several runs.
    pub fn sum(runs: impl Iterator<Item = Self>) -> Self {
        runs.fold(Self::default(), |sum, run| Self {
            looks: sum.looks.saturating_add(run.looks),
            power: sum.power.saturating_add(run.power),
            heat: sum.heat.saturating_add(run.heat),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_of_the_run_are_counted() {
        let limits = |power, heat| ClockLimits { power, heat };
        let sampled = [
            (0.9, limits(true, true)),
            (1.0, limits(true, false)),
            (1.5, limits(true, true)),
            (2.0, limits(false, false)),
            (2.1, limits(true, true)),
        ];
        let counts = LimitCounts::of(&sampled, TimeRange { begin_s: 1.0, end_s: 2.0 });
        assert_eq!(counts, Some(LimitCounts { looks: 3, power: 2, heat: 1 }));
        assert_eq!(LimitCounts::of(&sampled, TimeRange { begin_s: 3.0, end_s: 4.0 }), None);
    }
}
