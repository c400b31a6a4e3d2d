//! Simulated pools against formulas of queueing theory (htc-sim-2015 has none). Each run is compared within four standard
//! errors of its own mean; `LIMO_QUEUES=1000000` simulates ten runs of that many jobs, and compares them within 3 %, or 5 %
//! for the services that vary most. A chance deviation of four standard errors has a probability below 0.1 %, and the seeds
//! are fixed.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use limo_model::{CheckpointEvery, NodeId, Span};
use limo_sched::PoolRank;
use limo_trace::generate::Dice;
use limo_trace::{Job, Workload};
use lsim::engine::{Checkpointing, OwnerVisit, RunTime, Visits};

use super::cases::{CaseGroup, CaseOwners, PoolCase, whole_job};
use super::{Rows, at, rules, simulated, trace};

const HOUR_MS: f64 = 3_600_000.0;

/// Parts of a run whose means are nearly independent of each other.
const BATCHES: usize = 20;

/// Distributions of the service time, with a mean of an hour.
#[derive(Debug, Clone, Copy)]
enum Service {
    Constant,
    Exponential,
    /// Of two exponential distributions, balanced, with a squared coefficient of variation of 4.
    Hyperexponential,
}

impl Service {
    fn squared_variation(self) -> f64 {
        match self {
            Self::Constant => 0.0,
            Self::Exponential => 1.0,
            Self::Hyperexponential => 4.0,
        }
    }

    /// Draws a service time in hours.
    fn draw(self, dice: &mut Dice) -> f64 {
        match self {
            Self::Constant => 1.0,
            Self::Exponential => exponential(dice),
            Self::Hyperexponential => {
                let often = (1.0 + (3.0_f64 / 5.0).sqrt()) / 2.0;
                let share = if dice.unit() < often { often } else { 1.0 - often };
                exponential(dice) / (2.0 * share)
            }
        }
    }
}

/// Draws from an exponential distribution with a mean of 1.
fn exponential(dice: &mut Dice) -> f64 {
    -(1.0 - dice.unit()).ln()
}

fn ms(hours: f64) -> Span {
    Span::from_ms((hours * HOUR_MS).round() as i64)
}

/// A pool of one group of computers that never sleep.
fn pool(count: usize, owners: Option<CaseOwners>) -> PoolCase {
    let group = CaseGroup { count, cores: 2, active_w: 57, idle_w: 40, sleep_w: None, owners, open: Vec::new() };
    PoolCase {
        start: 0,
        until: 0,
        groups: vec![group],
        jobs: Vec::new(),
        sessions: Vec::new(),
        reboots: Vec::new(),
        defers: false,
        rest: None,
        rank: PoolRank::S1,
        window: 300,
    }
}

fn run(pool: &PoolCase, workload: &Workload, visits: &Visits) -> Rows {
    let rank = (pool.rank, Span::from_secs(pool.window));
    let (rows, _) = simulated(trace(workload, &pool.platform(), visits), rules(pool.owners(), rank, None, None))
        .expect("it simulates");
    rows
}

/// Returns the wait of each job in hours. Each one is exact: a job begins when the first computer is free. Checks Little's
/// law: the time integral of the queue is the sum of the waits.
fn waits(computers: usize, load: f64, service: Service, (jobs, seed): (usize, u64)) -> Vec<f64> {
    let [mut arrivals, mut services] = [0, 1].map(|purpose| Dice::of_purpose(seed, purpose));
    let mut submit = 0.0;
    let job = |number: i64| {
        submit += exponential(&mut arrivals) / (load * computers as f64);
        whole_job(number, ms(submit), ms(service.draw(&mut services)))
    };
    let jobs = (0..jobs as i64).map(job).collect();
    let workload = Workload { jobs, start: Some(at(0)), ..Workload::default() };
    let rows = run(&pool(computers, None), &workload, &Visits::default());
    let mut free = BinaryHeap::from(vec![Reverse(Span::ZERO); computers]);
    let mut begin = |job: &Job| {
        let begin = free.pop().map_or(Span::ZERO, |Reverse(free)| free).max(job.submit);
        free.push(Reverse(begin + job.run));
        (begin - job.submit).ms()
    };
    let expected: Vec<i64> = workload.jobs.iter().map(&mut begin).collect();
    let mut waits = vec![0; workload.jobs.len()];
    for (number, start, ..) in &rows.rows {
        let job = &workload.jobs[*number as usize];
        waits[*number as usize] = (start.expect("it has started") - at(0) - job.submit).ms();
    }
    assert!(waits == expected, "a job begins when the first computer is free");
    assert_eq!(rows.queued_ms, waits.iter().sum::<i64>(), "Little's law");
    waits.into_iter().map(|wait| wait as f64 / HOUR_MS).collect()
}

