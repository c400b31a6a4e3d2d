//! Sensors in `class/hwmon` of sysfs, in microwatts.
//!
//! A chip is known by its `name`: the number in `hwmon3` changes from boot to boot. If several chips have the name,
//! each measures its own part (a socket, a power supply) and they are added; a chip that disappears later is an error.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use limo_model::Power;

use super::error::MeterError;
use super::files;
use super::{Meter, Reading, plausible};

/// Power channel of a chip: a number, or one of its two files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Channel {
    /// `power1`: its mean if the chip has one, else its present value.
    Number(u32),
    /// `power1_average` or `power1_input`.
    File(String),
}

/// Channel that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sensor {
    /// The chip's `name`, such as `amdgpu`.
    pub chip: String,
    /// One of the chip's sensors.
    pub channel: Channel,
}

/// Draw by a sensor.
#[derive(Debug)]
pub struct Hwmon {
    dir: PathBuf,
    sensor: Sensor,
    /// Number of chips with that name at the first reading.
    chips: usize,
}

impl Channel {
    /// Parses `power1`, `power1_average` or `power1_input`.
    pub fn parse(text: &str) -> Option<Self> {
        let (number, file) = match text.strip_prefix("power")?.split_once('_') {
            None => (text.strip_prefix("power")?, false),
            Some((number, "average" | "input")) => (number, true),
            Some(_) => return None,
        };
        let number: u32 = number.parse().ok()?;
        Some(if file { Self::File(text.to_owned()) } else { Self::Number(number) })
    }

    /// Returns the files to read, the best first.
    fn files(&self) -> Vec<String> {
        match self {
            Self::Number(number) => vec![format!("power{number}_average"), format!("power{number}_input")],
            Self::File(file) => vec![file.clone()],
        }
    }
}

impl fmt::Display for Channel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(f, "power{number}"),
            Self::File(file) => f.write_str(file),
        }
    }
}

impl fmt::Display for Sensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.chip, self.channel)
    }
}

impl Hwmon {
    /// Makes a meter. `sysfs` is the mount point of sysfs, such as `/sys`.
    pub fn new(sysfs: &Path, sensor: Sensor) -> Self {
        Self { dir: class(sysfs), sensor, chips: 0 }
    }

    /// Returns the chips with that name.
    fn chips(&self) -> Result<Vec<PathBuf>, MeterError> {
        let all = chips(&self.dir)?;
        let names: Vec<&str> = all.iter().map(|(_, name)| name.as_str()).collect();
        let known = listed(&names);
        let (path, chip) = (self.dir.clone(), self.sensor.chip.clone());
        let chosen: Vec<PathBuf> = all.iter().filter(|(_, name)| *name == chip).map(|(dir, _)| dir.clone()).collect();
        match chosen.len() {
            0 => Err(MeterError::NoChip { path, chip, known }),
            found if found < self.chips => Err(MeterError::ChipsGone { path, chip, found, before: self.chips }),
            _ => Ok(chosen),
        }
    }

    fn draw_of(&self, dir: &Path) -> Result<Power, MeterError> {
        let files = self.sensor.channel.files();
        let Some(file) = files.iter().map(|file| dir.join(file)).find(|path| path.exists()) else {
            let all = channels(dir)?;
            return Err(MeterError::NoChannel {
                path: dir.to_owned(),
                chip: self.sensor.chip.clone(),
                wanted: files.join(" and no "),
                known: listed(&all.iter().map(String::as_str).collect::<Vec<_>>()),
            });
        };
        let uw = files::number(&file)?;
        Ok(Power::from_mw(i64::try_from(uw / 1000 + u64::from(uw % 1000 >= 500)).unwrap_or(i64::MAX)))
    }
}

impl Meter for Hwmon {
    fn read(&mut self, _now: Duration) -> Result<Reading, MeterError> {
        let chips = self.chips()?;
        let draw = chips.iter().map(|dir| self.draw_of(dir)).sum::<Result<Power, _>>()?;
        self.chips = chips.len();
        plausible(draw, || format!("sensor {} in {}", self.sensor, self.dir.display()))
    }
}

/// Returns the power channels of this machine, each chip name once. `sysfs` is the mount point of sysfs.
///
/// # Errors
/// [`MeterError`] if a directory or the name of a chip cannot be read.
pub fn sensors(sysfs: &Path) -> Result<Vec<Sensor>, MeterError> {
    let mut found: Vec<Sensor> = Vec::new();
    for (dir, chip) in chips(&class(sysfs))? {
        for file in channels(&dir)? {
            let number = file.split('_').next().and_then(Channel::parse);
            let sensor = number.map(|channel| Sensor { chip: chip.clone(), channel });
            found.extend(sensor.filter(|sensor| !found.contains(sensor)));
        }
    }
    Ok(found)
}

fn class(sysfs: &Path) -> PathBuf {
    sysfs.join("class/hwmon")
}

/// Returns all chips with their names.
fn chips(class: &Path) -> Result<Vec<(PathBuf, String)>, MeterError> {
    files::entries(class)?.into_iter().map(|dir| Ok((dir.clone(), files::text(&dir.join("name"))?))).collect()
}

/// Returns the files of a chip that show watts.
fn channels(dir: &Path) -> Result<Vec<String>, MeterError> {
    let paths = files::entries(dir)?;
    Ok(paths.iter().map(|path| files::name(path)).filter(|name| is_file(name)).map(str::to_owned).collect())
}

fn is_file(name: &str) -> bool {
    matches!(Channel::parse(name), Some(Channel::File(_)))
}

fn listed(names: &[&str]) -> String {
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}
