//! Times of submission, in whole seconds from the start, sorted. Requires a recipe that `check` accepts. Only
//! `steady` uses the work of the jobs.

use limo_model::Span;

use super::draw::{Dice, gamma_share_below};
use super::recipe::{Arrivals, LublinArrivals};
use super::work;
use crate::Job;

const HALF_HOURS: usize = 48;
const HALF_HOUR_S: f64 = 1_800.0;
const DAY_S: f64 = 86_400.0;
/// First half hour of the fitted daily cycle: 05:00.
const FIRST_HALF_HOUR: usize = 10;

/// End of arrivals at their own rate.
#[derive(Debug, Clone, Copy)]
pub(super) enum Until {
    Jobs(u32),
    /// End at this second, which no job reaches, or at one job above the limit, which the caller refuses.
    End {
        span_s: i64,
        limit: u32,
    },
}

/// Returns submission times of arrivals with their own rate; none for others.
pub(super) fn at_own_rate(arrivals: &Arrivals, until: Until, dice: &mut Dice) -> Vec<i64> {
    match arrivals {
        Arrivals::Exponential { mean_gap: Some(gap) } => {
            let mean_s = gap.ms() as f64 / 1e3;
            collect(until, dice, |dice| mean_s * dice.exponential(), |time| time)
        }
        Arrivals::Lublin(model) => match DayClock::new(model) {
            Some(clock) => collect(until, dice, |dice| gap(model, dice), |time| clock.time_when(time)),
            None => Vec::new(),
        },
        Arrivals::Exponential { mean_gap: None }
        | Arrivals::Uniform
        | Arrivals::LeftSkewed
        | Arrivals::Burst { .. }
        | Arrivals::Steady => Vec::new(),
    }
}

fn collect(
    until: Until,
    dice: &mut Dice,
    mut gap: impl FnMut(&mut Dice) -> f64,
    clock: impl Fn(f64) -> f64,
) -> Vec<i64> {
    let mut submits = Vec::new();
    let mut time = 0.0;
    loop {
        time += gap(dice);
        let submit = clock(time).floor() as i64;
        match until {
            Until::Jobs(jobs) if submits.len() >= jobs as usize => return submits,
            Until::End { span_s, limit } if submit >= span_s || submits.len() > limit as usize => return submits,
            Until::Jobs(_) | Until::End { .. } => submits.push(submit),
        }
    }
}

/// Sets submission times of all jobs within the span.
pub(super) fn fit(arrivals: &Arrivals, jobs: &mut [Job], span_s: i64, dice: &mut Dice) {
    let span = span_s as f64;
    match arrivals {
        Arrivals::Steady => steady(jobs, span_s),
        Arrivals::Uniform => place(jobs, &sorted_shares(jobs.len(), dice), span_s, |share| share * span),
        Arrivals::LeftSkewed => {
            // The density 2 (1 - x) has the distribution function 1 - (1 - x)^2.
            place(jobs, &sorted_shares(jobs.len(), dice), span_s, |share| (1.0 - (1.0 - share).sqrt()) * span);
        }
        Arrivals::Burst { count, width } => {
            let (count, width_s) = (f64::from(*count), width.ms() as f64 / 1e3);
            place(jobs, &sorted_shares(jobs.len(), dice), span_s, |share| {
                let burst = (share * count).floor();
                burst * span / count + (share * count - burst) * width_s
            });
        }
        Arrivals::Exponential { .. } => {
            let (times, total) = sums(jobs.len(), || dice.exponential());
            place(jobs, &times, span_s, |time| time / total * span);
        }
        Arrivals::Lublin(model) => {
            let (times, total) = sums(jobs.len(), || gap(model, dice));
            // The gaps are scaled on the clock of the day, so that its rush hours stay in place.
            if let Some(clock) = DayClock::new(model) {
                let end = clock.shown_at(span);
                place(jobs, &times, span_s, |time| clock.time_when(time / total * end));
            }
        }
    }
}

fn place(jobs: &mut [Job], times: &[f64], span_s: i64, clock: impl Fn(f64) -> f64) {
    for (job, time) in jobs.iter_mut().zip(times) {
        job.submit = Span::from_secs((clock(*time).floor() as i64).clamp(0, span_s));
    }
}

/// Submits each job when the work before it has had its share of the span.
fn steady(jobs: &mut [Job], span_s: i64) {
    let total: i128 = jobs.iter().map(work).sum();
    let mut before = 0;
    for job in jobs {
        // Work is at most 3.2e26 (a century x 1e9 processors x 1e8 jobs), which times 3.2e9 s fits an i128. The
        // result is at most the span.
        job.submit = Span::from_secs((before * i128::from(span_s) / total.max(1)) as i64);
        before += work(job);
    }
}

