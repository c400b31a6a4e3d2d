//! The machine on which is measured: this one, with its meter and its caps, or an emulated one.
//!
//! On a real machine `lprof` holds the lock of `lslave`'s state directory, and keeps the original values of capped
//! controls in the same file as `lslave`. So the two never cap at the same time, and whichever is started next restores
//! what a killed one left behind.

mod emulated;

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context, bail};
use limo_model::{Power, Span};
use limo_power::{CapChoice, CapFailure, Gpus, Keeper, Meter, MeterChoice, Site, cores, gpu_name, processor};
use nix::fcntl::{Flock, FlockArg};
use thiserror::Error;

pub use emulated::{EmulatedHardware, EmulatedRunning};

/// Files in the state directory of `lslave`.
const LOCK: &str = "lock";
const ORIGINALS: &str = "caps.json";

/// Reason why the machine cannot be used.
#[derive(Debug, Error)]
#[expect(missing_docs, reason = "the message says what it is")]
#[error(
    "{} is in use: lslave or another lprof runs on this machine; drain the node (`lconf drain NODE --reason \
     measuring`) and stop its lslave first",
    path.display()
)]
pub struct InUse {
    pub path: PathBuf,
}

/// Reason why a cap does not hold.
#[derive(Debug, Error)]
#[expect(missing_docs, reason = "the messages say what each variant is")]
pub enum CapProblem {
    #[error(transparent)]
    Real(#[from] limo_power::CapError),
    #[error(transparent)]
    Emulated(#[from] limo_power::CapRefused),
    #[error("no unit can be capped: add for example `--unit cpu=rapl`; `lslave --probe` lists the caps")]
    None,
}

/// A unit of this machine, and its cap.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RealUnit {
    /// Name of the unit: `cpu`, `gpu0` and so on.
    pub name: String,
    /// How it is capped; `None` if it is not.
    pub cap: Option<CapChoice>,
}

/// Machine with one unit that is measured.
pub struct Testbed {
    /// Type of the unit.
    pub hardware: String,
    /// Cores of the unit.
    pub cores: u32,
    /// The meter in words.
    pub meter: String,
    /// Lowest and highest cap; `None` if the unit cannot be capped.
    pub caps: Option<(Power, Power)>,
    /// Failures to restore or to use caps, for the user.
    pub warnings: Vec<String>,
    control: Control,
}

/// Caps of this machine, while its lock is held.
struct RealControl {
    keeper: Keeper,
    unit: String,
    _lock: Flock<File>,
}

enum Control {
    Real(Box<RealControl>),
    Emulated(Arc<Mutex<EmulatedHardware>>),
}

impl Testbed {
    /// Locks this machine, restores the values of a killed process, and finds the caps of the unit.
    ///
    /// # Errors
    /// [`InUse`], or if the state directory or the values in it cannot be used.
    pub fn real(state_dir: &Path, site: &Site, unit: RealUnit, meter: String) -> anyhow::Result<Self> {
        limo_proto::own_directory(state_dir).context("the state directory is not safe")?;
        let lock = lock(&state_dir.join(LOCK))?;
        let units = unit.cap.into_iter().map(|cap| (unit.name.clone(), cap)).collect();
        let (mut keeper, failures) = Keeper::open(&state_dir.join(ORIGINALS), site, units)?;
        let caps = keeper.range(&unit.name);
        if let Some(failure) = failures.iter().find(|failure| failure.unit == unit.name) {
            let failure = failure.to_string();
            keeper.close();
            bail!("{failure}");
        }
        let (hardware, cores) = described(&unit.name, site)?;
        let warnings = failures.iter().map(CapFailure::to_string).collect();
        let control = Control::Real(Box::new(RealControl { keeper, unit: unit.name, _lock: lock }));
        Ok(Self { hardware, cores, meter, caps, warnings, control })
    }

    /// Uses an emulated machine.
    pub fn emulated(hardware: EmulatedHardware) -> Self {
        let spec = hardware.unit();
        Self {
            hardware: spec.hardware.clone(),
            cores: spec.cores,
            meter: "emulated".to_owned(),
            caps: spec.caps,
            warnings: Vec::new(),
            control: Control::Emulated(Arc::new(Mutex::new(hardware))),
        }
    }

    /// Returns true for emulated hardware.
    pub fn is_emulated(&self) -> bool {
        matches!(self.control, Control::Emulated(_))
    }

    /// Returns the emulated hardware.
    pub fn model(&self) -> Option<MutexGuard<'_, EmulatedHardware>> {
        match &self.control {
            // A panic elsewhere does not affect the model.
            Control::Emulated(hardware) => Some(hardware.lock().unwrap_or_else(PoisonError::into_inner)),
            Control::Real(_) => None,
        }
    }

    /// Makes the meter: the given one, or that of the model.
    pub fn make_meter(&self, choice: Option<(&MeterChoice, &Site)>) -> Option<Box<dyn Meter>> {
        match &self.control {
            Control::Emulated(hardware) => Some(emulated::meter(hardware.clone())),
            Control::Real(_) => choice.map(|(choice, site)| choice.meter(site)),
        }
    }

    /// Caps the unit, or restores its original values. `now` is the time of the model.
    ///
    /// # Errors
    /// If the cap does not hold.
    pub fn set_cap(&mut self, cap: Option<Power>, now: Span) -> Result<(), CapProblem> {
        if cap.is_some() && self.caps.is_none() {
            return Err(CapProblem::None);
        }
        match &mut self.control {
            Control::Real(real) => Ok(real.keeper.set(&real.unit, cap)?),
            Control::Emulated(hardware) => {
                Ok(hardware.lock().unwrap_or_else(PoisonError::into_inner).set_cap(cap, now)?)
            }
        }
    }

    /// Restores the original values for good. Returns the failures.
    pub fn close(&mut self) -> Vec<String> {
        match &mut self.control {
            Control::Real(real) => real.keeper.close().iter().map(CapFailure::to_string).collect(),
            Control::Emulated(_) => Vec::new(),
        }
    }
}

impl Drop for Testbed {
    fn drop(&mut self) {
        // The caller has seen the failures if it closed the testbed; otherwise there is a worse error.
        self.close();
    }
}

/// Locks the file, as `lslave` does.
fn lock(path: &Path) -> anyhow::Result<Flock<File>> {
    let file = OpenOptions::new().create(true).write(true).truncate(false).mode(0o600).open(path);
    let file = file.with_context(|| format!("cannot open {}", path.display()))?;
    let dir = path.parent().unwrap_or(path).to_owned();
    Flock::lock(file, FlockArg::LockExclusiveNonblock).map_err(|_| InUse { path: dir }.into())
}

/// Returns the type of a unit and the number of its cores, as `lslave` registers them.
fn described(unit: &str, site: &Site) -> anyhow::Result<(String, u32)> {
    if unit == "cpu" {
        return Ok((processor(), cores()));
    }
    let index = unit.strip_prefix("gpu").and_then(|index| index.parse::<u32>().ok());
    let Some(index) = index else {
        bail!("unit `{unit}` is unknown: write `cpu`, or `gpu0` and so on for the GPUs of NVIDIA");
    };
    let gpus = Gpus::new(&site.nvml).list().context("cannot list the GPUs")?;
    match gpus.iter().find(|gpu| gpu.index == index) {
        Some(gpu) => Ok((gpu_name(&gpu.name), 1)),
        None => bail!("unit `{unit}` is unknown: this machine has {} GPUs of NVIDIA", gpus.len()),
    }
}
