//! A process is repeatedly killed with SIGKILL during its commits: acknowledged batches are on disk, without gaps.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use limo_journal::Journal;

use crate::{accepted, entry, run, submission};

const DIR: &str = "LIMO_JOURNAL_KILL_DIR";
const ROUNDS: u64 = 12;
/// Number of submitters: enough that a transaction holds several batches, and that batches wait while it is written.
const SUBMITTERS: u64 = 24;

/// Runs in the child process that the other test starts and kills; does nothing by itself.
#[test]
fn the_one_that_is_killed() {
    let Some(dir) = std::env::var_os(DIR).map(PathBuf::from) else { return };
    run(async {
        let (journal, recovered) = Journal::open(&dir).await.expect("the journal opens");
        let journal = Arc::new(journal);
        let mut tasks = tokio::task::JoinSet::new();
        let mut job = recovered.entries.len() as u64;
        loop {
            while tasks.len() < SUBMITTERS as usize {
                job += 1;
                let (mine, pending) = (job, journal.commit(accepted(recovered.generation, job)));
                tasks.spawn(async move { pending.await.map(|_| mine) });
            }
            let acknowledged = tasks.join_next().await.expect("a task").expect("no panic").expect("committed");
            writeln!(std::io::stdout(), "acknowledged {acknowledged}").expect("the parent reads");
        }
    });
}

fn start(dir: &Path) -> Child {
    Command::new(std::env::current_exe().expect("a test program"))
        .args(["--exact", "kill::the_one_that_is_killed", "--nocapture"])
        .env(DIR, dir)
        .stdout(Stdio::piped())
        .spawn()
        .expect("the child starts")
}

/// Lets the child commit until it has acknowledged `enough`, and kills it. Returns everything that it acknowledged.
fn kill_after(dir: &Path, enough: usize) -> Vec<u64> {
    let mut child = start(dir);
    let output = BufReader::new(child.stdout.take().expect("a pipe"));
    let mut acknowledged = Vec::new();
    for line in output.lines() {
        let line = line.expect("text");
        if let Some((_, number)) = line.split_once("acknowledged ") {
            acknowledged.push(number.parse().expect("a number"));
        }
        if acknowledged.len() == enough {
            child.kill().expect("killed");
        }
        // Output from before the kill is still in the pipe, and counts.
    }
    child.wait().expect("dead");
    acknowledged
}

#[test]
fn acknowledged_batches_survive_kill_9_at_any_time() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut before = 0;
    for round in 0..ROUNDS {
        // The kills come at different instants: from right after the start to some hundred commits later.
        let enough = [1, 3, 17, 40, 95, 160][round as usize % 6];
        let acknowledged = kill_after(dir.path(), enough);
        assert!(acknowledged.len() >= enough, "the child died by itself after {}", acknowledged.len());
        run(async {
            let (journal, recovered) = Journal::open(dir.path()).await.expect("the journal opens after the kill");
            let count = recovered.entries.len() as u64;
            let newest = acknowledged.iter().max().expect("at least one");
            assert!(*newest > before && count >= *newest, "round {round}: {newest} acknowledged, {count} on disk");
            assert_eq!(recovered.entries, (1..=count).map(entry).collect::<Vec<_>>(), "round {round}");
            assert_eq!(recovered.live, (1..=count).map(submission).collect::<Vec<_>>(), "round {round}");
            before = count;
            journal.close().await;
        });
    }
}
