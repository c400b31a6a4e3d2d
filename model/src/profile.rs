//! Typical runs of an application on a type of hardware (limo-2018, section 3.3.3).

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::time::Span;
use crate::units::{Energy, Power};

/// The key of a profile.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ProfileKey {
    /// Name of the application; see [`crate::application`].
    pub application: String,
    /// Size class; empty if the application has none.
    pub size: String,
    /// The type of the unit.
    pub hardware: String,
    /// Number of cores of the unit that the run had. `None` holds for any number: such profiles are imported, never
    /// learned.
    #[serde(default)]
    pub cores: Option<u32>,
    /// Number of nodes of the run; the profile is that of one node. `None` holds for any number.
    #[serde(default)]
    pub nodes: Option<u32>,
    /// Cap of the unit; `None` if the run had no cap.
    pub cap: Option<Power>,
}

/// Duration, power and energy of one run, as a typical value of many.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Profile {
    /// Duration from start to end.
    pub duration: Span,
    /// Mean draw above idle: limo-2018's additional power draw.
    pub power: Power,
    /// Energy above idle.
    pub energy: Energy,
    /// Spread of the duration around its typical value, in thousandths of it.
    pub spread_permille: u32,
    /// Number of runs.
    pub runs: u32,
    /// Source: learned or imported.
    pub source: EstimateSource,
}

/// The source of an estimate, best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EstimateSource {
    /// Learned from finished runs.
    Learned,
    /// Imported from a file, or set by an operator.
    Imported,
    /// Predicted from the request, by what other finished jobs drew.
    Predicted,
    /// Derived from the hardware's nameplate and the job's time limit.
    Nameplate,
}

/// The expected run of a job on a unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Estimate {
    /// Duration from start to end.
    pub duration: Span,
    /// Draw above idle.
    pub power: Power,
    /// Energy above idle.
    pub energy: Energy,
    /// Source of the estimate.
    pub source: EstimateSource,
    /// Number of runs behind the estimate; 0 from a prediction or the nameplate.
    pub runs: u32,
}

impl Estimate {
    /// Returns the estimate for a job that runs on this number of equal units at once.
    pub fn times(self, units: usize) -> Self {
        let units = i64::try_from(units).unwrap_or(i64::MAX);
        let power = Power::from_mw(self.power.mw().saturating_mul(units));
        Self { power, energy: Energy::from_mj(self.energy.mj().saturating_mul(units)), ..self }
    }

    /// Returns the estimate with an additional draw for the whole run.
    pub fn with_draw(self, more: Power) -> Self {
        Self { power: self.power + more, energy: self.energy + more * self.duration, ..self }
    }
}

impl fmt::Display for EstimateSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Learned => "learned",
            Self::Imported => "imported",
            Self::Predicted => "predicted",
            Self::Nameplate => "nameplate",
        })
    }
}

impl fmt::Display for ProfileKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.application)?;
        if !self.size.is_empty() {
            write!(f, "/{}", self.size)?;
        }
        write!(f, " on {}", self.hardware)?;
        match self.cores {
            Some(1) => f.write_str(", 1 core")?,
            Some(cores) => write!(f, ", {cores} cores")?,
            None => {}
        }
        if let Some(nodes) = self.nodes {
            write!(f, ", {nodes} {}", if nodes == 1 { "node" } else { "nodes" })?;
        }
        match self.cap {
            Some(cap) => write!(f, " at {cap}"),
            None => Ok(()),
        }
    }
}
