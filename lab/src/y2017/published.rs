//! The figures of one simulation as energy-budget-2017's authors printed them, with the oddities of their scripts: the
//! energy omits an interval that straddles the end of the week, times of switches have six digits, and the states after
//! the last switch are never used.

use std::fmt;

use limo_trace::Workload;

use super::platform::{Life, Switched};
use super::{BUDGET_FROM_MS, BUDGET_UNTIL_MS};

const WEEK_MS: i64 = 604_800_000;
/// Draws of a node in W (energy-budget-2017, table I): busy. The next values are idle, going off, off and coming on.
const BUSY_W: f64 = 190.738;
const DRAWS_W: [f64; 4] = [95.0, 616.08 / 6.1, 9.75, 18_966.422_8 / 151.52];
const OFF_MS: i64 = 6_100;
const ON_MS: i64 = 151_520;

/// A row of the authors' tables. Times in s, energies in J.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PublishedRow {
    /// Mean and maximum of `max(1, (finish - submit) / max(run, 10 s))` over the jobs that ended.
    pub avgbsld: f64,
    pub maxbsld: f64,
    /// Time from the first submission to the last end.
    pub ctime: f64,
    /// Energy on days 2 to 5.
    pub energy_budget: f64,
    pub energy_week: f64,
    pub energy_tot: f64,
    /// Jobs that started and ended within the week.
    pub job_run: u64,
    /// Number of jobs that started and ended within the week, plus the share of each longer job that lies before the
    /// end of the week.
    pub job_run_with_end: f64,
    /// Mean share of busy nodes in the week.
    pub util: f64,
    /// Energy of the week, divided by that of a full cluster that keeps its budget on days 2 to 5.
    pub ene_w_cons: f64,
}

/// Names of the columns, as published.
pub const COLUMNS: &str = "avgbsld,maxbsld,ctime,energyBudget,energyWeek,energyTot,jobRun,jobRunWithEnd,util,eneWCons";

/// Formats the columns with the printed digits, separated by commas.
impl fmt::Display for PublishedRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { avgbsld, maxbsld, ctime, job_run, job_run_with_end, util, ene_w_cons, .. } = self;
        write!(f, "{avgbsld:.6},{maxbsld:.3},{ctime:.2},")?;
        for energy in [self.energy_budget, self.energy_week, self.energy_tot] {
            let text = format!("{energy:.6e}");
            let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
            write!(f, "{digits}e+{exponent:0>2},")?;
        }
        write!(f, "{job_run},{job_run_with_end:.6},{util:.6},{ene_w_cons:.6}")
    }
}

/// Input of the figures.
#[derive(Debug, Clone, Copy)]
pub struct Schedule<'a> {
    pub workload: &'a Workload,
    pub lives: &'a [Life],
    pub switched: &'a [Switched],
    pub nodes: u32,
    /// Sums of nodes x ms: of busy nodes, and by state (`DRAWS_W`) regardless of jobs.
    pub budget_percent: u32,
}

/// Nodes x ms: busy, and by state (`DRAWS_W`) regardless of jobs.
#[derive(Debug, Clone, Copy, Default)]
struct Area {
    busy: i128,
    states: [i128; 4],
}

impl Area {
    fn add(&mut self, level: &Level, ms: i64) {
        self.busy += i128::from(level.busy) * i128::from(ms);
        for (area, nodes) in self.states.iter_mut().zip(level.states) {
            *area += i128::from(nodes) * i128::from(ms);
        }
    }

    fn joules(&self) -> f64 {
        let idle = self.states[0] - self.busy;
        let states = [idle, self.states[1], self.states[2], self.states[3]];
        let drawn = states.iter().zip(DRAWS_W).map(|(area, watts)| *area as f64 * watts);
        drawn.fold(self.busy as f64 * BUSY_W, |sum, drawn| sum + drawn) / 1_000.0
    }
}

/// Number of nodes by state, or a change of it.
#[derive(Debug, Clone, Copy, Default)]
struct Level {
    busy: i64,
    states: [i64; 4],
}

/// Rounds a time in ms to six significant digits of its seconds.
fn six_digits(ms: i64) -> i64 {
    let mut unit = 1;
    while ms / unit >= 1_000_000 {
        unit *= 10;
    }
    let (quotient, rest) = (ms / unit, ms % unit);
    let up = 2 * rest > unit || (2 * rest == unit && quotient % 2 == 1);
    (quotient + i64::from(up)) * unit
}

