//! The daemon of a node is killed at random instants while it runs jobs. These jobs are reported lost, do not run
//! again, and leave no process behind. The waiting jobs run afterwards.
//!
//! `LIMO_NODE_KILLS` sets the number of kills, `LIMO_SEED` repeats the instants of a run.

use std::thread;
use std::time::Duration;

use limo_tests::{Cluster, Dice, Process, Setup, Submitter, finish, until};
use serde_json::Value;

use crate::ledger::Ledger;
use crate::load::Load;

const KILLS: u64 = 20;

/// Longest time between kills, about that of a job from its submission to its end.
const LONGEST_LIFE: Duration = Duration::from_millis(600);

/// Number of jobs: half of them run, and half of them wait.
const BACKLOG: usize = 12;

/// Script that also leaves its group. It writes its number at its start and at its end.
const JOB: &str = "echo $LIMO_JOB_ID >> ledger; setsid sleep 1000 </dev/null >/dev/null 2>&1 & \
                   sleep 0.25; echo $LIMO_JOB_ID >> ends";

#[test]
fn jobs_of_a_killed_daemon_are_lost_and_do_not_run_again() {
    let mut dice = Dice::from_env("LIMO_SEED");
    let kills = std::env::var("LIMO_NODE_KILLS").map_or(KILLS, |text| text.parse().expect("a number"));
    let mut cluster = Setup::nodes(2, 3).start();
    let submitter = cluster.submitter().clone();
    let load = Load::default();
    thread::scope(|scope| {
        let _ending = load.ending();
        for _ in 0..2 {
            scope.spawn(|| submit(&submitter, &load));
        }
        for _ in 0..kills {
            let name = ["n1", "n2"][usize::try_from(dice.below(2)).expect("small")];
            thread::sleep(dice.up_to(LONGEST_LIFE));
            cluster.kill_node(name);
            thread::sleep(dice.up_to(LONGEST_LIFE / 4));
            cluster.start_node(name);
            cluster.await_node(name);
        }
    });
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

fn prove(cluster: &Cluster, all: &[u64]) {
    let submitter = cluster.submitter();
    let (begins, ends) = (Ledger::read(submitter, "ledger"), Ledger::read(submitter, "ends"));
    assert_eq!(begins.twice(), Vec::<u64>::new(), "jobs that ran twice");
    let jobs: Vec<Value> = all.chunks(200).flat_map(|some| submitter.show(some)).collect();
    let mut lost = Vec::new();
    for (job, id) in jobs.iter().zip(all) {
        match job["state"].as_str() {
            Some("completed") => assert!(begins.has(*id) && ends.has(*id) && job["exit_code"] == 0, "{job}"),
            Some("lost") => {
                assert!(job["exit_code"].is_null() && job["signal"].is_null(), "{job}");
                lost.push(*id);
            }
            _ => panic!("neither completed nor lost: {job}"),
        }
    }
    println!("{} jobs accepted, {} of them lost", all.len(), lost.len());
    assert!(!lost.is_empty() && lost.len() < all.len(), "the kills hit some jobs and not all");
    assert_eq!(submitter.wait(lost[0]), Some(125));
    assert_eq!(cluster.job_processes(), [], "nothing of any job lives");
}

#[test]
fn an_lrun_whose_node_is_killed_says_that_the_job_is_lost() {
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
    until("lshepherd has ended it", || cluster.job_processes().is_empty().then_some(()));
    cluster.start_node("n1");
    let ran = finish(lrun);
    assert!(ran.code == Some(125) && ran.stderr.contains("lost"), "{ran:?}");
    assert_eq!(submitter.state(1), "lost");
    assert_eq!(submitter.wait(waiting), Some(0));
    assert_eq!(submitter.read("ledger"), format!("1\n{waiting}\n"));
    assert_eq!(cluster.job_processes(), []);
}
