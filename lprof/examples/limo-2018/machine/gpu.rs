//! Section 4.2: LU decomposition of a matrix of 16384 rows on a Quadro P2000, at all pairs of clocks.

use limo_power::ClockPair;
use lprof::measure::command_report::CommandReport;
use lprof::results::Measurement;

use super::meter::{Draw, Names, measurement};

/// Memory clocks, and the highest graphics clock of the lowest one.
const MEMORIES: [u32; 3] = [405, 810, 3504];
const HIGHEST_OF_405: u32 = 607;

/// Time to read the matrix, before the kernel.
const READING_S: f64 = 56.9;

/// Durations of the kernel for a share of 63 % at the lowest clocks, and of 16 % at the highest.
const SLOWEST_S: f64 = READING_S * 0.63 / 0.37;
const FASTEST_S: f64 = READING_S * 0.16 / 0.84;

/// Between 253 and 493 MHz: a free choice, just above the 27.1 s at 506 MHz.
const MIDDLE_S: f64 = 28.0;

/// Draws: free choices. Only their steps are in the text.
const IDLE_W: f64 = 35.0;
const READING_W: f64 = 60.0;
const HOST_W: f64 = 40.0;

fn kernel_s(clock: u32) -> f64 {
    match clock {
        ..=240 => SLOWEST_S,
        241..=493 => MIDDLE_S,
        494..=1265 => FASTEST_S * 1265.0 / f64::from(clock),
        _ => FASTEST_S,
    }
}

/// Draw of the GPU in the kernel.
fn gpu_w(clock: u32) -> f64 {
    match clock {
        ..=240 => 18.0,
        241..=493 => 24.0,
        494..=1265 => 30.0 + 20.0 * f64::from(clock - 494) / 771.0,
        1266..=1620 => 60.0,
        _ => 68.0,
    }
}

/// Returns the 290 pairs: 139 to 1721 MHz in 125 steps.
fn pairs() -> impl Iterator<Item = ClockPair> {
    let graphics = || (0..=125).map(|step| 139 + (1582 * step + 62) / 125);
    let pair = move |memory_mhz| graphics().map(move |graphics_mhz| ClockPair { graphics_mhz, memory_mhz });
    let pairs = MEMORIES.into_iter().flat_map(pair);
    pairs.filter(|pair| pair.memory_mhz > MEMORIES[0] || pair.graphics_mhz <= HIGHEST_OF_405)
}

pub fn measurements() -> impl Iterator<Item = Measurement> {
    pairs().map(|pair| {
        let kernel_s = kernel_s(pair.graphics_mhz);
        let kernel = (kernel_s, HOST_W + gpu_w(pair.graphics_mhz));
        let draw = Draw { idle_w: IDLE_W, pieces: vec![(READING_S, READING_W), kernel] };
        let names = Names {
            application: "lud-cuda",
            size: "16384",
            hardware: "quadro-p2000",
            cores: 1,
            cap_w: None,
            clocks: Some(pair),
        };
        let reported = CommandReport { kernel_s: Some(kernel_s), ..CommandReport::default() };
        measurement(&names, &draw, reported, 60)
    })
}
