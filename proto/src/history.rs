//! What operators changed, as the master tells it: in words, since each kind of change has its own values.

use limo_model::Time;
use serde::{Deserialize, Serialize};

use crate::bound::clip;

/// One act, which may have changed several things.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangeReport {
    /// From 1, one more each.
    pub number: u64,
    /// When it was made.
    pub at: Time,
    /// An operator, or what made it by itself.
    pub by: String,
    /// The change that this one set back.
    pub undo_of: Option<u64>,
    /// The first of what was changed.
    pub items: Vec<ItemReport>,
    /// How many things beside those were changed.
    pub more: u32,
}

/// One thing that was changed, from what to what.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ItemReport {
    /// What was changed, in words.
    #[serde(serialize_with = "clip::<_, 4096>")]
    pub subject: String,
    /// Empty where nothing was there before.
    #[serde(serialize_with = "clip::<_, 4096>")]
    pub old: String,
    /// Empty where nothing is there since.
    #[serde(serialize_with = "clip::<_, 4096>")]
    pub new: String,
    /// True if it can be set back, if it was not changed since.
    pub can_undo: bool,
}

/// The change to set back, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Undo {
    /// `None` for the newest change that can be undone.
    pub number: Option<u64>,
    /// Also what was changed again since.
    pub force: bool,
    /// Only says what would be done.
    pub dry_run: bool,
}

/// What an undo does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UndoReport {
    /// The change that is set back.
    pub change: ChangeReport,
    /// From what is in force to what then is.
    pub items: Vec<ItemReport>,
}