/// Returns `count` sorted numbers of [0, 1), distributed like uniform draws: gaps of a Poisson process, normalized with
/// one more gap.
fn sorted_shares(count: usize, dice: &mut Dice) -> Vec<f64> {
    let (mut shares, before) = sums(count, || dice.exponential());
    let total = before + dice.exponential();
    // The share is kept below 1, so that the index of the burst is valid.
    shares.iter_mut().for_each(|share| *share = (*share / total).min(1.0 - f64::EPSILON));
    shares
}

/// Returns the running sums of `count` draws, and the last of them.
fn sums(count: usize, mut draw: impl FnMut() -> f64) -> (Vec<f64>, f64) {
    let mut sum = 0.0;
    let running = (0..count).map(|_| {
        sum += draw();
        sum
    });
    let sums: Vec<f64> = running.collect();
    (sums, sum)
}

/// Draws a gap in seconds on the clock of the day.
fn gap(model: &LublinArrivals, dice: &mut Dice) -> f64 {
    loop {
        let log = dice.gamma(model.aarr * model.arar, model.barr);
        if log <= model.longest {
            return libm::exp(log);
        }
    }
}

/// Clock that runs fast when there are many jobs. Its day has the usual length.
pub(super) struct DayClock {
    /// Time of the clock in seconds at the end of each half hour.
    ends: [f64; HALF_HOURS],
}

impl DayClock {
    /// Makes the clock; `None` if some half hour has practically no jobs, because the clock would stop there.
    pub(super) fn new(model: &LublinArrivals) -> Option<Self> {
        let share = |end: f64| gamma_share_below(model.anum, end / model.bnum);
        let mut weights = [0.0; HALF_HOURS];
        for step in 0..HALF_HOURS {
            // The authors number half hours from 1, each from half before its number to half after it.
            let number = (FIRST_HALF_HOUR + step + 1) as f64;
            weights[(FIRST_HALF_HOUR + step) % HALF_HOURS] = share(number + 0.5) - share(number - 0.5);
        }
        let total: f64 = weights.iter().sum();
        if weights.iter().any(|weight| *weight < 1e-6) {
            return None;
        }
        let mut ends = [0.0; HALF_HOURS];
        let mut sum = 0.0;
        for (end, weight) in ends.iter_mut().zip(weights) {
            sum += weight / total * DAY_S;
            *end = sum;
        }
        Some(Self { ends })
    }

    /// Returns the time on this clock at `time` seconds after midnight.
    fn shown_at(&self, time: f64) -> f64 {
        let days = (time / DAY_S).floor();
        let within = time - days * DAY_S;
        let index = ((within / HALF_HOUR_S) as usize).min(HALF_HOURS - 1);
        let (start, end) = self.bounds(index);
        days * DAY_S + start + (end - start) * (within - index as f64 * HALF_HOUR_S) / HALF_HOUR_S
    }

    /// Returns the time after midnight at which this clock shows `shown` seconds.
    fn time_when(&self, shown: f64) -> f64 {
        let days = (shown / DAY_S).floor();
        let within = shown - days * DAY_S;
        let index = self.ends.partition_point(|end| *end <= within).min(HALF_HOURS - 1);
        let (start, end) = self.bounds(index);
        // Sums of rounded shares may end slightly before or after the day's end.
        let part = ((within - start) / (end - start)).min(1.0);
        days * DAY_S + (index as f64 + part) * HALF_HOUR_S
    }

    fn bounds(&self, index: usize) -> (f64, f64) {
        let start = index.checked_sub(1).map_or(0.0, |before| self.ends[before]);
        (start, self.ends[index])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_of_the_day_shares_the_jobs_out_as_published() {
        let clock = DayClock::new(&LublinArrivals::default()).unwrap();
        // These are the shares of all jobs that come in the hours from 4, 9, 13 and 23, by numerical integration of
        // the density.
        for (hour, share) in [(4.0, 0.007_82), (9.0, 0.048_65), (13.0, 0.076_05), (23.0, 0.024_74)] {
            let found = (clock.shown_at((hour + 1.0) * 3_600.0) - clock.shown_at(hour * 3_600.0)) / DAY_S;
            assert!((found - share).abs() < 1e-5, "hour {hour}: {found}, not {share}");
        }
    }

    #[test]
    fn the_clock_of_the_day_goes_both_ways() {
        let clock = DayClock::new(&LublinArrivals::default()).unwrap();
        for time in [0.0, 1.0, 1_799.0, 1_800.0, 40_000.5, 86_399.0, 86_400.0, 1_000_000.0] {
            let back = clock.time_when(clock.shown_at(time));
            assert!((back - time).abs() < 1e-6, "{time} became {back}");
        }
    }
}
