//! Queries of a node's hardware. Each client gets the report, or the reason for its absence, in turn.

use limo_proto::{NodeDetail, NodeState, PROBE_LIMIT};

use super::*;

fn ask(bench: &mut Bench, client: PeerId) {
    bench.say(client, ClientToMaster::Ask(Box::new(Query::Node(NodeQuery("n1".into())))));
}

/// Returns the ticket with which the node was asked.
fn ticket(bench: &mut Bench, node: PeerId) -> u64 {
    match bench.orders(node).as_slice() {
        [MasterToNode::Probe { ticket }] => *ticket,
        other => panic!("not asked: {other:?}"),
    }
}

fn detail(message: Option<&MasterToClient>) -> NodeDetail {
    let Some(MasterToClient::Answer(answer)) = message else { panic!("{message:?}") };
    let Answer::Node(detail) = answer.as_ref() else { panic!("{answer:?}") };
    detail.as_ref().clone()
}

/// Returns the report, which is the only answer.
fn answered(bench: &mut Bench, client: PeerId) -> NodeDetail {
    let heard = bench.heard(client);
    assert_eq!(heard.len(), 1, "{heard:?}");
    detail(heard.first())
}

fn set_up() -> (Bench, PeerId, PeerId) {
    let mut bench = Bench::new();
    let node = bench.node("n1");
    bench.orders(node);
    let client = bench.client(0);
    (bench, node, client)
}

#[test]
fn the_nodes_answer_is_the_clients() {
    let (mut bench, node, client) = set_up();
    ask(&mut bench, client);
    let ticket = ticket(&mut bench, node);
    // Later queries wait, so that answers come in order.
    bench.say(client, ClientToMaster::Ask(Box::new(Query::Status(StatusQuery))));
    assert!(bench.heard(client).is_empty());
    // A message of another node or with another ticket answers nothing.
    let other = bench.node("n2");
    bench.report(other, NodeToMaster::Probed { ticket, report: "not n1".into() });
    bench.report(node, NodeToMaster::Probed { ticket: ticket + 1, report: "another".into() });
    assert!(bench.heard(client).is_empty());
    bench.report(node, NodeToMaster::Probed { ticket, report: "a line\n".into() });
    let heard = bench.heard(client);
    assert_eq!(heard.len(), 2);
    let found = detail(heard.first());
    assert_eq!((found.report.name.as_str(), found.report.state), ("n1", NodeState::Up));
    assert_eq!(found.probe.as_deref(), Ok("a line\n"));
    bench.report(node, NodeToMaster::Probed { ticket, report: "again".into() });
    assert!(bench.heard(client).is_empty() && bench.closed.is_empty());
}

#[test]
fn a_node_that_does_not_answer_is_not_waited_for() {
    let (mut bench, node, client) = set_up();
    ask(&mut bench, client);
    let ticket = ticket(&mut bench, node);
    bench.pass(Span::from_ms(9_999));
    assert!(bench.heard(client).is_empty());
    bench.pass(Span::from_ms(1));
    assert_eq!(answered(&mut bench, client).probe, Err("the node has not answered for 10s".into()));
    bench.report(node, NodeToMaster::Probed { ticket, report: "late".into() });
    assert!(bench.heard(client).is_empty());
    // The connection to the node breaks before its answer.
    ask(&mut bench, client);
    bench.input(Input::Gone(node));
    let found = answered(&mut bench, client);
    assert_eq!(found.probe, Err("the connection to the node broke before it answered".into()));
    assert_eq!(found.report.state, NodeState::Unreachable);
    ask(&mut bench, client);
    assert_eq!(answered(&mut bench, client).probe, Err("the node is unreachable".into()));
    assert_eq!(bench.controller.questions.probes.len(), 0);
}

#[test]
fn users_without_the_right_see_the_node_without_its_report() {
    let (mut bench, node, _) = set_up();
    let user = bench.client(7);
    ask(&mut bench, user);
    let reason = "only an operator may inspect the devices of a node";
    assert_eq!(answered(&mut bench, user).probe, Err(reason.into()));
    assert!(bench.orders(node).is_empty());
    let heard = bench.ask(user, Query::Node(NodeQuery("n7".into())));
    assert_eq!(refusal(Some(&heard)), "there is no node `n7` (nodes: n1)");
}

#[test]
fn a_report_above_the_limit_is_clipped() {
    let (mut bench, node, client) = set_up();
    ask(&mut bench, client);
    let ticket = ticket(&mut bench, node);
    bench.report(node, NodeToMaster::Probed { ticket, report: "x".repeat(PROBE_LIMIT + 1).into() });
    let report = answered(&mut bench, client).probe.expect("a report");
    assert!(report.len() <= PROBE_LIMIT && report.ends_with('…'), "{} bytes", report.len());
}

#[test]
fn a_disk_that_fails_and_a_client_that_leaves_end_the_question() {
    let (mut bench, node, client) = set_up();
    ask(&mut bench, client);
    let gone = bench.client(0);
    ask(&mut bench, gone);
    bench.input(Input::Gone(gone));
    bench.orders(node);
    bench.slow_disk = true;
    let other = bench.client(7);
    bench.say(other, exec(1));
    bench.fail();
    assert!(refusal(bench.heard(client).first()).starts_with("the journal cannot be written"));
    assert_eq!(bench.controller.questions.probes.len(), 0);
    // The client may continue.
    assert!(matches!(bench.ask(client, Query::Status(StatusQuery)), MasterToClient::Answer(_)));
}