/// Returns the mean and its standard error.
fn mean_and_error(values: &[f64]) -> (f64, f64) {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1.0);
    (mean, (variance / count).sqrt())
}

/// Returns the mean over a run and its standard error, from the means of its batches. The first twentieth is left out,
/// because the pool is empty at first.
fn by_batches(values: &[f64]) -> (f64, f64) {
    let rest = &values[values.len() / 20..];
    let means: Vec<f64> = rest.chunks_exact(rest.len() / BATCHES).map(|batch| mean_and_error(batch).0).collect();
    mean_and_error(&means)
}

/// Returns the jobs of each run, and the number of runs.
fn size(usual: usize) -> (usize, u64) {
    match std::env::var("LIMO_QUEUES") {
        Ok(jobs) => (jobs.parse().expect("LIMO_QUEUES is a number of jobs"), 10),
        Err(_) => (usual, 1),
    }
}

/// Compares the means of some runs with a formula. `within` is the relative tolerance of several runs together.
fn compare(what: &str, runs: &[(f64, f64)], expected: f64, within: f64) {
    if let [(mean, error)] = runs {
        println!("{what}: {mean:.5}, expected {expected:.5}, standard error {error:.5}");
        assert!((mean - expected).abs() < 4.0 * error, "{what}: {mean} +- {error}, expected {expected}");
        assert!(4.0 * error < expected, "{what}: an error of {error} is too large to test anything");
        return;
    }
    let (mean, error) = mean_and_error(&runs.iter().map(|(mean, _)| *mean).collect::<Vec<_>>());
    println!("{what}: {mean:.5}, expected {expected:.5}, standard error {error:.5}, {} runs", runs.len());
    assert!((mean - expected).abs() < within * expected, "{what}: {mean}, expected {expected}");
}

/// Returns the probability that a job waits, and the mean wait in service times, in M/M/k (Erlang's formula C).
fn erlang_c(computers: usize, load: f64) -> (f64, f64) {
    let offered = load * computers as f64;
    let blocked = (1..=computers).fold(1.0, |before, k| offered * before / (k as f64 + offered * before));
    let waits = blocked / (1.0 - load * (1.0 - blocked));
    (waits, waits / (computers as f64 * (1.0 - load)))
}

fn check_many_computers(computers: usize, load: f64, usual: usize) {
    let (jobs, runs) = size(usual);
    let (probability, wait) = erlang_c(computers, load);
    let runs: Vec<_> = (0..runs).map(|seed| waits(computers, load, Service::Exponential, (jobs, seed))).collect();
    let each = |value: fn(&f64) -> f64| -> Vec<(f64, f64)> {
        runs.iter().map(|waits| by_batches(&waits.iter().map(value).collect::<Vec<_>>())).collect()
    };
    compare(
        &format!("{computers} computers, share that waits"),
        &each(|wait| f64::from(*wait > 0.0)),
        probability,
        0.03,
    );
    compare(&format!("{computers} computers, wait in h"), &each(|wait| *wait), wait, 0.03);
}

/// The values of the formula are those of tables.
#[test]
fn formula_of_erlang() {
    for (computers, load, probability, wait_s) in [(10, 0.8, 0.409_18, 736.5), (50, 0.9, 0.363_86, 262.0)] {
        let (found, wait) = erlang_c(computers, load);
        assert!((found - probability).abs() < 0.000_005 && (wait * 3_600.0 - wait_s).abs() < 0.05);
    }
}

#[test]
fn waits_for_ten_computers_follow_erlang() {
    check_many_computers(10, 0.8, 60_000);
}

#[test]
fn waits_for_fifty_computers_follow_erlang() {
    check_many_computers(50, 0.9, 30_000);
}

/// Pollaczek-Khinchine: the mean wait for one computer depends on the variance of the service time only.
#[test]
fn waits_for_one_computer_follow_pollaczek_and_khinchine() {
    let load = 0.7;
    for (service, usual, within) in [
        (Service::Constant, 20_000, 0.03),
        (Service::Exponential, 20_000, 0.03),
        (Service::Hyperexponential, 60_000, 0.05),
    ] {
        let (jobs, runs) = size(usual);
        let expected = load * (1.0 + service.squared_variation()) / (2.0 * (1.0 - load));
        let runs: Vec<_> = (0..runs).map(|seed| by_batches(&waits(1, load, service, (jobs, seed)))).collect();
        compare(&format!("{service:?} services, wait in h"), &runs, expected, within);
    }
}

/// Mean time between owners, of their sessions, and running time of a job, in h.
const ABSENCE: f64 = 3.0;
const SESSION: f64 = 0.75;
const RUN: f64 = 2.0;

/// Expected completion in h, evictions, and time in h that is wasted.
const WITHOUT_CHECKPOINTS: f64 = 3.554_0;

