//! Two masters with one journal: one leads, and the other takes over. Nothing is lost and nothing happens twice, however
//! the first one fails.
//!
//! `LIMO_TAKEOVERS` is the number of takeovers whose time is measured, `LIMO_SEED` repeats their kinds.

use std::time::{Duration, Instant};

use limo_tests::{Dice, until};
use nix::sys::signal::Signal;

use crate::relay::Network;
use crate::site::Site;
use crate::work::Work;

/// Longest time until the other master accepts jobs.
const TAKEOVER: Duration = Duration::from_secs(15);

/// Number of measured takeovers by default.
const TAKEOVERS: u64 = 3;

/// Submitters of the load.
const SUBMITTERS: u64 = 4;

/// Number of further jobs that show that a new master accepts them: more than may have waited for the answer of the old
/// one.
const MORE: usize = 5;

#[test]
fn a_standby_takes_over_from_a_killed_leader_within_15_s_under_load() {
    let Some(mut site) = Site::on_server(1, 8) else { return };
    let work = Work::start(&site, SUBMITTERS);
    work.await_more(30);
    site.kill(0);
    let took = work.await_more(MORE);
    assert!(took < TAKEOVER, "{took:?}");
    work.await_more(30);
    // The other direction, with the first one as standby.
    site.start_master(0);
    site.await_log(0, "standing by");
    site.kill(1);
    let took = work.await_more(MORE);
    assert!(took < TAKEOVER, "{took:?}");
    site.await_node(0);
    work.check(&site);
}

#[test]
fn a_leader_that_ends_hands_over_at_once() {
    let Some(mut site) = Site::on_server(1, 8) else { return };
    let work = Work::start(&site, SUBMITTERS);
    work.await_more(10);
    let begin = Instant::now();
    site.signal(0, Signal::SIGTERM);
    assert!(site.await_end(0).success());
    work.await_more(MORE);
    assert!(begin.elapsed() < Duration::from_secs(5), "{:?}", begin.elapsed());
    work.check(&site);
}

#[test]
fn a_leader_that_wakes_up_after_a_pause_does_nothing_and_ends() {
    let Some(mut site) = Site::on_server(1, 8) else { return };
    let work = Work::start(&site, SUBMITTERS);
    work.await_more(30);
    site.signal(0, Signal::SIGSTOP);
    let took = work.await_more(MORE);
    assert!(took < TAKEOVER, "{took:?}");
    site.await_node(0);
    work.await_more(10);
    site.signal(0, Signal::SIGCONT);
    assert_eq!(site.await_end(0).code(), Some(1));
    assert!(site.log(0).contains("lost the lease"), "{}", site.log(0));
    work.await_more(10);
    work.check(&site);
}

#[test]
fn a_database_that_restarts_loses_and_doubles_nothing() {
    let Some(site) = Site::on_server(1, 8) else { return };
    let work = Work::start(&site, SUBMITTERS);
    for _ in 0..3 {
        work.await_more(15);
        site.server().stop().expect("stopped");
        site.server().start().expect("started");
        work.await_more(MORE);
    }
    work.check(&site);
}

/// The leader is cut off from the database, but not from its node and clients: it must not lead any more.
#[test]
fn a_leader_without_its_database_is_replaced_and_ends() {
    let Some(mut site) = Site::on_server(1, 8) else { return };
    let work = Work::start(&site, SUBMITTERS);
    work.await_more(30);
    site.databases[0].set(Network::Cut);
    site.await_log(1, "listening");
    work.await_more(MORE);
    assert_eq!(site.await_end(0).code(), Some(1));
    assert!(site.log(0).contains("lost the lease"), "{}", site.log(0));
    site.databases[0].set(Network::Whole);
    site.await_node(0);
    work.await_more(10);
    work.check(&site);
}

/// The node is cut off from the leader by a pause of the node. It finds the new leader, and not the old one.
#[test]
fn a_node_that_was_away_during_the_takeover_finds_the_new_leader() {
    let Some(mut site) = Site::on_server(1, 8) else { return };
    let job = site.submitter.detach(&["sh", "-c", "echo ran >> job-$LIMO_JOB_ID; sleep 3"]);
    until("the job runs", || (site.submitter.read(format!("job-{job}")) == "ran\n").then_some(()));
    site.signal_node(0, Signal::SIGSTOP);
    site.kill(0);
    site.await_log(1, "listening");
    site.signal_node(0, Signal::SIGCONT);
    site.await_node(0);
    assert_eq!(site.submitter.wait(job), Some(0));
    assert_eq!(site.submitter.read(format!("job-{job}")), "ran\n");
}

