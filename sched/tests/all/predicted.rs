//! Predictions as recorded data: they decide which jobs start, and a replay needs no model.

use std::num::NonZeroU32;

use limo_model::{
    Attempt, Band, Cores, Curve, EstimateSource, JobId, Memory, Meter, NodeSpec, Outcome, Power, Predicted, Preset,
    Request, Span, Tasks, Time, UnitKind, UnitSpec, Usage,
};
use limo_sched::{Command, Core, Event, MarginRule, OnHardware, Options, Refused};

const NOW: Time = Time::from_unix_ms(1_000);

fn node(name: &str, hardware: &str) -> Event {
    let unit = UnitSpec {
        name: "cpu".into(),
        hardware: hardware.into(),
        kind: UnitKind::Cpu,
        cores: 4,
        nameplate: Power::from_watts(100),
        caps: None,
    };
    let (memory, idle) = (Memory::from_bytes(10), Power::from_watts(10));
    Event::NodeUp {
        spec: NodeSpec { name: name.into(), units: vec![unit], memory, idle, meter: Meter::None, rest: None },
    }
}

/// Returns a prediction for 4 cores: 20 W less than `high`, the 90 % quantile.
fn prediction(model: u32, high: i64) -> Predicted {
    Predicted {
        hardware: "xeon".into(),
        cores: 4,
        model,
        mean: Power::from_watts(high - 20),
        deviation: Power::from_watts(15),
        high: Power::from_watts(high),
        duration: Span::from_secs(60),
    }
}

fn request(predicted: Vec<Predicted>) -> Box<Request> {
    let cores = Cores::Count(NonZeroU32::new(4).expect("four"));
    Box::new(Request { cores, predicted, ..Request::one_core("new") })
}

/// A node of 100 W above an idle draw of 10 W, under a limit of 80 W without a reserve.
fn world() -> Vec<Event> {
    let by = || "root".to_owned();
    let options = Options { reserve_permille: 0, ..Options::default() };
    let limit = Band::new(Power::ZERO, Power::from_watts(80)).expect("a band");
    vec![
        Event::PolicySet { preset: Preset::Limo, options, by: by() },
        node("n0", "xeon"),
        Event::LimitsSet { limits: Curve::constant(limit), by: by() },
    ]
}

fn told(core: &mut Core, events: &[Event]) {
    events.iter().for_each(|event| core.apply(NOW, event).expect("it is possible"));
}

fn core() -> Core {
    let mut core = Core::new(NOW, Preset::Limo, Options::default());
    told(&mut core, &world());
    core
}

/// Returns the source, the draw and the energy of the only start of a round.
fn start(core: &mut Core) -> Option<(EstimateSource, i64, i64)> {
    let round = core.round(NOW);
    assert_eq!(round.violations, []);
    let mut starts = round.commands.iter().filter_map(|command| match command {
        Command::Start { estimate, .. } => Some((estimate.source, estimate.power.mw(), estimate.energy.mj())),
        _ => None,
    });
    let first = starts.next();
    assert_eq!(starts.next(), None);
    first
}

#[test]
fn a_job_starts_by_its_predicted_quantile_where_its_nameplate_does_not_fit() {
    let mut core = core();
    told(&mut core, &[Event::Submitted { job: JobId(1), request: request(vec![]) }]);
    assert_eq!(start(&mut core), None, "100 W do not fit into 70 W");
    told(&mut core, &[Event::Predicted { job: JobId(1), predicted: vec![prediction(1, 71)] }]);
    assert_eq!(start(&mut core), None, "71 W do not fit either");
    told(&mut core, &[Event::Predicted { job: JobId(1), predicted: vec![prediction(2, 70)] }]);
    // The energy is that of the mean of 50 W for an hour.
    assert_eq!(start(&mut core), Some((EstimateSource::Predicted, 70_000, 180_000_000)));
    let again = Event::Predicted { job: JobId(1), predicted: vec![] };
    assert_eq!(core.apply(NOW, &again), Err(Refused::NotPredictable { job: JobId(1) }));
}

