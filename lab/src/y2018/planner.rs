//! Decides which waiting jobs start now: LS, EASY backfilling (BF), and BF with reduced draws (DVFS); PROGRAM.md, section 4.
//!
//! The published program also plans later starts, but plans anew at each event. So only the starts of now have an effect,
//! unless a job has no start in the whole plan: then the program ends at an assertion.

use super::job::Job;
use super::resources::FreeNodes;
use super::sort;

/// Times of a run below which a slowdown is not predicted, in seconds.
const LEAST_RUN_S: i64 = 60;
/// Thresholds of the predicted slowdown below a quarter of the cap, between, and above three quarters.
const LOW: f64 = 0.0;
const MIDDLE: f64 = 2.0;
const HIGH: f64 = 10.0;

/// The order of the queue and the test of power.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Discipline {
    /// List scheduling: shortest request first.
    Ls,
    /// EASY backfilling at full power.
    Bf,
    /// EASY backfilling; a job that would exceed the cap gets less power, and is slowed by this factor.
    Dvfs(f64),
}

/// A job that the planner takes as running.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Believed {
    pub job: usize,
    pub end_s: i64,
    pub watts: i64,
    /// Node of each unit.
    pub places: Vec<usize>,
}

/// A start that a plan decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Start {
    pub job: usize,
    pub places: Vec<usize>,
}

/// A pass over the waiting jobs at one time.
#[derive(Debug)]
pub struct Planner<'p> {
    pub jobs: &'p [Job],
    pub discipline: Discipline,
    pub cap_w: i64,
    pub now_s: i64,
    /// Resources that the running jobs leave free.
    pub free: FreeNodes<'p>,
    pub running: Vec<Believed>,
}

/// Draw and duration that a job would have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Pace {
    watts: i64,
    duration_s: i64,
}

impl Planner<'_> {
    /// Returns the starts in the order in which they were decided. `waiting` has the jobs that have not started.
    pub fn plan(mut self, waiting: &[usize]) -> Vec<Start> {
        if self.discipline == Discipline::Ls { self.list(waiting) } else { self.backfill(waiting) }
    }

    /// Returns true if backfilling at the ends of the jobs leaves a job of `waiting` without a start.
    pub fn strands(mut self, waiting: &[usize]) -> bool {
        let mut waiting = waiting.to_vec();
        loop {
            let starts = self.backfill(&waiting);
            waiting.retain(|job| starts.iter().all(|start| start.job != *job));
            if waiting.is_empty() {
                return false;
            }
            let Some(next_s) = self.running.iter().map(|believed| believed.end_s).min() else { return true };
            self.now_s = next_s;
            let (ended, running) = self.running.into_iter().partition(|believed| believed.end_s == next_s);
            self.running = running;
            ended.iter().for_each(|Believed { job, places, .. }| self.free.give(places, self.jobs[*job].unit));
        }
    }

    fn list(&mut self, waiting: &[usize]) -> Vec<Start> {
        let mut order = waiting.to_vec();
        let shorter = |a: usize, b: usize| self.jobs[a].requested_s < self.jobs[b].requested_s;
        // The second pass moves equal keys again.
        sort::sort(&mut order, &shorter);
        sort::sort(&mut order, &shorter);
        let mut watts = self.watts();
        let mut starts = Vec::new();
        for job in order {
            let more = self.jobs[job].watts();
            if watts + more <= self.cap_w
                && let Some(places) = self.free.place(&self.jobs[job])
            {
                watts += more;
                starts.push(Start { job, places });
            }
        }
        starts
    }

    fn backfill(&mut self, waiting: &[usize]) -> Vec<Start> {
        let mut starts = Vec::new();
        let mut watts = self.watts();
        let mut rest = waiting.iter().copied();
        let head = loop {
            let Some(job) = rest.next() else { return starts };
            let Some((pace, places)) = self.fit(job, watts) else { break job };
            watts += pace.watts;
            starts.push(self.start(job, self.now_s + pace.duration_s, pace, places));
        };
        let Some(limit_s) = self.reservation(head, watts) else { return starts };
        for job in rest {
            let end_s = self.now_s + self.jobs[job].requested_s;
            if end_s < limit_s
                && let Some((pace, places)) = self.fit(job, watts)
            {
                watts += pace.watts;
                starts.push(self.start(job, end_s, pace, places));
            }
        }
        starts
    }

    fn start(&mut self, job: usize, end_s: i64, pace: Pace, places: Vec<usize>) -> Start {
        self.running.push(Believed { job, end_s, watts: pace.watts, places: places.clone() });
        Start { job, places }
    }

    /// Returns the end of the running job that makes room for `head`, if all that end before it are gone.
    fn reservation(&self, head: usize, mut watts: i64) -> Option<i64> {
        let mut free = self.free.clone();
        let mut running: Vec<&Believed> = self.running.iter().collect();
        // Jobs with the same end may be in any order: the result is their end.
        running.sort_by_key(|believed| believed.end_s);
        running.into_iter().find_map(|believed| {
            free.give(&believed.places, self.jobs[believed.job].unit);
            watts -= believed.watts;
            let fits = self.pace(head, watts).is_some() && free.clone().place(&self.jobs[head]).is_some();
            fits.then_some(believed.end_s)
        })
    }

    /// Places a job that fits beside jobs that draw `watts`.
    fn fit(&mut self, job: usize, watts: i64) -> Option<(Pace, Vec<usize>)> {
        let pace = self.pace(job, watts)?;
        Some((pace, self.free.place(&self.jobs[job])?))
    }

    fn watts(&self) -> i64 {
        self.running.iter().map(|believed| believed.watts).sum()
    }

    /// Returns the pace at which a job keeps the cap beside jobs that draw `watts`.
    fn pace(&self, job: usize, watts: i64) -> Option<Pace> {
        let job = &self.jobs[job];
        let full = Pace { watts: job.watts(), duration_s: job.requested_s };
        let pace = match self.discipline {
            Discipline::Dvfs(factor) if watts + full.watts > self.cap_w => self.reduced(job, full, watts, factor),
            _ => full,
        };
        (watts + pace.watts <= self.cap_w).then_some(pace)
    }

    /// Returns the pace at the power that is left, or the full one if the predicted slowdown reaches its threshold.
    fn reduced(&self, job: &Job, full: Pace, watts: i64, factor: f64) -> Pace {
        let available = self.cap_w - watts;
        let mut share = available as f64 / full.watts as f64;
        if share > 1.0 || share <= 0.0 {
            share = 1.0;
        }
        // The order of the operations matters: the conversions truncate.
        let stretch = if factor == 0.0 || share == 1.0 { 1.0 } else { f64::max(1.0, (1.0 / share) * factor) };
        let duration_s = (full.duration_s as f64 * stretch) as i64;
        let reduced = Pace { watts: ((full.watts as f64 * share) as i64).max(1), duration_s };
        let (draw, cap) = ((watts + reduced.watts) as f64, self.cap_w as f64);
        let threshold = if draw < cap * 0.25 {
            LOW
        } else if draw > cap * 0.75 {
            HIGH
        } else {
            MIDDLE
        };
        let waited_s = self.now_s - job.arrival_s;
        let slowdown = f64::max(1.0, (waited_s + duration_s) as f64 / full.duration_s.max(LEAST_RUN_S) as f64);
        if slowdown >= threshold { full } else { reduced }
    }
}

#[cfg(test)]
mod tests;
