//! Descriptions of emulated machines; `file` parses them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use limo_model::{NodeSpec, Power, Span, UnitKind};

use crate::error::HardwareError;
use crate::percent::Percent;

/// Machines of one hardware file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hardware {
    pub(crate) path: PathBuf,
    /// At least one machine; names differ.
    pub machines: Vec<Machine>,
}

/// Emulated machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Machine {
    /// Checked description; its meter is [`limo_model::Meter::Emulated`].
    pub spec: NodeSpec,
    /// Units, by unit of `spec`.
    pub units: Vec<EmulatedUnit>,
    /// Seed of its noise: equal seeds give equal runs and readings.
    pub seed: u64,
    /// Largest deviation of a reading from the true draw.
    pub reading_noise: Percent,
}

/// Properties of a unit for the model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EmulatedUnit {
    /// F of power-capping-2018, section 5.1.1, in thousandths: 1 to 1000.
    pub cap_factor_permille: u32,
    /// Largest deviation of a run's power from the application's.
    pub power_noise: Percent,
    /// Largest deviation of a run's duration from the application's.
    pub duration_noise: Percent,
    /// Applications, by `application` or `application/size`.
    pub applications: BTreeMap<String, Application>,
}

/// Behaviour of an application on a whole unit without a cap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Application {
    /// Draw above idle, not negative.
    pub power: Power,
    /// Duration; positive.
    pub duration: Span,
}

impl Hardware {
    /// Reads and checks a hardware file.
    ///
    /// # Errors
    /// [`HardwareError`], naming the file, the line and the value.
    pub fn read(path: &Path) -> Result<Self, HardwareError> {
        let text =
            std::fs::read_to_string(path).map_err(|source| HardwareError::Read { path: path.to_owned(), source })?;
        Self::parse(path, &text)
    }

    /// Returns the machine named `name`.
    ///
    /// # Errors
    /// [`HardwareError::NoMachine`], naming the known ones.
    pub fn machine(&self, name: &str) -> Result<&Machine, HardwareError> {
        self.machines.iter().find(|machine| machine.spec.name == name).ok_or_else(|| HardwareError::NoMachine {
            path: self.path.clone(),
            name: name.to_owned(),
            known: self.machines.iter().map(|machine| machine.spec.name.as_str()).collect::<Vec<_>>().join(", "),
        })
    }

    /// Returns the machine for the node `node`: the one of that name, or the only one.
    ///
    /// # Errors
    /// [`HardwareError::NoMachine`] if there are several and none has the name.
    pub fn machine_for_node(&self, node: &str) -> Result<&Machine, HardwareError> {
        match &self.machines[..] {
            [only] => Ok(only),
            _ => self.machine(node),
        }
    }
}

impl Machine {
    /// Returns the machine with another number of cores in its CPUs.
    pub fn with_cores(mut self, cores: u32) -> Self {
        for unit in self.spec.units.iter_mut().filter(|unit| unit.kind == UnitKind::Cpu) {
            unit.cores = cores;
        }
        self
    }
}

impl EmulatedUnit {
    /// Returns the figures of `application` for its size class, else those of the application.
    pub fn application(&self, application: &str, size: &str) -> Option<&Application> {
        let sized = if size.is_empty() { None } else { self.applications.get(&format!("{application}/{size}")) };
        sized.or_else(|| self.applications.get(application))
    }
}
