//! Owners come to their machines and leave at random, while the master and the nodes are killed at random. Every job
//! completes exactly once, and stands still or is gone in time for each owner.
//!
//! `LIMO_OWNERS` is the number of arrivals, such as 1000; by default 50. `LIMO_SEED` repeats the choices of a run.

mod desk;
mod failures;
mod notes;
mod recorded;
mod work;

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use limo_tests::{Cluster, Dice, Setup};

use desk::Desk;
use failures::Failures;
use notes::{Bounds, Notes};
use work::Work;

const ARRIVALS: u64 = 50;

const DESKS: [&str; 4] = ["n1", "n2", "n3", "n4"];

/// Time without a key after which an owner is away.
const AWAY_AFTER: Duration = Duration::from_millis(300);

/// Time for which a job is suspended until it is evicted.
const EVICT_AFTER: Duration = Duration::from_secs(1);

/// Time from TERM to KILL.
const GRACE: Duration = Duration::from_millis(500);

/// Lets a chosen time pass.
fn pause(time: Duration) {
    thread::sleep(time);
}

fn start(directory: &Path) -> Cluster {
    let settings = directory.join("lmaster.toml");
    let [evict_after, grace, away_after] =
        [EVICT_AFTER, GRACE, AWAY_AFTER].map(|time| format!("{}ms", time.as_millis()));
    let rules = format!("jobs = \"suspend\", start_after = \"200ms\", evict_after = \"{evict_after}\"");
    fs::write(&settings, format!("[group.desks]\nnodes = [\"n[1-4]\"]\nowners = {{ {rules} }}\n")).expect("written");
    let master = ["--kill-grace", &grace, "--config", settings.to_str().expect("text")];
    let mut setup = Setup::default().master(&master);
    for name in DESKS {
        let dev = directory.join(name);
        let options = ["--cpus", "2", "--owner", "input", "--owner-away-after", &away_after, "--dev"];
        setup = setup.node(name, &[&options[..], &[dev.to_str().expect("text")]].concat());
    }
    setup.start()
}

#[test]
fn jobs_complete_exactly_once_beside_owners_who_come_at_random() {
    let long = std::env::var("LIMO_OWNERS").ok();
    let arrivals = long.as_ref().map_or(ARRIVALS, |text| text.parse().expect("LIMO_OWNERS is a number"));
    let bounds = if long.is_some() { Bounds::QUIET } else { Bounds::BUSY };
    let mut dice = Dice::from_env("LIMO_SEED");
    let directory = tempfile::tempdir().expect("a directory");
    let mut desks: Vec<Desk> = DESKS.map(|name| Desk::new(name, directory.path(), dice.next_u64())).into();
    let mut cluster = start(directory.path());
    let (work, notes) = (Work::new(cluster.submitter().clone()), Notes::default());
    let (begin, left) = (Instant::now(), AtomicU64::new(arrivals));
    let mut failures = Failures::new(&mut cluster, &notes);
    thread::scope(|scope| {
        let ending = work.ending();
        scope.spawn(|| work.go_on());
        let owners: Vec<_> = desks.iter_mut().map(|desk| scope.spawn(|| desk.visits(&left, &work, &notes))).collect();
        while !owners.iter().all(thread::ScopedJoinHandle::is_finished) {
            failures.one(&mut dice);
            println!("{} arrivals to come after {:.0?}", left.load(Ordering::Relaxed), begin.elapsed());
        }
        drop(ending);
    });
    println!("{}", failures.summary());
    work.check(&notes);
    notes.check(arrivals, bounds);
}
