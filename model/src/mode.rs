//! The mode: target the top or the bottom of the band, as set by the operator or the price.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Aim for the top or the bottom of the band (limo-2018, section 3.1.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Aim for the top: energy is cheap.
    High,
    /// Aim for the bottom: energy is expensive.
    Low,
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::High => "high",
            Self::Low => "low",
        })
    }
}

/// The mode as set by the operator, or `auto` to follow the price.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ModeSetting {
    /// Always aim for the top.
    High,
    /// Always aim for the bottom.
    Low,
    /// Follow the price: the top while energy is cheap, the bottom while it is expensive.
    #[default]
    Auto,
}

impl fmt::Display for ModeSetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::High => "high",
            Self::Low => "low",
            Self::Auto => "auto",
        })
    }
}

impl FromStr for ModeSetting {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "high" => Ok(Self::High),
            "low" => Ok(Self::Low),
            "auto" => Ok(Self::Auto),
            _ => Err(format!("`{text}` is not a mode: high, low, auto")),
        }
    }
}
