//! Cost of a reading of a meter: CPU time of the reading thread, and its share of one core at one reading a second and
//! at fifty. Meters are emulated: files of the kernel's form in a directory, and the wattmeter's chip on a pty. A real
//! counter costs more if the kernel must ask the hardware.
//!
//! `cargo bench -p limo-power`; ends with 1 if a meter takes more than 1 % of a core at one reading a second.

use std::fs;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use limo_power::{Chip, Hwmon, Mcp39f511, Meter, Powercap, Wattmeter};
use nix::time::{ClockId, clock_gettime};

#[path = "../tests/wattmeter/chip.rs"]
mod chip;

/// More than the largest machines have: sixteen packages of four dies.
const ZONES: usize = 64;

/// Share of one core at one reading a second that is negligible beside a job.
const LIMIT_PERCENT: f64 = 1.0;

const READINGS: u32 = 2000;

fn main() -> ExitCode {
    let dir = tempfile::tempdir().expect("a directory");
    let sysfs = dir.path();
    (0..ZONES).for_each(|zone| write_zone(sysfs, zone, 0));
    let mut counter = 0;
    let mut powercap = Powercap::new(sysfs);
    let count = || {
        counter += 1_000_000;
        (0..ZONES).for_each(|zone| write_zone(sysfs, zone, counter));
    };
    let powercap = measure("powercap, 64 zones", &mut powercap, count);

    let chip = sysfs.join("class/hwmon/hwmon3");
    fs::create_dir_all(&chip).expect("made");
    fs::write(chip.join("name"), "power_meter\n").expect("written");
    fs::write(chip.join("power1_average"), "41500000\n").expect("written");
    let sensor = limo_power::sensors(sysfs).expect("readable").remove(0);
    let hwmon = measure("hwmon", &mut Hwmon::new(sysfs, sensor), || {});

    let chip = chip::Emulated::new(Chip::Two);
    let wattmeter = Wattmeter { chip: chip.chip, path: chip.path.clone(), channel: None };
    let mut wattmeter = Mcp39f511::new(wattmeter, Duration::from_secs(1)).with_limit(Duration::from_secs(20));
    let wattmeter = measure("mcp39f511", &mut wattmeter, || {});
    println!("limit                                            {LIMIT_PERCENT:8.4} %");
    let is_good = [powercap, hwmon, wattmeter].iter().all(|percent| *percent <= LIMIT_PERCENT);
    if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn write_zone(sysfs: &Path, zone: usize, energy_uj: u64) {
    let dir = sysfs.join(format!("class/powercap/intel-rapl:{zone}"));
    fs::create_dir_all(&dir).expect("made");
    fs::write(dir.join("name"), format!("package-{zone}\n")).expect("written");
    fs::write(dir.join("max_energy_range_uj"), "262143328850\n").expect("written");
    fs::write(dir.join("energy_uj"), format!("{energy_uj}\n")).expect("written");
}

/// Returns the percentage of one core at one reading a second. `prepare` runs before each reading and is not counted.
fn measure(name: &str, meter: &mut dyn Meter, mut prepare: impl FnMut()) -> f64 {
    let mut used = Duration::ZERO;
    for second in 0..=READINGS {
        prepare();
        let begin = cpu_time();
        meter.read(Duration::from_secs(second.into())).expect("a reading");
        // The first reading opens the files.
        if second > 0 {
            used += cpu_time() - begin;
        }
    }
    let each = used / READINGS;
    let percent = each.as_secs_f64() * 100.0;
    println!("{name:<20} {each:>9.1?} each   1 Hz {percent:8.4} %   50 Hz {:8.3} %", percent * 50.0);
    percent
}

/// Returns the CPU time of this thread.
fn cpu_time() -> Duration {
    Duration::from(clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).expect("Linux"))
}