#[test]
fn evictions_cost_what_renewal_theory_says() {
    let wasted = evicted(None, WITHOUT_CHECKPOINTS);
    assert!((wasted - 0.843_2).abs() < 0.01, "{wasted} h wasted");
}

/// Checkpoints take 1 min; the job makes none at its end.
#[test]
fn checkpoints_save_what_renewal_theory_says() {
    for (minutes, completion) in [(6, 2.952_5), (15, 2.766_1), (30, 2.794_4)] {
        evicted(Some(minutes), completion);
    }
}

/// Simulates jobs that owners evict at once, and that go on when the owner leaves, and compares the mean time until they
/// complete. Absences are exponential. The jobs of a run are independent, because an absence has no memory. Returns the
/// time wasted by a job, in h.
fn evicted(minutes: Option<i64>, completion: f64) -> f64 {
    let jobs = std::env::var("LIMO_QUEUES").map_or(20_000, |_| 200_000);
    let between_jobs = 5.0;
    let [mut dice, mut arrivals] = [0, 1].map(|purpose| Dice::of_purpose(1, purpose));
    let mut submit = 0.0;
    let job = |number: i64| {
        submit += exponential(&mut arrivals) * between_jobs;
        whole_job(number, ms(submit), ms(RUN))
    };
    let jobs: Vec<_> = (0..jobs).map(job).collect();
    let mut visits = Vec::new();
    let mut logout = 0.0;
    // The last jobs wait for those before them.
    while logout < submit + 1_000.0 {
        let login = logout + exponential(&mut dice) * ABSENCE;
        logout = login + SESSION;
        visits.push(OwnerVisit { login: at(0) + ms(login), logout: at(0) + ms(logout), node: NodeId(0) });
    }
    let span = |minutes: i64| Span::from_secs(60 * minutes);
    let every = minutes.map(|minutes| CheckpointEvery::Span(span(minutes)));
    let checkpointing = every.map(|every| Checkpointing { every, cost: span(1) });
    let visits = Visits { visits, checkpointing, ..Visits::default() };
    let workload = Workload { jobs, start: Some(at(0)), ..Workload::default() };
    let owners = CaseOwners { suspends: true, start_after: 0, evict_after: 0 };
    let mut rows = run(&pool(1, Some(owners)), &workload, &visits);
    rows.rows.sort_unstable_by_key(|(number, ..)| *number);
    let mut before = at(0);
    let mut completions = Vec::new();
    for ((_, _, end, _), job) in rows.rows.iter().zip(&workload.jobs) {
        // A job begins when the one before it has ended and no owner is there.
        let ready = before.max(at(0) + job.submit);
        let next = visits.visits.partition_point(|visit| visit.logout <= ready);
        let begin = visits.visits.get(next).filter(|visit| visit.login <= ready).map_or(ready, |visit| visit.logout);
        before = end.expect("it has ended");
        completions.push((before - begin).ms() as f64 / HOUR_MS);
    }
    assert_eq!(completions.len(), workload.jobs.len());
    let count = completions.len() as f64;
    let (mean, error) = mean_and_error(&completions);
    // Each piece between two checkpoints begins again until it runs without an owner.
    let pieces = minutes.map_or(vec![RUN], |minutes| {
        let (every, all) = (minutes as f64 / 60.0, 120 / minutes);
        let piece = |piece| if piece < all { every + 1.0 / 60.0 } else { every };
        (1..=all).map(piece).collect()
    });
    let evictions: f64 = pieces.iter().map(|hours| (hours / ABSENCE).exp() - 1.0).sum();
    let expected = evictions * (ABSENCE + SESSION);
    let figures = rows.summary.expect("the end").pool.expect("figures");
    let hours = |of: RunTime| of.spent.span.ms() as f64 / HOUR_MS / count;
    let (found, wasted) = (figures.wasted[0].count as f64 / count, hours(figures.wasted[0]));
    println!(
        "checkpoints every {minutes:?} min: completion {mean:.4} h, expected {expected:.4}, standard error {error:.4}; \
         {found:.4} evictions, {wasted:.4} h wasted"
    );
    assert!((expected - completion).abs() < 0.000_05, "{expected} h, but the reference has {completion} h");
    assert!((mean - expected).abs() < 4.0 * error && error < 0.01 * expected, "{mean} +- {error}, expected {expected}");
    // The number of evictions of each piece is geometric.
    let variance: f64 = pieces.iter().map(|hours| (hours / ABSENCE).exp()).map(|of| (of - 1.0) * of).sum();
    let error = (variance / count).sqrt();
    assert!((found - evictions).abs() < 4.0 * error, "{found} +- {error} evictions, expected {evictions}");
    // The rest of the time, besides work, checkpoints and sessions of owners, is wasted.
    let other = RUN + hours(figures.checkpoints) + found * SESSION;
    assert!((mean - other - wasted).abs() < 1e-6, "{wasted} h wasted, expected {}", mean - other);
    wasted
}
