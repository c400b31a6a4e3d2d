//! Selects the change in the journal to undo. Independent of the core; undoes nothing.

use std::collections::BTreeSet;

use anyhow::{Context, Result};
use limo_journal::{ChangeQuery, ChangeRow, Journal};

use crate::changed::Changed;
use crate::controller::Found;

/// Changes that are read from the journal at once.
const PAGE: u32 = 100;

/// Parses the items of a change.
///
/// # Errors
/// If an item is damaged.
pub fn items(row: &ChangeRow) -> Result<Vec<Changed>> {
    let read = |body: &str| serde_json::from_str(body);
    let items = row.items.iter().map(|item| read(&item.body)).collect::<Result<_, _>>();
    items.with_context(|| format!("change {} in the journal is damaged", row.number))
}

/// Returns the change of that number, or the newest one that can be undone. Such a change was made by an operator, is
/// not an undo, is not undone, and has a value that differed.
///
/// # Errors
/// If the journal cannot be read.
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
            // The newest change comes first, so an undo is seen before its change.
            if undone.contains(&row.number) {
                continue;
            }
            match row.undo_of {
                Some(of) => drop(undone.insert(of)),
                None if can_undo(&items(&row)?) => return Ok(Some(row)),
                None => {}
            }
        }
    }
}

fn can_undo(items: &[Changed]) -> bool {
    let is_something = |item: &Changed| item.back.as_ref().is_some_and(|back| !back.is_nothing());
    items.iter().all(|item| item.back.is_some()) && items.iter().any(is_something)
}

#[cfg(test)]
mod tests {
    use limo_journal::{Batch, ChangeItem};
    use limo_model::{ModeSetting, Time};

    use super::*;
    use crate::changed::Back;

    fn row(subject: &str, can_undo: bool, undo_of: Option<u64>) -> ChangeRow {
        let back = can_undo.then_some(Back::Mode { old: ModeSetting::Auto, new: ModeSetting::Low });
        row_of(subject, back, undo_of)
    }

    fn row_of(subject: &str, back: Option<Back>, undo_of: Option<u64>) -> ChangeRow {
        let changed = Changed { subject: subject.into(), old: String::new(), new: String::new(), back };
        let item = ChangeItem { subject: subject.into(), body: serde_json::to_string(&changed).expect("JSON") };
        ChangeRow { number: 0, at: Time::from_unix_ms(0), by: "root".into(), undo_of, items: vec![item] }
    }

    #[tokio::test]
    async fn an_undoable_change_may_be_pages_back() {
        let dir = tempfile::tempdir().expect("a directory");
        let (journal, recovered) = Journal::open(dir.path()).await.expect("a journal");
        let generation = recovered.generation;
        // The change is the first row of the second page.
        let others = (0..PAGE).map(|_| row("job 7", false, None));
        let changes = std::iter::once(row("mode", true, None)).chain(others).collect();
        journal.commit(Batch { generation, changes, ..Batch::default() }).await.expect("written");
        let found = to_undo(&journal, None).await.expect("readable").expect("one");
        assert_eq!((found.row.number, found.since), (1, vec![None]));
        let undo = u64::from(PAGE) + 2;
        let changes = vec![row("mode", true, Some(1))];
        journal.commit(Batch { generation, changes, ..Batch::default() }).await.expect("written");
        assert_eq!(
            to_undo(&journal, None).await.expect("readable"),
            None,
            "it was undone, and that is no change to undo"
        );
        let since = |number: u64| to_undo(&journal, Some(number));
        assert_eq!(since(1).await.expect("readable").expect("one").since, [Some(undo)]);
        assert_eq!(since(undo).await.expect("readable").expect("one").since, [None]);
        assert_eq!(since(undo + 1).await.expect("readable"), None);
        journal.close().await;
    }

    #[tokio::test]
    async fn changes_without_effect_are_not_undone() {
        let dir = tempfile::tempdir().expect("a directory");
        let (journal, recovered) = Journal::open(dir.path()).await.expect("a journal");
        let same = Back::Mode { old: ModeSetting::Low, new: ModeSetting::Low };
        let changes = vec![row("mode", true, None), row_of("mode", Some(same), None)];
        let generation = recovered.generation;
        journal.commit(Batch { generation, changes, ..Batch::default() }).await.expect("written");
        assert_eq!(to_undo(&journal, None).await.expect("readable").expect("one").row.number, 1);
        journal.close().await;
    }
}
