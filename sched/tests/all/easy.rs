//! Compares the core's backfilling with an implementation by definition: every start of random workloads.
//!
//! `PROPTEST_CASES` sets the number of cases of each property; default 2,000.

use std::collections::BTreeSet;
use std::num::NonZeroU32;

use crate::brute::{Job, Rule, Started, schedule};
use crate::world::World;
use limo_model::{
    Band, Cores, Curve, EstimateSource, Memory, Meter, NodeSpec, Power, Preset, Profile, ProfileKey, Request, Span,
    Time, UnitKind, UnitSpec,
};
use limo_sched::{Allocation, Command, Event, Options};
use proptest::prelude::*;
use proptest::test_runner::Config;

/// Draws of the four applications above idle on each node.
const WATTS: [i64; 4] = [100, 40, 7, 0];
const IDLE: i64 = 10;

#[derive(Debug, Clone)]
struct Case {
    size: usize,
    cores: u32,
    /// Pairs of a job and its application.
    jobs: Vec<(Job, usize)>,
}

/// Few different lengths and gaps, so that many events coincide. Nodes have `most` cores each.
fn case(most: u32) -> impl Strategy<Value = Case> {
    let job = |size: usize, cores: u32| (0..6_i64, 1..=size, 1..=cores, 1..12_i64, 1..16_i64, 0..WATTS.len());
    let jobs = (1..=8_usize, 1..=most).prop_flat_map(move |(size, cores)| {
        (Just(size), Just(cores), proptest::collection::vec(job(size, cores), 1..30))
    });
    jobs.prop_map(|(size, cores, jobs)| {
        let mut now = 0;
        let job = |(gap, nodes, cores, walltime, takes, app): (i64, usize, u32, i64, i64, usize)| {
            now += (gap - 2).max(0);
            let (walltime, power) = (5 * walltime, WATTS[app] * i64::try_from(nodes).expect("few"));
            // Some jobs use all of their time: they end as expected.
            (Job { submitted: now, nodes, cores, walltime, takes: takes.min(walltime), power }, app)
        };
        Case { size, cores, jobs: jobs.into_iter().map(job).collect() }
    })
}

fn at(secs: i64) -> Time {
    Time::from_unix_ms(secs * 1_000)
}

fn cluster((size, cores): (usize, u32), preset: Preset, allocation: Allocation) -> World {
    let mut world = World::new(preset, Options { allocation, ..Options::default() });
    for index in 0..size {
        let cpu = UnitSpec {
            name: "cpu".into(),
            hardware: "cpu".into(),
            kind: UnitKind::Cpu,
            cores,
            nameplate: Power::from_watts(100),
            caps: None,
        };
        let (memory, idle) = (Memory::from_bytes(1), Power::from_watts(IDLE));
        let name = format!("n{index}");
        let spec = NodeSpec { name, units: vec![cpu], memory, idle, meter: Meter::None, rest: None };
        world.apply(Event::NodeUp { spec }).expect("a node");
    }
    for (app, watts) in WATTS.into_iter().enumerate() {
        let (power, duration) = (Power::from_watts(watts), Span::from_secs(3_600));
        let (energy, source) = (power * duration, EstimateSource::Learned);
        let application = format!("app{app}");
        let key = ProfileKey {
            application,
            size: String::new(),
            hardware: "cpu".into(),
            cores: None,
            nodes: None,
            cap: None,
        };
        let profile = Profile { duration, power, energy, spread_permille: 0, runs: 1, source };
        world.apply(Event::ProfileSet { key, profile: Some(profile), by: "root".into() }).expect("a profile");
    }
    world
}

fn request(job: &Job, app: usize) -> Request {
    Request {
        user: "user".into(),
        name: "job".into(),
        nodes: u32::try_from(job.nodes).ok().and_then(NonZeroU32::new).expect("at least one node"),
        cores: Cores::Count(NonZeroU32::new(job.cores).expect("at least one core")),
        time_limit: Some(Span::from_secs(job.walltime)),
        ..Request::one_core(format!("app{app}"))
    }
}

