//! The daemon of a node is killed or restarted at random instants while its jobs run and print. No job, no exit code and
//! no byte is lost, and nothing runs twice. A killed shepherd loses its own job only.
//!
//! `LIMO_NODE_KILLS` sets the number of kills, `LIMO_SEED` repeats the instants of a run.

use std::io::{Read, Write};
use std::thread;
use std::time::Duration;

use limo_tests::{Cluster, Dice, Ledger, Load, Process, Setup, Submitter, Torrent, finish, groups, until};
use serde_json::Value;

const KILLS: u64 = 100;

/// Longest time between kills, about that of a job from its submission to its end.
const LONGEST_LIFE: Duration = Duration::from_millis(250);

/// Number of jobs under way: half of them run, and half of them wait.
const BACKLOG: usize = 12;

/// Script that also leaves its group. It writes its number at its start and at its end.
const JOB: &str = "echo $LIMO_JOB_ID >> ledger; setsid sleep 1000 </dev/null >/dev/null 2>&1 & \
                   sleep 0.15; echo $LIMO_JOB_ID >> ends";

/// Numbers that a job with a slow reader prints, in total several windows.
const NUMBERS: u32 = 150_000;

/// Pause of a slow reader.
const PAUSE: Duration = Duration::from_millis(4);

/// Lines of an attached job.
const LINES: u32 = 3_000;

#[test]
fn no_job_and_no_byte_is_lost_when_daemons_are_killed_and_restarted() {
    let mut dice = Dice::from_env("LIMO_SEED");
    let kills = std::env::var("LIMO_NODE_KILLS").map_or(KILLS, |text| text.parse().expect("a number"));
    let mut cluster = Setup::nodes(2, 4).with_groups().start();
    let submitter = cluster.submitter().clone();
    let load = Load::default();
    let torrent = Torrent::start(&submitter, &[]);
    thread::scope(|scope| {
        let ending = load.ending();
        scope.spawn(|| submit(&submitter, &load));
        let counting = scope.spawn(|| count(&submitter, &load));
        let reading = scope.spawn(|| read_slowly(&submitter, &load));
        for kill in 1..=kills {
            let name = ["n1", "n2"][usize::try_from(dice.below(2)).expect("small")];
            thread::sleep(dice.up_to(LONGEST_LIFE));
            if dice.below(4) == 0 {
                assert_eq!(cluster.terminate_node(name).code(), Some(0), "SIGTERM keeps the jobs");
            } else {
                cluster.kill_node(name);
            }
            thread::sleep(dice.up_to(LONGEST_LIFE / 4));
            cluster.start_node(name);
            if dice.below(4) == 0 {
                // This daemon dies while it finds the jobs of the one before.
                thread::sleep(dice.up_to(LONGEST_LIFE / 4));
                cluster.kill_node(name);
                cluster.start_node(name);
            }
            cluster.await_node(name);
            if kill % 50 == 0 {
                println!("{kill} kills, {} jobs accepted", load.count());
            }
        }
        drop(ending);
        let (counted, read) = (counting.join().expect("it ends"), reading.join().expect("it ends"));
        println!("{counted} attached jobs, {read} with a slow reader");
        assert!(counted > 0, "at least one attached job lived through it");
    });
    torrent.check();
    until("every job is over", || submitter.jobs().is_empty().then_some(()));
    prove(&cluster, &load.into_accepted());
}

fn submit(submitter: &Submitter, load: &Load) {
    loop {
        until("the cluster works", || (load.is_over() || submitter.jobs().len() < BACKLOG).then_some(()));
        if load.is_over() {
            return;
        }
        load.accept(submitter.detach(&["sh", "-c", JOB]));
    }
}

/// Runs attached jobs one after the other. Each reads its stdin, prints much and has its own exit code. Returns their
/// number.
fn count(submitter: &Submitter, load: &Load) -> u64 {
    let script = format!(
        "read line; i=0; while [ $i -lt {LINES} ]; do i=$((i+1)); echo $i $line; [ $((i%100)) -eq 0 ] && \
         {{ echo e$i >&2; sleep 0.01; }}; done; exit $line"
    );
    let errors: String = (1..=LINES).filter(|i| i % 100 == 0).map(|i| format!("e{i}\n")).collect();
    let mut counted = 0;
    while !load.is_over() {
        let code = i32::try_from(counted % 100 + 1).expect("small");
        let mut lrun = submitter.spawn_lrun(&["-Q", "sh", "-c", &script]);
        let stdin = lrun.stdin.take().expect("piped");
        (&stdin).write_all(format!("{code}\n").as_bytes()).expect("lrun reads");
        drop(stdin);
        let ran = finish(lrun);
        assert_eq!(ran.code, Some(code), "{}", ran.stderr);
        assert_eq!(ran.stdout, (1..=LINES).map(|i| format!("{i} {code}\n")).collect::<String>());
        assert_eq!(ran.stderr, errors);
        counted += 1;
    }
    counted
}

