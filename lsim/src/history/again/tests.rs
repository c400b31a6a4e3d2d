//! Histories as loads, also under other settings.

use limo_model::{CheckpointEvery, Energy, EstimateSource, JobId, Memory, Meter, NodeId, UnitId, UnitKind, UnitSpec};

use super::*;
use crate::engine::simulate_load;
use crate::history::{figures::Figures, past::PastJob};
use crate::output::Metrics;
use crate::record::Heading;

fn at(secs: i64) -> Time {
    Time::from_unix_ms(secs * 1_000)
}

/// Makes a node of one core with an idle draw of 10 W.
fn node(name: &str, hardware: &str) -> NodeSpec {
    let unit = UnitSpec {
        name: "cpu".into(),
        hardware: hardware.into(),
        kind: UnitKind::Cpu,
        cores: 1,
        nameplate: Power::from_watts(30),
        caps: None,
    };
    let (memory, idle) = (Memory::ZERO, Power::from_watts(10));
    NodeSpec { name: name.into(), units: vec![unit], memory, idle, meter: Meter::None, rest: None }
}

/// Makes a job that ran on hardware `a` for `secs` at 5 W, or never.
fn job(id: u64, secs: Option<i64>) -> PastJob {
    let request = Request { user: "ada".into(), name: "cg".into(), ..Request::one_core("cg") };
    let (hardware, draw) = ("a".to_owned(), Some(Power::from_watts(5)));
    let ran = secs.map(|secs| Ran {
        span: Span::from_secs(secs),
        whole: true,
        failed: false,
        steady: true,
        draw,
        hardware,
        cap: None,
    });
    PastJob { id: JobId(id), request, submitted: at(0), user: 0, processors: 1, ran }
}

/// Makes a history with all jobs submitted at the beginning.
fn past(nodes: Vec<NodeSpec>, jobs: Vec<PastJob>) -> Past {
    let up = nodes.iter().map(|spec| (at(0), Change::Event(Box::new(Event::NodeUp { spec: spec.clone() }))));
    let submitted = (0..jobs.len()).map(|index| (at(0), Change::Submit(index)));
    Past {
        start: at(0),
        end: at(0),
        changes: up.chain(submitted).collect(),
        platform: crate::history::platform::platform(&nodes),
        nodes,
        jobs,
        profiles: BTreeMap::new(),
        preset: Preset::Limo,
        options: Options::default(),
        figures: Figures::of(&Metrics::new(&heading()), Vec::new(), Span::ZERO, BTreeMap::new()),
        unfinished: 0,
        differences: 0,
    }
}

fn heading() -> Heading {
    Heading::unnamed(1, at(0))
}

fn easy() -> Otherwise {
    Otherwise { policy: Some((Preset::Easy, Options::default())), ..Otherwise::default() }
}

#[test]
fn two_jobs_and_one_that_is_cancelled_while_it_waits() {
    let mut past = past(vec![node("n1", "a")], vec![job(1, Some(100)), job(2, Some(50)), job(3, None)]);
    past.changes.push((at(120), Change::Cancel { index: 2, by: "ada".into() }));
    past.changes.push((at(200), Change::Nothing));
    let again = Again::new(&past, &easy());
    let mut metrics = Metrics::new(&heading());
    let summary = simulate_load(&again, again.rules(), &mut metrics).expect("possible");
    // The jobs run in turn, with waits of 0 s and 100 s. The energy is 10 W for 200 s and 5 W for 150 s.
    let figures = Figures::of(&metrics, summary.budgets, summary.end - at(0), BTreeMap::new());
    assert_eq!((figures.jobs, figures.ended), (3, 2));
    assert_eq!((figures.mean_wait, figures.max_wait), (Span::from_secs(50), Span::from_secs(100)));
    assert_eq!((figures.span, figures.energy), (Span::from_secs(200), Energy::from_joules(2_750)));
    assert_eq!(again.sources(), Sources { measured: 2, ..Sources::default() });
}

#[test]
fn a_job_that_runs_when_it_is_cancelled_is_stopped() {
    let mut past = past(vec![node("n1", "a")], vec![job(1, Some(100)), job(2, Some(10))]);
    past.changes.push((at(30), Change::Cancel { index: 0, by: "ada".into() }));
    let again = Again::new(&past, &easy());
    let mut metrics = Metrics::new(&heading());
    let summary = simulate_load(&again, again.rules(), &mut metrics).expect("possible");
    assert_eq!((metrics.counts.killed, metrics.counts.completed), (1, 1));
    assert_eq!((metrics.max_wait(), summary.end), (Span::from_secs(30), at(40)));
}

