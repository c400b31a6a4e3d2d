//! Power limit of an NVIDIA GPU through `nvidia-smi`, for machines without the driver's library, such as containers.
//! Works like `nvml`, and restores the values that `nvml` captured.
//!
//! `nvidia-smi` prints `[N/A]` for values that the GPU does not report.

use std::path::{Path, PathBuf};

use limo_model::Power;

use super::nvml::LIMIT;
use super::program::{Program, ProgramError};
use super::{Cap, CapError, Originals, checked};
use crate::nvml::GpuId;

/// Name of the program.
pub const PROGRAM: &str = "nvidia-smi";

/// Query, in this order.
const FIELDS: &str = "--query-gpu=uuid,power.limit,enforced.power.limit,power.min_limit,power.max_limit";
const FORM: &str = "--format=csv,noheader,nounits";
const EXPECTED: &str = "one line with a UUID and four numbers of watts was expected";

/// Precision of the program: hundredths of a watt, with some drivers whole watts.
const TOLERANCE: Power = Power::from_watts(1);

/// Cap on one GPU.
#[derive(Debug)]
pub struct SmiCap {
    program: PathBuf,
    gpu: GpuId,
    range: Option<(Power, Power)>,
}

/// Answer of the GPU.
struct Told {
    uuid: String,
    limit: Option<Power>,
    enforced: Option<Power>,
    range: Option<(Power, Power)>,
}

impl SmiCap {
    /// Makes a cap. `program` is a path, or a name in `PATH`. Without a range, the GPU's own range counts.
    pub fn new(program: &Path, gpu: GpuId, range: Option<(Power, Power)>) -> Self {
        Self { program: program.to_owned(), gpu, range }
    }

    fn program(&self) -> Program<'_> {
        Program { path: &self.program, remedy: "install NVIDIA's driver, which it comes with" }
    }

    fn ask(&self, gpu: &GpuId) -> Result<Told, CapError> {
        let (ran, command) = self.program().run(&["-i", &gpu.to_string(), FIELDS, FORM])?;
        let nonsense = || ProgramError::Nonsense { command: command.clone(), printed: ran.shown(), expected: EXPECTED };
        let fields: Vec<&str> = ran.stdout.trim().split(',').map(str::trim).collect();
        let [uuid, limit, enforced, low, high] = fields[..] else { return Err(nonsense().into()) };
        if !uuid.starts_with("GPU-") {
            return Err(nonsense().into());
        }
        let watts = |text: &str| watts(text).ok_or_else(nonsense);
        Ok(Told {
            uuid: uuid.to_owned(),
            limit: watts(limit)?,
            enforced: watts(enforced)?,
            range: watts(low)?.zip(watts(high)?),
        })
    }

    fn limit(&self, gpu: &GpuId) -> Result<(Told, Power), CapError> {
        let told = self.ask(gpu)?;
        let limit = told.limit.ok_or_else(|| CapError::NoLimit { place: format!("GPU {gpu}") })?;
        Ok((told, limit))
    }

    fn write(&self, gpu: &GpuId, limit: Power) -> Result<(), CapError> {
        let watts = format!("{}.{:03}", limit.mw() / 1000, limit.mw() % 1000);
        self.program().run(&["-i", &gpu.to_string(), "-pl", &watts])?;
        let (told, set) = self.limit(gpu)?;
        let found = told.enforced.unwrap_or(set);
        if found <= limit + TOLERANCE {
            return Ok(());
        }
        Err(CapError::NotKept { place: format!("GPU {gpu}"), wanted: limit, found })
    }
}

/// Parses `250.00`; `None` if the GPU has no such value, which `nvidia-smi` prints in several ways.
#[allow(clippy::option_option, reason = "an invalid number and a missing value are two answers")]
fn watts(text: &str) -> Option<Option<Power>> {
    if text.starts_with('[') || text == "N/A" {
        return Some(None);
    }
    let is_number = text.starts_with(|c: char| c.is_ascii_digit());
    is_number.then(|| format!("{text} W").parse().ok().map(Some)).flatten()
}

impl Cap for SmiCap {
    fn range(&mut self) -> Result<(Power, Power), CapError> {
        let (told, held) = self.limit(&self.gpu)?;
        self.write(&self.gpu, held)?;
        let place = || format!("GPU {}", self.gpu);
        let (low, high) = self.range.or(told.range).ok_or_else(|| CapError::NoRange { place: place() })?;
        let (lowest, highest) = told.range.unwrap_or((low, high));
        checked(place, (low.max(lowest), high.min(highest)))
    }

    fn capture(&mut self) -> Result<Originals, CapError> {
        let (told, limit) = self.limit(&self.gpu)?;
        Ok(Originals::from([(format!("{}/{LIMIT}", told.uuid), limit.mw().to_string())]))
    }

    fn set(&mut self, limit: Power) -> Result<(), CapError> {
        self.write(&self.gpu, limit)
    }

    fn restore(&mut self, control: &str, value: &str) -> Result<(), CapError> {
        let captured = || CapError::Captured { control: control.to_owned(), value: value.to_owned() };
        let mw: u32 = value.parse().map_err(|_| captured())?;
        let (uuid, _) = control.split_once('/').filter(|(_, name)| *name == LIMIT).ok_or_else(captured)?;
        self.write(&GpuId::Uuid(uuid.to_owned()), Power::from_mw(i64::from(mw)))
    }
}