/// The node does not refuse the new master: the epoch moves with the journal.
#[test]
fn a_job_goes_on_while_its_cluster_moves_from_a_database_to_a_file() {
    let Some(mut site) = Site::on_server(1, 2) else { return };
    let job = site.submitter.detach(&["sh", "-c", "echo ran >> job-$LIMO_JOB_ID; until [ -e go ]; do sleep 0.1; done"]);
    until("the job runs", || (site.submitter.read(format!("job-{job}")) == "ran\n").then_some(()));
    for index in [1, 0] {
        site.signal(index, Signal::SIGTERM);
        site.await_end(index);
    }
    site.move_to_a_file();
    site.await_node(0);
    assert_eq!(site.submitter.state(job), "running");
    std::fs::write(site.submitter.path("go"), "").expect("written");
    assert_eq!(site.submitter.wait(job), Some(0));
    assert_eq!(site.submitter.read(format!("job-{job}")), "ran\n");
}

/// A failure of a leader.
#[derive(Debug, Clone, Copy)]
enum Failure {
    Killed,
    Stopped,
    CutFromDatabase,
    CutFromAll,
}

/// Measures the time from the failure of a leader until the standby has accepted a submission and started its job. The
/// stream and the attached jobs of the load must not lose a byte.
#[test]
fn takeovers_under_load_take_less_than_15_s_each() {
    let takeovers = std::env::var("LIMO_TAKEOVERS").map_or(TAKEOVERS, |text| text.parse().expect("a number"));
    let Some(mut site) = Site::on_server(2, 8) else { return };
    let mut dice = Dice::from_env("LIMO_SEED");
    let work = Work::start(&site, SUBMITTERS);
    let (mut leader, mut times) = (0, Vec::new());
    for number in 0..takeovers {
        work.await_more(MORE);
        let kinds = [Failure::Killed, Failure::Stopped, Failure::CutFromDatabase, Failure::CutFromAll];
        let failure = kinds[usize::try_from((number + dice.below(4)) % 4).expect("small")];
        let begin = Instant::now();
        let set = |site: &Site, network| {
            site.databases[leader].set(network);
            if let Failure::CutFromAll = failure {
                site.clients[leader].set(network);
                site.links.iter().for_each(|links| links[leader].set(network));
            }
        };
        match failure {
            Failure::Killed => site.kill(leader),
            Failure::Stopped => site.signal(leader, Signal::SIGSTOP),
            Failure::CutFromDatabase | Failure::CutFromAll => set(&site, Network::Cut),
        }
        // The old leader accepts nothing any more, or a job that it accepts counts as well.
        let standby = 1 - leader;
        until("a job runs under the new leader", || {
            let leads = site.log(standby).contains("listening");
            (leads && site.submitter.lrun(&["-Q", "true"]).code == Some(0)).then_some(())
        });
        let took = begin.elapsed();
        println!("takeover {}: {failure:?}, {took:.1?}", number + 1);
        assert!(took < TAKEOVER, "{failure:?}: {took:?}");
        times.push(took);
        match failure {
            Failure::Killed => {}
            Failure::Stopped => {
                site.signal(leader, Signal::SIGCONT);
                assert_eq!(site.await_end(leader).code(), Some(1));
            }
            Failure::CutFromDatabase | Failure::CutFromAll => {
                assert_eq!(site.await_end(leader).code(), Some(1));
                set(&site, Network::Whole);
            }
        }
        site.start_master(leader);
        site.await_log(leader, "standing by");
        (0..site.node_count()).for_each(|node| site.await_node(node));
        work.check_clients();
        leader = standby;
    }
    work.check(&site);
    times.sort_unstable();
    let (median, longest) = (times[times.len() / 2], times[times.len() - 1]);
    println!("{takeovers} takeovers: median {median:.1?}, longest {longest:.1?}");
}
