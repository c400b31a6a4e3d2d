//! Changes by operators: written with the events, numbered by the journal, kept without a limit.

use limo_journal::{Batch, ChangeItem, ChangeQuery, ChangeRow, Journal};

use crate::{accepted, at, on_both, run, set_back};

fn change(ms: i64, by: &str, undo_of: Option<u64>, items: &[(&str, &str)]) -> ChangeRow {
    let item = |(subject, body): &(&str, &str)| ChangeItem { subject: (*subject).into(), body: (*body).into() };
    ChangeRow { number: 0, at: at(ms), by: by.into(), undo_of, items: items.iter().map(item).collect() }
}

async fn numbers(journal: &Journal, query: ChangeQuery) -> Vec<u64> {
    journal.changes(query).await.expect("readable").iter().map(|row| row.number).collect()
}

#[test]
fn changes_are_numbered_and_found() {
    on_both(async |place| {
        let (journal, recovered) = place.open().await;
        let generation = recovered.generation;
        let first = vec![
            change(1_000, "ada", None, &[("limits", "a")]),
            change(1_000, "bob", None, &[("node n1", "b"), ("node n2", "c")]),
        ];
        journal.commit(Batch { changes: first.clone(), ..accepted(generation, 1) }).await.expect("committed");
        let (journal, recovered) = place.reopen(journal).await;
        let third = change(2_000, "ada", Some(1), &[("limits", "d")]);
        let batch = Batch { generation: recovered.generation, changes: vec![third], ..Batch::default() };
        journal.commit(batch).await.expect("committed");
        let all = || ChangeQuery { limit: 10, ..ChangeQuery::default() };
        assert_eq!(numbers(&journal, all()).await, [3, 2, 1]);
        assert_eq!(numbers(&journal, ChangeQuery { by: Some("ada".into()), ..all() }).await, [3, 1]);
        assert_eq!(numbers(&journal, ChangeQuery { since: Some(at(1_001)), ..all() }).await, [3]);
        assert_eq!(numbers(&journal, ChangeQuery { before: Some(3), limit: 1, ..all() }).await, [2]);
        let second = journal.change(2).await.expect("readable").expect("there");
        assert_eq!(second, ChangeRow { number: 2, ..first[1].clone() });
        assert_eq!(journal.change(3).await.expect("readable").and_then(|row| row.undo_of), Some(1));
        assert_eq!(journal.change(u64::MAX).await, Ok(None));
        for (subject, newest) in [("limits", Some(3)), ("node n2", Some(2)), ("node", None)] {
            assert_eq!(journal.newest_change_of(subject.into()).await, Ok(newest), "{subject}");
        }
        journal.close().await;
    });
}

#[test]
fn a_batch_that_is_refused_leaves_no_change() {
    on_both(async |place| {
        let (journal, recovered) = place.open().await;
        let stale = Batch {
            generation: recovered.generation + 1,
            changes: vec![change(1, "ada", None, &[("mode", "x")])],
            ..Batch::default()
        };
        journal.commit(stale).await.expect_err("of another generation");
        assert_eq!(journal.change(1).await, Ok(None));
        journal.close().await;
    });
}

#[test]
fn a_journal_of_version_3_gets_the_table() {
    run(async {
        let dir = tempfile::tempdir().expect("a directory");
        let (journal, recovered) = Journal::open(dir.path()).await.expect("a journal");
        journal.commit(accepted(recovered.generation, 1)).await.expect("committed");
        journal.close().await;
        set_back(dir.path(), "").await;
        let (journal, recovered) = Journal::open(dir.path()).await.expect("an older journal");
        assert_eq!(recovered.live.len(), 1);
        let changes = vec![change(1, "ada", None, &[("mode", "x")])];
        let batch = Batch { generation: recovered.generation, changes, ..Batch::default() };
        journal.commit(batch).await.expect("committed");
        assert_eq!(journal.change(1).await.expect("readable").map(|row| row.by), Some("ada".into()));
        journal.close().await;
    });
}