#[test]
fn a_new_model_replaces_or_removes_predictions_of_waiting_jobs() {
    let mut core = core();
    let predicted = |core: &Core| core.job(JobId(1)).map(|job| job.request.predicted.clone());
    let set = |predicted: Vec<Predicted>| Event::Predicted { job: JobId(1), predicted };
    assert_eq!(core.apply(NOW, &set(vec![])), Err(Refused::NoSuchJob { job: JobId(1) }));
    told(&mut core, &[Event::Submitted { job: JobId(1), request: request(vec![prediction(1, 75)]) }]);
    told(&mut core, &[set(vec![prediction(2, 71)])]);
    assert_eq!(predicted(&core), Some(vec![prediction(2, 71)]));
    told(&mut core, &[set(vec![])]);
    assert_eq!((predicted(&core), start(&mut core)), (Some(vec![]), None));
    let many = vec![prediction(2, 30); 17];
    assert_eq!(core.apply(NOW, &set(many.clone())), Err(Refused::TooManyPredictions { count: 17 }));
    let submitted = Event::Submitted { job: JobId(2), request: request(many) };
    assert_eq!(core.apply(NOW, &submitted), Err(Refused::TooManyPredictions { count: 17 }));
}

#[test]
fn tasks_of_an_array_have_its_predictions() {
    let mut core = core();
    let tasks: Tasks = "0-2".parse().expect("tasks");
    let submitted = Event::ArraySubmitted { job: JobId(1), tasks, request: request(vec![prediction(1, 60)]) };
    told(&mut core, &[submitted]);
    assert_eq!(start(&mut core).map(|(source, power, _)| (source, power)), Some((EstimateSource::Predicted, 60_000)));
}

#[test]
fn a_replay_of_the_records_needs_no_model() {
    let mut events = world();
    events.push(Event::Submitted { job: JobId(1), request: request(vec![prediction(1, 71)]) });
    events.push(Event::Predicted { job: JobId(1), predicted: vec![prediction(2, 70)] });
    let replay = |events: &[Event]| {
        let mut core = Core::new(NOW, Preset::Limo, Options::default());
        told(&mut core, events);
        (core.round(NOW), core)
    };
    let (round, core) = replay(&events);
    let texts: Vec<String> = events.iter().map(|event| serde_json::to_string(event).expect("written")).collect();
    let read: Vec<Event> = texts.iter().map(|text| serde_json::from_str(text).expect("read")).collect();
    let (replayed, again) = replay(&read);
    assert_eq!((replayed, again == core), (round, true));
    assert_eq!(again.job(JobId(1)).map(|job| job.request.predicted.clone()), Some(vec![prediction(2, 70)]));
    // Records of earlier versions have no predictions.
    let earlier = texts[3]
        .replace(&format!(",\"predicted\":{}", serde_json::to_string(&[prediction(1, 71)]).expect("written")), "");
    assert!(!earlier.contains("predicted"), "{earlier}");
    let earlier: Event = serde_json::from_str(&earlier).expect("read");
    assert_eq!(earlier, Event::Submitted { job: JobId(1), request: request(vec![]) });
}

#[test]
fn each_type_of_hardware_is_offered_once_with_the_cores_of_the_job() {
    let mut core = core();
    told(&mut core, &[node("n1", "epyc"), node("n2", "xeon")]);
    let on = |hardware: &str| OnHardware { hardware: hardware.into(), cores: 4, is_accelerator: false };
    let all = |request: &Request| core.view(NOW).offered_hardware(request).into_iter().collect::<Vec<_>>();
    assert_eq!(all(&request(vec![])), [on("epyc"), on("xeon")]);
    let nodes = NonZeroU32::new(2).expect("two");
    let wide = Request { nodes, hardware: vec!["xeon".into()], ..*request(vec![]) };
    assert_eq!(all(&wide), [on("xeon")]);
    let too_many = Request { cores: Cores::Count(NonZeroU32::new(5).expect("five")), ..*request(vec![]) };
    assert_eq!(all(&too_many), []);
}

