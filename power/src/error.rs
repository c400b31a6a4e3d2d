//! Errors of hardware files, of plans for the model, and of emulated caps.

use std::io;
use std::path::PathBuf;

use limo_model::{NameError, Power, Span, SpecError};
use thiserror::Error;

/// Reason why a hardware file was refused.
#[derive(Debug, Error)]
#[expect(missing_docs, reason = "the messages say what each variant is")]
pub enum HardwareError {
    #[error("cannot read the hardware file {}: {source}", path.display())]
    Read { path: PathBuf, source: io::Error },
    /// `line` counts from 1.
    #[error("{}:{line}: {mistake}", path.display())]
    At { path: PathBuf, line: usize, mistake: Mistake },
    #[error("{}: describes no machine: write a `[[machine]]` section", path.display())]
    Empty { path: PathBuf },
    #[error("{} describes no machine `{name}`: it has {known}", path.display())]
    NoMachine { path: PathBuf, name: String, known: String },
}

/// Mistake at a line of a hardware file.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[expect(missing_docs, reason = "the messages say what each variant is")]
pub enum Mistake {
    /// Not TOML, an unknown key, a missing key or a value without a unit.
    #[error("{0}")]
    Syntax(String),
    #[error(transparent)]
    Spec(#[from] SpecError),
    #[error(transparent)]
    Name(#[from] NameError),
    #[error("two machines have the name `{0}`")]
    SameMachine(String),
    #[error("neither CPU `{unit}` nor its machine has `cores`")]
    NoCores { unit: String },
    #[error("unit `{unit}` has the cap_factor {factor}: it must be above 0 and at most 1")]
    CapFactor { unit: String, factor: String },
    #[error("unit `{unit}` has a cap_factor but no caps: write for example `caps = [\"8 W\", \"60 W\"]`")]
    NoCaps { unit: String },
    #[error("the lowest cap of unit `{unit}` is {low}: it must be above zero")]
    LowCap { unit: String, low: Power },
    #[error("application `{application}` draws {power}: it must not be negative")]
    Power { application: String, power: Power },
    #[error("application `{application}` takes {duration}: it must be above zero")]
    Duration { application: String, duration: Span },
}

/// Reason why the model cannot plan a run.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[expect(missing_docs, reason = "the messages say what each variant is")]
pub enum PlanError {
    #[error("the machine has no unit {unit}: it has {units}")]
    Unit { unit: usize, units: usize },
    #[error("{cores} cores of unit {unit} are requested: it has {has}")]
    Cores { unit: usize, cores: u32, has: u32 },
}

/// Reason why an emulated unit does not hold a cap.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[expect(missing_docs, reason = "the messages say what each variant is")]
pub enum CapRefused {
    #[error("the machine has no unit {unit}: it has {units}")]
    Unit { unit: usize, units: usize },
    #[error("unit `{unit}` cannot be capped at {cap}: the hardware file has no `caps` for it")]
    Never { unit: String, cap: Power },
    #[error("unit `{unit}` cannot be capped at {cap}: it is held at {low}, its lowest cap")]
    Low { unit: String, cap: Power, low: Power },
}
