//! Which of the changes in the journal is to be set back. Knows no core and sets nothing back.

use std::collections::BTreeSet;

use anyhow::{Context, Result};
use limo_journal::{ChangeQuery, ChangeRow, Journal};

use crate::changed::Changed;
use crate::desk::Found;

/// Changes that are looked at together.
const PAGE: u32 = 100;

/// What the rows of a change say.
///
/// # Errors
/// Where one of them makes no sense.
pub fn items(row: &ChangeRow) -> Result<Vec<Changed>> {
    let read = |body: &str| serde_json::from_str(body);
    let items = row.items.iter().map(|item| read(&item.body)).collect::<Result<_, _>>();
    items.with_context(|| format!("change {} in the journal is damaged", row.number))
}

/// The change of that number, or the newest that can be set back: made by an operator, no undo itself, and not undone.
///
/// # Errors
/// Where the journal cannot be read.
pub async fn to_undo(journal: &Journal, number: Option<u64>) -> Result<Option<Found>> {
    let row = match number {
        Some(number) => journal.change(number).await?,
        None => newest(journal).await?,
    };
    let Some(row) = row else { return Ok(None) };
    let mut since = Vec::new();
    for item in &row.items {
        let newest = journal.newest_change_of(item.subject.clone()).await?;
        since.push(newest.filter(|newest| *newest > row.number));
    }
    Ok(Some(Found { items: items(&row)?, row, since }))
}

async fn newest(journal: &Journal) -> Result<Option<ChangeRow>> {
    let (mut before, mut undone) = (None, BTreeSet::new());
    loop {
        let rows = journal.changes(ChangeQuery { before, limit: PAGE, ..ChangeQuery::default() }).await?;
        let Some(last) = rows.last() else { return Ok(None) };
        before = Some(last.number);
        for row in rows {
            // Newest first, so whatever undid it was seen before.
            if undone.contains(&row.number) {
                continue;
            }
            match row.undo_of {
                Some(of) => drop(undone.insert(of)),
                None if items(&row)?.iter().all(|item| item.back.is_some()) => return Ok(Some(row)),
                None => {}
            }
        }
    }
}
