//! A copy of the journal is complete, can be made during writes, and can replace it.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use limo_journal::{BackupError, Journal};

use crate::{accepted, run};

#[test]
fn a_copy_that_is_made_under_load_opens_with_a_prefix_of_the_jobs() {
    run(async {
        let dir = tempfile::tempdir().expect("a directory");
        let elsewhere = tempfile::tempdir().expect("a directory");
        let (journal, recovered) = Journal::open(dir.path()).await.expect("a journal");
        for job in 1..=50 {
            journal.commit(accepted(recovered.generation, job)).await.expect("committed");
        }
        let pending: Vec<_> = (51..=200).map(|job| journal.commit(accepted(recovered.generation, job))).collect();
        journal.backup(&elsewhere.path().join("journal.db")).await.expect("there is room");
        for pending in pending {
            pending.await.expect("committed");
        }
        journal.close().await;
        let (copy, recovered) = Journal::open(elsewhere.path()).await.expect("a journal");
        let jobs: Vec<u64> = recovered.live.iter().map(|live| live.job.0).collect();
        assert!(jobs.len() >= 50 && recovered.entries.len() == jobs.len(), "{}", jobs.len());
        assert_eq!(jobs, (1..=jobs.len() as u64).collect::<Vec<_>>());
        copy.close().await;
    });
}

#[test]
fn a_copy_overwrites_nothing() {
    run(async {
        let dir = tempfile::tempdir().expect("a directory");
        let (journal, _) = Journal::open(dir.path()).await.expect("a journal");
        let place = dir.path().join("mine");
        fs::write(&place, "do not touch").expect("writable");
        fs::set_permissions(&place, fs::Permissions::from_mode(0o600)).expect("own file");
        let refused = journal.backup(&place).await;
        assert!(matches!(refused, Err(BackupError::Database { .. })), "{refused:?}");
        journal.close().await;
    });
}
