//! A meter that serves several nodes: their draws add up to its value exactly, and are estimated while it fails.

use limo_proto::{MeterReport, Status};
use limo_sched::Event;

use super::*;
use crate::controller::metering::Metering;
use crate::meters::{Serves, Shared};

fn bench(serves: &[&str]) -> Bench {
    let mut bench = Bench::new();
    let meter = Shared {
        source: "shelly:http://plug1".into(),
        choice: "shelly:http://plug1".parse().expect("a choice"),
        serves: if serves.is_empty() { Serves::All } else { Serves::Nodes(serves.iter().map(|&n| n.into()).collect()) },
        interval: Span::from_secs(1),
        access: None,
    };
    bench.controller.tx.metering = Metering::new(&Settings { meters: vec![meter], ..settings() }, bench.now);
    bench
}

/// Registers a node without its own meter, whose unit may draw 60 W above its idle 10 W.
fn bare(bench: &mut Bench, name: &str) -> PeerId {
    let peer = bench.peer();
    bench.input(Input::NodeConnected(peer));
    let mut slave = slave(name, "boot", Vec::new());
    slave.slave.spec.meter = Meter::None;
    bench.register(peer, slave);
    peer
}

fn show(bench: &mut Bench, mw: i64) {
    bench.input(Input::Metered(0, Ok(Power::from_mw(mw))));
    bench.pass(Span::from_secs(1));
}

/// Returns the believed draw of each node, in mW.
fn draws(bench: &Bench) -> Vec<i64> {
    bench.controller.tx.core.nodes().iter().map(|node| bench.controller.tx.core.node_draw(node.id()).mw()).collect()
}

fn status(bench: &mut Bench) -> Status {
    let client = bench.client(7);
    let MasterToClient::Answer(answer) = bench.ask(client, Query::Status(StatusQuery)) else { panic!("no answer") };
    let Answer::Status(status) = *answer else { panic!("{answer:?}") };
    *status
}

#[test]
fn the_parts_are_one_event_and_add_up() {
    let mut bench = bench(&["n1", "n2"]);
    bare(&mut bench, "n1");
    bare(&mut bench, "n2");
    let meters: Vec<Meter> = bench.controller.tx.core.nodes().iter().map(|node| node.spec().meter).collect();
    assert_eq!(meters, [Meter::Shared; 2]);
    show(&mut bench, 50_001);
    assert_eq!(draws(&bench), [25_001, 25_000]);
    assert_eq!(status(&mut bench).draw, Power::from_mw(50_001));
    let readings = bench.disk.entries.iter().filter_map(|(_, entry)| match entry {
        Entry::Event(Event::Readings { draws }) => Some(draws.iter().map(|(_, draw)| draw.mw()).collect::<Vec<_>>()),
        _ => None,
    });
    assert_eq!(readings.collect::<Vec<_>>(), [[25_001, 25_000]]);
    // The meter does not serve other nodes.
    bare(&mut bench, "n3");
    assert_eq!(bench.controller.tx.core.nodes()[2].spec().meter, Meter::None);
    show(&mut bench, 60_000);
    assert_eq!(draws(&bench), [30_000, 30_000, 10_000]);
}

#[test]
fn the_parts_follow_the_jobs() {
    let mut bench = bench(&[]);
    let node = bare(&mut bench, "n1");
    bare(&mut bench, "n2");
    show(&mut bench, 20_000);
    let client = bench.client(7);
    let (job, attempt) = bench.running(client, node, 1);
    show(&mut bench, 40_000);
    assert_eq!(draws(&bench), [35_000, 5_000], "70 W to 10 W are expected");
    show(&mut bench, 88_000);
    assert_eq!(draws(&bench), [77_000, 11_000]);
    bench.report(node, ended(job, attempt, 0));
    show(&mut bench, 20_000);
    assert_eq!(draws(&bench), [10_000, 10_000]);
}

#[test]
fn a_nodes_own_meter_says_how_much_of_it_is_its() {
    let mut bench = bench(&[]);
    // Emulated hardware measures itself.
    let own = bench.node("n1");
    bare(&mut bench, "n2");
    bench.report(own, NodeToMaster::Reading(Sample::once(Power::from_watts(30))));
    bench.pass(Span::from_secs(1));
    assert_eq!(draws(&bench), [30_000, 10_000], "nothing is known of the whole");
    show(&mut bench, 60_000);
    assert_eq!(draws(&bench), [45_000, 15_000]);
    // The total is the value of the shared meter, regardless of the node's own meter.
    bench.report(own, NodeToMaster::Reading(Sample::once(Power::from_watts(20))));
    bench.pass(Span::from_secs(1));
    assert_eq!(draws(&bench), [45_000, 15_000]);
    show(&mut bench, 60_000);
    assert_eq!(draws(&bench), [40_000, 20_000]);
    // If the shared meter fails, the node's own counts again.
    bench.input(Input::Metered(0, Err("no route to host".into())));
    bench.report(own, NodeToMaster::Reading(Sample::once(Power::from_watts(25))));
    bench.pass(Span::from_secs(1));
    assert_eq!(draws(&bench)[0], 25_000);
}

