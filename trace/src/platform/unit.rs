//! Units of a node, if a platform distinguishes them: their draws, caps and applications. Parses them from a file.

use std::collections::BTreeMap;

use limo_model::{Power, Slowdown, Span, UnitKind, check_name};
use serde::Deserialize;
use serde::de::{self, Deserializer};

use super::{CORE_LIMIT, Draw, PlatformError, not_negative};

/// A CPU or an accelerator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unit {
    /// Name, unique in a node.
    pub name: String,
    /// Type for profiles.
    pub hardware: String,
    /// A CPU runs any job, an accelerator only jobs that request one.
    pub kind: UnitKind,
    /// Cores, 1 to [`CORE_LIMIT`]; 1 for an accelerator.
    pub cores: u32,
    /// True draw above idle with all cores busy, for jobs of unknown applications.
    pub draw: Power,
    /// The scheduler's belief about [`Unit::draw`].
    pub nameplate: Power,
    /// Lowest and highest cap.
    pub caps: Option<(Power, Power)>,
    /// F of power-capping-2018, section 5.1.1, in thousandths: 1 to 1000.
    pub cap_factor_permille: u32,
    /// Runs of applications on the whole unit without a cap, by name.
    pub applications: BTreeMap<String, Run>,
}

/// Run of an application.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Run {
    /// Draw above idle; not negative.
    #[serde(with = "limo_model::as_text")]
    pub power: Power,
    /// Duration; positive.
    #[serde(with = "limo_model::as_text")]
    pub duration: Span,
    /// Slowdown under a cap; `None` to use that of the unit.
    #[serde(default, with = "limo_model::as_text::option")]
    pub slowdown: Option<Slowdown>,
}

impl Unit {
    /// Checks the unit.
    ///
    /// # Errors
    /// [`PlatformError`] for the first value out of range.
    pub fn check(&self) -> Result<(), PlatformError> {
        check_name("unit name", &self.name)?;
        check_name("hardware", &self.hardware)?;
        let name = || self.name.clone();
        match self.kind {
            UnitKind::Accelerator if self.cores != 1 => {
                return Err(PlatformError::Divisible { unit: name(), cores: self.cores });
            }
            _ if self.cores == 0 || self.cores > CORE_LIMIT => return Err(PlatformError::Cores { cores: self.cores }),
            _ => {}
        }
        not_negative("unit.draw", self.draw)?;
        not_negative("unit.nameplate", self.nameplate)?;
        match self.caps {
            Some((low, _)) if low <= Power::ZERO => return Err(PlatformError::LowCap { unit: name(), low }),
            Some((low, high)) if low > high => return Err(PlatformError::CrossedCaps { unit: name(), low, high }),
            _ => {}
        }
        for (application, run) in &self.applications {
            check_name("application", application)?;
            if run.power < Power::ZERO || run.duration <= Span::ZERO {
                let (power, duration) = (run.power, run.duration);
                return Err(PlatformError::Run { application: application.clone(), unit: name(), power, duration });
            }
        }
        Ok(())
    }
}

/// Unit in a file, with the keys of an emulated hardware file.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct UnitText {
    name: String,
    hardware: String,
    kind: UnitKind,
    cores: Option<u32>,
    #[serde(with = "limo_model::as_text")]
    nameplate: Power,
    #[serde(default, with = "limo_model::as_text::option")]
    draw: Option<Power>,
    #[serde(default)]
    caps: Option<Caps>,
    #[serde(default, alias = "cap_factor")]
    cap_factor: Option<CapFactor>,
    #[serde(default)]
    application: BTreeMap<String, Run>,
}

/// Caps as a file has them, such as `["8 W", "60 W"]`.
#[derive(Clone, Copy, Deserialize)]
pub(super) struct Caps(Watts, Watts);

#[derive(Clone, Copy, Deserialize)]
struct Watts(#[serde(with = "limo_model::as_text")] Power);

/// F in thousandths; in a file from 0.001 to 1.
#[derive(Clone, Copy)]
pub(super) struct CapFactor(u32);

impl Default for CapFactor {
    /// The worst case of power-capping-2018: half the power doubles the time.
    fn default() -> Self {
        Self(1_000)
    }
}

impl<'de> Deserialize<'de> for CapFactor {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let factor = f64::deserialize(deserializer)?;
        let permille = (factor * 1_000.0).round();
        if (1.0..=1_000.0).contains(&permille) {
            // The value is in range, and whole.
            Ok(Self(permille as u32))
        } else {
            Err(de::Error::custom(format!("the cap factor is {factor}: it must be 0.001 to 1")))
        }
    }
}

impl UnitText {
    /// Converts a unit; `cores` is the default for CPUs.
    pub fn unit(self, cores: Option<u32>) -> Result<Unit, PlatformError> {
        let cores = match (self.kind, self.cores, cores) {
            (_, Some(cores), _) | (UnitKind::Cpu, None, Some(cores)) => cores,
            (UnitKind::Accelerator, None, _) => 1,
            (UnitKind::Cpu, None, None) => return Err(PlatformError::NoCores { unit: self.name }),
        };
        held(self.caps, self.cap_factor)?;
        Ok(Unit {
            name: self.name,
            hardware: self.hardware,
            kind: self.kind,
            cores,
            draw: self.draw.unwrap_or(self.nameplate),
            nameplate: self.nameplate,
            caps: self.caps.map(|Caps(low, high)| (low.0, high.0)),
            cap_factor_permille: self.cap_factor.unwrap_or_default().0,
            applications: self.application,
        })
    }
}

/// Checks that a factor comes with caps.
fn held(caps: Option<Caps>, factor: Option<CapFactor>) -> Result<(), PlatformError> {
    if caps.is_none() && factor.is_some() { Err(PlatformError::NoCaps) } else { Ok(()) }
}

/// Returns the only unit of nodes that can be capped and have no separate units; `None` without caps.
pub(super) fn sole(
    (hardware, cores): (&str, u32),
    (real, believed): (Draw, Draw),
    (caps, factor): (Option<Caps>, Option<CapFactor>),
) -> Result<Vec<Unit>, PlatformError> {
    held(caps, factor)?;
    let Some(Caps(low, high)) = caps else { return Ok(Vec::new()) };
    Ok(vec![Unit {
        name: "cpu".to_owned(),
        hardware: hardware.to_owned(),
        kind: UnitKind::Cpu,
        cores,
        draw: real.busy - real.idle,
        nameplate: believed.busy - believed.idle,
        caps: Some((low.0, high.0)),
        cap_factor_permille: factor.unwrap_or_default().0,
        applications: BTreeMap::new(),
    }])
}
