//! The figures of a run, computed from the draw by the meters and from the times of its jobs. All times are times of
//! the hour. Independent of plans and policies.

use limo_model::{Band, Curve, Energy, Money, Power, Price, Span, Time};

use super::prices::HOURS;
use super::record::{JobRecord, Record};
use super::workload::{BEGIN, END};

/// The criteria for a run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Figures {
    /// Part of the hour in which the draw was within the limits, 0 to 1.
    pub in_band_share: f64,
    /// Largest draw above the upper limit in the hour.
    pub above_upper: Power,
    /// Energy from the beginning of the hour until the last job of any run has ended, so that all runs have the same
    /// time and the same jobs.
    pub energy: Energy,
    /// Cost over the same time, with the hour standing for four days: the draw of each moment lasts [`HOURS`] times as
    /// long.
    pub cost: Money,
    /// Time from the beginning of the hour to the end of the last job.
    pub makespan: Span,
    /// Mean time from submission to start, over started jobs.
    pub mean_wait: Span,
}

/// Returns the time of the last end of all runs, at least the end of the hour.
pub fn end_of_all<'r>(records: impl IntoIterator<Item = &'r Record>) -> Time {
    records.into_iter().filter_map(last_end).max().unwrap_or(END).max(END)
}

fn last_end(record: &Record) -> Option<Time> {
    record.jobs.values().filter_map(|job| job.ended.as_ref().map(|(at, _)| *at)).max()
}

/// Computes the figures of `record` under `limits` and `prices`, with energy and cost until `end`.
pub fn measure(record: &Record, limits: &Curve<Band>, prices: &Curve<Price>, end: Time) -> Figures {
    let waits: Vec<Span> = record.jobs.values().filter_map(wait).collect();
    let waited = waits.iter().fold(Span::ZERO, |sum, wait| sum + *wait);
    Figures {
        in_band_share: in_band(&record.draw, limits).secs() / (END - BEGIN).secs(),
        above_upper: above_upper(&record.draw, limits),
        energy: energy(&record.draw, BEGIN, end),
        cost: cost(&record.draw, prices, end),
        makespan: last_end(record).unwrap_or(BEGIN) - BEGIN,
        mean_wait: waited.scaled(1, i64::try_from(waits.len()).unwrap_or(i64::MAX)),
    }
}

fn wait(job: &JobRecord) -> Option<Span> {
    job.started.map(|started| started - job.submitted)
}

/// Returns the time of the hour in which the draw was within the limits, including the limits themselves.
fn in_band(draw: &Curve<Power>, limits: &Curve<Band>) -> Span {
    let mut inside = Span::ZERO;
    for (from, to, draw) in draw.pieces(BEGIN, END) {
        for (from, to, band) in limits.pieces(from, to) {
            if band.contains(*draw) {
                inside = inside + (to - from);
            }
        }
    }
    inside
}

/// Returns the largest draw above the upper limit in the hour.
fn above_upper(draw: &Curve<Power>, limits: &Curve<Band>) -> Power {
    let above = |(from, to, draw): (Time, Time, &Power)| {
        limits.pieces(from, to).map(|(_, _, band)| (*draw - band.high()).at_least_zero()).max()
    };
    draw.pieces(BEGIN, END).filter_map(above).max().unwrap_or(Power::ZERO)
}

fn energy(draw: &Curve<Power>, from: Time, to: Time) -> Energy {
    draw.pieces(from, to).map(|(from, to, draw)| *draw * (to - from)).sum()
}