/// Returns the starts of the core.
fn starts(world: &mut World, case: &Case) -> Vec<Started> {
    let mut started = Vec::new();
    let mut next = 0;
    loop {
        let submitted = case.jobs.get(next).map(|(job, _)| at(job.submitted));
        match (submitted, world.next_end()) {
            (Some(when), end) if end.is_none_or(|end| when <= end) => {
                world.now = when;
                let (job, app) = &case.jobs[next];
                let id = world.core.next_job();
                world.takes.insert(id, Span::from_secs(job.takes));
                world.apply(Event::Submitted { job: id, request: Box::new(request(job, *app)) }).expect("it fits");
                next += 1;
            }
            (_, Some(end)) => {
                world.now = end;
                world.end_one().expect("its time is over");
            }
            _ => return started,
        }
        let round = world.round();
        assert_eq!(round.violations, [], "the checker found something");
        for command in &round.commands {
            let Command::Start { job, placement, .. } = command else { continue };
            let nodes = placement.iter().flat_map(|part| part.nodes()).map(|node| node.0 as usize);
            let nodes: BTreeSet<usize> = nodes.collect();
            let job = usize::try_from(job.0 - 1).expect("few jobs");
            started.push(Started { at: world.now.unix_ms() / 1_000, job, nodes });
        }
    }
}

fn check(rule: Rule, above: Option<i64>, case: &Case) {
    let jobs: Vec<Job> = case.jobs.iter().map(|(job, _)| job.clone()).collect();
    let most = jobs.iter().map(|job| job.power).max().unwrap_or_default();
    let limit = above.map_or(i64::MAX / 2, |above| most + above);
    let nodes = (case.size, case.cores);
    let expected = schedule(&jobs, nodes, rule, limit);
    let allocation = if rule == Rule::Any { Allocation::Any } else { Allocation::Contiguous };
    let preset = if above.is_some() { Preset::Powercap } else { Preset::Easy };
    let mut world = cluster(nodes, preset, allocation);
    if above.is_some() {
        let idle = IDLE * i64::try_from(case.size).expect("few");
        let band = Band::new(Power::ZERO, Power::from_watts(idle + limit)).expect("a band");
        world.apply(Event::LimitsSet { limits: Curve::constant(band), by: "root".into() }).expect("limits");
    }
    assert_eq!(starts(&mut world, case), expected);
    assert_eq!(expected.len(), jobs.len(), "a job waits for ever");
}

fn config() -> Config {
    let cases = std::env::var("PROPTEST_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(2_000);
    Config { cases, failure_persistence: None, ..Config::default() }
}

#[test]
fn any_free_nodes() {
    proptest!(config(), |(case in case(1))| check(Rule::Any, None, &case));
}

#[test]
fn neighbours_only() {
    proptest!(config(), |(case in case(1))| check(Rule::Neighbours, None, &case));
}

#[test]
fn nodes_that_are_shared() {
    proptest!(config(), |(case in case(4))| check(Rule::Any, None, &case));
}

#[test]
fn neighbours_that_are_shared() {
    proptest!(config(), |(case in case(4))| check(Rule::Neighbours, None, &case));
}

#[test]
fn below_a_limit() {
    proptest!(config(), |(case in case(3), above in 0..300_i64)| check(Rule::Any, Some(above), &case));
}

#[test]
fn neighbours_below_a_limit() {
    proptest!(config(), |(case in case(3), above in 0..300_i64)| check(Rule::Neighbours, Some(above), &case));
}

/// A manual check of the definition itself: on 4 nodes, a job on 3 nodes runs until 10 s, and the next one on 4 nodes
/// waits for it. Of the jobs on one node, the first would run too long, and the second ends just in time.
#[test]
fn the_definition_backfills_jobs_that_end_in_time() {
    let job = |submitted, nodes, walltime| Job { submitted, nodes, cores: 1, walltime, takes: walltime, power: 1 };
    let jobs = [job(0, 3, 10), job(1, 4, 5), job(2, 1, 9), job(2, 1, 8)];
    let starts = schedule(&jobs, (4, 1), Rule::Any, 100);
    let starts: Vec<_> = starts.iter().map(|started| (started.job, started.at)).collect();
    assert_eq!(starts, [(0, 0), (3, 2), (1, 10), (2, 15)]);
}
