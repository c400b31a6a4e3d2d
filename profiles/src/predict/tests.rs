//! Tests of whole models.

use limo_model::Time;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

use super::*;

fn features(user: u32, application: u32, cores: u32) -> Features {
    Features { user, application, cores, nodes: 1, requested_s: 3_600, ..Features::default() }
}

const START: Time = Time::from_unix_ms(0);

fn row(features: Features, mw: i64) -> FinishedJob {
    let mean = Power::from_mw(mw);
    let (peak, nameplate) = (mean.scaled(3, 2), Power::from_watts(100));
    FinishedJob { features, mean, peak, nameplate, duration: Span::from_secs(600), submitted: START, ended: START }
}

/// Rows of ten users with three applications each: 2, 4 or 8 W for each core, by the application.
fn steady(count: u32) -> Vec<FinishedJob> {
    let rows = (0..count).map(|i| {
        let (user, application, cores) = (i % 10, i / 10 % 3, 1 << (i / 30 % 4));
        row(features(user, application, cores), 2_000 * (1 << application) * i64::from(cores))
    });
    rows.collect()
}

const SETTINGS: Settings = Settings { number: 7, seed: 1 };

#[test]
fn a_steady_workload_is_predicted() {
    let model = train(&steady(1_200), SETTINGS);
    let found = model.predict(&features(3, 2, 4)).expect("there were jobs");
    let near = |power: Power, watts: f64| (power.mw() as f64 / 1e3 / watts - 1.0).abs() < 0.05;
    assert!(near(found.mean, 32.0) && near(found.high, 32.0) && near(found.peak, 48.0), "{found:?}");
    assert_eq!(found.duration, Span::from_secs(600));
    assert!(found.deviation < Power::from_watts(2), "{found:?}");
    let trial = model.trial();
    assert!(trial.is_better_than_naive() && trial.is_better_than_nameplate(), "{trial:?}");
    // 2, 4 and 8 W for each of 1, 2, 4 and 8 cores: 17.5 W is the mean of 2 to 64 W, and none is above 100 W.
    assert!((trial.nameplate_error().unwrap_or_default() - 82.5 / 17.5).abs() < 1e-9, "{trial:?}");
    assert_eq!((model.trial().rows, model.number()), (240, 7));
}

#[test]
fn the_requested_time_limits_the_duration() {
    let model = train(&steady(300), SETTINGS);
    let short = Features { requested_s: 60, ..features(3, 2, 4) };
    assert_eq!(model.predict(&short).map(|found| found.duration), Some(Span::from_secs(60)));
}

#[test]
fn without_rows_nothing_is_predicted() {
    let model = train(&[], SETTINGS);
    assert_eq!(model.predict(&features(1, 1, 1)), None);
    assert_eq!(model.naive(&features(1, 1, 1)), None);
    assert!(!model.trial().is_better_than_naive() && !model.trial().is_better_than_nameplate());
}

#[test]
fn equal_rows_and_seeds_give_equal_bytes() {
    let rows = steady(600);
    let bytes = || train(&rows, SETTINGS).to_bytes();
    assert_eq!(bytes(), bytes());
}

#[test]
fn a_training_stops_before_its_next_tree() {
    let asked = std::cell::Cell::new(0);
    let rows = steady(600);
    let until = |most: u32| {
        asked.set(0);
        train_until(&rows, SETTINGS, &|| {
            asked.set(asked.get() + 1);
            asked.get() > most
        })
    };
    assert_eq!(until(u32::MAX), Some(train(&rows, SETTINGS)));
    // Two forests of 24 trees, and two trees for each of ten users.
    assert!(asked.get() >= 2 * 24 + 2 * 10, "{}", asked.get());
    assert_eq!(until(5), None);
    assert!(asked.get() < 15, "{}", asked.get());
}

#[test]
fn a_model_learns_from_finished_jobs() {
    let mut model = train(&steady(600), SETTINGS);
    let new = features(77, 9, 16);
    (0..40).for_each(|_| model.observe(&row(new, 160_000), None));
    let found = model.predict(&new).expect("there were jobs").mean;
    assert!((150_000..=170_000).contains(&found.mw()), "{found}");
}

#[test]
fn extreme_rows_give_finite_predictions() {
    let extreme = Features { cores: u32::MAX, requested_s: u32::MAX, memory_mib: u32::MAX, ..Features::default() };
    let most = Power::from_mw(i64::MAX);
    let rows: Vec<FinishedJob> = (0..100)
        .map(|i| {
            let features = if i % 2 == 0 { extreme } else { Features::default() };
            let mean = if i % 3 == 0 { most } else { Power::from_mw(-5) };
            let duration = Span::from_ms(i64::MIN + i);
            FinishedJob {
                features,
                mean,
                peak: Power::ZERO,
                nameplate: most,
                duration,
                submitted: Time::from_unix_ms(i64::MAX - i),
                ended: Time::from_unix_ms(i64::MIN),
            }
        })
        .collect();
    let mut model = train(&rows, SETTINGS);
    model.observe_all(&rows);
    assert!(model.predict(&extreme).is_some_and(|found| found.mean > Power::ZERO));
    assert_eq!(Predictor::from_bytes(&model.to_bytes()).as_ref(), Ok(&model));
}

