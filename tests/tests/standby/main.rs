//! Two masters with one journal: one leads, and the other takes over. Nothing is lost and nothing happens twice, however
//! the first one fails.

mod pair;
mod proxy;

use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use pair::{Load, Pair};

/// Longest time until the other master accepts jobs.
const TAKEOVER: Duration = Duration::from_secs(15);

/// Submitters of the load.
const SUBMITTERS: usize = 4;

#[test]
fn a_standby_takes_over_from_a_killed_leader_within_15_s_under_load() {
    let Some(mut pair) = Pair::start(8) else { return };
    let load = Load::start(&pair.submitter, SUBMITTERS);
    load.await_more(30);
    pair.kill(0);
    let took = load.await_more(SUBMITTERS + 1);
    assert!(took < TAKEOVER, "{took:?}");
    load.await_more(30);
    // The other direction, with the first one as standby.
    pair.start_master(0);
    pair.await_log(0, "standing by");
    pair.kill(1);
    let took = load.await_more(SUBMITTERS + 1);
    assert!(took < TAKEOVER, "{took:?}");
    pair.await_node();
    load.check(&pair.submitter);
}

#[test]
fn a_leader_that_ends_hands_over_at_once() {
    let Some(mut pair) = Pair::start(8) else { return };
    let load = Load::start(&pair.submitter, SUBMITTERS);
    load.await_more(10);
    let begin = Instant::now();
    pair.signal(0, Signal::SIGTERM);
    assert!(pair.await_end(0).success());
    load.await_more(SUBMITTERS + 1);
    assert!(begin.elapsed() < Duration::from_secs(5), "{:?}", begin.elapsed());
    load.check(&pair.submitter);
}

#[test]
fn a_leader_that_wakes_up_after_a_pause_does_nothing_and_ends() {
    let Some(mut pair) = Pair::start(8) else { return };
    let load = Load::start(&pair.submitter, SUBMITTERS);
    load.await_more(30);
    pair.signal(0, Signal::SIGSTOP);
    let took = load.await_more(SUBMITTERS + 1);
    assert!(took < TAKEOVER, "{took:?}");
    pair.await_node();
    load.await_more(10);
    pair.signal(0, Signal::SIGCONT);
    assert_eq!(pair.await_end(0).code(), Some(1));
    assert!(pair.log(0).contains("lost the lease"), "{}", pair.log(0));
    load.await_more(10);
    load.check(&pair.submitter);
}

#[test]
fn a_database_that_restarts_loses_and_doubles_nothing() {
    let Some(pair) = Pair::start(8) else { return };
    let load = Load::start(&pair.submitter, SUBMITTERS);
    for _ in 0..3 {
        load.await_more(15);
        pair.server.stop().expect("stopped");
        pair.server.start().expect("started");
        load.await_more(SUBMITTERS + 1);
    }
    load.check(&pair.submitter);
}

/// The leader is cut off from the database, but not from its node and clients: it must not lead any more.
#[test]
fn a_leader_without_its_database_is_replaced_and_ends() {
    let Some(mut pair) = Pair::start(8) else { return };
    let load = Load::start(&pair.submitter, SUBMITTERS);
    load.await_more(30);
    pair.proxy.cut();
    pair.await_log(1, "listening");
    load.await_more(SUBMITTERS + 1);
    assert_eq!(pair.await_end(0).code(), Some(1));
    assert!(pair.log(0).contains("lost the lease"), "{}", pair.log(0));
    pair.proxy.mend();
    pair.await_node();
    load.await_more(10);
    load.check(&pair.submitter);
}

/// The node is cut off from the leader by a pause of the node. It finds the new leader, and not the old one.
#[test]
fn a_node_that_was_away_during_the_takeover_finds_the_new_leader() {
    let Some(mut pair) = Pair::start(8) else { return };
    let job = pair.submitter.detach(&["sh", "-c", "echo ran >> job-$LIMO_JOB_ID; sleep 3"]);
    limo_tests::until("the job runs", || (pair.submitter.read(format!("job-{job}")) == "ran\n").then_some(()));
    pair.stop_node();
    pair.kill(0);
    pair.await_log(1, "listening");
    pair.continue_node();
    pair.await_node();
    assert_eq!(pair.submitter.wait(job), Some(0));
    assert_eq!(pair.submitter.read(format!("job-{job}")), "ran\n");
}

/// The node does not refuse the new master: the epoch moves with the journal.
#[test]
fn a_job_goes_on_while_its_cluster_moves_from_a_database_to_a_file() {
    let Some(mut pair) = Pair::start(2) else { return };
    let job = pair.submitter.detach(&["sh", "-c", "echo ran >> job-$LIMO_JOB_ID; until [ -e go ]; do sleep 0.1; done"]);
    limo_tests::until("the job runs", || (pair.submitter.read(format!("job-{job}")) == "ran\n").then_some(()));
    for index in [1, 0] {
        pair.signal(index, Signal::SIGTERM);
        pair.await_end(index);
    }
    pair.move_to_a_file();
    pair.await_node();
    assert_eq!(pair.submitter.state(job), "running");
    std::fs::write(pair.submitter.path("go"), "").expect("written");
    assert_eq!(pair.submitter.wait(job), Some(0));
    assert_eq!(pair.submitter.read(format!("job-{job}")), "ran\n");
}
