//! Errors of meters. Each message contains a remedy.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use limo_model::Power;
use thiserror::Error;

use super::ipmi::IpmiError;
use super::json::JsonError;
use super::mcp39f511::Mcp39f511Error;
use crate::http::HttpError;
use crate::nvml::GpuError;

/// Reason why there is no reading.
#[derive(Debug, Error)]
#[expect(missing_docs, reason = "the messages say what each variant is")]
pub enum MeterError {
    #[error("cannot read {}: {source}{}", path.display(), remedy(path, source))]
    Read { path: PathBuf, source: io::Error },
    #[error("{} contains `{found}` instead of a whole number", path.display())]
    Number { path: PathBuf, found: String },
    #[error("{whence} shows {draw}: the draw of a running machine is above zero and at most {limit}")]
    Implausible { whence: String, draw: Power, limit: Power },

    #[error(
        "{} has no zone `intel-rapl:N` that counts energy: load the kernel module with `modprobe intel_rapl_msr`; \
         virtual machines and containers often have none",
        path.display()
    )]
    NoZones { path: PathBuf },
    #[error("{} no longer has the zone {zones}: load its kernel module again, or restart lslave to measure without it", path.display())]
    ZonesGone { path: PathBuf, zones: String },
    #[error("{} has a new zone {zones}, which is included from the next reading on", path.display())]
    ZonesNew { path: PathBuf, zones: String },
    #[error("two zones are both named {name}: {} and {}", first.display(), second.display())]
    SameZone { name: String, first: PathBuf, second: PathBuf },
    #[error("{} does not count: no energy was counted in {} ms; virtual machines often have such a counter", path.display(), still.as_millis())]
    Still { path: PathBuf, still: Duration },

    #[error("{} has no chip named `{chip}`: it has {known}", path.display())]
    NoChip { path: PathBuf, chip: String, known: String },
    #[error("{} has {found} chips named `{chip}`: it had {before}", path.display())]
    ChipsGone { path: PathBuf, chip: String, found: usize, before: usize },
    #[error("{} of chip `{chip}` has no {wanted}: it has {known}", path.display())]
    NoChannel { path: PathBuf, chip: String, wanted: String, known: String },

    #[error("cannot run the meter command `{command}`: {source}")]
    Run { command: String, source: io::Error },
    #[error("the meter command `{command}` did not end within {} ms and was killed; it printed {printed}", limit.as_millis())]
    Late { command: String, limit: Duration, printed: String },
    /// `status` is the operating system's text, such as `exit status: 1`.
    #[error("the meter command `{command}` failed with {status}; it printed {printed}")]
    Failed { command: String, status: String, printed: String },
    #[error("the meter command `{command}` printed nothing: it must print watts, for example `41.5 W`")]
    Silent { command: String },
    #[error("the meter command `{command}` printed {printed}: the first number must be watts, for example `41.5 W`")]
    Nonsense { command: String, printed: String },

    #[error(transparent)]
    Gpu(#[from] GpuError),
    #[error(
        "the NVIDIA library knows no GPU: choose another meter, or check with `nvidia-smi -L` that its driver sees the card"
    )]
    NoGpus,
    #[error("{found} of {before} NVIDIA GPUs are left: restart lslave to measure without the others")]
    GpusGone { found: usize, before: usize },
    #[error(
        "`{command}` printed {printed}: the draw of each GPU in watts was expected, one a line; `[N/A]` is a GPU that does not report it"
    )]
    NoDraws { command: String, printed: String },

    #[error(transparent)]
    Ipmi(#[from] IpmiError),
    #[error(transparent)]
    Http(#[from] HttpError),
    #[error(transparent)]
    Json(#[from] JsonError),
    #[error(transparent)]
    Mcp39f511(#[from] Mcp39f511Error),
}

/// Returns a remedy for a file that cannot be read, as the end of a sentence.
fn remedy(path: &Path, error: &io::Error) -> &'static str {
    let counter = path.file_name().is_some_and(|name| name == "energy_uj");
    match error.kind() {
        io::ErrorKind::PermissionDenied if counter => {
            ": since Linux 5.10 only root may read it; run lslave as root, or let root do `chmod a+r` to it at each boot"
        }
        io::ErrorKind::PermissionDenied => ": run lslave as root, or let root do `chmod a+r` to it at each boot",
        _ => "",
    }
}
