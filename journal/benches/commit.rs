//! Commits per second that the journal acknowledges, compared with the raw rate of the disk: appending 4 KiB with
//! fdatasync to a file in the same directory. Rates depend on the machine, so only ratios can be compared.
//!
//! `cargo bench -p limo-journal [-- DIR]`; without DIR a temporary directory is used, which may be on another disk.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use limo_journal::{Batch, Entry, Journal, Submission};
use limo_model::{JobId, Time};
use limo_sched::Event;

/// Duration of a measurement: long enough for some hundred fdatasyncs of a slow disk.
const MEASURED: Duration = Duration::from_secs(3);

fn main() {
    // Cargo passes `--bench` to a bench without a harness.
    let dir = std::env::args().skip(1).find(|argument| !argument.starts_with("--")).map(PathBuf::from);
    let temporary = tempfile::tempdir().expect("a temporary directory");
    let dir = dir.unwrap_or_else(|| temporary.path().to_owned());
    let raw = raw_rate(&dir);
    println!("append of 4 KiB + fdatasync    {raw:9.0} /s");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    for submitters in [1, 16, 256] {
        let place = tempfile::tempdir_in(&dir).expect("a directory");
        let (rate, wait) = runtime.block_on(commit_rate(place.path(), submitters));
        let ratio = rate / raw;
        println!("commits, {submitters:4} submitters       {rate:9.0} /s  {ratio:7.2} x raw, mean wait {wait:.1?}");
    }
}

fn raw_rate(dir: &Path) -> f64 {
    let path = dir.join("raw-append");
    let mut file = OpenOptions::new().create(true).append(true).open(&path).expect("writable");
    let (begin, mut count) = (Instant::now(), 0);
    while begin.elapsed() < MEASURED {
        file.write_all(&[7; 4096]).expect("writable");
        file.sync_data().expect("synced");
        count += 1;
    }
    let rate = f64::from(count) / begin.elapsed().as_secs_f64();
    std::fs::remove_file(path).expect("removed");
    rate
}

/// Returns the acknowledged commits per second, and the mean wait for one, with `submitters` that each wait for their
/// last commit.
async fn commit_rate(dir: &Path, submitters: u64) -> (f64, Duration) {
    let (journal, recovered) = Journal::open(dir).await.expect("a new journal");
    let (journal, jobs) = (Arc::new(journal), Arc::new(AtomicU64::new(1)));
    let begin = Instant::now();
    let mut tasks = Vec::new();
    for _ in 0..submitters {
        let (journal, jobs, generation) = (Arc::clone(&journal), Arc::clone(&jobs), recovered.generation);
        tasks.push(async move {
            while begin.elapsed() < MEASURED {
                let job = jobs.fetch_add(1, Ordering::Relaxed);
                journal.commit(submission(generation, job)).await.expect("committed");
            }
        });
    }
    let local = tokio::task::LocalSet::new();
    for task in tasks {
        local.spawn_local(task);
    }
    local.await;
    let (elapsed, count) = (begin.elapsed(), jobs.load(Ordering::Relaxed) - 1);
    let wait = elapsed.as_secs_f64() * submitters as f64 / count as f64;
    (count as f64 / elapsed.as_secs_f64(), Duration::from_secs_f64(wait))
}

/// Makes a batch with two rows, like an accepted job.
fn submission(generation: u64, job: u64) -> Batch {
    let event = Event::CancelRequested { job: JobId(job), by: "x".repeat(400) };
    let mut key = [0; 16];
    key[..8].copy_from_slice(&job.to_le_bytes());
    Batch {
        generation,
        entries: vec![(Time::from_unix_ms(0), Entry::Event(event))],
        submissions: vec![Submission { job: JobId(job), key, uid: 1000, launch: vec![1; 2000] }],
        ..Batch::default()
    }
}
