//! Seventy minutes of load that take 44 Wh, replayed through two meters: the sum of their samples must be 44 Wh.

use std::fs;
use std::time::Duration;

use limo_model::{Energy, Power};
use limo_power::{Batch, Chip, Meter, Powercap};

use crate::chip::Emulated;
use crate::meter_of;

/// Start, end (in seconds), and the milliwatts at both, with a straight line in between.
///
/// By hand: 600 s of 20 W are 12,000 J. From 20 W to 80 W in 600 s, 50 W on the mean, are 30,000 J. 600 s of 100 W are
/// 60,000 J and 600 s of 60 W are 36,000 J. From 80 W to 10 W in 300 s, 45 W on the mean, are 13,500 J. 600 s of 10 W
/// are 6,000 J, and 900 s of 1 W are 900 J. The sum is 158,400 J, and 158,400 / 3,600 = 44 Wh.
const LOAD: [(u64, u64, u64, u64); 7] = [
    (0, 600, 20_000, 20_000),
    (600, 1200, 20_000, 80_000),
    (1200, 1800, 100_000, 100_000),
    (1800, 2400, 60_000, 60_000),
    (2400, 2700, 80_000, 10_000),
    (2700, 3300, 10_000, 10_000),
    (3300, 4200, 1_000, 1_000),
];

const END: u64 = 4200;

/// 0.1 % of 44 Wh, in millijoules.
const TOLERANCE_MJ: i64 = 158_400;

/// Number of samples in a batch, one a second.
const LOOKS: u64 = 10;

/// Returns the draw in milliwatts just before the end of this second.
fn draw(second: u64) -> u64 {
    let (from, until, first, last) =
        LOAD.into_iter().find(|(from, until, ..)| (from + 1..=*until).contains(&second)).expect("within the load");
    let (passed, length) = (second - from, until - from);
    (first * (length - passed) + last * passed) / length
}

/// Returns the energy in microjoules up to the end of this second.
fn used(second: u64) -> u64 {
    LOAD.into_iter()
        .filter(|(from, ..)| *from < second)
        .map(|(from, until, first, last)| {
            let (passed, length) = (second.min(until) - from, until - from);
            let now = (first * (length - passed) + last * passed) / length;
            // The mean of its ends, times its length: milliwatts times seconds are millijoules.
            (first + now) * passed * 1000 / 2
        })
        .sum()
}

/// Reads `meter` each second after a call of `set`, and adds up the samples.
fn replay(meter: &mut dyn Meter, mut set: impl FnMut(u64)) -> Energy {
    let mut batch = Batch::new(Duration::from_secs(1));
    let mut total = Energy::ZERO;
    let mut covered = Duration::ZERO;
    for second in 0..=END {
        set(second);
        // The clock's start is some time before the first sample.
        let now = Duration::from_secs(1_000_000 + second);
        batch.look(now, meter.read(now).expect("a reading"));
        if second % LOOKS == 0
            && let Some(sample) = batch.close()
        {
            assert!(sample.low <= sample.draw && sample.draw <= sample.high, "{sample:?}");
            total += sample.energy();
            covered += sample.covered;
        }
    }
    assert_eq!(covered, Duration::from_secs(END), "nothing was left out");
    total
}

fn check(total: Energy) {
    let expected: Energy = "44 Wh".parse().expect("an energy");
    assert_eq!(expected, Energy::from_joules(158_400));
    let difference = (total - expected).mj().abs();
    assert!(difference <= TOLERANCE_MJ, "{total} is {difference} mJ from {expected}");
}

#[test]
fn the_load_is_44_wh() {
    assert_eq!(used(END), 158_400_000_000);
    assert_eq!(used(600), 12_000_000_000);
    assert_eq!(
        (draw(1), draw(900), draw(1201), draw(2400), draw(2700), draw(END)),
        (20_000, 50_000, 100_000, 60_000, 10_000, 1_000)
    );
}

#[test]
fn a_wattmeter_that_shows_instants() {
    let chip = Emulated::new(Chip::Two);
    let mut meter = meter_of(&chip, Some(1), Duration::from_secs(1)).with_limit(Duration::from_secs(20));
    let total = replay(&mut meter, |second| {
        // The raw value is in steps of 10 mW, like the chip's.
        let raw = u32::try_from(draw(second.max(1)) / 10).expect("a small number");
        chip.set_power(0, raw);
    });
    check(total);
}

/// Uses a counter that wraps around now and then, as real ones do.
#[test]
fn a_counter_of_energy() {
    const RANGE_UJ: u64 = 65_532_610_987;
    let sysfs = tempfile::tempdir().expect("a directory");
    let zone = sysfs.path().join("class/powercap/intel-rapl:0");
    fs::create_dir_all(&zone).expect("made");
    fs::write(zone.join("name"), "package-0\n").expect("written");
    fs::write(zone.join("max_energy_range_uj"), format!("{RANGE_UJ}\n")).expect("written");
    let mut meter = Powercap::new(sysfs.path());
    let total = replay(&mut meter, |second| {
        fs::write(zone.join("energy_uj"), format!("{}\n", used(second) % RANGE_UJ)).expect("written");
    });
    check(total);
    // The sum is much closer than required: only the rounding of each mean is lost.
    assert!((total - Energy::from_joules(158_400)).mj().abs() <= 100, "{total}");
    assert_eq!(total.over(limo_model::Span::from_secs(4200)), Power::from_mw(37_714));
}
