//! The time behaviour of meters: how often a meter has a new value, over which time it averages, and how late it is.

use limo_model::Span;
use limo_power::MeterChoice;
use serde::{Deserialize, Serialize};

/// Period in which a part-time meter looks at the draw once.
const PERIOD_S: f64 = 0.1;

/// The golden ratio, less one.
const GOLDEN: f64 = 0.618_034;

/// Time behaviour of a meter, in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct MeterSheet {
    /// Interval between samples.
    pub interval_s: f64,
    /// Time over which the meter averages; 0 for an energy counter.
    pub window_s: f64,
    /// Age of the end of that time when it is shown.
    pub lag_s: f64,
    /// True if the meter looks at the draw only a part of the time, as NVIDIA's A100 and H100 do for 25 ms of each 100 ms
    /// (arXiv 2312.02741). Then runs begin at different phases.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub part_time: bool,
}

/// Values that the user has measured or knows, instead of the usual ones.
#[derive(Debug, Clone, Copy, Default)]
pub struct KnownTimes {
    /// Interval between samples.
    pub interval: Option<Span>,
    /// Window of the meter.
    pub window: Option<Span>,
    /// Lag of the meter.
    pub lag: Option<Span>,
}

impl MeterSheet {
    /// Returns the behaviour of emulated hardware, which counts exactly.
    pub const EMULATED: Self = Self { interval_s: 0.1, window_s: 0.0, lag_s: 0.0, part_time: false };

    /// Returns the usual behaviour of a meter. A sum behaves like the slowest of its parts.
    pub fn usual(choice: &MeterChoice) -> Self {
        let sheet = |interval_s, window_s, lag_s| Self { interval_s, window_s, lag_s, part_time: false };
        match choice {
            // The counters advance every millisecond.
            MeterChoice::Powercap => sheet(0.1, 0.0, 0.0),
            // 2^4 cycles of the mains at 50 Hz.
            MeterChoice::Mcp39f511(_) => sheet(0.32, 0.32, 0.0),
            MeterChoice::Hwmon(_) => sheet(1.0, 1.0, 0.0),
            MeterChoice::Nvml | MeterChoice::NvidiaSmi => Self { part_time: true, ..sheet(1.0, 1.0, 0.0) },
            MeterChoice::Command(_)
            | MeterChoice::Ipmi(_)
            | MeterChoice::Redfish(_)
            | MeterChoice::Shelly { .. }
            | MeterChoice::Tasmota { .. } => sheet(1.0, 1.0, 1.0),
            MeterChoice::Sum(parts) => {
                let slower = |one: Self, other: Self| Self {
                    interval_s: one.interval_s.max(other.interval_s),
                    window_s: one.window_s.max(other.window_s),
                    lag_s: one.lag_s.max(other.lag_s),
                    part_time: one.part_time || other.part_time,
                };
                parts.iter().map(Self::usual).fold(sheet(0.0, 0.0, 0.0), slower)
            }
        }
    }

    /// Replaces what the user knows.
    pub fn with(self, known: KnownTimes) -> Self {
        Self {
            interval_s: known.interval.map_or(self.interval_s, Span::secs),
            window_s: known.window.map_or(self.window_s, Span::secs),
            lag_s: known.lag.map_or(self.lag_s, Span::secs),
            part_time: self.part_time,
        }
    }

    /// Returns the pause before a run, so that successive runs begin at different phases of a part-time meter: multiples
    /// of the golden ratio fill its period evenly, however many there are.
    pub fn phase_s(self, run: usize) -> f64 {
        if self.part_time { (run as f64 * GOLDEN).fract() * PERIOD_S } else { 0.0 }
    }

    /// Returns the pad that the integral of a run needs on both sides: window, lag and one sample.
    pub fn pad_s(self) -> f64 {
        self.window_s + self.lag_s + self.interval_s
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_is_as_slow_as_its_slowest_part_and_the_user_knows_better() {
        let usual = |meter: &str| MeterSheet::usual(&meter.parse().expect("a meter"));
        let sum = usual("powercap+nvml");
        assert_eq!(sum, MeterSheet { interval_s: 1.0, window_s: 1.0, lag_s: 0.0, part_time: true });
        let known = KnownTimes { lag: Some(Span::from_ms(300)), ..KnownTimes::default() };
        assert!((sum.with(known).pad_s() - 2.3).abs() < 1e-9);
        assert!((usual("mcp39f511:/dev/ttyACM0").pad_s() - 0.64).abs() < 1e-9);
    }

    #[test]
    fn runs_begin_at_all_phases_of_a_part_time_meter() {
        let sheet = MeterSheet::usual(&"nvml".parse().expect("a meter"));
        let mut phases: Vec<f64> = (0..5).map(|run| sheet.phase_s(run)).collect();
        phases.sort_unstable_by(f64::total_cmp);
        // Five runs: no two begin within a tenth of the period, and no gap is larger than 0.4 of it.
        assert!(phases.windows(2).all(|pair| (0.01..0.04).contains(&(pair[1] - pair[0]))), "{phases:?}");
        assert_eq!(MeterSheet::EMULATED.phase_s(3), 0.0);
    }
}
