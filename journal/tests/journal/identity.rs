//! The identity of a journal: a cluster without an end, and an incarnation until a copy replaces it.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use limo_journal::{Batch, Journal, NodeRow, Opening, Recovered};
use limo_model::{ClusterId, Incarnation};

use crate::{accepted, on_both, reopen, run, set_back};

async fn opened(dir: &Path) -> (Journal, Recovered) {
    Journal::open(dir).await.expect("a journal")
}

fn node(name: &str, boot: &str) -> NodeRow {
    NodeRow { name: name.into(), instance: "i".into(), boot: boot.into() }
}

#[test]
fn a_restored_copy_begins_a_new_incarnation_of_the_same_cluster_once() {
    run(async {
        let (dir, elsewhere) = (tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory"));
        let (journal, first) = opened(dir.path()).await;
        assert!(first.journal.cluster != ClusterId::default() && first.journal.incarnation != Incarnation(0));
        let nodes = vec![node("n1", "b")];
        journal.commit(Batch { nodes, ..accepted(first.generation, 1) }).await.expect("committed");
        journal.backup(&elsewhere.path().join("journal.db")).await.expect("there is room");
        let (journal, again) = reopen(journal, dir.path()).await;
        assert_eq!((again.journal, again.nodes.len()), (first.journal, 1));
        journal.close().await;

        let (copy, restored) = opened(elsewhere.path()).await;
        assert_eq!(restored.journal.cluster, first.journal.cluster);
        assert_ne!(restored.journal.incarnation, first.journal.incarnation);
        assert_eq!((restored.live.len(), restored.nodes.len()), (1, 0), "jobs are known, what nodes had is not");
        let (copy, again) = reopen(copy, elsewhere.path()).await;
        assert_eq!(again.journal, restored.journal);
        copy.close().await;

        let (copy, by_hand) =
            Journal::open_as(elsewhere.path(), Opening { restored: true, cluster: None }).await.expect("a journal");
        assert_eq!(by_hand.journal.cluster, first.journal.cluster);
        assert_ne!(by_hand.journal.incarnation, restored.journal.incarnation);
        copy.close().await;
    });
}

#[test]
fn an_empty_journal_gets_the_id_of_its_cluster_and_others_keep_theirs() {
    on_both(async |place| {
        let open = |id| place.open_as(Opening { cluster: Some(ClusterId([id; 16])), restored: false });
        let (journal, first) = open(7).await;
        assert_eq!(first.journal.cluster, ClusterId([7; 16]));
        journal.close().await;
        let (journal, empty) = open(8).await;
        assert_eq!(empty.journal.cluster, ClusterId([8; 16]), "it has nothing that belongs to a cluster");
        journal.commit(accepted(empty.generation, 1)).await.expect("written");
        journal.close().await;
        let (journal, kept) = open(9).await;
        assert_eq!(kept.journal.cluster, ClusterId([8; 16]));
        journal.close().await;
    });
}

#[test]
fn nodes_and_kept_texts_are_part_of_the_batch() {
    on_both(async |place| {
        let (journal, Recovered { generation, .. }) = place.open().await;
        let batch = |nodes: Vec<NodeRow>, text: &str| {
            let kept = BTreeMap::from([("prices".to_owned(), text.to_owned())]);
            Batch { generation, nodes, kept, ..Batch::default() }
        };
        journal.commit(batch(vec![node("n1", "old"), node("..", "b")], "[1]")).await.expect("committed");
        journal.commit(batch(vec![node("n1", "new")], "[2]")).await.expect("committed");
        let stale = Batch { generation: generation - 1, ..batch(vec![node("n2", "b")], "[3]") };
        journal.commit(stale).await.expect_err("of a generation that is over");
        let (journal, recovered) = place.reopen(journal).await;
        let nodes: Vec<NodeRow> = recovered.nodes.into_values().collect();
        assert_eq!(nodes, [node("..", "b"), node("n1", "new")]);
        assert_eq!(recovered.kept, BTreeMap::from([("prices".to_owned(), "[2]".to_owned())]));
        journal.close().await;
    });
}

/// Copies the state of a killed program of schema version 4; see `tests/fixtures/make.sh`.
fn fixture() -> tempfile::TempDir {
    let from = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures/schema-4/master");
    let dir = tempfile::tempdir().expect("a directory");
    for name in ["journal.db", "journal.db-wal"] {
        fs::copy(from.join(name), dir.path().join(name)).expect("copied");
    }
    dir
}

#[test]
fn journals_of_every_schema_version_open_and_have_no_incarnation() {
    run(async {
        let dir = fixture();
        let (journal, recovered) = opened(dir.path()).await;
        assert_eq!(recovered.journal.incarnation, Incarnation(0));
        let live: Vec<u64> = recovered.live.iter().map(|live| live.job.0).collect();
        assert_eq!(live, [2, 3, 4, 5]);
        assert!(recovered.snapshot.is_some() && !recovered.entries.is_empty(), "a snapshot and entries behind it");
        let (journal, again) = reopen(journal, dir.path()).await;
        assert_eq!((again.journal, again.live), (recovered.journal, recovered.live));
        journal.close().await;
        for back in ["", "DROP TABLE readings; PRAGMA user_version = 1"] {
            set_back(dir.path(), back).await;
            let (journal, recovered) = opened(dir.path()).await;
            assert_ne!(recovered.journal.cluster, ClusterId::default());
            assert_eq!((recovered.journal.incarnation, recovered.live.len()), (Incarnation(0), 4));
            journal.close().await;
        }
    });
}
