//! Attribution of readings: the draw above idle belongs to all jobs that the reading contains.

use std::num::NonZeroU32;

use limo_model::{Cores, JobId, Memory, Meter, NodeId, NodeSpec, Power, Preset, Request, Span, UnitKind, UnitSpec};
use limo_sched::{Command, Event, Options};

use crate::world::World;

/// Makes two nodes with meters, an idle draw of 10 W, and two units of two cores and 40 W each.
fn world(preset: Preset) -> World {
    let mut world = World::new(preset, Options::default());
    for name in ["n0", "n1"] {
        let unit = |name: &str| UnitSpec {
            name: name.into(),
            hardware: "xeon".into(),
            kind: UnitKind::Cpu,
            cores: 2,
            nameplate: Power::from_watts(40),
            caps: Some((Power::from_watts(5), Power::from_watts(60))),
        };
        let spec = NodeSpec {
            name: name.into(),
            units: vec![unit("a"), unit("b")],
            memory: Memory::from_bytes(1),
            idle: Power::from_watts(10),
            meter: Meter::Emulated,
            rest: None,
        };
        world.apply(Event::NodeUp { spec }).expect("a node");
    }
    world
}

/// Submits a job with one core on each of `nodes` nodes: 20 W by the nameplate.
fn submit(world: &mut World, nodes: u32) -> JobId {
    let job = world.core.next_job();
    let nodes = NonZeroU32::new(nodes).expect("some");
    let one = Cores::Count(NonZeroU32::MIN);
    let request = Request { nodes, cores: one, time_limit: Some(Span::from_secs(600)), ..Request::one_core("x") };
    world.apply(Event::Submitted { job, request: Box::new(request) }).expect("a job");
    world.round();
    job
}

fn read(world: &mut World, watts: i64) {
    world.apply(Event::Readings { draws: vec![(NodeId(0), Power::from_watts(watts))] }).expect("a reading");
}

/// Sets an upper limit. The node gets caps.
fn limit(world: &mut World, watts: i64) {
    let limits = limo_model::Band::new(Power::ZERO, Power::from_watts(watts)).expect("a band");
    let limits = limo_model::Curve::constant(limits);
    world.apply(Event::LimitsSet { limits, by: "root".into() }).expect("limits");
    assert!(matches!(world.round().commands[..], [Command::Cap { .. }]));
}

fn draw(world: &World, job: JobId) -> Power {
    world.core.job(job).and_then(|job| job.assignment()).expect("it runs").draw
}

#[test]
fn an_ending_job_draws_until_its_end() {
    let mut world = world(Preset::Limo);
    let (a, b) = (submit(&mut world, 1), submit(&mut world, 1));
    world.core.apply(world.now, &Event::CancelRequested { job: a, by: "ada".into() }).expect("it runs");
    // The node reacts with a delay.
    assert!(matches!(world.core.round(world.now).commands[..], [Command::Stop { .. }]));
    read(&mut world, 50);
    assert_eq!([draw(&world, a), draw(&world, b)], [Power::from_watts(20); 2]);
}

#[test]
fn a_job_over_several_nodes_has_its_part_of_a_reading() {
    let mut world = world(Preset::Easy);
    let (wide, sole) = (submit(&mut world, 2), submit(&mut world, 1));
    let share = draw(&world, wide).scaled(1, 2);
    let options = *world.core.view(world.now).options();
    world.apply(Event::PolicySet { preset: Preset::Limo, options, by: "root".into() }).expect("a policy");
    world.round();
    let node = world.core.job(sole).and_then(|job| job.assignment()).expect("it runs").placement[0].unit.node;
    assert_eq!((node, draw(&world, sole)), (NodeId(0), Power::from_watts(20)));
    let shown = Power::from_watts(10) + share + draw(&world, sole);
    world.apply(Event::Readings { draws: vec![(node, shown)] }).expect("a reading");
    assert_eq!(draw(&world, sole), Power::from_watts(20));
}

/// Readings after the end of a job do not change because of its cap.
#[test]
fn a_cap_that_is_confirmed_late_does_not_outlive_its_job() {
    let mut world = world(Preset::Limo);
    // The node sends no confirmation.
    world.silent.insert(NodeId(1));
    let capped = submit(&mut world, 1);
    read(&mut world, 30);
    limit(&mut world, 30);
    let attempt = limo_model::Attempt(1);
    let (outcome, usage) = (limo_model::Outcome::Exited(0), limo_model::Usage::default());
    world.apply(Event::Ended { job: capped, attempt, outcome, usage }).expect("it ran");
    // Another process draws 7 W.
    read(&mut world, 17);
    assert_eq!(world.core.node_draw(NodeId(0)), Power::from_watts(17));
}

/// The reading was taken before the node followed the order, and it is the first that contains the job.
#[test]
fn a_first_reading_does_not_show_an_unconfirmed_cap() {
    let mut world = world(Preset::Limo);
    let job = submit(&mut world, 1);
    world.is_slow = true;
    limit(&mut world, 35);
    let capped = draw(&world, job);
    assert!(capped < Power::from_watts(20), "{capped}");
    read(&mut world, 30);
    assert_eq!(world.core.node_draw(NodeId(0)), Power::from_watts(10) + capped);
    assert_eq!(draw(&world, job), capped, "no correction by a reading that may not show the cap");
}

#[test]
fn a_first_reading_does_not_show_an_unconfirmed_rise_of_a_cap() {
    let mut world = world(Preset::Limo);
    let job = submit(&mut world, 1);
    limit(&mut world, 35);
    let capped = draw(&world, job);
    // Caps have to stay for a while before they rise.
    let later = world.now + world.core.view(world.now).options().least_off;
    world.advance(later);
    world.is_slow = true;
    limit(&mut world, 100);
    assert_eq!(draw(&world, job), Power::from_watts(20));
    world.apply(Event::Readings { draws: vec![(NodeId(0), Power::from_watts(10) + capped)] }).expect("a reading");
    assert_eq!(world.core.node_draw(NodeId(0)), Power::from_watts(30));
}
