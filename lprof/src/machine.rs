//! The machine on which is measured: this one, with its meter and its caps, or an emulated one.
//!
//! On a real machine `lprof` holds the lock of `lslave`'s state directory, and keeps the original values of capped
//! controls in the same file as `lslave`. So the two never cap at the same time, and whichever is started next restores
//! what a killed one left behind.

mod emulated;
mod setting;

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context, bail};
use limo_model::{Power, Span, UnitSpec};
use limo_power::{
    CapChoice, CapFailure, ClockPair, GpuId, Gpus, Keeper, Meter, MeterChoice, Site, cores, gpu_name, processor,
};
use nix::fcntl::{Flock, FlockArg};
use thiserror::Error;

use crate::measure::gpu_watch::GpuWatch;

pub use emulated::{EmulatedHardware, EmulatedRunning};
pub use setting::Setting;

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
    #[error("emulated hardware has no clocks: sweep its caps by --grid or --search")]
    NoClocks,
}

/// A unit of this machine, and its cap.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RealUnit {
    /// Name of the unit: `cpu`, `gpu0` and so on.
    pub name: String,
    /// How it is capped; `None` if it is not.
    pub cap: Option<CapChoice>,
}

/// A unit that can be measured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TestUnit {
    /// Its name.
    pub name: String,
    /// Its type.
    pub hardware: String,
    /// Cores that a command uses.
    pub cores: u32,
    /// Lowest and highest cap; `None` if it cannot be capped.
    pub caps: Option<(Power, Power)>,
}

/// Machine with one unit that is measured at a time.
pub struct Testbed {
    /// The units that can be measured; not empty.
    units: Vec<TestUnit>,
    /// Index of the measured one.
    at: usize,
    /// The meter in words.
    pub meter: String,
    /// Failures to restore or to use caps, for the user.
    pub warnings: Vec<String>,
    control: Control,
}

/// Caps of this machine, while its lock is held.
struct RealControl {
    keeper: Keeper,
    _lock: Flock<File>,
}

enum Control {
    Real(Box<RealControl>),
    Emulated(Arc<Mutex<EmulatedHardware>>),
}

impl Testbed {
    /// Locks this machine, restores the values of a killed process, and finds the caps of the units. The first
    /// one is measured.
    ///
    /// # Errors
    /// [`InUse`], or if the state directory or the values in it, or a unit, cannot be used.
    pub fn real(state_dir: &Path, site: &Site, units: Vec<RealUnit>, meter: String) -> anyhow::Result<Self> {
        limo_proto::own_directory(state_dir).context("the state directory is not safe")?;
        let lock = lock(&state_dir.join(LOCK))?;
        let (names, caps): (Vec<String>, Vec<Option<CapChoice>>) =
            units.into_iter().map(|unit| (unit.name, unit.cap)).unzip();
        let choices = names.iter().zip(caps).filter_map(|(name, cap)| Some((name.clone(), cap?))).collect();
        let (mut keeper, failures) = Keeper::open(&state_dir.join(ORIGINALS), site, choices)?;
        if let Some(failure) = failures.iter().find(|failure| names.contains(&failure.unit)) {
            let failure = failure.to_string();
            keeper.close();
            bail!("{failure}");
        }
        let unit = |name: String| {
            let ((hardware, cores), caps) = (described(&name, site)?, keeper.range(&name));
            Ok(TestUnit { name, hardware, cores, caps })
        };
        let units = names.into_iter().map(unit).collect::<anyhow::Result<Vec<_>>>()?;
        let warnings = failures.iter().map(CapFailure::to_string).collect();
        let control = Control::Real(Box::new(RealControl { keeper, _lock: lock }));
        Ok(Self { units, at: 0, meter, warnings, control })
    }

    /// Uses an emulated machine.
    pub fn emulated(hardware: EmulatedHardware) -> Self {
        let unit = |spec: &UnitSpec| TestUnit {
            name: spec.name.clone(),
            hardware: spec.hardware.clone(),
            cores: spec.cores,
            caps: spec.caps,
        };
        Self {
            units: hardware.units().iter().map(unit).collect(),
            at: hardware.selected(),
            meter: "emulated".to_owned(),
            warnings: Vec::new(),
            control: Control::Emulated(Arc::new(Mutex::new(hardware))),
        }
    }

    /// Returns the measured unit.
    pub fn unit(&self) -> &TestUnit {
        // The index is always that of a unit.
        &self.units[self.at]
    }

