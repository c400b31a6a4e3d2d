//! Jobs are predicted by the newest model, from their submission on and again after a training.

use limo_model::{Energy, EstimateSource, Predicted};
use limo_profiles::predict::{FinishedJob, LEAST_ROWS};
use limo_proto::{Change, ExplainQuery, PredictorQuery, PredictorReport};
use limo_sched::OnHardware;

use super::*;

fn report(bench: &mut Bench) -> PredictorReport {
    let client = bench.client(7);
    match bench.ask(client, Query::Predictor(PredictorQuery)) {
        MasterToClient::Answer(answer) => match *answer {
            Answer::Predictor(report) => report,
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
}

/// Lets an operator train; returns the answer.
fn train(bench: &mut Bench) -> MasterToClient {
    let operator = bench.client(0);
    bench.say(operator, ClientToMaster::ChangeConf(Box::new(Change::TrainPredictor)));
    bench.heard(operator).pop().expect("an answer")
}

/// Finished jobs like this one that drew `watts`.
fn jobs_like(bench: &Bench, job: JobId, watts: i64) -> Vec<FinishedJob> {
    let request = &bench.controller.tx.core.job(job).expect("it waits").request;
    let on = OnHardware { hardware: "xeon".into(), cores: 1, is_accelerator: false };
    let features = crate::predictor::features(request, &on, (false, bench.now));
    let mean = Power::from_watts(watts);
    let (duration, nameplate) = (Span::from_secs(60), Power::from_watts(15));
    let (submitted, ended) = (bench.now, bench.now.moved(duration));
    vec![FinishedJob { features, mean, peak: mean, nameplate, duration, submitted, ended }; 40]
}

fn predictions(bench: &Bench, job: JobId) -> Vec<Predicted> {
    bench.controller.tx.core.job(job).expect("it waits").request.predicted.clone()
}

/// Returns the source of a waiting job's estimate, and its origin in words.
fn explained(bench: &mut Bench, job: JobId) -> (EstimateSource, String) {
    let client = bench.client(7);
    let MasterToClient::Answer(answer) = bench.ask(client, Query::Explain(ExplainQuery(job))) else { panic!() };
    let Answer::Explanation(explanation) = *answer else { panic!("{answer:?}") };
    let first = explanation.candidates.first().expect("a candidate");
    (first.estimate.source, first.origin.clone())
}

#[test]
fn a_trained_model_predicts_waiting_and_later_jobs_until_a_worse_one_replaces_it() {
    let mut bench = Bench::new();
    bench.node("n1");
    let (operator, client) = (bench.client(0), bench.client(7));
    let change = Change::Drain { nodes: vec!["n1".into()], reason: "a test".into() };
    bench.say(operator, ClientToMaster::ChangeConf(Box::new(change)));
    let first = bench.submit(client, 1);
    assert_eq!(explained(&mut bench, first).0, EstimateSource::Nameplate);
    assert_eq!(refusal(Some(&train(&mut bench))), "nothing has finished");
    assert_eq!((report(&mut bench).model, report(&mut bench).is_training), (None, false));
    bench.disk.trains_on = jobs_like(&bench, first, 40);
    assert!(matches!(train(&mut bench), MasterToClient::Answer(answer) if *answer == Answer::Done));
    let (source, origin) = explained(&mut bench, first);
    assert_eq!(source, EstimateSource::Predicted);
    assert!(origin.starts_with("predicted by model 1: 40.0 W, deviation "), "{origin}");
    let second = bench.submit(client, 2);
    assert_eq!(explained(&mut bench, second), (source, origin));
    let model = report(&mut bench).model.expect("a model");
    // The trial has a fifth of 40 jobs; 15 W are 62.5 % below 40 W.
    assert_eq!((model.rows, model.trial, model.nameplate_error_permille), (40, 8, Some(625)));
    assert!(model.is_used && model.error_permille < Some(10), "{model:?}");
    // A client cannot bring its own predictions.
    let known = predictions(&bench, first);
    let forged = Predicted { high: Power::from_watts(1), ..known[0].clone() };
    bench.say(client, exec_with(3, |exec| exec.request.predicted = vec![forged]));
    assert_eq!(predictions(&bench, JobId(3)), known);
    // The records keep the predictions, although the tests' disk has no model.
    let mut bench = bench.killed();
    assert_eq!((predictions(&bench, first), report(&mut bench).model), (known, None));
    // The nameplate is right: a model cannot be better.
    bench.disk.trains_on = jobs_like(&bench, first, 15);
    train(&mut bench);
    assert!(report(&mut bench).model.is_some_and(|model| !model.is_used));
    assert_eq!(predictions(&bench, first), []);
}

#[test]
fn only_operators_train() {
    let mut bench = Bench::new();
    let client = bench.client(7);
    bench.say(client, ClientToMaster::ChangeConf(Box::new(Change::TrainPredictor)));
    let heard = bench.heard(client);
    assert!(refusal(heard.last()).starts_with("only an operator may do that"), "{heard:?}");
}

/// Runs a job that draws 40 W for ten seconds.
fn run(bench: &mut Bench, (client, node): (PeerId, PeerId), key: u8, (outcome, confidence): (Outcome, u16)) {
    let (job, attempt) = bench.running(client, node, key);
    let (elapsed, energy) = (Span::from_secs(10), Some(Energy::from_joules(400)));
    let usage = Usage { elapsed, energy, confidence, ..Usage::default() };
    bench.report(node, NodeToMaster::Ended { job, attempt, outcome, usage });
}

#[test]
fn measured_runs_without_a_cap_are_kept_and_enough_of_them_train_a_model() {
    let mut bench = Bench::new();
    let node = bench.node("n1");
    let client = bench.client(7);
    let mut end = |key: u8, outcome: Outcome, confidence: u16| {
        run(&mut bench, (client, node), key, (outcome, confidence));
        (report(&mut bench).since, bench.observed.last().map(|row| row.mean))
    };
    assert_eq!(end(1, Outcome::Exited(1), 1_000), (0, None), "it failed");
    assert_eq!(end(2, Outcome::Exited(0), 799), (0, None), "its energy may be that of others");
    assert_eq!(end(3, Outcome::Exited(0), 800), (1, Some(Power::from_watts(40))));
    for key in 4..=LEAST_ROWS as u8 + 1 {
        end(key, Outcome::Exited(0), 1_000);
    }
    let last = *bench.observed.last().expect("a row");
    assert!(last.submitted < last.ended, "{last:?}");
    bench.disk.trains_on = vec![last; 40];
    assert_eq!(report(&mut bench).model, None);
    run(&mut bench, (client, node), 30, (Outcome::Exited(0), 1_000));
    let report = report(&mut bench);
    assert_eq!((report.model.map(|model| model.rows), report.since, report.is_training), (Some(40), 0, false));
}

#[test]
fn a_failed_training_is_tried_again_after_a_pause() {
    let mut bench = Bench::new();
    let node = bench.node("n1");
    let client = bench.client(7);
    for key in 1..=LEAST_ROWS as u8 {
        run(&mut bench, (client, node), key, (Outcome::Exited(0), 1_000));
    }
    // The tests' disk has no jobs so far, so the training has failed.
    bench.disk.trains_on = vec![*bench.observed.last().expect("a row"); 40];
    let mut end = |key: u8, after: i64| {
        bench.pass(Span::from_secs(after));
        run(&mut bench, (client, node), key, (Outcome::Exited(0), 1_000));
        let PredictorReport { model, since, is_training, .. } = report(&mut bench);
        (model.is_some(), since, is_training)
    };
    assert_eq!(end(101, 0), (false, LEAST_ROWS + 1, false));
    assert_eq!(end(102, 590), (false, LEAST_ROWS + 2, false));
    assert_eq!(end(103, 11), (true, 0, false));
}

#[test]
fn the_spread_learns_from_what_was_predicted_at_the_submission() {
    let mut bench = Bench::new();
    let node = bench.node("n1");
    let client = bench.client(7);
    let (first, attempt) = bench.running(client, node, 1);
    // 20 W are predicted, and 40 W drawn.
    bench.disk.trains_on = jobs_like(&bench, first, 20);
    train(&mut bench);
    let on = OnHardware { hardware: "xeon".into(), cores: 1, is_accelerator: false };
    let features = crate::predictor::features(
        &bench.controller.tx.core.job(first).expect("it waits").request,
        &on,
        (false, bench.now),
    );
    let spread = |bench: &Bench| {
        let model = bench.controller.predictions.model.as_ref().expect("a model");
        let found = model.predictor.predict(&features).expect("known jobs");
        found.deviation.mw() as f64 / found.mean.mw() as f64
    };
    // It was submitted before there was a model.
    let usage = Usage { elapsed: Span::from_secs(10), ..Usage::default() };
    bench.report(node, NodeToMaster::Ended { job: first, attempt, outcome: Outcome::Exited(0), usage });
    let before = spread(&bench);
    run(&mut bench, (client, node), 2, (Outcome::Exited(0), 1_000));
    assert_eq!(report(&mut bench).since, 1);
    // Ten of 18 rows have a distance of 0.3, and eight have 0. One more row with 0.7 raises the mean.
    assert!(spread(&bench) > before + 0.01, "{before} {}", spread(&bench));
}
