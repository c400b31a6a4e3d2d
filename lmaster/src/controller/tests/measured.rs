//! Queries of the resources that a running job has used so far. Each client gets the sums of the nodes that answer.

use limo_model::Memory;
use limo_proto::{LiveUsage, Parallel, UsageQuery, UsageReport};

use super::multi_node::{ATTEMPT, JOB, Wide, wide};
use super::*;

/// Longest wait for the nodes.
const PATIENCE: Span = Span::from_secs(5);

fn ask(it: &mut Wide) {
    let query = Query::Usage(UsageQuery(JOB));
    it.bench.say(it.client, ClientToMaster::Ask(Box::new(query)));
}

/// Returns the ticket with which the node was asked about the job.
fn ticket(it: &mut Wide, index: usize) -> u64 {
    match it.bench.orders(it.nodes[index]).as_slice() {
        [MasterToNode::Measure { ticket, job: JOB, attempt: ATTEMPT }] => *ticket,
        other => panic!("not asked: {other:?}"),
    }
}

/// Lets a node answer with these seconds of CPU time and MiB of memory, or without figures.
fn answer(it: &mut Wide, index: usize, ticket: u64, used: Option<(i64, u64)>) {
    let used = used.map(|(seconds, mib)| LiveUsage {
        user_cpu: Span::from_secs(seconds),
        system_cpu: Span::from_secs(1),
        memory: Memory::from_bytes(mib << 20),
        peak: Memory::from_bytes(mib << 21),
    });
    it.bench.report(it.nodes[index], NodeToMaster::Measured { ticket, used });
}

fn usage(message: &MasterToClient) -> UsageReport {
    let MasterToClient::Answer(answer) = message else { panic!("{message:?}") };
    let Answer::Usage(report) = answer.as_ref() else { panic!("{answer:?}") };
    report.clone()
}

/// Returns the report, which is the only answer.
fn answered(it: &mut Wide) -> UsageReport {
    let heard = it.bench.heard(it.client);
    assert_eq!(heard.len(), 1, "{heard:?}");
    usage(&heard[0])
}

/// Starts the job on three nodes and asks about it; returns the ticket.
fn asked() -> (Wide, u64) {
    let mut it = Wide::running(Parallel::default());
    ask(&mut it);
    let tickets = [0, 1, 2].map(|index| ticket(&mut it, index));
    assert!(tickets.iter().all(|ticket| *ticket == tickets[0]), "{tickets:?}");
    (it, tickets[0])
}

#[test]
fn the_figures_of_all_nodes_are_added() {
    let (mut it, ticket) = asked();
    // A second query of the client waits for the first.
    it.bench.say(it.client, ClientToMaster::Ask(Box::new(Query::Status(StatusQuery))));
    answer(&mut it, 0, ticket, Some((10, 5)));
    // A second answer of a node, and one with another ticket, change nothing.
    answer(&mut it, 0, ticket, Some((100, 100)));
    answer(&mut it, 1, ticket + 1, Some((100, 100)));
    // A node without control groups has no figures.
    answer(&mut it, 1, ticket, None);
    assert!(it.bench.heard(it.client).is_empty());
    answer(&mut it, 2, ticket, Some((20, 7)));
    let heard = it.bench.heard(it.client);
    assert_eq!(heard.len(), 2, "{heard:?}");
    let report = usage(&heard[0]);
    assert_eq!((report.nodes, report.answered), (3, 2));
    assert_eq!((report.sum.user_cpu, report.sum.system_cpu), (Span::from_secs(30), Span::from_secs(2)));
    assert_eq!((report.sum.memory, report.most), (Memory::from_bytes(12 << 20), Memory::from_bytes(14 << 20)));
    assert_eq!(report.most_on, "n3");
    assert_eq!(it.bench.controller.questions.measures.len(), 0);
}

#[test]
fn nodes_that_do_not_answer_are_left_out() {
    let (mut it, ticket) = asked();
    answer(&mut it, 0, ticket, Some((10, 5)));
    it.bench.pass(PATIENCE - Span::from_ms(1));
    assert!(it.bench.heard(it.client).is_empty());
    it.bench.pass(Span::from_ms(1));
    let report = answered(&mut it);
    assert_eq!((report.nodes, report.answered, report.sum.user_cpu), (3, 1, Span::from_secs(10)));
    answer(&mut it, 1, ticket, Some((10, 5)));
    assert!(it.bench.heard(it.client).is_empty(), "too late");
}

#[test]
fn a_broken_connection_of_a_node_ends_the_wait_for_it() {
    let (mut it, ticket) = asked();
    answer(&mut it, 0, ticket, Some((10, 5)));
    answer(&mut it, 2, ticket, Some((10, 5)));
    let node = it.nodes[1];
    it.bench.input(Input::Gone(node));
    let report = answered(&mut it);
    assert_eq!((report.nodes, report.answered), (3, 2));
}

#[test]
fn a_job_that_does_not_run_has_used_nothing() {
    // The nodes have the job, and have not acknowledged it.
    let mut it = wide(Parallel::default());
    ask(&mut it);
    let is_asked = |order: &MasterToNode| matches!(order, MasterToNode::Measure { .. });
    let asked = (0..3).any(|index| it.bench.orders(it.nodes[index]).iter().any(is_asked));
    let report = answered(&mut it);
    assert_eq!((asked, report), (false, UsageReport::default()));
    let unknown = it.bench.ask(it.client, Query::Usage(UsageQuery(JobId(99))));
    assert_eq!(usage(&unknown), UsageReport::default());
}

#[test]
fn a_disk_that_fails_and_a_client_that_leaves_end_the_query() {
    let (mut it, ticket) = asked();
    let other = it.bench.client(7);
    it.bench.say(other, ClientToMaster::Ask(Box::new(Query::Usage(UsageQuery(JOB)))));
    assert_eq!(it.bench.controller.questions.measures.len(), 2);
    it.bench.input(Input::Gone(other));
    assert_eq!(it.bench.controller.questions.measures.len(), 1);
    it.bench.slow_disk = true;
    let third = it.bench.client(7);
    it.bench.say(third, exec(9));
    it.bench.fail();
    assert!(refusal(it.bench.heard(it.client).first()).starts_with("the journal cannot be written"));
    assert_eq!(it.bench.controller.questions.measures.len(), 0);
    answer(&mut it, 0, ticket, Some((10, 5)));
    assert!(it.bench.heard(it.client).is_empty());
}