/// Five nodes with an idle draw of 10 W under a limit, and the policy that counts with estimates.
fn powercap(margin: MarginRule, high: i64) -> Core {
    let by = || "root".to_owned();
    let options = Options { reserve_permille: 0, margin, ..Options::default() };
    let limit = Band::new(Power::ZERO, Power::from_watts(high)).expect("a band");
    let mut core = Core::new(NOW, Preset::Powercap, options);
    (0..5).for_each(|index| told(&mut core, &[node(&format!("n{index}"), "xeon")]));
    told(&mut core, &[Event::LimitsSet { limits: Curve::constant(limit), by: by() }]);
    core
}

/// Submits a job that draws 50 W, at most 70 W by its quantile, with a requested time in seconds.
fn submit(core: &mut Core, job: u64, secs: i64) {
    let time_limit = Some(Span::from_secs(secs));
    let request = Request { time_limit, ..*request(vec![prediction(1, 70)]) };
    told(core, &[Event::Submitted { job: JobId(job), request: Box::new(request) }]);
}

/// Returns the jobs that a round starts, after they began.
fn begun(core: &mut Core) -> Vec<u64> {
    let round = core.round(NOW);
    assert_eq!(round.violations, []);
    let starts = round.commands.iter().filter_map(|command| match command {
        Command::Start { job, attempt, .. } => Some((*job, *attempt)),
        _ => None,
    });
    let starts: Vec<_> = starts.collect();
    starts.iter().for_each(|(job, attempt)| told(core, &[Event::Started { job: *job, attempt: *attempt }]));
    starts.into_iter().map(|(job, _)| job.0).collect()
}

fn estimates(core: &Core) -> Vec<i64> {
    core.jobs().filter_map(|(_, job)| Some(job.assignment()?.estimate.power.mw())).collect()
}

/// The margins of one to four jobs of 20 W: 20 W, sqrt(0.98 * 800 + 0.02 * 1600) = 28.566 W, 35.328 W and 41.183 W, each in
/// milliwatts rounded up. The 250 W above idle are enough for three jobs of 70 W, or for 3 * 50 W + 35.328 W and one more
/// of 70 W, which is 255.3 W: not in 250 W, but in 256 W.
#[test]
fn jobs_on_nodes_have_the_margin_of_their_sum() {
    for (margin, high, expected) in [
        (MarginRule::Job, 50 + 256, vec![1, 2, 3]),
        (MarginRule::Sum, 50 + 255, vec![1, 2, 3]),
        (MarginRule::Sum, 50 + 256, vec![1, 2, 3, 4]),
    ] {
        let mut core = powercap(margin, high);
        (1..=5).for_each(|job| submit(&mut core, job, 600));
        let starts = begun(&mut core);
        assert_eq!(starts, expected, "{margin:?} {high}");
        let sum: i64 = estimates(&core).iter().sum();
        let margin = match (margin, starts.len()) {
            (MarginRule::Job, _) => 60_000,
            (MarginRule::Sum, 3) => 35_328,
            (MarginRule::Sum, _) => 41_183,
        };
        assert_eq!(sum, 50_000 * i64::try_from(starts.len()).expect("few") + margin);
    }
}

/// The job that ends last has its whole margin, and the others what they add. Once it is gone, the next one has the whole.
#[test]
fn margins_are_divided_again_by_the_latest_ends() {
    let mut core = powercap(MarginRule::Sum, 300);
    [(1, 600), (2, 1_200), (3, 900)].into_iter().for_each(|(job, secs)| submit(&mut core, job, secs));
    assert_eq!(begun(&mut core), [1, 2, 3]);
    assert_eq!(estimates(&core), [50_000 + 35_328 - 28_566, 70_000, 50_000 + 28_566 - 20_000]);
    let usage = Usage::default();
    told(&mut core, &[Event::Ended { job: JobId(2), attempt: Attempt(1), outcome: Outcome::Exited(0), usage }]);
    core.round(NOW);
    assert_eq!(estimates(&core), [50_000 + 28_566 - 20_000, 70_000]);
    let options = Options { reserve_permille: 0, ..Options::default() };
    told(&mut core, &[Event::PolicySet { preset: Preset::Powercap, options, by: "root".into() }]);
    assert_eq!(estimates(&core), [70_000, 70_000], "the rule of single jobs");
}
