//! Report of this machine's hardware for an operator who sets it up: processor, memory, meters with their readings,
//! sources that tell if its owner is there, and caps with their ranges. For those that cannot be used, it has a reason
//! and a remedy. Needs no settings, no master and no state. A running daemon answers the same question over the network
//! (`running`).

mod caps;
mod running;

use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use limo_node::line;
use limo_owner::{OwnerError, Place};
use limo_power::{
    Access, AccessError, Chip, Hwmon, Ipmi, Mcp39f511, Meter, MeterChoice, MeterError, Powercap, Reading, Sensor, Site,
    Wattmeter, sensors, wattmeters,
};

use crate::config::{Arguments, DEFAULT_DEV, DEFAULT_SYSFS, GpuSource};
use crate::hardware;
pub use running::RunningDaemon;

/// Time between two samples of an energy counter: the shortest after which an unchanged counter counts as stopped.
const BETWEEN: Duration = Duration::from_millis(1100);

/// Text in place of the reading of a device that is in use.
const IN_USE: &str = "in use by the meter of this node";

/// Returns the report.
pub fn report(arguments: &Arguments) -> String {
    let sysfs = arguments.sysfs.clone().unwrap_or_else(|| PathBuf::from(DEFAULT_SYSFS));
    let dev = arguments.dev.clone().unwrap_or_else(|| PathBuf::from(DEFAULT_DEV));
    let mut text = machine() + &meters((&sysfs, &dev), None);
    match &arguments.meter {
        // The report already has this meter.
        None | Some(MeterChoice::Powercap | MeterChoice::Hwmon(_)) => {}
        Some(choice) => text += &given(choice, site(arguments, &sysfs)),
    }
    text += &owners((&sysfs, &dev));
    match site(arguments, &sysfs) {
        Ok(site) => text + &caps::report(&site, arguments.caps.gpus != Some(GpuSource::None), &[]),
        Err(error) => text + &line("cap", &format!("not tried: {error}")),
    }
}

fn machine() -> String {
    let memory = hardware::memory().map_or_else(|error| format!("unknown: {error:#}"), |memory| memory.to_string());
    line("processor", &format!("{}, {} cores", limo_power::processor(), limo_power::cores())) + &line("memory", &memory)
}

/// Reports all meters that can be found, except the device in use: it answers one request at a time.
fn meters((sysfs, dev): (&Path, &Path), used: Option<&MeterChoice>) -> String {
    powercap(sysfs) + &hwmon(sysfs) + &ipmi(dev, used) + &mcp39f511((sysfs, dev), used)
}

/// Reports the sources that tell if the owner of the machine is there.
fn owners((sysfs, dev): (&Path, &Path)) -> String {
    let place = Place { sysfs: sysfs.to_owned(), dev: dev.to_owned(), ..Place::default() };
    let each = |(source, answer): (String, Result<bool, OwnerError>)| {
        let answer = match answer {
            Ok(true) => format!("the owner is there (use it: --owner {source})"),
            Ok(false) => format!("the owner is away (use it: --owner {source})"),
            Err(error) => format!("no answer: {error}"),
        };
        line("owner", &format!("{source}: {answer}"))
    };
    limo_owner::probe(&place).into_iter().map(each).collect()
}

/// Returns true if `is_so` holds for the meter or one of its parts.
fn uses(meter: &MeterChoice, is_so: &dyn Fn(&MeterChoice) -> bool) -> bool {
    match meter {
        MeterChoice::Sum(parts) => parts.iter().any(|part| uses(part, is_so)),
        one => is_so(one),
    }
}

/// Returns the access data for meters and caps.
fn site(arguments: &Arguments, sysfs: &Path) -> Result<Site, AccessError> {
    let mut site = Site::new(sysfs);
    if let Some(access) = &arguments.meter_access {
        site.access = Access::read(access)?;
    }
    if let Some(library) = &arguments.caps.nvml {
        site.nvml.clone_from(library);
    }
    if let Some(program) = &arguments.caps.nvidia_smi {
        site.nvidia_smi.clone_from(program);
    }
    Ok(site)
}

/// Reports the meter of the command line.
fn given(choice: &MeterChoice, site: Result<Site, AccessError>) -> String {
    let reading = match site {
        Ok(site) => shown(read(choice.meter(&site).as_mut())),
        Err(error) => format!("no reading: {error}"),
    };
    match choice {
        MeterChoice::Command(command) => line("command", &format!("`{command}`: {reading}")),
        _ => line("meter", &format!("as `--meter` says: {reading}")),
    }
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

fn ipmi(dev: &Path, used: Option<&MeterChoice>) -> String {
    if used.is_some_and(|meter| uses(meter, &|part| matches!(part, MeterChoice::Ipmi(_)))) {
        return line("ipmi", IN_USE);
    }
    let device = dev.join("ipmi0");
    if !device.exists() {
        let missing =
            "load its modules with `modprobe ipmi_si ipmi_devintf`; desktops and virtual machines have no controller";
        return line("ipmi", &format!("no {}: {missing}", device.display()));
    }
    line("ipmi", &offered(read(&mut Ipmi::new(Vec::new())), "ipmi"))
}

/// Reports wattmeters. The type of chip cannot be detected; the wrong type mostly fails, or shows impossible values.
fn mcp39f511((sysfs, dev): (&Path, &Path), used: Option<&MeterChoice>) -> String {
    let devices = match wattmeters(sysfs, dev) {
        Ok(devices) => devices,
        Err(error) => return line("mcp39f511", &shown(Err(error))),
    };
    if devices.is_empty() {
        return line("mcp39f511", "no wattmeter on USB (04d8:00dd)");
    }
    let each = |device: Option<PathBuf>| {
        let Some(path) = device else {
            let missing = "a wattmeter on USB without a serial line: load its module with `modprobe cdc_acm`";
            return line("mcp39f511", missing);
        };
        // The meter may have another path to the same device.
        let same = |other: &Path| {
            other == path || other.canonicalize().is_ok_and(|other| path.canonicalize().is_ok_and(|path| path == other))
        };
        let is_it = |part: &MeterChoice| matches!(part, MeterChoice::Mcp39f511(wattmeter) if same(&wattmeter.path));
        if used.is_some_and(|meter| uses(meter, &is_it)) {
            return line("mcp39f511", &format!("{}: {IN_USE}", path.display()));
        }
        let as_chip = |chip: Chip| {
            let wattmeter = Wattmeter { chip, path: path.clone(), channel: None };
            let option = wattmeter.to_string();
            // The longest interval lets the device keep its own setting.
            let mut meter = Mcp39f511::new(wattmeter, Duration::MAX);
            line("mcp39f511", &format!("as {chip}: {}", offered(read(&mut meter), &option)))
        };
        [Chip::One, Chip::Two].map(as_chip).concat()
    };
    devices.into_iter().map(each).collect()
}

/// Reads a second time if the first reading has no value yet.
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
        Ok(Reading::Draw(draw) | Reading::Mean { draw, .. }) => draw.to_string(),
        Ok(Reading::NotYet) => "its counter has just wrapped around: try again".to_owned(),
        Err(error) => format!("no reading: {error}"),
    }
}

/// Formats a reading with the option that uses the meter.
fn offered(reading: Result<Reading, MeterError>, option: &str) -> String {
    let usable = reading.is_ok();
    let text = shown(reading);
    if usable { format!("{text} (use it: --meter {option})") } else { text }
}
