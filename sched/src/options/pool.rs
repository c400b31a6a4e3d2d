//! Options of the placement `pool`.

use std::ops::RangeInclusive;
use std::str::FromStr;

use limo_model::Span;
use serde::{Deserialize, Serialize};

/// The rank of a free node: the nodes with the least value come first (htc-sim-2015, section V).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum PoolRank {
    /// Nodes that are awake.
    #[default]
    S1,
    /// Energy of the whole node while it runs the job.
    S2,
    /// Mean gap between the sessions of its owners, the longest first.
    S3a,
    /// Number of sessions of its owners.
    S3b,
    /// Nodes of groups that are not open to owners now.
    S4,
    /// Duration of all sessions of its group.
    S5a,
    /// Mean duration of a session of its group.
    S5b,
    /// Number of sessions of its group that began during the last [`PoolOptions::window`].
    S6,
    /// The value that its group has learned from ended attempts, for this hour of the week.
    #[serde(rename = "learned")]
    Learned,
}

impl PoolRank {
    /// All ranks by name.
    pub const NAMES: [(&'static str, Self); 9] = [
        ("S1", Self::S1),
        ("S2", Self::S2),
        ("S3a", Self::S3a),
        ("S3b", Self::S3b),
        ("S4", Self::S4),
        ("S5a", Self::S5a),
        ("S5b", Self::S5b),
        ("S6", Self::S6),
        ("learned", Self::Learned),
    ];

    /// Returns true if nodes of different groups have different values.
    pub(crate) fn is_by_group(self) -> bool {
        matches!(self, Self::S4 | Self::S5a | Self::S5b | Self::S6 | Self::Learned)
    }
}

impl FromStr for PoolRank {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::NAMES.into_iter().find(|(name, _)| *name == text);
        let names = || Self::NAMES.map(|(name, _)| name).join(", ");
        found.map(|(_, rank)| rank).ok_or_else(|| format!("`{text}` is not a rank of a pool: {}", names()))
    }
}

/// The sessions that count for the ranks S3 and S5.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Knowledge {
    /// Those that have ended so far, and the gaps before them.
    #[default]
    Past,
    /// Those of [`crate::Event::SessionsKnown`], which may be in the future, as in the paper.
    Trace,
}

impl FromStr for Knowledge {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "past" => Ok(Self::Past),
            "trace" => Ok(Self::Trace),
            _ => Err(format!("`{text}` does not say which sessions count: past, trace")),
        }
    }
}

/// The choice between nodes of equal rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Ties {
    #[default]
    Random,
    First,
}

impl FromStr for Ties {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "random" => Ok(Self::Random),
            "first" => Ok(Self::First),
            _ => Err(format!("`{text}` does not choose between equal nodes: random, first")),
        }
    }
}

/// Options of the placement `pool`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PoolOptions {
    pub rank: PoolRank,
    pub knowledge: Knowledge,
    /// Time before now in which S6 counts sessions, within [`PoolOptions::WINDOWS`].
    pub window: Span,
    pub ties: Ties,
    /// Equal seeds give equal choices.
    pub seed: u32,
}

impl PoolOptions {
    /// Shortest and longest window.
    pub const WINDOWS: RangeInclusive<Span> = Span::from_secs(300)..=Span::from_secs(4 * 3_600);

    pub(super) fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

impl Default for PoolOptions {
    fn default() -> Self {
        let (rank, knowledge, ties) = (PoolRank::S1, Knowledge::Past, Ties::Random);
        Self { rank, knowledge, window: Span::from_secs(1_800), ties, seed: 0 }
    }
}