/// Reads the output of jobs slowly, so that a whole window of it is always under way. Returns the number of jobs.
fn read_slowly(submitter: &Submitter, load: &Load) -> u64 {
    let expected: String = (1..=NUMBERS).map(|number| format!("{number}\n")).collect();
    let (mut count, mut buffer) = (0, [0; 8 << 10]);
    while !load.is_over() {
        let mut lrun = submitter.spawn_lrun(&["-Q", "sh", "-c", &format!("seq 1 {NUMBERS}; exit 4")]);
        let (mut stdout, mut output) = (lrun.stdout.take().expect("piped"), Vec::new());
        loop {
            match stdout.read(&mut buffer).expect("lrun writes") {
                0 => break,
                length => output.extend_from_slice(&buffer[..length]),
            }
            thread::sleep(PAUSE);
        }
        assert_eq!(finish(lrun).code, Some(4));
        assert!(output == expected.as_bytes(), "{} bytes instead of {}", output.len(), expected.len());
        count += 1;
    }
    count
}

fn prove(cluster: &Cluster, all: &[u64]) {
    let submitter = cluster.submitter();
    let (begins, ends) = (Ledger::read(submitter, "ledger"), Ledger::read(submitter, "ends"));
    assert_eq!(begins.twice(), Vec::<u64>::new(), "jobs that ran twice");
    let jobs: Vec<Value> = all.chunks(200).flat_map(|some| submitter.show(some)).collect();
    for (job, id) in jobs.iter().zip(all) {
        assert!(job["state"] == "completed" && job["exit_code"] == 0, "{job}");
        assert!(begins.has(*id) && ends.has(*id), "{job}");
    }
    println!("{} jobs accepted, none of them lost", all.len());
    assert_eq!(cluster.job_processes(), [], "nothing of any job lives");
    for subtree in ["n1", "n2"].iter().filter_map(|name| groups::of(&cluster.node_state(name)).ok()) {
        until("the control groups of all jobs are removed", || subtree.names().ok()?.is_empty().then_some(()));
    }
}

#[test]
fn an_lrun_whose_shepherd_is_killed_says_that_the_job_is_lost() {
    let mut cluster = Cluster::of_one_node(1);
    let submitter = cluster.submitter().clone();
    let lrun = submitter.spawn_lrun(&["sh", "-c", "echo $LIMO_JOB_ID >> ledger; sleep 1000"]);
    let has_begun = |left: &Vec<Process>| left.iter().any(|process| process.is_called("sleep"));
    until("the job runs", || Some(cluster.job_processes()).filter(has_begun));
    until("the master knows", || (submitter.state(1) == "running").then_some(()));
    let waiting = submitter.detach(&["sh", "-c", "echo $LIMO_JOB_ID >> ledger"]);
    cluster.kill_node("n1");
    until("the master misses it", || (cluster.node_report("n1")?["state"] == "unreachable").then_some(()));
    assert_eq!(submitter.state(1), "running", "its node may come back with it");
    cluster.kill_shepherds("n1");
    cluster.start_node("n1");
    let ran = finish(lrun);
    assert!(ran.code == Some(125) && ran.stderr.contains("lost"), "{ran:?}");
    assert_eq!(submitter.state(1), "lost");
    assert_eq!(submitter.wait(waiting), Some(0));
    assert_eq!(submitter.read("ledger"), format!("1\n{waiting}\n"));
    assert_eq!(cluster.job_processes(), []);
}

/// A node may be away for longer than a job runs.
#[test]
fn an_lrun_gets_the_end_of_a_job_that_ended_without_a_daemon() {
    let mut cluster = Cluster::of_one_node(1);
    let submitter = cluster.submitter().clone();
    let lrun =
        submitter.spawn_lrun(&["-Q", "sh", "-c", "echo a; touch began; read line; echo $line; touch over; exit 9"]);
    until("the job runs", || submitter.directory.join("began").exists().then_some(()));
    cluster.kill_node("n1");
    let mut stdin = lrun.stdin.as_ref().expect("piped");
    stdin.write_all(b"b\n").expect("lrun reads");
    cluster.start_node("n1");
    until("the job is over", || submitter.directory.join("over").exists().then_some(()));
    let ran = finish(lrun);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(9), "a\nb\n"), "{ran:?}");
}
