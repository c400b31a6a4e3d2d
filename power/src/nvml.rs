//! GPUs of NVIDIA through the library of their driver (NVML), which is loaded on first use.
//!
//! If the library reports that it or the GPU no longer exists, it is closed and loaded again with the next query,
//! because a driver may be replaced while the daemon runs. The meter and the caps decide what to query.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use limo_model::Power;
use nvml_wrapper::bitmasks::device::ThrottleReasons;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::{Device, Nvml};
use thiserror::Error;

/// Name by which the dynamic loader finds the driver's library.
pub const LIBRARY: &str = "libnvidia-ml.so.1";

/// Index in the driver's order, which may change at a boot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GpuId {
    /// Index in the driver's order, which may change with the next boot.
    Index(u32),
    /// A GPU as its driver describes it; `None` means that the driver does not report the value.
    Uuid(String),
}

/// A GPU as its driver describes it; `None` stands for values that the driver does not report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gpu {
    /// Index from 0 in the driver's order, which may change at a boot.
    pub index: u32,
    /// `GPU-...`, which never changes.
    pub uuid: String,
    /// `NVIDIA H200`.
    pub name: String,
    /// Lowest and highest accepted power limit.
    pub limits: Option<(Power, Power)>,
    /// The power limit after a boot.
    pub default_limit: Option<Power>,
    /// Present limit, set by any program.
    pub enforced: Option<Power>,
    /// Present draw; the driver averages over up to a second.
    pub draw: Option<Power>,
    /// True if settings outlast the last program that uses the GPU.
    pub persistent: Option<bool>,
}

/// Reasons for which a GPU runs below the clocks that it could have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockLimits {
    /// True if its power limit holds it down.
    pub power: bool,
    /// True if it is too hot.
    pub heat: bool,
}

/// Reason why a query or a setting of a GPU failed.
#[derive(Debug, Error)]
#[expect(missing_docs, reason = "the messages say what each variant is")]
pub enum GpuError {
    #[error("cannot use the NVIDIA library {}: {source}{}", library.display(), missing(source))]
    Load { library: PathBuf, source: NvmlError },
    #[error("cannot {what} GPU {gpu}: {source}{}", remedy(source))]
    Call { what: &'static str, gpu: String, source: NvmlError },
    #[error("there is no GPU {gpu}: {source}; `lslave --probe` lists those that there are")]
    NoGpu { gpu: String, source: NvmlError },
}

impl GpuError {
    /// Returns true if the library does not exist, as on machines without a GPU.
    pub fn is_absence(&self) -> bool {
        matches!(self, Self::Load { source: NvmlError::LibloadingError(_), .. })
    }
}

/// The library, and the GPUs that it knows.
#[derive(Debug)]
pub struct Gpus {
    library: PathBuf,
    nvml: Option<Nvml>,
}

impl Gpus {
    /// Makes a handle without loading the library. `library` is a path, or a name that the dynamic loader knows.
    pub fn new(library: &Path) -> Self {
        Self { library: library.to_owned(), nvml: None }
    }

    /// Returns the number of GPUs.
    ///
    /// # Errors
    /// [`GpuError`] if the library or its driver is missing.
    pub fn count(&mut self) -> Result<u32, GpuError> {
        let library = self.library.clone();
        let count = self.load()?.device_count();
        count.map_err(|source| self.failed(source, |source| GpuError::Load { library, source }))
    }

    /// Returns all GPUs, in the driver's order.
    ///
    /// # Errors
    /// [`GpuError`] if the library is missing, or a GPU does not report its name.
    pub fn list(&mut self) -> Result<Vec<Gpu>, GpuError> {
        (0..self.count()?).map(|index| self.ask(&GpuId::Index(index), "describe", |gpu| describe(index, gpu))).collect()
    }

    /// Returns why a GPU runs below its highest clocks. Changes nothing.
    ///
    /// # Errors
    /// [`GpuError`] if the library or the GPU is missing, or does not report this.
    pub fn clock_limits(&mut self, id: &GpuId) -> Result<ClockLimits, GpuError> {
        let reasons = self.ask(id, "read the clock limits of", |gpu| gpu.current_throttle_reasons())?;
        let heat = ThrottleReasons::SW_THERMAL_SLOWDOWN | ThrottleReasons::HW_THERMAL_SLOWDOWN;
        Ok(ClockLimits { power: reasons.contains(ThrottleReasons::SW_POWER_CAP), heat: reasons.intersects(heat) })
    }