/// Returns the cost, rounded once for each step of the price.
fn cost(draw: &Curve<Power>, prices: &Curve<Price>, end: Time) -> Money {
    prices.pieces(BEGIN, end).map(|(from, to, price)| energy(draw, from, to).scaled(HOURS, 1) * *price).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use limo_model::{JobId, Outcome};

    fn minute(minute: i64) -> Time {
        BEGIN + Span::from_secs(60 * minute)
    }

    fn curve<T>(steps: Vec<(i64, T)>) -> Curve<T> {
        Curve::new(steps.into_iter().map(|(at, value)| (minute(at), value)).collect(), None).expect("a curve")
    }

    fn draw(steps: &[(i64, i64)]) -> Curve<Power> {
        curve(steps.iter().map(|(at, watts)| (*at, Power::from_watts(*watts))).collect())
    }

    fn limits() -> Curve<Band> {
        let band = |low, high| Band::new(Power::from_watts(low), Power::from_watts(high)).expect("a band");
        curve(vec![(0, band(40, 60)), (30, band(60, 90))])
    }

    fn job(submitted: i64, started: i64, ended: i64) -> JobRecord {
        JobRecord {
            application: "cg".into(),
            submitted: minute(submitted),
            started: Some(minute(started)),
            ended: Some((minute(ended), Outcome::Exited(0))),
        }
    }

    #[test]
    fn within_the_limits_counts_both_of_them() {
        let check = |steps: &[(i64, i64)], minutes: i64| {
            assert_eq!(in_band(&draw(steps), &limits()), Span::from_secs(60 * minutes), "{steps:?}");
        };
        check(&[(0, 40)], 30);
        check(&[(0, 60)], 60);
        check(&[(0, 61)], 30);
        check(&[(-5, 39), (10, 41), (25, 61), (29, 91), (50, 90)], 15 + 10);
        // Time after the hour does not count.
        check(&[(0, 0), (60, 70)], 0);
    }

    #[test]
    fn energy_and_cost_by_hand() {
        // 30 min at 100 W and 30 min at 40 W are 70 Wh.
        let draw = draw(&[(0, 100), (30, 40)]);
        assert_eq!(energy(&draw, BEGIN, END), "70 Wh".parse().expect("an energy"));
        // These are 50 Wh at 20 EUR/MWh and 20 Wh at -100 EUR/MWh, each 96 times: 0.096 EUR and -0.192 EUR.
        let prices = curve(
            vec![(0, "20 EUR/MWh"), (30, "-100 EUR/MWh")].into_iter().map(|(at, text)| (at, price(text))).collect(),
        );
        assert_eq!(cost(&draw, &prices, END), "-0.096 EUR".parse().expect("money"));
        // 15 more minutes at 40 W and -100 EUR/MWh add 10 Wh.
        assert_eq!(cost(&draw, &prices, minute(75)), "-0.192 EUR".parse().expect("money"));
    }

    fn price(text: &str) -> Price {
        text.parse().expect("a price")
    }

    #[test]
    fn energy_counts_until_the_last_job_of_any_run() {
        let record = |jobs: &[(u64, JobRecord)]| Record {
            draw: draw(&[(0, 60), (70, 0)]),
            jobs: jobs.iter().map(|(id, job)| (JobId(*id), job.clone())).collect(),
        };
        let short = record(&[(1, job(0, 1, 20)), (2, job(10, 15, 50))]);
        let long = record(&[(1, job(0, 1, 20)), (3, job(20, 21, 90))]);
        assert_eq!(end_of_all([&short]), END);
        let end = end_of_all([&short, &long]);
        assert_eq!(end, minute(90));
        let figures = measure(&short, &limits(), &Curve::constant(price("50 EUR/MWh")), end);
        assert_eq!((figures.makespan, figures.mean_wait), (Span::from_secs(50 * 60), Span::from_secs(3 * 60)));
        // 70 min at 60 W are 70 Wh, which count 96 times at 50 EUR/MWh.
        assert_eq!(figures.energy, "70 Wh".parse().expect("an energy"));
        assert_eq!(figures.cost, "0.336 EUR".parse().expect("money"));
        assert!((figures.in_band_share - 1.0).abs() < 1e-9);
        assert_eq!(figures.above_upper, Power::ZERO);
    }

    #[test]
    fn above_the_upper_limit_in_the_hour() {
        let above = |steps: &[(i64, i64)]| above_upper(&draw(steps), &limits());
        // The draw is 60 W until minute 30, then 90 W; the time after the hour does not count.
        assert_eq!(above(&[(0, 60), (30, 90), (60, 500)]), Power::ZERO);
        assert_eq!(above(&[(0, 50), (10, 63), (20, 50), (40, 92)]), Power::from_watts(3));
    }
}
