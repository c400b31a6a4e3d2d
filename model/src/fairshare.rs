//! Weights of the waiting time of a job and of the recent use of its user, in addition to the given priority.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::Span;

/// The measure of how much a user has used the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Measure {
    /// Energy above idle, the scarce resource under a power limit.
    #[default]
    Energy,
    /// Cores times the seconds of their allocation.
    CoreSeconds,
}

impl FromStr for Measure {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "energy" => Ok(Self::Energy),
            "core-seconds" => Ok(Self::CoreSeconds),
            _ => Err(format!("`{text}` is not a measure of use: energy, core-seconds")),
        }
    }
}

impl fmt::Display for Measure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Energy => "energy",
            Self::CoreSeconds => "core-seconds",
        })
    }
}

/// Weights for the order of the queue. Without weights only given priorities count.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Fairshare {
    /// Points of a job that has waited for `age_max`; a shorter wait gives proportionally fewer.
    pub age_weight: u32,
    /// Longest wait that earns points.
    pub age_max: Span,
    /// Points of a job of a user without use. If the user's part of all use equals the user's part of all shares, the
    /// points are half of this; at twice that use a quarter, and so on.
    pub weight: u32,
    /// Time after which past use counts half.
    pub half_life: Span,
    /// The quantity that counts as use.
    pub measure: Measure,
    /// Interval between rankings of the queue if no event causes one.
    pub rank_every: Span,
    /// Shares by user; other users have 1.
    pub shares: BTreeMap<String, u32>,
}

/// The largest weight: a hundred times the highest priority.
pub const WEIGHT_LIMIT: u32 = 1_000_000;

impl Default for Fairshare {
    fn default() -> Self {
        Self {
            age_weight: 0,
            age_max: Span::from_secs(7 * 86_400),
            weight: 0,
            half_life: Span::from_secs(7 * 86_400),
            measure: Measure::Energy,
            rank_every: Span::from_secs(60),
            shares: BTreeMap::new(),
        }
    }
}

impl Fairshare {
    /// Returns true if all values are the defaults.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// Returns true if priorities change with time.
    pub fn weighs(&self) -> bool {
        self.age_weight > 0 || self.weight > 0
    }

    /// Returns the share of a user; 1 if none is set.
    pub fn share_of(&self, user: &str) -> u32 {
        self.shares.get(user).copied().unwrap_or(1)
    }
}