#[test]
fn profiles_scale_runs_on_other_hardware() {
    let mut past = past(vec![node("n1", "a"), node("n2", "b")], vec![job(1, Some(100)), job(2, None)]);
    let profile = |secs, watts| Profile {
        duration: Span::from_secs(secs),
        power: Power::from_watts(watts),
        energy: Energy::ZERO,
        spread_permille: 0,
        runs: 1,
        source: EstimateSource::Learned,
    };
    let key = |hardware: &str| ProfileKey {
        application: "cg".into(),
        size: String::new(),
        hardware: hardware.into(),
        cores: None,
        nodes: None,
        cap: None,
    };
    let on = |past: &Past, index: usize, node: u32| {
        let unit = UnitId { node: NodeId(node), unit: 0 };
        let part = Part { unit, count: 1, cores: 1, memory: Memory::ZERO, cap: None };
        let estimate = Estimate {
            duration: Span::from_secs(3_600),
            power: Power::from_watts(30),
            energy: Energy::ZERO,
            source: EstimateSource::Nameplate,
            runs: 0,
        };
        let again = Again::new(past, &easy());
        let Running { run, draw, .. } = again.running(index, &[part], &estimate);
        let Sources { measured, profiles, unscaled, estimated, .. } = again.sources();
        (run.ms() / 1_000, draw.map(Power::mw), [measured, profiles, unscaled, estimated])
    };
    past.profiles.insert(key("a"), profile(80, 4));
    assert_eq!(on(&past, 0, 0), (100, Some(5_000), [1, 0, 0, 0]));
    assert_eq!(on(&past, 0, 1), (100, Some(5_000), [0, 0, 1, 0]));
    // The job takes half as long at three times the draw.
    past.profiles.insert(key("b"), profile(40, 12));
    assert_eq!(on(&past, 0, 1), (50, Some(15_000), [0, 1, 0, 0]));
    assert_eq!(on(&past, 1, 1), (40, Some(30_000), [0, 0, 0, 1]));
    // Without a profile only the original running time is known.
    past.profiles.clear();
    assert_eq!(on(&past, 1, 1), (100, Some(30_000), [0, 0, 0, 1]));
    past.jobs[1].request.application = "ft".into();
    assert_eq!(on(&past, 1, 1), (3_600, Some(30_000), [0, 0, 0, 1]));
}

/// Checks that the time of a run with moved caps is not used, but its profile is, and is counted.
#[test]
fn a_run_that_was_not_steady_was_not_measured() {
    let mut past = past(vec![node("n1", "a")], vec![job(1, Some(100)), job(2, Some(30))]);
    past.jobs[0].ran.as_mut().expect("it ran").steady = false;
    let check = |past: &Past, end: i64, expected: Sources| {
        let again = Again::new(past, &easy());
        let summary = simulate_load(&again, again.rules(), &mut Metrics::new(&heading())).expect("possible");
        assert_eq!((summary.end, again.sources()), (at(end), expected));
    };
    check(&past, 130, Sources { measured: 1, stretched: 1, ..Sources::default() });
    let (duration, power, source) = (Span::from_secs(40), Power::from_watts(7), EstimateSource::Learned);
    let profile = Profile { duration, power, energy: Energy::ZERO, spread_permille: 0, runs: 1, source };
    let (application, size, hardware) = ("cg".to_owned(), String::new(), "a".to_owned());
    past.profiles.insert(ProfileKey { application, size, hardware, cores: None, nodes: None, cap: None }, profile);
    check(&past, 70, Sources { measured: 1, unsteady: 1, ..Sources::default() });
}

/// The job is requeued after 70 s, and has saved 60 s. Without checkpoints it runs from its beginning.
#[test]
fn a_requeued_job_goes_on_from_its_last_checkpoint() {
    let end = |checkpoint: Option<CheckpointEvery>| {
        let mut past = past(vec![node("n1", "a")], vec![job(1, Some(100))]);
        let request = &mut past.jobs[0].request;
        (request.may_requeue, request.restart.checkpoint) = (true, checkpoint);
        let event = Box::new(Event::RequeueRequested { job: JobId(1), by: "ada".into() });
        past.changes.push((at(70), Change::Steer { index: 0, event }));
        let again = Again::new(&past, &easy());
        simulate_load(&again, again.rules(), &mut Metrics::new(&heading())).expect("possible").end
    };
    assert_eq!(end(Some(CheckpointEvery::Span(Span::from_secs(30)))), at(110));
    assert_eq!(end(None), at(170));
}

#[test]
fn other_settings_replace_the_recorded_ones() {
    let mut past = past(vec![node("n1", "a")], vec![job(1, Some(1))]);
    let set = Event::PolicySet { preset: Preset::Fifo, options: Options::default(), by: "ada".into() };
    past.changes.insert(0, (at(0), Change::Event(Box::new(set))));
    assert_eq!(Again::new(&past, &Otherwise::default()).changes().len(), 3);
    assert_eq!(Again::new(&past, &easy()).changes().len(), 2);
}
