//! A journal moves to a server and back, with everything in it.

use limo_journal::{
    Batch, ChangeItem, ChangeQuery, ChangeRow, FinishedQuery, NodeRow, Place as Where, Recovered, StateRow,
    TransferError, transfer,
};
use limo_model::{Drawn, Energy, NodeActivity, Power, Span};

use crate::place::{Database, Place};
use crate::{accepted, at, entry, finished, run, submission};

/// Makes a batch with rows for each table. Job 1 is over, and 2 is live.
fn everything(generation: u64) -> Batch {
    let drawn = Drawn {
        at: at(60_000),
        mean: Power::from_watts(7),
        low: Power::from_watts(5),
        high: Power::from_watts(9),
        energy: Energy::from_joules(420),
        seen: Span::from_secs(60),
        looks: 60,
    };
    let [span, seen] = [3_600, 60].map(Span::from_secs);
    let state = NodeActivity::Idle;
    let item = |subject: &str| ChangeItem { subject: subject.into(), body: "{}".into() };
    Batch {
        entries: (1..=1_000).map(entry).collect(),
        submissions: vec![submission(1), submission(2)],
        finished: vec![finished(1)],
        snapshot: Some("{\"state\":1}".into()),
        readings: vec![limo_journal::ReadingRow { node: "n1".into(), since: at(60_000), drawn }],
        states: vec![StateRow { at: at(0), node: "n1".into(), state, since: at(0), span, energy: Energy::ZERO, seen }],
        changes: vec![ChangeRow {
            number: 0,
            at: at(5),
            by: "ada".into(),
            undo_of: None,
            items: vec![item("limits"), item("mode")],
        }],
        nodes: vec![NodeRow { name: "n1".into(), instance: "i".into(), boot: "b".into() }],
        kept: [("prices".to_owned(), "[1]".to_owned())].into(),
        ..accepted(generation, 1)
    }
}

/// Reads a journal, and everything that a recovery does not return.
async fn content(place: &Place) -> (Recovered, String) {
    let (journal, recovered) = place.open().await;
    let readings = journal.readings("n1", (at(0), at(120_000)), 10).await;
    let states = journal.states(Vec::new(), (None, None)).await;
    let changes = journal.changes(ChangeQuery { limit: 10, ..ChangeQuery::default() }).await;
    let finished = journal.finished(FinishedQuery::newest(10)).await;
    let key = journal.job_of_key(&submission(1).key).await;
    journal.close().await;
    (recovered, format!("{readings:?} {states:?} {changes:?} {finished:?} {key:?}"))
}

#[test]
fn everything_moves_to_a_server_and_back_and_the_old_place_is_a_copy() {
    let Some(address) = limo_requirements::postgres() else { return };
    run(async {
        let (file, server, back) = (Place::file(), Place::on(&address).await, Place::file());
        let (journal, recovered) = file.open().await;
        journal.commit(everything(recovered.generation)).await.expect("committed");
        journal
            .commit(Batch {
                entries: vec![entry(1_001)],
                ..Batch { generation: recovered.generation, ..Batch::default() }
            })
            .await
            .expect("committed");
        journal.close().await;
        let (before, more) = content(&file).await;
        assert_eq!((before.entries.len(), before.live.len(), before.nodes.len(), before.kept.len()), (1, 1, 1, 1));
        let places = [Where::Directory(file.dir().to_owned()), server.place(), Where::Directory(back.dir().to_owned())];
        // 1001 entries, a snapshot, 2 submissions, and one of each other, but two items of a change.
        assert_eq!(transfer(&places[0], &places[1]).await.expect("moved"), 1_001 + 1 + 2 + 1 + 1 + 1 + 2 + 1 + 1);
        let again = transfer(&places[0], &places[1]).await;
        assert!(matches!(again, Err(TransferError::Occupied)), "{again:?}");
        let same = |recovered: &Recovered| Recovered { generation: 0, ..recovered.clone() };
        let (moved, of_server) = content(&server).await;
        assert!(moved.generation > before.generation, "nodes do not refuse the master at the new place");
        assert_eq!((same(&moved), &of_server), (same(&before), &more));
        transfer(&places[1], &places[2]).await.expect("moved back");
        let (returned, of_file) = content(&back).await;
        assert!(returned.generation > moved.generation);
        assert_eq!((same(&returned), &of_file), (same(&before), &more));
        for old in [&file, &server] {
            let (copy, _) = content(old).await;
            assert_eq!((copy.journal.cluster, copy.live.len(), copy.nodes.len()), (before.journal.cluster, 1, 0));
            assert_ne!(copy.journal.incarnation, before.journal.incarnation);
        }
        server.drop_it().await;
    });
}

#[test]
fn a_journal_in_use_is_not_moved() {
    let Some(address) = limo_requirements::postgres() else { return };
    run(async {
        let (server, database, empty) = (Place::on(&address).await, Database::new(&address).await, Place::file());
        let (journal, _) = server.open().await;
        for to in [Where::Directory(empty.dir().to_owned()), Where::Server(database.server())] {
            let refused = transfer(&server.place(), &to).await;
            assert!(matches!(&refused, Err(TransferError::InUse { .. })), "{refused:?}");
        }
        journal.close().await;
        server.drop_it().await;
        database.drop_it().await;
    });
}
