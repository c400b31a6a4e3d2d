//! Configuration in which a unit is measured.

use std::fmt;

use limo_model::Power;
use limo_power::ClockPair;

/// Configuration of a unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Setting {
    /// Its original values, without a cap.
    #[default]
    Original,
    /// A cap.
    Cap(Power),
    /// Clocks of a GPU.
    Clocks(ClockPair),
}

impl Setting {
    /// Returns the cap, if it is one.
    pub fn cap(self) -> Option<Power> {
        match self {
            Self::Cap(cap) => Some(cap),
            Self::Original | Self::Clocks(_) => None,
        }
    }

    /// Returns the clocks, if it is a pair of clocks.
    pub fn clocks(self) -> Option<ClockPair> {
        match self {
            Self::Clocks(pair) => Some(pair),
            Self::Original | Self::Cap(_) => None,
        }
    }
}

impl From<Option<Power>> for Setting {
    fn from(cap: Option<Power>) -> Self {
        cap.map_or(Self::Original, Self::Cap)
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Original => f.write_str("none"),
            Self::Cap(cap) => cap.fmt(f),
            Self::Clocks(pair) => pair.fmt(f),
        }
    }
}
