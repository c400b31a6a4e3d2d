//! What an operator writes to choose the cap of a unit: `rapl`, `nvml:0`, `hwmon:amdgpu,50W..180W` and so on.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use limo_model::{Power, UnitError};
use thiserror::Error;

use super::Cap;
use super::clocks::ClockCap;
use super::hwmon::{HSMP, HwmonCap};
use super::nvml::NvmlCap;
use super::rapl::Rapl;
use crate::nvml::{GpuId, LIBRARY};

/// Where the interfaces of this machine are.
#[derive(Debug, Clone)]
pub struct Interfaces {
    /// Where sysfs is mounted.
    pub sysfs: PathBuf,
    /// The library of NVIDIA's driver: a path, or a name for the dynamic loader.
    pub nvml: PathBuf,
}

/// How a unit is capped, and within which limits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CapChoice {
    /// As it was written; the keeper saves it.
    text: String,
    kind: Kind,
    /// In place of what the hardware tells.
    range: Option<(Power, Power)>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Kind {
    Rapl,
    Hwmon { chip: String, device: Option<String> },
    Nvml(GpuId),
    Clocks(GpuId),
}

/// Why a choice was refused.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum CapChoiceError {
    #[error("there is no cap `{0}`: write `rapl`, `hsmp`, `hwmon:CHIP[@DEVICE]`, `nvml:GPU` or `nvml-clocks:GPU`")]
    Unknown(String),
    #[error("the cap `{0}` names no chip: write for example `hwmon:amdgpu` or `hwmon:amdgpu@0000:03:00.0`")]
    NoChip(String),
    #[error(
        "the cap `{0}` names no GPU: write its index or its UUID, for example `nvml:0`; `nvidia-smi -L` lists them"
    )]
    NoGpu(String),
    #[error("the cap `{cap}` has the range `{range}`: {source}; write for example `20W..90W`")]
    Range { cap: String, range: String, source: UnitError },
    #[error(
        "the range of the cap `{cap}` goes from {low} to {high}: the first must be the lower, and more than nothing"
    )]
    Crossed { cap: String, low: Power, high: Power },
    #[error("the cap `{0}` needs a range: what the GPU draws at its lowest and highest clock, for example `,20W..75W`")]
    NoRange(String),
}

impl Interfaces {
    /// Those of a usual machine, with sysfs mounted there.
    pub fn at(sysfs: &Path) -> Self {
        Self { sysfs: sysfs.to_owned(), nvml: PathBuf::from(LIBRARY) }
    }
}

impl CapChoice {
    /// As it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The cap itself. Opens nothing: what is not there is told when it is asked.
    pub fn cap(&self, interfaces: &Interfaces) -> Box<dyn Cap> {
        let range = self.range;
        match &self.kind {
            Kind::Rapl => Box::new(Rapl::new(&interfaces.sysfs, range)),
            Kind::Hwmon { chip, device } => Box::new(HwmonCap::new(&interfaces.sysfs, chip, device.as_deref(), range)),
            Kind::Nvml(gpu) => Box::new(NvmlCap::new(&interfaces.nvml, gpu.clone(), range)),
            Kind::Clocks(gpu) => Box::new(ClockCap::new(&interfaces.nvml, gpu.clone(), range)),
        }
    }
}

impl FromStr for CapChoice {
    type Err = CapChoiceError;

    fn from_str(text: &str) -> Result<Self, CapChoiceError> {
        let text = text.trim();
        // A URL may have commas of its own.
        let (what, range) = match text.rsplit_once(',') {
            Some((what, range)) if range.contains("..") => (what.trim(), Some(parse_range(text, range.trim())?)),
            _ => (text, None),
        };
        let gpu = |gpu: &str| gpu.parse::<GpuId>().map_err(|()| CapChoiceError::NoGpu(text.to_owned()));
        let kind = match what.split_once(':') {
            None if what == "rapl" => Kind::Rapl,
            None if what == "hsmp" => Kind::Hwmon { chip: HSMP.to_owned(), device: None },
            Some(("hwmon", chip)) => {
                let (chip, device) = chip.split_once('@').map_or((chip, None), |(chip, device)| (chip, Some(device)));
                if chip.is_empty() || device == Some("") {
                    return Err(CapChoiceError::NoChip(text.to_owned()));
                }
                Kind::Hwmon { chip: chip.to_owned(), device: device.map(str::to_owned) }
            }
            Some(("nvml", id)) => Kind::Nvml(gpu(id)?),
            Some(("nvml-clocks", _)) if range.is_none() => return Err(CapChoiceError::NoRange(text.to_owned())),
            Some(("nvml-clocks", id)) => Kind::Clocks(gpu(id)?),
            _ => return Err(CapChoiceError::Unknown(text.to_owned())),
        };
        Ok(Self { text: text.to_owned(), kind, range })
    }
}

/// `20W..90W`.
fn parse_range(cap: &str, range: &str) -> Result<(Power, Power), CapChoiceError> {
    let wrong = |source| CapChoiceError::Range { cap: cap.to_owned(), range: range.to_owned(), source };
    let (low, high) = range.split_once("..").unwrap_or((range, ""));
    let (low, high): (Power, Power) = (low.parse().map_err(wrong)?, high.parse().map_err(wrong)?);
    if low <= Power::ZERO || low >= high {
        return Err(CapChoiceError::Crossed { cap: cap.to_owned(), low, high });
    }
    Ok((low, high))
}