#[test]
fn models_are_read_as_they_were_written() {
    let model = train(&steady(600), SETTINGS);
    let bytes = model.to_bytes();
    let read = Predictor::from_bytes(&bytes).expect("a model");
    assert_eq!(read, model);
    assert_eq!(read.predict(&features(5, 1, 2)), model.predict(&features(5, 1, 2)));
}

/// Submits 100 times 20 equal jobs at once, whose draw is another one each time, and returns the part below the quantile.
/// Jobs teach their errors as they were predicted by what was known at their submission, or at their end.
fn covered_in_bursts(at_the_end: bool) -> f64 {
    let mut draw = Xoshiro256PlusPlus::seed_from_u64(1);
    let mut model = train(&steady(300), SETTINGS);
    let mut covered = 0;
    for _ in 0..100 {
        let job = row(features(1, 9, 16), 40_000 + (draw.next_u64() % 120_000) as i64);
        let found = model.predict(&job.features).expect("there were jobs");
        for _ in 0..20 {
            covered += u32::from(job.mean <= found.high);
            let known = if at_the_end { model.predict(&job.features) } else { Some(found) };
            model.observe(&job, known.map(|found| found.draw()).as_ref());
        }
    }
    f64::from(covered) / 2_000.0
}

#[test]
fn equal_jobs_at_once_are_covered_since_errors_count_from_submission() {
    let (submission, end) = (covered_in_bursts(false), covered_in_bursts(true));
    // Of 100 draws, 90 are below, with a deviation of 3.
    assert!((0.81..0.99).contains(&submission) && end < 0.75, "{submission} {end}");
}

/// A model that knows two jobs of 10 W. The second one is submitted before the first ends, or at its end.
fn taught(submitted: i64) -> Predictor {
    let mut model = train(&steady(300), SETTINGS);
    let first = FinishedJob { ended: Time::from_unix_ms(5), ..row(features(50, 9, 1), 10_000) };
    let (submitted, ended) = (Time::from_unix_ms(submitted), Time::from_unix_ms(9));
    let second = FinishedJob { submitted, ended, ..row(features(50, 9, 1), 10_000) };
    model.observe_all(&[first, second]);
    model
}

#[test]
fn a_job_knows_what_ended_when_it_was_submitted() {
    // Both are unusual: an error that the first one tells is smaller.
    let (before, when) = (taught(4), taught(5));
    assert!(before.distance.mean > when.distance.mean + 0.001, "{before:?} {when:?}");
    assert_eq!(before.history.users.len(), when.history.users.len());
}

fn refused(bytes: &[u8]) -> String {
    Predictor::from_bytes(bytes).expect_err("not a model").to_string()
}

/// Returns the bytes with a valid digest instead of the last eight.
fn signed(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes.truncate(bytes.len() - 8);
    let digest = limo_model::Digest::new().with(&bytes).value();
    bytes.extend(digest.to_le_bytes());
    bytes
}

#[test]
fn malformed_models_are_refused() {
    let bytes = train(&steady(300), SETTINGS).to_bytes();
    assert_eq!(refused(b""), "the model ends within its mark");
    assert_eq!(refused(b"SQLite format 3"), "this is not a model of the predictor of Limo");
    let mut other = bytes.clone();
    other[4] = 9;
    let message = "the model has version 9, but this program knows only version 3: let it be trained anew";
    assert_eq!(refused(&other), message);
    let mut damaged = bytes.clone();
    damaged[500] ^= 1;
    assert_eq!(refused(&damaged), "the model is damaged: its digest is wrong");
    let mut huge = bytes.clone();
    huge.resize(10_000_001, 0);
    assert_eq!(refused(&huge), "the model has 10000001 bytes, more than the limit of 10000000");
    let mut long = bytes.clone();
    long.push(0);
    assert_eq!(refused(&signed([long, vec![0; 8]].concat())), "the model goes on after its end");
}

#[test]
fn every_cut_and_every_wrong_byte_is_an_error_or_a_model() {
    let bytes = train(&steady(60), SETTINGS).to_bytes();
    for length in (0..bytes.len()).step_by(97) {
        refused(&bytes[..length]);
        if length > 14 {
            refused(&signed(bytes[..length].to_vec()));
        }
    }
    for place in (6..bytes.len() - 8).step_by(11) {
        for value in [0, 0x7f, 0xff] {
            let mut wrong = bytes.clone();
            wrong[place] = value;
            if let Ok(model) = Predictor::from_bytes(&signed(wrong)) {
                // It works: nothing panics, and no path of a tree is endless.
                model.predict(&features(3, 2, 4));
                let mut model = model;
                model.observe_all(&[row(features(3, 2, 4), 5_000)]);
            }
        }
    }
}
