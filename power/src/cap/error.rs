//! Errors of caps. Each message contains a remedy.

use std::io;
use std::path::PathBuf;

use limo_model::Power;
use thiserror::Error;

use super::applications::ClockPair;
use super::ipmi::IpmiCapError;
use super::program::ProgramError;
use crate::http::HttpError;
use crate::meter::MeterError;
use crate::meter::json::JsonError;
use crate::nvml::GpuError;

/// Reason why a cap is not as requested.
#[derive(Debug, Error)]
#[expect(missing_docs, reason = "the messages say what each variant is")]
pub enum CapError {
    /// Error of a file that also affects meters.
    #[error(transparent)]
    Read(#[from] MeterError),
    #[error("cannot write `{value}` to {}: {source}{}", path.display(), remedy(source))]
    Write { path: PathBuf, value: String, source: io::Error },
    #[error("{place} holds {found} after {wanted} was written: the firmware has locked it, or another program sets it")]
    NotKept { place: String, wanted: Power, found: Power },
    #[error(
        "{} reads `{found}` after `{wanted}` was written: the firmware has locked this limit; look for the lock of the \
         power limit in its setup",
        path.display()
    )]
    Locked { path: PathBuf, wanted: String, found: String },
    #[error(
        "{place} cannot be capped: its lowest cap is {low} and its highest {high}; set a range, for example `,20W..90W`"
    )]
    NoRoom { place: String, low: Power, high: Power },
    #[error("{place} does not report the range of its caps: add it, for example `,20W..90W`")]
    NoRange { place: String },
    #[error("{control} held `{value}`, which is not a valid value: set it by hand")]
    Captured { control: String, value: String },
    #[error("{place} has no control `{control}`, which held `{value}` before it was capped: it may be gone")]
    Gone { place: String, control: String, value: String },

    #[error(
        "{} has no zone `package-N` with a long_term limit: load the kernel module with `modprobe intel_rapl_msr`; AMD \
         processors are capped by `hsmp`; virtual machines and containers often have neither",
        path.display()
    )]
    NoPackages { path: PathBuf },
    #[error("{} has no chip named `{chip}` with a power1_cap{remedy}", path.display())]
    NoChip { path: PathBuf, chip: String, remedy: &'static str },
    #[error(
        "{} has no policy: the kernel sets no frequencies, as in virtual machines and where the firmware does; look in \
         its setup",
        path.display()
    )]
    NoFrequencies { path: PathBuf },
    #[error("{} holds {found} kHz, which is not the frequency of a processor", path.display())]
    Frequency { path: PathBuf, found: u64 },
    #[error(
        "{} holds {found} kHz after {wanted} was written: another program sets it, or scaling_min_freq is higher",
        path.display()
    )]
    FrequencyNotKept { path: PathBuf, wanted: u64, found: u64 },

    #[error(transparent)]
    Gpu(#[from] GpuError),
    #[error("{gpu} runs at {found} MHz although its clocks are locked to at most {wanted} MHz")]
    Clock { gpu: String, wanted: u32, found: u32 },
    #[error("{gpu} holds {found} after {wanted} was set: another program sets its clocks")]
    Clocks { gpu: String, wanted: ClockPair, found: ClockPair },
    #[error(
        "unit `{unit}` has no pairs of clocks: they need `--unit {unit}=nvml:GPU` or `--unit {unit}=nvml-clocks:GPU`"
    )]
    NoPairs { unit: String },
    #[error("{gpu} reports no clocks to lock: cap it with `nvml:` if it has a power limit")]
    NoClocks { gpu: String },

    #[error("{place} has no power limit")]
    NoLimit { place: String },
    #[error("{place} is still capped to {found} after its cap was lifted")]
    StillCapped { place: String, found: Power },
    #[error(
        "{place} does not enforce the limit of {wanted} that it holds: enable power limits in the controller's settings"
    )]
    Disabled { place: String, wanted: Power },
    #[error(transparent)]
    Program(#[from] ProgramError),
    #[error(transparent)]
    Ipmi(#[from] IpmiCapError),
    #[error(transparent)]
    Http(Box<HttpError>),
    #[error(transparent)]
    Json(#[from] JsonError),

    #[error("unit `{unit}` has no cap: start lslave with `--cap {unit}=CHOICE`; `lslave --probe` lists them")]
    NoCap { unit: String },
    #[error("{limit} is below the lowest cap of unit `{unit}`: it holds {low}")]
    TooLow { unit: String, limit: Power, low: Power },
    #[error("unit `{unit}` and unit `{other}` have the same control `{control}`: a cap needs its own unit")]
    Taken { unit: String, other: String, control: String },
    #[error("cannot save the value before the cap in {}: {source}; nothing is capped", path.display())]
    Save { path: PathBuf, source: io::Error },
    #[error("the node is ending: caps are no longer set")]
    Closed,
}

/// Returns a remedy for a file that cannot be written, as the end of a sentence.
fn remedy(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied => {
            ": run lslave as root; if it is, the firmware has locked the limit: look for the lock in its setup"
        }
        io::ErrorKind::ReadOnlyFilesystem => {
            ": it is mounted read-only, as in containers: run lslave where /sys can be written"
        }
        io::ErrorKind::InvalidInput => ": the device does not accept this value",
        _ => "",
    }
}