    /// Queries one GPU; `what` follows "cannot" and comes before "GPU" in the text of an error.
    ///
    /// # Errors
    /// [`GpuError`] if the library, the GPU or the queried function is missing.
    pub(crate) fn ask<T>(
        &mut self,
        id: &GpuId,
        what: &'static str,
        question: impl FnOnce(&mut Device<'_>) -> Result<T, NvmlError>,
    ) -> Result<T, GpuError> {
        let nvml = self.load()?;
        let device = match id {
            GpuId::Index(index) => nvml.device_by_index(*index),
            GpuId::Uuid(uuid) => nvml.device_by_uuid(uuid.as_str()),
        };
        let answer = match device {
            Ok(mut device) => Ok(question(&mut device)),
            Err(source) => Err(source),
        };
        let gpu = id.to_string();
        match answer {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(source)) => Err(self.failed(source, |source| GpuError::Call { what, gpu, source })),
            Err(source @ (NvmlError::NotFound | NvmlError::InvalidArg)) => Err(GpuError::NoGpu { gpu, source }),
            Err(source) => Err(self.failed(source, |source| GpuError::Call { what, gpu, source })),
        }
    }

    fn load(&mut self) -> Result<&Nvml, GpuError> {
        if self.nvml.is_none() {
            let nvml = Nvml::builder().lib_path(self.library.as_os_str()).init();
            self.nvml = Some(nvml.map_err(|source| GpuError::Load { library: self.library.clone(), source })?);
        }
        // The library was loaded above if it was missing.
        Ok(self.nvml.as_ref().expect("loaded above"))
    }

    fn failed(&mut self, source: NvmlError, error: impl FnOnce(NvmlError) -> GpuError) -> GpuError {
        let gone = matches!(
            source,
            NvmlError::Uninitialized
                | NvmlError::DriverNotLoaded
                | NvmlError::GpuLost
                | NvmlError::ResetRequired
                | NvmlError::LibRmVersionMismatch
                | NvmlError::Unknown
        );
        if gone {
            self.nvml = None;
        }
        error(source)
    }
}

fn describe(index: u32, gpu: &Device<'_>) -> Result<Gpu, NvmlError> {
    let told = |limit: Result<u32, NvmlError>| limit.ok().map(milliwatts);
    let limits = gpu.power_management_limit_constraints().ok();
    Ok(Gpu {
        index,
        uuid: gpu.uuid()?,
        name: gpu.name()?,
        limits: limits.map(|limits| (milliwatts(limits.min_limit), milliwatts(limits.max_limit))),
        default_limit: told(gpu.power_management_limit_default()),
        enforced: told(gpu.enforced_power_limit()),
        draw: told(gpu.power_usage()),
        persistent: gpu.is_in_persistent_mode().ok(),
    })
}

/// Converts the library's milliwatts.
pub fn milliwatts(mw: u32) -> Power {
    Power::from_mw(i64::from(mw))
}

fn missing(error: &NvmlError) -> &'static str {
    match error {
        NvmlError::LibloadingError(_) | NvmlError::LibraryNotFound => {
            ": install NVIDIA's driver, or say where its library is with `--nvml FILE`"
        }
        NvmlError::DriverNotLoaded => ": load it with `modprobe nvidia`",
        NvmlError::LibRmVersionMismatch => ": the driver was replaced; restart the machine, or load its new module",
        _ => "",
    }
}

/// Returns a remedy for the error, as the end of a sentence.
fn remedy(error: &NvmlError) -> &'static str {
    match error {
        NvmlError::NoPermission => ": run lslave as root; a container needs the capability SYS_ADMIN",
        NvmlError::NotSupported => ": this GPU cannot; one without a power limit may be capped by `nvml-clocks:INDEX`",
        NvmlError::GpuLost | NvmlError::ResetRequired => {
            ": reset it with `nvidia-smi --gpu-reset`, or restart the machine"
        }
        _ => "",
    }
}

impl fmt::Display for GpuId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Index(index) => write!(f, "{index}"),
            Self::Uuid(uuid) => f.write_str(uuid),
        }
    }
}

/// Parses a number as an index and `GPU-...` as a UUID.
impl FromStr for GpuId {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        if let Ok(index) = text.parse() {
            return Ok(Self::Index(index));
        }
        let is_uuid = text.starts_with("GPU-") && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
        if is_uuid { Ok(Self::Uuid(text.to_owned())) } else { Err(()) }
    }
}