    /// Returns the index of the unit with this name, or else of the first one of this hardware.
    ///
    /// # Errors
    /// If there is none.
    pub fn find(&self, wanted: &str) -> anyhow::Result<usize> {
        let named = self.units.iter().position(|unit| unit.name == wanted);
        let found = named.or_else(|| self.units.iter().position(|unit| unit.hardware == wanted));
        found.with_context(|| {
            let known: Vec<String> =
                self.units.iter().map(|unit| format!("{} ({})", unit.hardware, unit.name)).collect();
            format!(
                "no unit is `{wanted}`: known are {}; name further units of this machine by `--unit UNIT[=CAP]`",
                known.join(", ")
            )
        })
    }

    /// Returns the units, in the order of [`Self::find`].
    pub fn units(&self) -> &[TestUnit] {
        &self.units
    }

    /// Measures this unit from now on. Its predecessor must have its original values.
    pub fn select(&mut self, at: usize) {
        self.at = at;
        if let Some(mut model) = self.model() {
            model.select(at, self.units[at].cores);
        }
    }

    /// Lets the command use this many cores of the unit.
    ///
    /// # Errors
    /// If the unit has fewer.
    pub fn use_cores(&mut self, cores: u32) -> anyhow::Result<()> {
        let has = self.unit().cores;
        anyhow::ensure!((1..=has).contains(&cores), "the unit has {has} cores: {cores} cannot be used");
        self.units[self.at].cores = cores;
        if let Some(mut model) = self.model() {
            model.use_cores(cores);
        }
        Ok(())
    }

    /// Returns the pairs of clocks of the unit, ascending.
    ///
    /// # Errors
    /// If it has none.
    pub fn clock_pairs(&mut self) -> Result<Vec<ClockPair>, CapProblem> {
        match &mut self.control {
            Control::Real(real) => Ok(real.keeper.clock_pairs(&self.units[self.at].name)?),
            Control::Emulated(_) => Err(CapProblem::NoClocks),
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

    /// Returns the measured unit as a GPU whose clock limits can be sampled; `None` if it is none of NVIDIA.
    pub fn gpu_watch(&self, site: &Site) -> Option<GpuWatch> {
        let index = gpu_index(&self.unit().name).filter(|_| !self.is_emulated())?;
        Some(GpuWatch::new(Gpus::new(&site.nvml), GpuId::Index(index)))
    }

    /// Makes the meter: the given one, or that of the model.
    pub fn make_meter(&self, choice: Option<(&MeterChoice, &Site)>) -> Option<Box<dyn Meter>> {
        match &self.control {
            Control::Emulated(hardware) => Some(emulated::meter(hardware.clone())),
            Control::Real(_) => choice.map(|(choice, site)| choice.meter(site)),
        }
    }

    /// Sets a cap or clocks, or restores the original values. `now` is the time of the model.
    ///
    /// # Errors
    /// If the setting does not hold.
    pub fn set(&mut self, setting: Setting, now: Span) -> Result<(), CapProblem> {
        let unit = &self.units[self.at];
        if setting.cap().is_some() && unit.caps.is_none() {
            return Err(CapProblem::None);
        }
        match (&mut self.control, setting) {
            (Control::Real(real), Setting::Clocks(pair)) => Ok(real.keeper.set_clocks(&unit.name, pair)?),
            (Control::Real(real), setting) => Ok(real.keeper.set(&unit.name, setting.cap())?),
            (Control::Emulated(_), Setting::Clocks(_)) => Err(CapProblem::NoClocks),
            (Control::Emulated(hardware), setting) => {
                Ok(hardware.lock().unwrap_or_else(PoisonError::into_inner).set_cap(setting.cap(), now)?)
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

/// Returns the index of the GPU that is a unit.
fn gpu_index(unit: &str) -> Option<u32> {
    unit.strip_prefix("gpu").and_then(|index| index.parse().ok())
}

/// Returns the type of a unit and the number of its cores, as `lslave` registers them.
fn described(unit: &str, site: &Site) -> anyhow::Result<(String, u32)> {
    if unit == "cpu" {
        return Ok((processor(), cores()));
    }
    let Some(index) = gpu_index(unit) else {
        bail!("unit `{unit}` is unknown: write `cpu`, or `gpu0` and so on for the GPUs of NVIDIA");
    };
    let gpus = Gpus::new(&site.nvml).list().context("cannot list the GPUs")?;
    match gpus.iter().find(|gpu| gpu.index == index) {
        Some(gpu) => Ok((gpu_name(&gpu.name), 1)),
        None => bail!("unit `{unit}` is unknown: this machine has {} GPUs of NVIDIA", gpus.len()),
    }
}
