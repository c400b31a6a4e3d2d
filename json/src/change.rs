//! Changes by operators as JSON.

use limo_proto::{ChangeReport, ItemReport};
use serde::Serialize;

/// Changes of the settings.
#[derive(Debug, Serialize)]
pub struct HistoryJson {
    schema: u32,
    changes: Vec<ChangeJson>,
}

impl HistoryJson {
    /// Converts changes.
    pub fn new(changes: Vec<ChangeReport>) -> Self {
        Self { schema: super::SCHEMA, changes: changes.into_iter().map(ChangeJson::from).collect() }
    }
}

/// A change, which may consist of several items.
#[derive(Debug, Serialize)]
pub struct ChangeJson {
    number: u64,
    at_unix_ms: i64,
    by: String,
    undo_of: Option<u64>,
    items: Vec<ItemJson>,
    /// Number of further items.
    more_items: u32,
}

/// An item of a change, with its values before and after.
#[derive(Debug, Serialize)]
pub struct ItemJson {
    subject: String,
    old: String,
    new: String,
    can_undo: bool,
}

impl From<ChangeReport> for ChangeJson {
    fn from(change: ChangeReport) -> Self {
        let ChangeReport { number, at, by, undo_of, items, more } = change;
        let items = items.into_iter().map(ItemJson::from).collect();
        Self { number, at_unix_ms: at.unix_ms(), by, undo_of, items, more_items: more }
    }
}

impl From<ItemReport> for ItemJson {
    fn from(ItemReport { subject, old, new, can_undo }: ItemReport) -> Self {
        Self { subject, old, new, can_undo }
    }
}
