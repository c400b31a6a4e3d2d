//! What the master tells clients about those that it listens to: feeds, the grid and its own meters.

use limo_model::{Band, Power, REASON_LIMIT, Time};
use serde::{Deserialize, Serialize};

use crate::bound::clip_some;

/// What became of a feed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FeedReport {
    /// As the configuration names it.
    pub name: String,
    /// What it tells.
    pub of: FeedKind,
    /// The currency, or `g`.
    pub currency: String,
    /// When it last told something.
    pub last_success: Option<Time>,
    /// What went wrong last, and when; `None` if the last look was good.
    pub last_error: Option<(Time, String)>,
    /// Until when it is known what holds; `None` if that is not known now. [`Time::MAX`] is until further notice.
    pub known_until: Option<Time>,
}

/// Kinds of feeds, by what they report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum FeedKind {
    /// Prices of energy.
    Price,
    /// Carbon dioxide that is emitted to generate energy.
    Carbon,
}

impl FeedKind {
    /// The word of the JSON output.
    pub fn name(self) -> &'static str {
        match self {
            Self::Price => "price",
            Self::Carbon => "carbon",
        }
    }
}

/// A source of limits of the grid.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GridReport {
    /// As the configuration names it.
    pub name: String,
    /// Tells if it is heard of.
    pub state: GridState,
    /// When the master heard of it last, since its start.
    pub heard: Option<Time>,
    /// Why the last attempt failed, where it did.
    #[serde(serialize_with = "clip_some::<_, REASON_LIMIT>")]
    pub fault: Option<String>,
    /// What it asks for now.
    pub limit: Option<GridLimit>,
}

/// Whether a source is heard of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum GridState {
    /// It is heard of.
    Ok,
    /// It is not, and nothing holds in its place.
    Stale,
    /// It is not, and its failsafe limit holds.
    Failsafe,
}

impl GridState {
    /// The word of the JSON output.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Stale => "stale",
            Self::Failsafe => "failsafe",
        }
    }
}

/// A limit that a source asks for now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct GridLimit {
    /// The limits that it asks for.
    pub band: Band,
    /// `None` is until the source says something else.
    pub until: Option<Time>,
    /// Set if the source calls it an emergency.
    pub emergency: bool,
}

/// A meter at the master.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MeterReport {
    /// As it is written in the configuration.
    pub source: String,
    /// The nodes that it measures; `None` is all of them.
    pub serves: Option<Vec<String>>,
    /// What it shows, where that still counts.
    pub draw: Option<Power>,
    /// Why it shows nothing.
    #[serde(serialize_with = "clip_some::<_, REASON_LIMIT>")]
    pub failing: Option<String>,
}
