//! Draws are in the table after a while, need no commit of their own if there is another one, and add up.

use limo_model::Energy;

use super::*;

fn read(bench: &mut Bench, node: Option<&str>) -> Vec<Drawn> {
    let client = bench.client(7);
    let (from, until) = (Time::from_unix_ms(0), Time::MAX);
    match bench.ask(client, Query::Readings(ReadingsQuery { node: node.map(str::to_owned), from, until })) {
        MasterToClient::Answer(answer) => match *answer {
            Answer::Readings { emulated: true, intervals } => intervals,
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
}

/// Sends readings of `watts`, one a second for `secs` seconds.
fn measured(bench: &mut Bench, node: PeerId, secs: i64, watts: i64) {
    for _ in 0..secs {
        bench.pass(Span::from_secs(1));
        bench.report(node, NodeToMaster::Reading(Sample::once(Power::from_watts(watts))));
    }
}

fn sum(intervals: &[Drawn]) -> Energy {
    Energy::from_mj(intervals.iter().map(|drawn| drawn.energy.mj()).sum())
}

#[test]
fn the_tables_energy_is_the_integral() {
    let mut bench = Bench::new();
    let node = bench.node("n1");
    measured(&mut bench, node, 90, 30);
    measured(&mut bench, node, 60, 50);
    // The first reading has no predecessor.
    bench.input(Input::Stop);
    let own = read(&mut bench, Some("n1"));
    assert_eq!(own.iter().map(|drawn| drawn.seen).collect::<Vec<_>>(), [59, 60, 30].map(Span::from_secs));
    assert_eq!(sum(&own), Energy::from_joules(89 * 30 + 60 * 50));
    assert_eq!(
        (own[1].mean, own[1].low, own[1].high),
        (Power::from_watts(40), Power::from_watts(30), Power::from_watts(50))
    );
    assert_eq!(own.iter().map(|drawn| drawn.looks).sum::<u64>(), 150);
    // The cluster's energy is the bill that the core keeps.
    let cluster = read(&mut bench, None);
    let now = bench.now;
    let sums = bench.controller.tx.core.sums();
    let mut bill = sums.bill;
    bill.add(sums.draw, sums.since, now, None);
    assert_eq!((sum(&cluster), cluster.len()), (bill.energy(), 3));
    let seen: i64 = cluster.iter().map(|drawn| drawn.seen.ms()).sum();
    assert_eq!(seen, 150_000);
}

#[test]
fn rows_go_with_other_commits_and_else_once_a_minute() {
    let mut bench = Bench::new();
    let node = bench.node("n1");
    let entries = |bench: &Bench| bench.disk.entries.len();
    measured(&mut bench, node, 130, 30);
    // There are as many events and rounds as without the table: one each for every second but the last.
    let recorded = entries(&bench);
    assert!(bench.disk.readings.keys().any(|(_, node, _)| node == "n1"), "{:?}", bench.disk.readings);
    bench.pass(Span::from_secs(20));
    let quiet = entries(&bench);
    assert!(quiet <= recorded + 4, "the last reading, and that it is stale");
    // No event happens, but time passes.
    let (rows, mut commits) = (bench.disk.readings.len(), 0);
    bench.slow_disk = true;
    for _ in 0..600 {
        bench.pass(Span::from_secs(1));
        if let Some(batch) = bench.committing.front() {
            commits += 1;
            assert!(batch.entries.is_empty() && !batch.readings.is_empty(), "{batch:?}");
            bench.commit();
        }
    }
    assert!((9..=10).contains(&commits), "{commits} commits in ten minutes");
    assert_eq!((entries(&bench), bench.disk.readings.len() - rows >= 9), (quiet, true));
}

#[test]
fn a_clean_restart_keeps_all_readings_and_a_crash_loses_few() {
    let mut bench = Bench::new();
    let node = bench.node("n1");
    measured(&mut bench, node, 31, 30);
    bench.input(Input::Stop);
    let mut bench = bench.killed();
    let node = bench.node("n1");
    measured(&mut bench, node, 21, 60);
    bench.input(Input::Stop);
    let own = read(&mut bench, Some("n1"));
    assert_eq!(sum(&own), Energy::from_joules(30 * 30 + 20 * 60), "two parts of one minute");
    // After a kill only the running commit is lost.
    measured(&mut bench, node, 150, 60);
    let on_disk = bench.disk.readings.iter().filter(|((_, node, _), _)| node == "n1");
    let before = Energy::from_mj(on_disk.map(|(_, drawn)| drawn.energy.mj()).sum());
    let mut bench = bench.killed();
    assert_eq!(sum(&read(&mut bench, Some("n1"))), before);
    assert!(before >= Energy::from_joules(30 * 30 + 20 * 60 + 60 * 60), "{before}");
}

#[test]
fn no_time_before_now_is_missing() {
    let mut bench = Bench::new();
    let node = bench.node("n1");
    // The bench begins at a full minute, and the first reading has no predecessor.
    measured(&mut bench, node, 90, 30);
    let own = read(&mut bench, Some("n1"));
    assert_eq!(own.iter().map(|drawn| drawn.seen).collect::<Vec<_>>(), [59, 30].map(Span::from_secs));
    assert_eq!(sum(&own), Energy::from_joules(89 * 30));
    let cluster = read(&mut bench, None);
    let last = cluster.last().expect("an interval");
    assert_eq!(last.at + last.seen, bench.now);
    // Rows from before and after a restart form one interval.
    bench.input(Input::Stop);
    let mut bench = bench.killed();
    let node = bench.node("n1");
    measured(&mut bench, node, 20, 60);
    let own = read(&mut bench, Some("n1"));
    assert_eq!((own.len(), own[1].seen, own[1].high), (2, Span::from_secs(30 + 19), Power::from_watts(60)));
    assert_eq!(sum(&own), Energy::from_joules(89 * 30 + 19 * 60));
}

#[test]
fn old_rows_go() {
    let mut bench = Bench::new();
    let node = bench.node("n1");
    measured(&mut bench, node, 130, 30);
    let first = |bench: &Bench| bench.disk.readings.keys().map(|(at, ..)| *at).min().expect("rows");
    assert_eq!(first(&bench), Time::from_unix_ms(START));
    bench.pass(Span::from_secs(86_400));
    let oldest = bench.now - Span::from_secs(86_400 + 120);
    assert!(first(&bench) >= oldest, "{:?}", first(&bench));
}

#[test]
fn a_full_disk_keeps_its_room_for_jobs() {
    let mut bench = Bench::new();
    let node = bench.node("n1");
    measured(&mut bench, node, 10, 30);
    bench.slow_disk = true;
    bench.pass(Span::from_secs(1));
    bench.fail();
    bench.slow_disk = false;
    let rows = bench.disk.readings.len();
    bench.pass(Span::from_secs(300));
    assert_eq!(bench.disk.readings.len(), rows);
    bench.input(Input::Ballast(Ok(())));
    bench.pass(Span::from_secs(300));
    assert!(bench.disk.readings.len() > rows);
}

#[test]
fn unknown_nodes_are_refused() {
    let mut bench = Bench::new();
    let client = bench.client(7);
    let range = (Time::from_unix_ms(0), Time::MAX);
    let query = Query::Readings(ReadingsQuery { node: Some("n7".into()), from: range.0, until: range.1 });
    let heard = bench.ask(client, query);
    assert!(refusal(Some(&heard)).starts_with("there is no node `n7`"), "{heard:?}");
}