#[test]
fn a_meter_that_fails_is_shown_and_its_readings_grow_stale() {
    let mut bench = bench(&["n1"]);
    bare(&mut bench, "n1");
    let report = |draw, failing: Option<&str>| MeterReport {
        source: "shelly:http://plug1".into(),
        serves: Some(vec!["n1".into()]),
        draw,
        failing: failing.map(str::to_owned),
    };
    assert_eq!(status(&mut bench).meters, [report(None, None)]);
    show(&mut bench, 33_000);
    assert_eq!(status(&mut bench).meters, [report(Some(Power::from_watts(33)), None)]);
    for _ in 0..5 {
        bench.input(Input::Metered(0, Err("no route to host".into())));
        bench.pass(Span::from_secs(3));
    }
    assert_eq!(status(&mut bench).meters, [report(None, Some("no route to host"))]);
    assert_eq!(draws(&bench), [10_000], "it is estimated");
    show(&mut bench, 34_000);
    assert_eq!((status(&mut bench).meters[0].failing.clone(), draws(&bench)), (None, vec![34_000]));
    // The meter hangs, and sends no values.
    bench.pass(Span::from_secs(15));
    assert_eq!((status(&mut bench).meters[0].draw, draws(&bench)), (None, vec![10_000]));
}

#[test]
fn measured_draws_are_in_the_table() {
    let mut bench = bench(&[]);
    bare(&mut bench, "n1");
    bare(&mut bench, "n2");
    for _ in 0..70 {
        show(&mut bench, 30_001);
    }
    bench.input(Input::Stop);
    let of = |name: &str| -> i64 {
        let rows = bench.disk.readings.iter().filter(|((_, node, _), _)| node == name);
        rows.map(|(_, drawn)| drawn.energy.mj()).sum()
    };
    // The energies are those of 69 s, within the rounding of two rows each.
    assert!((of("n1") + of("n2") - 69 * 30_001).abs() <= 2, "{} and {}", of("n1"), of("n2"));
}

#[test]
fn a_commit_that_fails_and_nodes_that_leave_harm_nothing() {
    let mut bench = bench(&[]);
    let node = bare(&mut bench, "n1");
    bare(&mut bench, "n2");
    show(&mut bench, 40_000);
    bench.input(Input::Gone(node));
    show(&mut bench, 50_000);
    assert_eq!(draws(&bench), [25_000, 25_000], "a node that is away draws on");
    bench.slow_disk = true;
    bench.input(Input::Metered(0, Ok(Power::from_watts(60))));
    bench.pass(Span::from_secs(1));
    bench.fail();
    bench.input(Input::Metered(0, Ok(Power::from_watts(60))));
    bench.input(Input::Metered(7, Ok(Power::from_watts(60))));
    bench.slow_disk = false;
    bench.pass(Span::from_secs(1));
    assert_eq!(bench.controller.tx.core.nodes().len(), 2);
}

#[test]
fn a_meter_shows_that_the_draw_of_a_lost_node_is_gone() {
    let mut bench = bench(&["n1"]);
    let n1 = bare(&mut bench, "n1");
    let client = bench.client(7);
    bench.running(client, n1, 1);
    bench.input(Input::Gone(n1));
    bench.pass(Span::from_secs(60));
    assert_eq!(status(&mut bench).held, Power::from_watts(60));
    for _ in 0..20 {
        show(&mut bench, 69_000);
    }
    assert_eq!((status(&mut bench).held, draws(&bench)), (Power::from_watts(60), vec![69_000]), "the job runs on");
    for second in 0..=15 {
        assert_eq!(status(&mut bench).held, Power::from_watts(60), "after {second} s without it");
        show(&mut bench, 10_500);
    }
    assert_eq!((status(&mut bench).held, draws(&bench)), (Power::ZERO, vec![10_500]));
}

#[test]
fn a_meter_of_several_nodes_proves_nothing_about_one_of_them() {
    let mut bench = bench(&["n1", "n2"]);
    let n1 = bare(&mut bench, "n1");
    bare(&mut bench, "n2");
    let client = bench.client(7);
    bench.running(client, n1, 1);
    bench.input(Input::Gone(n1));
    bench.pass(Span::from_secs(60));
    for _ in 0..30 {
        show(&mut bench, 20_000);
    }
    assert_eq!(status(&mut bench).held, Power::from_watts(60), "n2 may draw less than it is believed to");
}
