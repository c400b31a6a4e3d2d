//! Changes by operators, in words, because each kind of change has its own values.

use limo_model::Time;
use serde::{Deserialize, Serialize};

use crate::bound::clip;

/// A change, which may consist of several items.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangeReport {
    /// Number, counted from 1.
    pub number: u64,
    /// Time of the change.
    pub at: Time,
    /// Operator who made the change, or the component that made it automatically.
    pub by: String,
    /// The change that this one undid.
    pub undo_of: Option<u64>,
    /// The first items.
    pub items: Vec<ItemReport>,
    /// Number of further items.
    pub more: u32,
}

/// An item, with its values before and after.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ItemReport {
    /// Subject of the item, in words.
    #[serde(serialize_with = "clip::<_, 4096>")]
    pub subject: String,
    /// Value before; empty if there was none.
    #[serde(serialize_with = "clip::<_, 4096>")]
    pub old: String,
    /// Value after; empty if there is none.
    #[serde(serialize_with = "clip::<_, 4096>")]
    pub new: String,
    /// True if the item can be undone, provided that it was not changed since.
    pub can_undo: bool,
}

/// The change to undo, and the options.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Undo {
    /// Number of the change; `None` for the newest one that can be undone.
    pub number: Option<u64>,
    /// True to undo even items that were changed again since.
    pub force: bool,
    /// True to only report the effect.
    pub dry_run: bool,
}

/// The effect of an undo.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UndoReport {
    /// The undone change.
    pub change: ChangeReport,
    /// Current value, then the value after the undo.
    pub items: Vec<ItemReport>,
}
