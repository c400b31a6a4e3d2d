//! Parses an operator's choice of a unit's cap: `rapl`, `nvml:0`, `hwmon:amdgpu,50W..180W` and so on.

use std::path::Path;
use std::str::FromStr;

use limo_model::{Power, UnitError};
use thiserror::Error;

use super::Cap;
use super::clocks::ClockCap;
use super::cpufreq::CpufreqCap;
use super::hwmon::{HSMP, HwmonCap};
use super::ipmi::IpmiCap;
use super::nvidia_smi::SmiCap;
use super::nvml::NvmlCap;
use super::rapl::Rapl;
use super::redfish::RedfishCap;
use crate::http::{HttpError, check_url};
use crate::meter::{ChoiceError, MeterChoice, choice};
use crate::nvml::GpuId;
use crate::site::Site;

/// Kind of a unit's cap, and its limits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CapChoice {
    /// Text as the operator wrote it; the keeper saves it.
    text: String,
    kind: Kind,
    /// Limits of the cap, instead of the hardware's range.
    range: Option<(Power, Power)>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Kind {
    Rapl,
    /// The draw at the lowest and the highest frequencies.
    Cpufreq(Power, Power),
    Hwmon {
        chip: String,
        device: Option<String>,
    },
    Nvml(GpuId),
    Clocks(GpuId),
    Smi(GpuId),
    /// Arguments before `raw`.
    Ipmi(Vec<String>),
    /// The address of a chassis.
    Redfish(String),
}

/// Reason why a choice was refused.
#[derive(Debug, Error)]
#[expect(missing_docs, reason = "the messages say what each variant is")]
pub enum CapChoiceError {
    #[error(
        "there is no cap `{0}`: write `rapl`, `cpufreq`, `hsmp`, `hwmon:CHIP[@DEVICE]`, `nvml:GPU`, \
         `nvml-clocks:GPU`, `nvidia-smi:GPU`, `ipmi[:ARGUMENTS]` or `redfish:URL`"
    )]
    Unknown(String),
    #[error("the cap `{0}` names no chip: write for example `hwmon:amdgpu` or `hwmon:amdgpu@0000:03:00.0`")]
    NoChip(String),
    #[error(
        "the cap `{0}` names no GPU: write its index or its UUID, for example `nvml:0`; `nvidia-smi -L` lists them"
    )]
    NoGpu(String),
    #[error("the cap `{cap}` has the range `{range}`: {source}; write for example `20W..90W`")]
    Range { cap: String, range: String, source: UnitError },
    #[error("the range of the cap `{cap}` is {low} to {high}: it must begin above zero with the lower value")]
    Crossed { cap: String, low: Power, high: Power },
    #[error("the cap `{0}` needs a range, because the controller does not report its limits: for example `,80W..400W`")]
    NoLimits(String),
    #[error("the cap `{0}` has a quote that is not closed")]
    Quote(String),
    #[error(
        "all users can see a password in the arguments of ipmitool: write it into a file and `-f FILE` instead of `{0}`"
    )]
    Password(String),
    #[error(transparent)]
    Url(#[from] HttpError),
    #[error(
        "the cap `{0}` needs a range: the processor's draw under load at its lowest and highest frequency, for example \
         `,20W..90W`"
    )]
    NoFrequencyRange(String),
    #[error("the cap `{0}` needs a range: the GPU's draw at its lowest and highest clock, for example `,20W..75W`")]
    NoRange(String),
}

impl CapChoice {
    /// Returns the choice as written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Makes the cap. Opens nothing: missing hardware is reported on use.
    pub fn cap(&self, site: &Site) -> Box<dyn Cap> {
        let range = self.range;
        match &self.kind {
            Kind::Rapl => Box::new(Rapl::new(&site.sysfs, range)),
            Kind::Cpufreq(low, high) => Box::new(CpufreqCap::new(&site.sysfs, (*low, *high))),
            Kind::Hwmon { chip, device } => Box::new(HwmonCap::new(&site.sysfs, chip, device.as_deref(), range)),
            Kind::Nvml(gpu) => Box::new(NvmlCap::new(&site.nvml, gpu.clone(), range)),
            Kind::Clocks(gpu) => Box::new(ClockCap::new(&site.nvml, gpu.clone(), range)),
            Kind::Smi(gpu) => Box::new(SmiCap::new(&site.nvidia_smi, gpu.clone(), range)),
            Kind::Ipmi(arguments) => Box::new(IpmiCap::new(Path::new("ipmitool"), arguments.clone(), range)),
            Kind::Redfish(chassis) => Box::new(RedfishCap::new(chassis, &site.access, range)),
        }
    }
}

impl FromStr for CapChoice {
    type Err = CapChoiceError;

    fn from_str(text: &str) -> Result<Self, CapChoiceError> {
        let text = text.trim();
        // A URL may contain commas.
        let (what, range) = match text.rsplit_once(',') {
            Some((what, range)) if range.contains("..") => (what.trim(), Some(parse_range(text, range.trim())?)),
            _ => (text, None),
        };
        if range.is_none() && (what == "ipmi" || what.starts_with("ipmi:")) {
            return Err(CapChoiceError::NoLimits(text.to_owned()));
        }
        let gpu = |gpu: &str| gpu.parse::<GpuId>().map_err(|()| CapChoiceError::NoGpu(text.to_owned()));
        let kind = match what.split_once(':') {
            None if what == "rapl" => Kind::Rapl,
            None if what == "cpufreq" => match range {
                Some((low, high)) => Kind::Cpufreq(low, high),
                None => return Err(CapChoiceError::NoFrequencyRange(text.to_owned())),
            },
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
            Some(("nvidia-smi", id)) => Kind::Smi(gpu(id)?),
            None if what == "ipmi" => Kind::Ipmi(Vec::new()),
            Some(("ipmi", arguments)) => Kind::Ipmi(words(text, arguments)?),
            Some(("redfish", url)) => {
                let url = url.trim().trim_end_matches('/');
                check_url(url)?;
                Kind::Redfish(url.to_owned())
            }
            _ => return Err(CapChoiceError::Unknown(text.to_owned())),
        };
        Ok(Self { text: text.to_owned(), kind, range })
    }
}

/// Splits the arguments for a controller by the rules of its meter.
fn words(cap: &str, arguments: &str) -> Result<Vec<String>, CapChoiceError> {
    match choice::ipmi(arguments) {
        Ok(MeterChoice::Ipmi(words)) => Ok(words),
        Err(ChoiceError::Password(shown)) => Err(CapChoiceError::Password(shown)),
        Err(ChoiceError::Quote(shown)) => Err(CapChoiceError::Quote(shown)),
        _ => Err(CapChoiceError::Unknown(cap.to_owned())),
    }
}

/// Parses `20W..90W`.
fn parse_range(cap: &str, range: &str) -> Result<(Power, Power), CapChoiceError> {
    let wrong = |source| CapChoiceError::Range { cap: cap.to_owned(), range: range.to_owned(), source };
    let (low, high) = range.split_once("..").unwrap_or((range, ""));
    let (low, high): (Power, Power) = (low.parse().map_err(wrong)?, high.parse().map_err(wrong)?);
    if low <= Power::ZERO || low >= high {
        return Err(CapChoiceError::Crossed { cap: cap.to_owned(), low, high });
    }
    Ok((low, high))
}
