//! The master is killed at random instants under load. No accepted job is lost, and none runs twice. An `lrun` that
//! was connected before gets its whole output once.
//!
//! `LIMO_KILLS` sets the number of kills, `LIMO_SEED` repeats the instants of a run.

use std::thread;
use std::time::Duration;

use limo_tests::{Cluster, Dice, Ledger, Load, Ran, Setup, Submitter, Torrent, finish, until};

const KILLS: u64 = 50;

/// Time from the submission of a job to its end, so that kills hit each step.
const LONGEST_LIFE: Duration = Duration::from_millis(400);

/// Number of jobs under way: enough to keep every master busy, and few enough to end within seconds.
const BACKLOG: usize = 40;

/// Commands that write the number of the job, at various times of its life.
const JOBS: [&str; 4] = [
    "echo $LIMO_JOB_ID >> ledger",
    "echo $LIMO_JOB_ID >> ledger; sleep 0.1",
    "sleep 0.05; echo $LIMO_JOB_ID >> ledger",
    "sleep 0.1; echo $LIMO_JOB_ID >> ledger; sleep 0.1",
];

#[test]
fn nothing_accepted_is_lost_and_nothing_runs_twice() {
    let mut dice = Dice::from_env("LIMO_SEED");
    let kills = std::env::var("LIMO_KILLS").map_or(KILLS, |text| text.parse().expect("a number"));
    // The master writes a snapshot after few entries, so that some masters start from one.
    let mut cluster = Setup::nodes(2, 4).master(&["--snapshot-every", "200"]).start();
    let submitter = cluster.submitter().clone();
    let load = Load::default();
    let torrent = Torrent::start(&submitter, &[]);
    thread::scope(|scope| {
        let ending = load.ending();
        for shift in 0..3 {
            let (submitter, load) = (&submitter, &load);
            scope.spawn(move || submit(submitter, shift, load));
        }
        let counting = scope.spawn(|| count(&submitter, &load));
        for kill in 1..=kills {
            thread::sleep(dice.up_to(LONGEST_LIFE));
            cluster.kill_master();
            if dice.below(4) == 0 {
                // This master dies while it reads the journal.
                cluster.launch_master();
                thread::sleep(dice.up_to(Duration::from_millis(30)));
                cluster.kill_master();
            }
            cluster.start_master();
            if kill % 50 == 0 {
                println!("{kill} kills, {} jobs accepted", load.count());
            }
        }
        drop(ending);
        let counted = counting.join().expect("it ends");
        assert!(counted > 0, "at least one attached job lived through it");
    });
    torrent.check();
    prove(&cluster, &load.into_accepted());
}

/// Submits jobs until the end of the load. An answer with a number means that the job is accepted.
fn submit(submitter: &Submitter, shift: usize, load: &Load) {
    for round in 0.. {
        let backlog = || load.count().saturating_sub(Ledger::read(submitter, "ledger").count());
        until("the cluster works", || (load.is_over() || backlog() < BACKLOG).then_some(()));
        if load.is_over() {
            return;
        }
        let ran = submitter.lrun(&["--detach", "sh", "-c", JOBS[(shift + round) % JOBS.len()]]);
        match ran.code {
            Some(0) => {
                let job = ran.stdout.trim_end().parse();
                load.accept(job.unwrap_or_else(|_| panic!("no number: {ran:?}")));
            }
            _ => away(&ran),
        }
    }
}

/// Checks that an `lrun` without a master reported the reason and printed nothing.
fn away(ran: &Ran) {
    assert!(ran.code == Some(125) && ran.stdout.is_empty(), "{ran:?}");
    let words = ["cannot connect", "the connection broke", "closed the connection"];
    assert!(words.iter().any(|words| ran.stderr.contains(words)), "{ran:?}");
}

/// Runs attached jobs one after the other, each longer than the life of a master. Returns the number of completed ones.
fn count(submitter: &Submitter, load: &Load) -> u64 {
    let script = "i=0; while [ $i -lt 40 ]; do i=$((i+1)); echo $i; echo e$i >&2; sleep 0.02; done; exit 5";
    let numbers: String = (1..=40).map(|number| format!("{number}\n")).collect();
    let mut counted = 0;
    while !load.is_over() {
        let ran = finish(submitter.spawn_lrun(&["-Q", "sh", "-c", script]));
        if ran.code == Some(5) {
            assert_eq!(ran.stdout, numbers);
            assert_eq!(ran.stderr, numbers.lines().map(|line| format!("e{line}\n")).collect::<String>());
            counted += 1;
        } else {
            away(&ran);
        }
    }
    counted
}

fn prove(cluster: &Cluster, all: &[u64]) {
    let submitter = cluster.submitter();
    until("every job is over", || submitter.jobs().is_empty().then_some(()));
    let ledger = Ledger::read(submitter, "ledger");
    assert_eq!(ledger.twice(), Vec::<u64>::new(), "jobs that ran twice");
    let lost: Vec<_> = all.iter().filter(|&job| !ledger.has(*job)).collect();
    assert!(lost.is_empty(), "jobs that were accepted and did not run: {lost:?}");
    for some in all.chunks(200) {
        for job in submitter.show(some) {
            assert!(job["state"] == "completed" && job["exit_code"] == 0, "{job}");
        }
    }
    assert_eq!(cluster.job_processes(), []);
    println!("{} jobs accepted, each ran once", all.len());
}
