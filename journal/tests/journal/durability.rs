//! Acknowledged batches are on disk, in order, and no batch is written after a missing one.

use limo_journal::{Batch, CommitError, FinishedQuery, GROUP, History, Journal, QUEUE_ROOM, Recovered, Submission};
use limo_model::JobId;

use crate::{accepted, entry, finished, key, on_both, run, submission};

#[test]
fn the_order_of_calls_is_the_order_on_disk() {
    on_both(async |place| {
        let (journal, empty) = place.open().await;
        assert_eq!((empty.snapshot, empty.entries.len(), empty.live.len()), (None, 0, 0));
        // The batches do not fit in one transaction. Only the last answer is awaited; the others are dropped.
        let count = GROUP as u64 * 2 + 7;
        let mut last = None;
        for job in 1..=count {
            last = Some(journal.commit(accepted(empty.generation, job)));
        }
        last.expect("batches").await.expect("committed");
        let (journal, recovered) = place.reopen(journal).await;
        assert_eq!(recovered.entries, (1..=count).map(entry).collect::<Vec<_>>());
        assert_eq!(recovered.live, (1..=count).map(submission).collect::<Vec<_>>());
        assert!(recovered.generation > empty.generation);
        journal.close().await;
    });
}

#[test]
fn a_key_that_is_taken_stays_with_the_job_that_took_it_and_harms_no_other() {
    on_both(async |place| {
        let (journal, Recovered { generation, .. }) = place.open().await;
        journal.commit(accepted(generation, 1)).await.expect("committed");
        let again = Submission { key: key(1), uid: 1001, ..submission(2) };
        let batch = Batch { submissions: vec![again, submission(3)], ..accepted(generation, 2) };
        journal.commit(batch).await.expect("committed");
        assert_eq!(journal.job_of_key(&key(1)).await.expect("readable"), Some((JobId(1), 1000)));
        assert_eq!(journal.job_of_key(&key(3)).await.expect("readable"), Some((JobId(3), 1000)));
        let (journal, recovered) = place.reopen(journal).await;
        let live = recovered.live.iter().map(|live| (live.job, live.uid, live.key == key(live.job.0)));
        let expected = [(JobId(1), 1000, true), (JobId(2), 1001, false), (JobId(3), 1000, true)];
        assert_eq!(live.collect::<Vec<_>>(), expected);
        journal.close().await;
    });
}

#[test]
fn recovery_returns_the_newest_snapshot_and_later_entries_and_history_all() {
    run(async {
        let dir = tempfile::tempdir().expect("a directory");
        let (journal, Recovered { generation, .. }) = Journal::open(dir.path()).await.expect("a new journal");
        for job in 1..=6 {
            let snapshot = (job == 2 || job == 4).then(|| format!("state after {job}"));
            journal.commit(Batch { snapshot, ..accepted(generation, job) }).await.expect("committed");
        }
        let recovered = journal.recover().await.expect("readable");
        assert_eq!(recovered.snapshot.as_deref(), Some("state after 4"));
        assert_eq!(recovered.entries, [entry(5), entry(6)]);
        // The journal stays open, and entries are written after the history was opened.
        let mut history = History::open(dir.path()).expect("readable beside its writer");
        let first = history.next().expect("six entries").expect("readable");
        journal.commit(accepted(recovered.generation, 7)).await.expect("committed");
        let rest = history.map(|entry| entry.expect("readable")).collect::<Vec<_>>();
        assert_eq!((first.seq, (first.at, first.entry)), (1, entry(1)));
        assert_eq!(rest.iter().map(|entry| entry.seq).collect::<Vec<_>>(), [2, 3, 4, 5, 6]);
        let rest = rest.into_iter().map(|entry| (entry.at, entry.entry)).collect::<Vec<_>>();
        assert_eq!(rest, (2..=6).map(entry).collect::<Vec<_>>());
    });
}

