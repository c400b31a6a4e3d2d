//! A disk that is really full: a small tmpfs, which only root can mount.

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::Command;

use limo_journal::{BALLAST_BYTES, BallastError, Batch, CommitError, Journal, OpenError, Recovered, Submission};

use crate::{accepted, entry, finished, reopen, run, submission};

struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    /// `None`, with the reason printed, where this process may not mount.
    fn mount() -> Option<Self> {
        let dir = tempfile::tempdir().expect("a directory");
        let output = Command::new("mount").args(["-t", "tmpfs", "-o", "size=8m", "limo-test"]).arg(dir.path()).output();
        match output {
            Ok(output) if output.status.success() => Some(Self(dir)),
            Ok(output) => {
                eprintln!("skipped: cannot mount a tmpfs: {}", String::from_utf8_lossy(&output.stderr).trim());
                None
            }
            Err(error) => {
                eprintln!("skipped: cannot run mount: {error}");
                None
            }
        }
    }

    fn state_dir(&self) -> PathBuf {
        self.0.path().join("state")
    }

    /// Writes a file until nothing more fits, and returns its path.
    fn fill(&self) -> PathBuf {
        let path = self.0.path().join("filler");
        let mut file = fs::OpenOptions::new().create(true).append(true).open(&path).expect("writable");
        for size in [64 << 10, 4096, 1] {
            while file.write_all(&vec![1; size]).is_ok() {}
        }
        path
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Lazily: a test that failed may still have files open.
        let _ = Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}

fn large(generation: u64, job: u64) -> Batch {
    let submissions = vec![Submission { launch: vec![3; 200 << 10], ..submission(job) }];
    Batch { submissions, ..accepted(generation, job) }
}

/// Commits jobs until one is refused; how many were accepted, and why not one more.
async fn until_refused(journal: &Journal, generation: u64, first: u64) -> (u64, CommitError) {
    for job in first.. {
        if let Err(error) = journal.commit(large(generation, job)).await {
            return (job - 1, error);
        }
    }
    unreachable!("the disk is small")
}

fn entries_up_to(count: u64) -> Vec<(limo_model::Time, limo_journal::Entry)> {
    (1..=count).map(entry).collect()
}

#[test]
fn a_full_disk_refuses_new_jobs_but_not_the_ends_of_old_ones() {
    let Some(disk) = SmallDisk::mount() else { return };
    run(async {
        let (journal, Recovered { generation, .. }) = Journal::open(&disk.state_dir()).await.expect("a new journal");
        assert!(journal.has_ballast());
        for job in 1..=5 {
            journal.commit(accepted(generation, job)).await.expect("committed");
        }
        let filler = disk.fill();
        let (count, error) = until_refused(&journal, generation, 6).await;
        assert!(matches!(error, CommitError::Full { .. }), "{error}");
        assert!(!journal.has_ballast() && !disk.state_dir().join("ballast").exists());
        assert_eq!(journal.commit(accepted(generation, 99)).await, Err(CommitError::Stale { batch: generation }));

        let recovered = journal.recover().await.expect("the ballast gave room");
        assert_eq!(recovered.entries, entries_up_to(count));
        let refused = journal.restore_ballast().await;
        assert!(matches!(refused, Err(BallastError::NoRoom { free, .. }) if free < 2 * BALLAST_BYTES), "{refused:?}");
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

        fs::remove_file(filler).expect("removed");
        journal.restore_ballast().await.expect("there is room again");
        assert!(journal.has_ballast());
        let next = count + ended + 1;
        journal.commit(large(recovered.generation, next)).await.expect("new jobs are accepted again");
        let (journal, recovered) = reopen(journal, &disk.state_dir()).await;
        assert_eq!(recovered.entries, entries_up_to(next));
        assert_eq!(recovered.live.len() as u64, next - 2 * ended);
        journal.close().await;
    });
}

/// The last room goes too. What was accepted is still there once somebody has made room.
#[test]
fn nothing_accepted_is_lost_when_even_the_ballast_is_used_up() {
    let Some(disk) = SmallDisk::mount() else { return };
    run(async {
        let (journal, Recovered { mut generation, .. }) =
            Journal::open(&disk.state_dir()).await.expect("a new journal");
        let mut count = 0;
        let filler = disk.fill();
        for _ in 0..3 {
            let (accepted, error) = until_refused(&journal, generation, count + 1).await;
            assert!(matches!(error, CommitError::Full { .. }), "{error}");
            count = accepted;
            disk.fill();
            match journal.recover().await {
                Ok(recovered) => generation = recovered.generation,
                Err(error) => {
                    assert!(error.to_string().contains("full"), "{error}");
                    break;
                }
            }
        }
        journal.close().await;
        disk.fill();
        let error = Journal::open(&disk.state_dir()).await.map(|_| ()).expect_err("there is no room at all");
        assert!(matches!(error, OpenError::Full { .. }), "{error}");
        fs::remove_file(&filler).expect("removed");
        let (journal, recovered) = Journal::open(&disk.state_dir()).await.expect("there is room again");
        assert_eq!(recovered.entries, entries_up_to(count));
        assert!(journal.has_ballast());
        journal.close().await;
    });
}

#[test]
fn a_master_comes_back_on_a_full_disk_with_the_room_of_the_ballast() {
    let Some(disk) = SmallDisk::mount() else { return };
    run(async {
        let (journal, Recovered { generation, .. }) = Journal::open(&disk.state_dir()).await.expect("a new journal");
        for job in 1..=5 {
            journal.commit(accepted(generation, job)).await.expect("committed");
        }
        journal.close().await;
        disk.fill();
        let (journal, recovered) = Journal::open(&disk.state_dir()).await.expect("the ballast gave room");
        assert_eq!(recovered.entries, entries_up_to(5));
        assert!(!journal.has_ballast());
        let end = Batch { generation: recovered.generation, finished: vec![finished(1)], ..Batch::default() };
        journal.commit(end).await.expect("ends fit");
        journal.close().await;
    });
}
