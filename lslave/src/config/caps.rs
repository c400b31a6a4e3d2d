//! Settings of caps and GPUs: capped units, the kind of each cap, and the time for which caps hold without a master.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, ValueEnum};
use limo_model::{NameError, Span, check_name};
use limo_power::{CapChoice, CapChoiceError};
use serde::Deserialize;
use thiserror::Error;

/// Default lease. It is longer than the default `node_lease` of a master and the time until a broken connection is noticed, so
/// that the master counts the nameplates of a lost node before its caps are lifted. After a longer absence a cap may be
/// unwanted.
pub const DEFAULT_CAP_LEASE: Span = Span::from_secs(120);

#[derive(Debug, Clone, Default, Args)]
pub struct CapArguments {
    /// Cap of a unit: UNIT=rapl, cpufreq, hsmp, hwmon:CHIP[@DEVICE], nvml:GPU, nvml-clocks:GPU, nvidia-smi:GPU,
    /// ipmi[:ARGUMENTS] or redfish:URL, each with ,LOW..HIGH for a range other than the one found; may be repeated; not
    /// for emulated hardware
    #[arg(long = "cap", value_name = "UNIT=CAP")]
    pub caps: Vec<UnitCap>,
    /// Time without a master after which the original values are restored [default: 2min]
    #[arg(long, env = "LIMO_CAP_LEASE", value_name = "SPAN")]
    pub cap_lease: Option<Span>,
    /// Source of accelerators [default: auto, NVIDIA's if their library loads]
    #[arg(long, env = "LIMO_GPUS")]
    pub gpus: Option<GpuSource>,
    /// The library of NVIDIA's driver [default: libnvidia-ml.so.1]
    #[arg(long, env = "LIMO_NVML", value_name = "FILE")]
    pub nvml: Option<PathBuf>,
    /// NVIDIA's program, used if the library is missing [default: nvidia-smi]
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

/// Setting of one cap: `cpu=rapl`.
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

/// Cap in the settings file.
#[derive(Debug, Clone, Deserialize)]
#[serde(transparent)]
pub struct Written(#[serde(deserialize_with = "limo_model::as_text::deserialize")] pub CapChoice);

/// Merges caps by unit; flags take precedence over the file.
pub fn merged(file: BTreeMap<String, Written>, flags: Vec<UnitCap>) -> anyhow::Result<BTreeMap<String, CapChoice>> {
    let mut caps = BTreeMap::new();
    for (unit, Written(cap)) in file {
        check_name("unit name", &unit)?;
        caps.insert(unit, cap);
    }
    let mut given: Vec<String> = Vec::new();
    for UnitCap { unit, cap } in flags {
        if given.contains(&unit) {
            anyhow::bail!("the unit `{unit}` has two caps: remove one of them");
        }
        caps.insert(unit.clone(), cap);
        given.push(unit);
    }
    Ok(caps)
}
