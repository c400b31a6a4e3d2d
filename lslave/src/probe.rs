//! What this machine has, for an operator who sets it up: its processor and memory, each meter with what it shows
//! now, and each cap with its range, or why it cannot be used and what helps. Needs no settings, no master and no state.

mod caps;

use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use limo_power::{Hwmon, Interfaces, Meter, MeterChoice, MeterError, Powercap, Reading, Sensor, sensors};

use crate::config::{Arguments, DEFAULT_SYSFS};
use crate::hardware;

/// Between two looks at a counter of energy: the shortest after which one that has not moved is said to stand still.
const BETWEEN: Duration = Duration::from_millis(1100);

/// The answer, ready to be printed.
pub fn report(arguments: &Arguments) -> String {
    let sysfs = arguments.sysfs.clone().unwrap_or_else(|| PathBuf::from(DEFAULT_SYSFS));
    let memory = hardware::memory().map_or_else(|error| format!("unknown: {error:#}"), |memory| memory.to_string());
    let mut text = line("processor", &format!("{}, {} cores", hardware::processor(), hardware::cores()));
    text += &line("memory", &memory);
    text += &powercap(&sysfs);
    text += &hwmon(&sysfs);
    if let Some(choice @ MeterChoice::Command(command)) = &arguments.meter {
        text += &line("command", &format!("`{command}`: {}", shown(read(choice.meter(&sysfs).as_mut()))));
    }
    let mut interfaces = Interfaces::at(&sysfs);
    if let Some(library) = &arguments.caps.nvml {
        interfaces.nvml.clone_from(library);
    }
    text + &caps::report(&interfaces, &arguments.caps)
}

fn line(what: &str, value: &str) -> String {
    format!("{what:<11} {value}\n")
}

fn powercap(sysfs: &Path) -> String {
    let mut meter = Powercap::new(sysfs);
    let zones = meter.zones().map(|zones| zones.join(" + "));
    let text = match zones {
        Ok(zones) => format!("{zones}: {}", offered(read(&mut meter), "powercap")),
        Err(error) => shown(Err(error)),
    };
    line("powercap", &text)
}

fn hwmon(sysfs: &Path) -> String {
    let found = match sensors(sysfs) {
        Ok(found) => found,
        Err(error) => return line("hwmon", &shown(Err(error))),
    };
    if found.is_empty() {
        let none = format!("no chip in {} shows watts", sysfs.join("class/hwmon").display());
        return line("hwmon", &none);
    }
    let each = |sensor: Sensor| {
        let option = format!("hwmon:{sensor}");
        let mut meter = Hwmon::new(sysfs, sensor.clone());
        line("hwmon", &format!("{sensor}: {}", offered(read(&mut meter), &option)))
    };
    found.into_iter().map(each).collect()
}

/// A second look where the first says nothing yet.
fn read(meter: &mut dyn Meter) -> Result<Reading, MeterError> {
    let begin = Instant::now();
    match meter.read(begin.elapsed())? {
        Reading::NotYet => {
            thread::sleep(BETWEEN);
            meter.read(begin.elapsed())
        }
        draw => Ok(draw),
    }
}

fn shown(reading: Result<Reading, MeterError>) -> String {
    match reading {
        Ok(Reading::Draw(draw)) => draw.to_string(),
        Ok(Reading::NotYet) => "its counter has just begun again: try once more".to_owned(),
        Err(error) => format!("no reading: {error}"),
    }
}

/// The same, with how to use what can be read.
fn offered(reading: Result<Reading, MeterError>, option: &str) -> String {
    let usable = reading.is_ok();
    let text = shown(reading);
    if usable { format!("{text} (use it: --meter {option})") } else { text }
}
