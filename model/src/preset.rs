//! The policies by name.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The named compositions. Each policy's file says what it does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Preset {
    Fifo,
    LimoPrototype,
    Limo,
    Easy,
    Conservative,
    Powercap,
    Energybud,
    Reducepc,
}

impl Preset {
    pub const ALL: [Self; 8] = [
        Self::Fifo,
        Self::LimoPrototype,
        Self::Limo,
        Self::Easy,
        Self::Conservative,
        Self::Powercap,
        Self::Energybud,
        Self::Reducepc,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::Fifo => "fifo",
            Self::LimoPrototype => "limo-prototype",
            Self::Limo => "limo",
            Self::Easy => "easy",
            Self::Conservative => "conservative",
            Self::Powercap => "powercap",
            Self::Energybud => "energybud",
            Self::Reducepc => "reducepc",
        }
    }

    /// Whether it promises to start nothing that takes the draw over the upper limit.
    pub fn keeps_upper_limit(self) -> bool {
        self == Self::Limo
    }

    /// Returns true if it heeds the upper limit when it starts jobs.
    pub fn heeds_upper_limit(self) -> bool {
        matches!(self, Self::LimoPrototype | Self::Limo | Self::Powercap | Self::Energybud | Self::Reducepc)
    }

    /// Returns true if it heeds the lower limit when it starts jobs.
    pub fn heeds_lower_limit(self) -> bool {
        matches!(self, Self::LimoPrototype | Self::Limo)
    }

    /// Whether it acts on jobs that run: moves caps, suspends, requeues.
    pub fn steers(self) -> bool {
        self == Self::Limo
    }

    /// Returns true if it starts a job only on units that no other job is on.
    pub fn takes_whole_units(self) -> bool {
        self == Self::LimoPrototype
    }

    /// Whether it promises never to spend more than the budget of a period.
    pub fn keeps_budget(self) -> bool {
        matches!(self, Self::Powercap | Self::Energybud | Self::Reducepc)
    }

    /// Whether one plan starts one job at most, and the core asks again until nothing more starts.
    pub fn starts_one_by_one(self) -> bool {
        matches!(self, Self::Easy | Self::Conservative | Self::Powercap | Self::Energybud | Self::Reducepc)
    }
}

impl fmt::Display for Preset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Preset {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let named = Self::ALL.into_iter().find(|preset| preset.name() == text);
        named.ok_or_else(|| format!("`{text}` is not a policy: {}", Self::ALL.map(Self::name).join(", ")))
    }
}