#[test]
fn after_one_failed_commit_everything_is_refused_until_recovery() {
    on_both(async |place| {
        let (journal, Recovered { generation, .. }) = place.open().await;
        journal.commit(accepted(generation, 1)).await.expect("committed");
        // Job 1 cannot be written a second time, and later batches follow this one.
        let broken = journal.commit(Batch { entries: vec![entry(2)], ..accepted(generation, 1) });
        let behind = journal.commit(accepted(generation, 3));
        assert!(matches!(broken.await, Err(CommitError::Database { .. })));
        assert!(behind.await.is_err());
        let later = journal.commit(accepted(generation, 4)).await;
        assert_eq!(later, Err(CommitError::Stale { batch: generation }));
        // Guessing the next generation does not help, because the state on disk was not read yet.
        assert!(journal.commit(accepted(generation + 1, 4)).await.is_err());

        let recovered = journal.recover().await.expect("readable");
        assert_eq!(recovered.entries, [entry(1)]);
        assert!(recovered.generation > generation);
        let stale = journal.commit(accepted(generation, 4)).await;
        assert_eq!(stale, Err(CommitError::Stale { batch: generation }));
        journal.commit(accepted(recovered.generation, 5)).await.expect("committed");
        let (journal, recovered) = place.reopen(journal).await;
        assert_eq!(recovered.entries, [entry(1), entry(5)]);
        journal.close().await;
    });
}

#[test]
fn a_key_finds_its_job_also_when_the_job_is_long_over() {
    on_both(async |place| {
        let (journal, Recovered { generation, .. }) = place.open().await;
        assert_eq!(journal.job_of_key(&key(1)).await, Ok(None));
        for job in 1..=3 {
            journal.commit(accepted(generation, job)).await.expect("committed");
        }
        let over = Batch { generation, finished: vec![finished(1), finished(2)], ..Batch::default() };
        journal.commit(over).await.expect("committed");
        let (journal, recovered) = place.reopen(journal).await;
        assert_eq!(recovered.live, [submission(3)]);
        for job in 1..=3 {
            assert_eq!(journal.job_of_key(&key(job)).await, Ok(Some((JobId(job), 1000))));
        }
        assert_eq!(journal.finished(FinishedQuery::newest(10)).await, Ok(vec![finished(2), finished(1)]));
        assert_eq!(journal.finished(FinishedQuery::newest(1)).await, Ok(vec![finished(2)]));
        assert_eq!(journal.finished_job(JobId(1)).await, Ok(Some(finished(1))));
        assert_eq!(journal.finished_job(JobId(3)).await, Ok(None));
        assert_eq!(journal.finished_job(JobId(u64::MAX)).await, Ok(None));
        journal.close().await;
    });
}

#[test]
fn queued_batches_are_written_after_the_handle_is_dropped() {
    run(async {
        let dir = tempfile::tempdir().expect("a directory");
        let (journal, Recovered { generation, .. }) = Journal::open(dir.path()).await.expect("a new journal");
        let pending = (1..=50).map(|job| journal.commit(accepted(generation, job))).collect::<Vec<_>>();
        drop(journal);
        pending.into_iter().next_back().expect("batches").await.expect("committed");
        let entries = History::open(dir.path()).expect("readable").map(|entry| entry.expect("readable").seq);
        assert_eq!(entries.collect::<Vec<_>>(), (1..=50).collect::<Vec<_>>());
    });
}

#[test]
fn commits_wait_while_too_much_is_queued() {
    on_both(async |place| {
        let (journal, Recovered { generation, .. }) = place.open().await;
        let mut pending = Vec::new();
        for _ in 0..QUEUE_ROOM {
            pending.push(journal.commit(Batch { generation, ..Batch::default() }));
        }
        journal.room().await;
        // The answer of a batch frees its place.
        let answered = pending.remove(0);
        tokio::select! {
            biased;
            answer = answered => drop(answer.expect("committed")),
            () = std::future::ready(()) => panic!("there is room, but the first batch is not answered"),
        }
    });
}
