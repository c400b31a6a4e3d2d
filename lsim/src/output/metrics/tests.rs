//! Figures calculated by hand.

use super::*;
use limo_model::{Power, Price};

const START: i64 = 7_000;

fn secs(secs: i64) -> Time {
    Time::from_unix_ms(START + secs * 1_000)
}

fn heading(window: Option<(i64, i64)>) -> Heading {
    Heading {
        workload: "w".to_owned(),
        platform: "p".to_owned(),
        processors: 4,
        policy: "easy".to_owned(),
        options: Vec::new(),
        seed: None,
        start: secs(0),
        window: window.map(|(from, until)| Window { from: secs(from), until: secs(until) }),
    }
}

fn job(processors: u32, fate: Fate, times: (i64, Option<i64>, Option<i64>)) -> JobRow<'static> {
    JobRow {
        number: 1,
        submit: secs(times.0),
        processors,
        walltime: None,
        user: -1,
        fate,
        start: times.1.map(secs),
        end: times.2.map(secs),
        allocated: &[],
        energy: Energy::ZERO,
        cost: None,
    }
}

fn sample(at: i64, watts: i64) -> Sample {
    Sample { at: secs(at), draw: Power::from_watts(watts), ..Sample::default() }
}

/// Adds three jobs that ran and a refused one: waits of 0, 20 and 35 s, runs of 20, 40 and 5 s.
fn three(window: Option<(i64, i64)>) -> Metrics {
    let mut metrics = Metrics::new(&heading(window));
    metrics.add_job(&job(9, Fate::Refused, (0, None, None)));
    metrics.add_job(&job(4, Fate::Completed, (10, Some(10), Some(30))));
    metrics.add_job(&job(2, Fate::Killed, (10, Some(30), Some(70))));
    metrics.add_job(&job(1, Fate::Completed, (20, Some(55), Some(60))));
    metrics
}

#[test]
fn jobs_of_every_kind() {
    let mut metrics = three(None);
    metrics.end(secs(70));
    let expected = Counts { completed: 2, killed: 1, refused: 1, unfinished: 0, started: 3 };
    assert_eq!((metrics.counts, metrics.jobs()), (expected, 4));
    // The mean is 55 s of waiting divided by three.
    assert_eq!(metrics.mean_wait_us(), 18_333_333);
    assert_eq!(metrics.max_wait(), Span::from_secs(35));
    // The mean is 20 + 60 + 40 divided by three.
    assert_eq!(metrics.mean_turnaround_us(), 40_000_000);
    // The slowdowns are 20/20 = 1, 60/40 = 1.5 and 40/max(5, 10) = 4: a sum of 6.5, divided by three.
    assert_eq!(metrics.avebsld_millionths(), 2_166_667);
    assert_eq!(metrics.max_bsld_millionths(), 4_000_000);
    // The time is from the first submission at 10 to the last end at 70. The share is 80 + 80 + 5 of 4 x 60 processor
    // seconds.
    assert_eq!(metrics.makespan(), Span::from_secs(60));
    assert_eq!(metrics.utilisation_millionths(), 687_500);
}

#[test]
fn a_short_job_that_did_not_wait_long_counts_one() {
    let mut metrics = Metrics::new(&heading(None));
    // 3 s of waiting and 2 s of running are less than tau.
    metrics.add_job(&job(1, Fate::Completed, (0, Some(3), Some(5))));
    assert_eq!(metrics.avebsld_millionths(), 1_000_000);
}

#[test]
fn utilisation_of_a_window_cuts_jobs_at_its_ends() {
    // From 20 to 60, 4 x 10, 2 x 30 and 1 x 5 of 4 x 40 processor seconds are used.
    let mut metrics = three(Some((20, 60)));
    // One job continues from 50 to the window's end, and one starts after the window.
    metrics.add_job(&job(1, Fate::Unfinished, (0, Some(50), None)));
    metrics.add_job(&job(1, Fate::Unfinished, (0, Some(65), None)));
    metrics.add_job(&job(1, Fate::Unfinished, (0, None, None)));
    metrics.end(secs(70));
    // The share is 115 of 160.
    assert_eq!(metrics.utilisation_millionths(), 718_750);
    assert_eq!(metrics.counts.unfinished, 3);
    assert_eq!(metrics.counts.started, 5);
}

#[test]
fn an_empty_run_has_no_division_by_zero() {
    let mut metrics = Metrics::new(&heading(None));
    metrics.end(secs(0));
    assert_eq!(metrics.utilisation_millionths(), 0);
    assert_eq!(metrics.avebsld_millionths(), 0);
    assert_eq!(metrics.outside_limits_millionths(), 0);
    assert_eq!((metrics.energy(), metrics.cost()), (Energy::ZERO, None));
}

#[test]
fn energy_cost_and_limits_are_integrals() {
    let mut metrics = Metrics::new(&heading(Some((30, 130))));
    let price = Some(Price::from_milli_per_mwh(80_000));
    metrics.add_sample(&Sample { price, ..sample(0, 999) });
    // Of two samples at the same instant, the later one holds.
    metrics.add_sample(&Sample { price, limit: Some(Power::from_watts(100)), ..sample(0, 100) });
    metrics.add_sample(&Sample { price, limit: Some(Power::from_watts(100)), ..sample(60, 200) });
    metrics.add_sample(&Sample { price, lower: Some(Power::from_watts(60)), ..sample(120, 50) });
    metrics.end(secs(160));
    // The energy is 60 x 100 + 60 x 200 + 40 x 50.
    assert_eq!(metrics.energy(), Energy::from_joules(20_000));
    // The energy is 30 x 100 + 60 x 200 + 10 x 50.
    assert_eq!(metrics.energy_in_window(), Some(Energy::from_joules(15_500)));
    // 20 kJ are 1/180,000 MWh, which is 0.000444 EUR at 80 EUR/MWh.
    assert_eq!(metrics.cost(), Some(Money::from_micro(444)));
    // The draw is above from 60 to 120 and below from 120 to 160: 100 of 160 s.
    assert_eq!(metrics.outside_limits_millionths(), 625_000);
}

#[test]
fn a_slowdown_beyond_64_bits_is_the_same_division() {
    // The slowdown is 1,000 days of turnaround for one hour: 24,000.
    assert_eq!(slowdown_nano(86_400_000_000, 3_600_000), 24_000 * NANO);
    // These values are slightly below and slightly above 213 days, on either side of the shortcut.
    assert_eq!(slowdown_nano(18_446_744_073, 7_000_000), divide(18_446_744_073 * NANO, 7_000_000));
    assert_eq!(slowdown_nano(18_446_000_000, 7_000_000), divide(18_446_000_000 * NANO, 7_000_000));
}
