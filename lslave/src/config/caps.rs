//! Settings of caps and of GPUs: which units are capped and how, and for how long without a master.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, ValueEnum};
use limo_model::{NameError, Span, check_name};
use limo_power::{CapChoice, CapChoiceError};
use serde::Deserialize;
use thiserror::Error;

/// A master that is restarted is back within seconds; one that is gone for longer may have left a cap that nobody wants.
pub const DEFAULT_CAP_LEASE: Span = Span::from_secs(60);

#[derive(Debug, Clone, Default, Args)]
pub struct CapArguments {
    /// How a unit is capped: UNIT=rapl, hsmp, hwmon:CHIP[@DEVICE], nvml:GPU, nvml-clocks:GPU,
    /// nvidia-smi:GPU, ipmi[:ARGUMENTS] or redfish:URL, each with ,LOW..HIGH where the range is not to be what was found; may be repeated; not for emulated hardware
    #[arg(long = "cap", value_name = "UNIT=CAP")]
    pub caps: Vec<UnitCap>,
    /// How long caps hold without a master; then what was there before is put back [default: 1min]
    #[arg(long, env = "LIMO_CAP_LEASE", value_name = "SPAN")]
    pub cap_lease: Option<Span>,
    /// Where accelerators are looked for [default: auto, NVIDIA's where their library loads]
    #[arg(long, env = "LIMO_GPUS")]
    pub gpus: Option<GpuSource>,
    /// The library of NVIDIA's driver [default: libnvidia-ml.so.1]
    #[arg(long, env = "LIMO_NVML", value_name = "FILE")]
    pub nvml: Option<PathBuf>,
    /// NVIDIA's program, where the library is not to be had [default: nvidia-smi]
    #[arg(long, env = "LIMO_NVIDIA_SMI", value_name = "PROGRAM")]
    pub nvidia_smi: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum GpuSource {
    Auto,
    Nvml,
    None,
}

/// `cpu=rapl`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnitCap {
    pub unit: String,
    pub cap: CapChoice,
}

#[derive(Debug, Error)]
pub enum UnitCapError {
    #[error("`{0}` names no unit: write for example `cpu=rapl`")]
    NoUnit(String),
    #[error(transparent)]
    Name(#[from] NameError),
    #[error(transparent)]
    Cap(#[from] CapChoiceError),
}

impl FromStr for UnitCap {
    type Err = UnitCapError;

    fn from_str(text: &str) -> Result<Self, UnitCapError> {
        let (unit, cap) = text.split_once('=').ok_or_else(|| UnitCapError::NoUnit(text.to_owned()))?;
        check_name("unit name", unit)?;
        Ok(Self { unit: unit.to_owned(), cap: cap.parse()? })
    }
}

/// A cap in the settings file.
#[derive(Debug, Clone, Deserialize)]
#[serde(transparent)]
pub struct Written(#[serde(deserialize_with = "limo_model::as_text::deserialize")] pub CapChoice);

/// All caps by unit; those of flags go before those of the file.
pub fn merged(file: BTreeMap<String, Written>, flags: Vec<UnitCap>) -> anyhow::Result<BTreeMap<String, CapChoice>> {
    let mut caps = BTreeMap::new();
    for (unit, Written(cap)) in file {
        check_name("unit name", &unit)?;
        caps.insert(unit, cap);
    }
    let mut given: Vec<String> = Vec::new();
    for UnitCap { unit, cap } in flags {
        if given.contains(&unit) {
            anyhow::bail!("the unit `{unit}` is given two caps: leave out one of them");
        }
        caps.insert(unit.clone(), cap);
        given.push(unit);
    }
    Ok(caps)
}
