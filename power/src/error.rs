//! What can be wrong with a hardware file, with a question to the model, and with a cap.

use std::io;
use std::path::PathBuf;

use limo_model::{NameError, Power, Span, SpecError};
use thiserror::Error;

/// Why a hardware file was refused.
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

/// What is wrong at a line of a hardware file.
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
    #[error("a second machine is named `{0}`")]
    SameMachine(String),
    #[error("CPU `{unit}` has no `cores`, and neither has its machine")]
    NoCores { unit: String },
    #[error("unit `{unit}` has the cap_factor {factor}: above 0 and up to 1 is possible")]
    CapFactor { unit: String, factor: String },
    #[error("unit `{unit}` has a cap_factor but no caps: write for example `caps = [\"8 W\", \"60 W\"]`")]
    NoCaps { unit: String },
    #[error("the lowest cap of unit `{unit}` is {low}: a run needs more than nothing")]
    LowCap { unit: String, low: Power },
    #[error("application `{application}` draws {power}: it must not be negative")]
    Power { application: String, power: Power },
    #[error("application `{application}` takes {duration}: it must take some time")]
    Duration { application: String, duration: Span },
}

/// Why the model cannot say what a run will draw.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[expect(missing_docs, reason = "the messages say what each variant is")]
pub enum PlanError {
    #[error("the machine has no unit {unit}: it has {units}")]
    Unit { unit: usize, units: usize },
    #[error("{cores} cores of unit {unit} are asked for: it has {has}")]
    Cores { unit: usize, cores: u32, has: u32 },
}

/// Why an emulated unit does not hold a cap.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[expect(missing_docs, reason = "the messages say what each variant is")]
pub enum CapRefused {
    #[error("the machine has no unit {unit}: it has {units}")]
    Unit { unit: usize, units: usize },
    #[error("unit `{unit}` cannot be capped, at {cap} or otherwise: its machine names no `caps`")]
    Never { unit: String, cap: Power },
    #[error("unit `{unit}` cannot be capped at {cap}: it is held at {low}, its lowest cap")]
    Low { unit: String, cap: Power, low: Power },
}