impl Schedule<'_> {
    /// Computes the row; all zeros if no job ended.
    pub fn row(&self) -> PublishedRow {
        let mut row = self.of_jobs();
        let [total, week, budget] = self.areas();
        row.energy_budget = budget.joules();
        row.energy_week = week.joules();
        row.energy_tot = total.joules();
        let share = f64::from(self.budget_percent) / 100.0;
        let days = 4.0 + 3.0 * share;
        row.ene_w_cons = row.energy_week / (f64::from(self.nodes) * BUSY_W * 86_400.0 * days);
        row
    }

    /// Returns the jobs that started, with their ends.
    fn ended(&self) -> impl Iterator<Item = (&limo_trace::Job, i64, i64)> {
        let jobs = self.workload.jobs.iter().zip(self.lives);
        jobs.filter_map(|(job, life)| Some((job, life.start?, life.end?)))
    }

    fn of_jobs(&self) -> PublishedRow {
        let (mut sum, mut most, mut count, mut last) = (0.0, 0.0_f64, 0_u32, 0);
        let (mut job_run, mut shares) = (0_u64, 0.0);
        let mut busy_ms = 0_i128;
        for (job, start, end) in self.ended() {
            let run = (end - start) as f64 / 1_000.0;
            let slowdown = ((end - job.submit.ms()) as f64 / 1_000.0 / run.max(10.0)).max(1.0);
            sum += slowdown;
            most = most.max(slowdown);
            count += 1;
            last = last.max(end);
            busy_ms += i128::from((end.min(WEEK_MS) - start).max(0)) * i128::from(job.processors);
            if start < WEEK_MS && end < WEEK_MS {
                job_run += 1;
            } else if start < WEEK_MS {
                shares += (WEEK_MS - start) as f64 / 1_000.0 / run;
            }
        }
        let first = self.workload.jobs.iter().map(|job| job.submit.ms()).min().unwrap_or(0);
        PublishedRow {
            avgbsld: sum / f64::from(count.max(1)),
            maxbsld: most,
            ctime: (last - first) as f64 / 1_000.0,
            energy_budget: 0.0,
            energy_week: 0.0,
            energy_tot: 0.0,
            job_run,
            job_run_with_end: job_run as f64 + shares,
            util: busy_ms as f64 / (WEEK_MS as f64 * f64::from(self.nodes)),
            ene_w_cons: 0.0,
        }
    }

    /// Returns the areas over the whole time, and over the intervals between changes that lie wholly in the week and in
    /// days 2 to 5.
    fn areas(&self) -> [Area; 3] {
        let changes = self.changes();
        let mut level = Level { busy: 0, states: [i64::from(self.nodes), 0, 0, 0] };
        let [mut total, mut week, mut budget] = [Area::default(); 3];
        for pair in changes.windows(2) {
            let [(from, change), (until, _)] = [pair[0], pair[1]];
            level.busy += change.busy;
            for (nodes, more) in level.states.iter_mut().zip(change.states) {
                *nodes += more;
            }
            total.add(&level, until - from);
            if until <= WEEK_MS {
                week.add(&level, until - from);
            }
            if from >= BUDGET_FROM_MS && until <= BUDGET_UNTIL_MS {
                budget.add(&level, until - from);
            }
        }
        [total, week, budget]
    }

    /// Returns the changes in order, one per time. Starts and ends that cancel out are omitted.
    fn changes(&self) -> Vec<(i64, Level)> {
        let of_jobs = self.ended().flat_map(|(job, start, end)| {
            let busy = i64::from(job.processors);
            let level = |busy| Level { busy, ..Level::default() };
            [(start, level(busy)), (end, level(-busy))]
        });
        let mut changes = joined(of_jobs.collect());
        changes.retain(|(_, change)| change.busy != 0);
        changes.extend([0, BUDGET_FROM_MS, BUDGET_UNTIL_MS].map(|time| (time, Level::default())));
        let last = self.switched.iter().map(|switched| six_digits(switched.end)).max();
        for switched in self.switched {
            let (ms, from, via, to) = if switched.on { (ON_MS, 2, 3, 0) } else { (OFF_MS, 0, 1, 2) };
            let nodes = i64::from(switched.nodes);
            changes.push((six_digits(switched.end - ms), moved(nodes, from, via)));
            let end = six_digits(switched.end);
            if Some(end) != last {
                changes.push((end, moved(nodes, via, to)));
            }
        }
        joined(changes)
    }
}

fn moved(nodes: i64, from: usize, to: usize) -> Level {
    let mut level = Level::default();
    level.states[from] -= nodes;
    level.states[to] += nodes;
    level
}

/// Sorts by time, and merges changes of the same time.
fn joined(mut changes: Vec<(i64, Level)>) -> Vec<(i64, Level)> {
    changes.sort_unstable_by_key(|(time, _)| *time);
    let mut joined: Vec<(i64, Level)> = Vec::with_capacity(changes.len());
    for (time, change) in changes {
        match joined.last_mut() {
            Some((last, level)) if *last == time => {
                level.busy += change.busy;
                for (nodes, more) in level.states.iter_mut().zip(change.states) {
                    *nodes += more;
                }
            }
            _ => joined.push((time, change)),
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn six_digits_are_kept_of_seconds() {
        for (ms, kept) in [
            (999_999, 999_999),
            (99_999_949, 99_999_900),
            (99_999_951, 100_000_000),
            (172_806_100, 172_806_000),
            (172_806_500, 172_806_000),
            (172_807_500, 172_808_000),
            (1_234_567_890, 1_234_570_000),
        ] {
            assert_eq!(six_digits(ms), kept, "{ms}");
        }
    }

    #[test]
    fn energies_are_printed_as_c_prints_them() {
        let row = PublishedRow {
            avgbsld: 1.5,
            maxbsld: 2.0,
            ctime: 10.25,
            energy_budget: 2.836_685e10,
            energy_week: 0.0,
            energy_tot: 1.234_567_8e5,
            job_run: 3,
            job_run_with_end: 3.5,
            util: 0.25,
            ene_w_cons: 0.5,
        };
        let printed = "1.500000,2.000,10.25,2.836685e+10,0.000000e+00,1.234568e+05,3,3.500000,0.250000,0.500000";
        assert_eq!(row.to_string(), printed);
    }
}
