//! A really full disk: a small tmpfs, which only root can mount.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use limo_journal::{
    BALLAST_BYTES, BallastError, Batch, CommitError, Journal, NoRoom, OpenError, Opening, Recovered, Submission,
};

use limo_model::JobId;
use limo_requirements::SmallDisk;

use crate::{accepted, entry, finished, reopen, run, submission};

fn state_dir(disk: &SmallDisk) -> PathBuf {
    disk.path().join("state")
}

fn large(generation: u64, job: u64) -> Batch {
    let submissions = vec![Submission { launch: vec![3; 200 << 10], ..submission(job) }];
    Batch { submissions, ..accepted(generation, job) }
}

/// Commits jobs until one is refused; returns the number of accepted ones, and the reason.
async fn until_refused(journal: &Journal, generation: u64, first: u64) -> (u64, CommitError) {
    for job in first.. {
        if let Err(error) = journal.commit(large(generation, job)).await {
            return (job - 1, error);
        }
    }
    unreachable!("the disk is small")
}

/// Makes a batch with a finished job.
fn ended(generation: u64, job: u64) -> Batch {
    Batch { finished: vec![finished(job)], ..accepted(generation, job) }
}

fn entries_up_to(count: u64) -> Vec<(limo_model::Time, limo_journal::Entry)> {
    (1..=count).map(entry).collect()
}

#[test]
fn new_jobs_are_to_stop_before_the_disk_is_full() {
    let Some(disk) = SmallDisk::mount(64 << 20) else { return };
    run(async {
        let (journal, Recovered { generation, .. }) = Journal::open(&state_dir(&disk)).await.expect("a new journal");
        let mut jobs = 0;
        let no_room = loop {
            jobs += 1;
            if let Some(no_room) = journal.commit(large(generation, jobs)).await.expect("committed") {
                break no_room;
            }
        };
        assert!(jobs > 5 && no_room.free < no_room.needed && no_room.needed == 8 << 20, "{jobs}: {no_room:?}");
        assert!(journal.has_ballast(), "the disk is not full");
        let still = journal.restore_ballast().await;
        assert!(matches!(still, Err(BallastError::NoRoom(_))), "{still:?}");
        // The space of their launches is reused, and counts as free although the file keeps it.
        for (seq, job) in (jobs + 1..).zip(1..=jobs) {
            let batch =
                Batch { generation, entries: vec![entry(seq)], finished: vec![finished(job)], ..Batch::default() };
            journal.commit(batch).await.expect("ends are still written");
        }
        journal.restore_ballast().await.expect("there is room for new jobs");
        let next = 2 * jobs + 1;
        assert_eq!(journal.commit(large(generation, next)).await, Ok(None));
        journal.close().await;
    });
}

#[test]
fn a_full_disk_refuses_new_jobs_but_not_the_ends_of_old_ones() {
    let Some(disk) = SmallDisk::mount(8 << 20) else { return };
    run(async {
        let (journal, Recovered { generation, .. }) = Journal::open(&state_dir(&disk)).await.expect("a new journal");
        assert!(journal.has_ballast());
        for job in 1..=5 {
            journal.commit(accepted(generation, job)).await.expect("committed");
        }
        disk.fill();
        let (count, error) = until_refused(&journal, generation, 6).await;
        assert!(matches!(error, CommitError::Full { .. }), "{error}");
        assert!(!journal.has_ballast() && !state_dir(&disk).join("ballast").exists());
        assert_eq!(journal.commit(accepted(generation, 99)).await, Err(CommitError::Stale { batch: generation }));

        let recovered = journal.recover().await.expect("the ballast gave room");
        assert_eq!(recovered.entries, entries_up_to(count));
        let refused = journal.restore_ballast().await;
        assert!(
            matches!(refused, Err(BallastError::NoRoom(NoRoom { free, .. })) if free < 2 * BALLAST_BYTES),
            "{refused:?}"
        );
        let mut ended = 0;
        for job in 1..=5 {
            let batch = Batch {
                generation: recovered.generation,
                entries: vec![entry(count + job)],
                finished: vec![finished(job)],
                ..Batch::default()
            };
            journal.commit(batch).await.expect("the end of a job fits into the room of the ballast");
            ended += 1;
        }

        disk.make_room();
        journal.restore_ballast().await.expect("there is room again");
        assert!(journal.has_ballast());
        let next = count + ended + 1;
        journal.commit(large(recovered.generation, next)).await.expect("new jobs are accepted again");
        let (journal, recovered) = reopen(journal, &state_dir(&disk)).await;
        assert_eq!(recovered.entries, entries_up_to(next));
        assert_eq!(recovered.live.len() as u64, next - 2 * ended);
        journal.close().await;
    });
}

/// Checks a journal that cannot be written: it can be read, and continues once there is space.
async fn check_read_only(journal: Journal, disk: &SmallDisk, (count, recovered): (u64, Recovered)) {
    assert!(recovered.read_only.as_ref().is_some_and(|reason| reason.contains("full")), "{:?}", recovered.read_only);
    assert_eq!(recovered.entries, entries_up_to(count));
    assert_eq!(journal.finished_job(JobId(1)).await.expect("it can be asked"), Some(finished(1)));
    assert!(journal.commit(accepted(recovered.generation, count + 1)).await.is_err());
    assert!(journal.recover().await.expect("it can be read").read_only.is_some());
    disk.make_room();
    assert!(journal.recover().await.expect("readable").read_only.is_some(), "not before the ballast is back");
    journal.restore_ballast().await.expect("there is room");
    let recovered = journal.recover().await.expect("there is room");
    assert_eq!((recovered.read_only, recovered.entries), (None, entries_up_to(count)));
    journal.commit(accepted(recovered.generation, count + 1)).await.expect("it is written again");
    assert_eq!(journal.finished_job(JobId(1)).await.expect("it can be asked"), Some(finished(1)));
    let (journal, recovered) = reopen(journal, &state_dir(disk)).await;
    assert_eq!(recovered.entries, entries_up_to(count + 1));
    journal.close().await;
}

