//! Space of deleted rows is returned to the file system.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use limo_journal::{Batch, Journal, Recovered, Submission};
use sqlx::{ConnectOptions, Connection};

use crate::{accepted, finished, reopen, run, set_back, submission};

const LAUNCH: usize = 1 << 20;

fn size(dir: &Path) -> u64 {
    let bytes = |name| fs::metadata(dir.join(name)).map_or(0, |metadata| metadata.len());
    bytes("journal.db") + bytes("journal.db-wal")
}

/// Submits and ends jobs with large environments.
async fn come_and_go(journal: &Journal, generation: u64, jobs: std::ops::Range<u64>) {
    for job in jobs.clone() {
        let submissions = vec![Submission { launch: vec![3; LAUNCH], ..submission(job) }];
        journal.commit(Batch { submissions, ..accepted(generation, job) }).await.expect("committed");
    }
    let finished = jobs.map(finished).collect();
    journal.commit(Batch { generation, finished, ..Batch::default() }).await.expect("committed");
}

#[test]
fn a_compacted_journal_is_small_and_whole() {
    let dir = tempfile::tempdir().expect("a directory");
    run(async {
        let (journal, Recovered { generation, .. }) = Journal::open(dir.path()).await.expect("a new journal");
        come_and_go(&journal, generation, 1..9).await;
        journal.commit(accepted(generation, 9)).await.expect("committed");
        let before = size(dir.path());
        assert!(before > 8 * LAUNCH as u64);
        let (sizes, between) = tokio::join!(journal.compact(), journal.commit(accepted(generation, 10)));
        between.expect("committed between two steps");
        let sizes = sizes.expect("compacted");
        assert!((before..before + LAUNCH as u64).contains(&sizes.before), "{before} and {sizes:?}");
        assert!(sizes.after < LAUNCH as u64 / 2, "{sizes:?}");
        assert_eq!(size(dir.path()), sizes.after);
        let (journal, recovered) = reopen(journal, dir.path()).await;
        assert_eq!((recovered.entries.len(), recovered.live.len()), (10, 2));
        assert_eq!(journal.finished_job(limo_model::JobId(8)).await.expect("readable"), Some(finished(8)));
        journal.close().await;
    });
}

/// Creates a large file with more than half unused, and makes no requests.
#[test]
fn an_idle_journal_compacts_itself() {
    let dir = tempfile::tempdir().expect("a directory");
    run(async {
        let (journal, Recovered { generation, .. }) = Journal::open(dir.path()).await.expect("a new journal");
        come_and_go(&journal, generation, 1..25).await;
        assert!(size(dir.path()) > 24 * LAUNCH as u64);
        let end = Instant::now() + Duration::from_secs(30);
        let mut clock = tokio::time::interval(Duration::from_millis(20));
        while size(dir.path()) > LAUNCH as u64 {
            assert!(Instant::now() < end, "{} bytes", size(dir.path()));
            clock.tick().await;
        }
        journal.close().await;
    });
}

/// Checks that the journal of a program without compaction is rewritten.
#[test]
fn an_earlier_journal_is_compacted_when_it_is_asked_for() {
    let dir = tempfile::tempdir().expect("a directory");
    run(async {
        let (journal, Recovered { generation, .. }) = Journal::open(dir.path()).await.expect("a new journal");
        come_and_go(&journal, generation, 1..5).await;
        journal.close().await;
        set_back(dir.path(), "PRAGMA user_version = 2").await;
        let options = sqlx::sqlite::SqliteConnectOptions::new().filename(dir.path().join("journal.db"));
        let mut conn =
            options.journal_mode(sqlx::sqlite::SqliteJournalMode::Delete).connect().await.expect("a database");
        sqlx::raw_sql("PRAGMA auto_vacuum = NONE; VACUUM").execute(&mut conn).await.expect("as it was then");
        conn.close().await.expect("closed");
        let (journal, Recovered { generation, .. }) = Journal::open(dir.path()).await.expect("an earlier journal");
        come_and_go(&journal, generation, 5..9).await;
        let sizes = journal.compact().await.expect("compacted");
        assert!(sizes.before > 4 * LAUNCH as u64 && sizes.after < LAUNCH as u64 / 2, "{sizes:?}");
        come_and_go(&journal, generation, 9..13).await;
        let sizes = journal.compact().await.expect("compacted in steps now");
        assert!(sizes.after < LAUNCH as u64 / 2, "{sizes:?}");
        let (journal, recovered) = reopen(journal, dir.path()).await;
        assert_eq!(recovered.entries.len(), 12);
        journal.close().await;
    });
}
