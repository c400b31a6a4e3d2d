//! Reports about the master's external sources: feeds, the grid and the master's own meters.

use limo_model::{Band, Power, REASON_LIMIT, Time};
use serde::{Deserialize, Serialize};

use crate::bound::clip_some;

/// The state of a feed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FeedReport {
    /// Name in the configuration.
    pub name: String,
    /// Kind of its values.
    pub of: FeedKind,
    /// The currency, or `g`.
    pub currency: String,
    /// Time of its last report.
    pub last_success: Option<Time>,
    /// The last error and its time; `None` if the last query succeeded.
    pub last_error: Option<(Time, String)>,
    /// End of the known values; `None` if no value is known now. [`Time::MAX`] means until further notice.
    pub known_until: Option<Time>,
}

/// Kinds of feeds, by what they report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum FeedKind {
    /// Prices of energy.
    Price,
    /// Emissions of carbon dioxide from generating energy.
    Carbon,
}

impl FeedKind {
    /// Returns the word of the JSON output.
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
    /// Name in the configuration.
    pub name: String,
    /// State of the contact.
    pub state: GridState,
    /// Time of the last contact in this process.
    pub heard: Option<Time>,
    /// Reason for the failure of the last attempt, if it failed.
    #[serde(serialize_with = "clip_some::<_, REASON_LIMIT>")]
    pub fault: Option<String>,
    /// Present limit.
    pub limit: Option<GridLimit>,
}

/// The state of the contact with a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum GridState {
    /// The source is connected.
    Ok,
    /// The source is lost, without a substitute limit.
    Stale,
    /// The source is lost, and its failsafe limit applies.
    Failsafe,
}

impl GridState {
    /// Returns the word of the JSON output.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Stale => "stale",
            Self::Failsafe => "failsafe",
        }
    }
}

/// The present limit of a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct GridLimit {
    /// The limits.
    pub band: Band,
    /// End of the limit; `None` if it holds until the source's next message.
    pub until: Option<Time>,
    /// True if the source marks the limit as an emergency.
    pub emergency: bool,
}

/// A meter at the master.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MeterReport {
    /// Text in the configuration.
    pub source: String,
    /// Names of the measured nodes; `None` for all.
    pub serves: Option<Vec<String>>,
    /// Newest value, unless it is too old.
    pub draw: Option<Power>,
    /// Reason why there is no value.
    #[serde(serialize_with = "clip_some::<_, REASON_LIMIT>")]
    pub failing: Option<String>,
}
