//! Cost of the records of a job: three entries in the log and one that forgets them. Compared with the three files
//! per job of earlier daemons.
//!
//! `cargo bench -p lslave`; the figures are medians over rounds of 1,000 jobs, with intents of 1 KiB.

use std::fs::{self, File};
use std::path::Path;
use std::time::{Duration, Instant};

#[path = "../src/spool/log.rs"]
#[allow(dead_code, reason = "the daemon uses all of it")]
mod log;

use log::Log;

const ROUNDS: usize = 9;
const JOBS: u32 = 1_000;
const INTENT: [u8; 1024] = [7; 1024];
const END: [u8; 64] = [7; 64];

fn main() {
    let dir = tempfile::tempdir().expect("a directory");
    let (mut log, _) = Log::open(&dir.path().join("records")).expect("a log");
    let by_log = median(|| {
        for job in 0..JOBS {
            for entry in [&INTENT[..], &[7; 8], &END] {
                log.append(Some(job), entry).expect("written");
            }
            log.forget(job);
            log.append(None, &[7; 8]).expect("written");
        }
    });
    let by_files = median(|| {
        for job in 0..JOBS {
            write_whole(dir.path(), &format!("{job}.1.intent"), &INTENT);
            File::create(dir.path().join(format!("{job}.1.going"))).expect("made");
            write_whole(dir.path(), &format!("{job}.1.end"), &END);
            for kind in ["intent", "going", "end"] {
                fs::remove_file(dir.path().join(format!("{job}.1.{kind}"))).expect("there");
            }
        }
    });
    let micros = |time: Duration| time.as_secs_f64() * 1e6 / f64::from(JOBS);
    println!("records of a job in a log: {:.1} us; {:.1} us an entry", micros(by_log), micros(by_log) / 4.0);
    println!("records of a job in files: {:.1} us", micros(by_files));
}

fn median(mut round: impl FnMut()) -> Duration {
    let mut times: Vec<Duration> = Vec::new();
    for _ in 0..ROUNDS {
        let begin = Instant::now();
        round();
        times.push(begin.elapsed());
    }
    times.sort_unstable();
    times[ROUNDS / 2]
}

/// Writes a file atomically, as earlier daemons did.
fn write_whole(dir: &Path, name: &str, bytes: &[u8]) {
    let unfinished = dir.join(format!("{name}.tmp"));
    fs::write(&unfinished, bytes).and_then(|()| fs::rename(&unfinished, dir.join(name))).expect("written");
}