#[test]
fn a_journal_that_has_used_up_the_ballast_is_read_only_and_loses_nothing() {
    let Some(disk) = SmallDisk::mount(8 << 20) else { return };
    run(async {
        let (journal, mut recovered) = Journal::open(&state_dir(&disk)).await.expect("a new journal");
        journal.commit(ended(recovered.generation, 1)).await.expect("committed");
        disk.fill();
        let mut count = 1;
        while recovered.read_only.is_none() {
            let (accepted, error) = until_refused(&journal, recovered.generation, count + 1).await;
            assert!(matches!(error, CommitError::Full { .. }), "{error}");
            count = accepted;
            disk.fill();
            recovered = journal.recover().await.expect("it can be read");
        }
        check_read_only(journal, &disk, (count, recovered)).await;
    });
}

#[test]
fn a_journal_that_is_opened_without_any_room_is_read_only_and_loses_nothing() {
    let Some(disk) = SmallDisk::mount(8 << 20) else { return };
    run(async {
        let (journal, recovered) = Journal::open(&state_dir(&disk)).await.expect("a new journal");
        journal.commit(ended(recovered.generation, 1)).await.expect("committed");
        journal.close().await;
        fs::remove_file(state_dir(&disk).join("ballast")).expect("removed");
        disk.fill();
        let (journal, recovered) = Journal::open(&state_dir(&disk)).await.expect("it can be read");
        check_read_only(journal, &disk, (1, recovered)).await;
    });
}

/// Makes a directory read-only for files opened by path, until it is dropped.
struct Cover(PathBuf);

impl Cover {
    fn over(dir: PathBuf) -> Self {
        let run = |command: &mut Command| assert!(command.arg(&dir).status().expect("mount runs").success());
        run(Command::new("mount").arg("--bind").arg(&dir));
        run(Command::new("mount").args(["-o", "remount,bind,ro"]));
        Self(dir)
    }
}

impl Drop for Cover {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

/// Fills the disk first. The kernel does not make a file system read-only while a file on it is open for writing, and
/// the journal closes its files when the disk is full.
#[test]
fn a_journal_on_a_read_only_disk_can_be_read_and_continues_when_it_is_writable() {
    let Some(disk) = SmallDisk::mount(8 << 20) else { return };
    run(async {
        let (journal, Recovered { generation, .. }) = Journal::open(&state_dir(&disk)).await.expect("a new journal");
        disk.fill();
        let (count, _) = until_refused(&journal, generation, 1).await;
        disk.make_room();
        let cover = Cover::over(state_dir(&disk));
        let recovered = journal.recover().await.expect("it can be read");
        let reason = recovered.read_only.expect("it cannot be written");
        assert!(reason.starts_with("the disk under the journal is read-only: "), "{reason}");
        assert_eq!(recovered.entries, entries_up_to(count));
        assert!(matches!(journal.restore_ballast().await, Err(BallastError::Write { .. })));
        drop(cover);
        journal.restore_ballast().await.expect("it is writable");
        let recovered = journal.recover().await.expect("it is writable");
        assert_eq!((recovered.read_only, recovered.entries), (None, entries_up_to(count)));
        journal.commit(accepted(recovered.generation, count + 1)).await.expect("it is writable");
    });
}

/// Checks that the message names the write that must come before any read.
#[test]
fn a_new_or_restored_journal_is_refused_on_a_full_disk() {
    let Some(disk) = SmallDisk::mount(8 << 20) else { return };
    run(async {
        let (journal, _) = Journal::open(&state_dir(&disk)).await.expect("a new journal");
        journal.close().await;
        fs::remove_file(state_dir(&disk).join("ballast")).expect("removed");
        disk.fill();
        let error = Journal::open_as(&state_dir(&disk), Opening { restored: true, cluster: None })
            .await
            .map(|_| ())
            .expect_err("no room");
        assert!(matches!(error, OpenError::FullAndUnwritten { .. }), "{error}");
        fs::remove_file(state_dir(&disk).join("journal.db")).expect("removed");
        disk.fill();
        let error = Journal::open(&state_dir(&disk)).await.map(|_| ()).expect_err("no room");
        assert!(matches!(error, OpenError::Full { .. } | OpenError::FullAndUnwritten { .. }), "{error}");
    });
}

#[test]
fn a_master_comes_back_on_a_full_disk_with_the_room_of_the_ballast() {
    let Some(disk) = SmallDisk::mount(8 << 20) else { return };
    run(async {
        let (journal, Recovered { generation, .. }) = Journal::open(&state_dir(&disk)).await.expect("a new journal");
        for job in 1..=5 {
            journal.commit(accepted(generation, job)).await.expect("committed");
        }
        journal.close().await;
        disk.fill();
        let (journal, recovered) = Journal::open(&state_dir(&disk)).await.expect("the ballast gave room");
        assert_eq!(recovered.entries, entries_up_to(5));
        assert!(!journal.has_ballast());
        let end = Batch { generation: recovered.generation, finished: vec![finished(1)], ..Batch::default() };
        journal.commit(end).await.expect("ends fit");
        journal.close().await;
    });
}
