//! Draws are written with all other data, read as one row per interval, and deleted when they are old.

use limo_journal::{Batch, Journal, ReadingRow, Recovered, StateRow, StateSum};
use limo_model::{Drawn, Energy, NodeActivity, Power, Span};

use crate::{at, entry, on_both, run, set_back};

/// Makes a row of the minute that begins at `minute`, observed from its second `since` on for ten seconds.
fn row(node: &str, minute: i64, since: i64, watts: i64) -> ReadingRow {
    let (mean, seen) = (Power::from_watts(watts), Span::from_secs(10));
    let (low, high) = (Power::from_watts(watts - 1), Power::from_watts(watts + 2));
    let drawn = Drawn { at: at(minute * 60_000), mean, low, high, energy: mean * seen, seen, looks: 10 };
    ReadingRow { node: node.into(), since: at(minute * 60_000 + since * 1_000), drawn }
}

fn batch(generation: u64, readings: Vec<ReadingRow>) -> Batch {
    Batch { generation, readings, ..Batch::default() }
}

#[test]
fn they_come_back_by_node_and_time_also_after_a_restart() {
    on_both(async |place| {
        let (journal, Recovered { generation, .. }) = place.open().await;
        // More rows than one statement takes.
        let rows = (0..1100).flat_map(|minute| [row("n1", minute, 0, 40), row("", minute, 0, 90)]).collect();
        journal.commit(Batch { entries: vec![entry(1)], ..batch(generation, rows) }).await.expect("committed");
        journal.commit(batch(generation, vec![row("n2", 7, 0, 50)])).await.expect("committed");
        let (journal, recovered) = place.reopen(journal).await;
        assert_eq!(recovered.entries, [entry(1)]);
        let all = |minutes: (i64, i64)| (at(minutes.0 * 60_000), at(minutes.1 * 60_000));
        let found = journal.readings("n1", all((5, 9)), 100).await.expect("readable");
        assert_eq!(found, (5..9).map(|minute| row("n1", minute, 0, 40).drawn).collect::<Vec<_>>());
        assert_eq!(journal.readings("n2", all((0, 9)), 100).await, Ok(vec![row("n2", 7, 0, 50).drawn]));
        assert_eq!(journal.readings("", all((0, 1100)), 1200).await.expect("readable").len(), 1100);
        assert_eq!(journal.readings("", all((0, 1100)), 3).await.expect("readable").len(), 3);
        for (node, minutes) in [("n3", (0, 2000)), ("n1", (1100, 2000)), ("n1", (9, 5))] {
            assert_eq!(journal.readings(node, all(minutes), 100).await, Ok(Vec::new()), "{node} {minutes:?}");
        }
        // Rows before the tenth minute are deleted; the tenth stays.
        let forget = Batch { forget_readings: Some(at(600_000)), ..batch(recovered.generation, Vec::new()) };
        journal.commit(forget).await.expect("committed");
        let left = journal.readings("n1", all((0, 2000)), 2000).await.expect("readable");
        assert_eq!((left.len(), left[0].at), (1090, at(600_000)));
        journal.close().await;
    });
}

/// Checks that a master that restarted within an interval has its own row for its part.
#[test]
fn parts_of_an_interval_are_one_and_the_same_part_counts_once() {
    on_both(async |place| {
        let (journal, Recovered { generation, .. }) = place.open().await;
        for row in [row("n1", 1, 0, 40), row("n1", 1, 0, 40), row("n1", 1, 30, 60)] {
            journal.commit(batch(generation, vec![row])).await.expect("committed");
        }
        let found = journal.readings("n1", (at(0), at(120_000)), 10).await.expect("readable");
        let expected = Drawn {
            at: at(60_000),
            mean: Power::from_watts(50),
            low: Power::from_watts(39),
            high: Power::from_watts(62),
            energy: Energy::from_joules(1_000),
            seen: Span::from_secs(20),
            looks: 20,
        };
        assert_eq!(found, [expected]);
        journal.close().await;
    });
}

#[test]
fn a_journal_of_before_gets_the_table() {
    run(async {
        let dir = tempfile::tempdir().expect("a directory");
        let (journal, Recovered { generation, .. }) = Journal::open(dir.path()).await.expect("a new journal");
        journal.commit(Batch { generation, entries: vec![entry(1)], ..Batch::default() }).await.expect("committed");
        journal.close().await;
        set_back(dir.path(), "DROP TABLE readings; PRAGMA user_version = 1").await;
        let (journal, recovered) = Journal::open(dir.path()).await.expect("the journal opens again");
        assert_eq!(recovered.entries, [entry(1)]);
        journal.commit(batch(recovered.generation, vec![row("n1", 1, 0, 40)])).await.expect("committed");
        assert_eq!(journal.readings("n1", (at(0), at(120_000)), 10).await.expect("readable").len(), 1);
        journal.close().await;
    });
}

#[test]
fn states_of_nodes_are_summed_up_also_of_several_processes() {
    on_both(async |place| {
        let (journal, Recovered { generation, .. }) = place.open().await;
        let row = |node: &str, state, (hour, since): (i64, i64), secs: i64| StateRow {
            at: at(hour * 3_600_000),
            node: node.into(),
            state,
            since: at(hour * 3_600_000 + since),
            span: Span::from_secs(secs),
            energy: Energy::from_joules(10 * secs),
            seen: Span::from_secs(secs / 2),
        };
        let (idle, job) = (NodeActivity::Idle, NodeActivity::Job);
        let states = vec![
            row("a", idle, (0, 0), 50),
            row("a", job, (0, 0), 9),
            row("b", idle, (0, 0), 3),
            row("b", job, (1, 0), 100),
        ];
        journal.commit(Batch { states, ..batch(generation, Vec::new()) }).await.expect("committed");
        // A later row of the same process replaces the earlier one; that of another process is added.
        let states = vec![row("a", idle, (0, 0), 60), row("a", idle, (0, 7), 1)];
        journal.commit(Batch { states, ..batch(generation, Vec::new()) }).await.expect("committed");
        let (journal, recovered) = place.reopen(journal).await;
        let sums = async |nodes: &[&str], range| {
            let nodes = nodes.iter().map(|node| (*node).to_owned()).collect();
            let sums = journal.states(nodes, range).await.expect("readable");
            let sum = |of: StateSum| (of.state, of.span.ms() / 1_000, of.energy.mj() / 1_000, of.seen.ms() / 1_000);
            sums.into_iter().map(sum).collect::<Vec<_>>()
        };
        let (job, idle) = ("job".to_owned(), "idle".to_owned());
        let all = (None, None);
        assert_eq!(sums(&[], all).await, [(job.clone(), 109, 1_090, 54), (idle.clone(), 64, 640, 31)]);
        assert_eq!(sums(&["a", "c"], all).await, [(idle.clone(), 61, 610, 30), (job.clone(), 9, 90, 4)]);
        assert_eq!(sums(&[], (Some(at(1)), None)).await, [(job.clone(), 100, 1_000, 50)]);
        let forget = Batch { forget_readings: Some(at(3_600_000)), ..batch(recovered.generation, Vec::new()) };
        journal.commit(forget).await.expect("committed");
        assert_eq!(sums(&[], all).await, [(job, 100, 1_000, 50)]);
        journal.close().await;
    });
}
