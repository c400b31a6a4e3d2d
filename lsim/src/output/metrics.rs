//! Figures of a schedule, accumulated exactly: sums are integers, divided once at the end, so that they do not depend
//! on the machine or the order of jobs.
//!
//! Keeps no job. The measures are those of energy-budget-2017, section II-C: utilisation and energy over a period of
//! time, AVEbsld with tau = 10 s over jobs.

use limo_model::decimal::divide;
use limo_model::{Energy, Money, Power, Span, Time};

use super::line::narrow;
use crate::record::{Fate, Heading, JobRow, Sample, Sink, Summary, Window, WriteError};

/// Shortest run in the bounded slowdown, in ms; shorter jobs count as this long (energy-budget-2017, section II-C).
const TAU_MS: i64 = 10_000;
/// Unit of slowdowns. Rounding each job to it changes a mean by less than 1e-9.
const NANO: i128 = 1_000_000_000;

/// Numbers of jobs by fate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    pub completed: u64,
    pub killed: u64,
    pub refused: u64,
    pub unfinished: u64,
    /// Number of other jobs that had a start.
    pub started: u64,
}

/// Processor time in use within a window, or all of it without a window.
#[derive(Debug, Clone, Copy)]
struct Busy {
    window: Window,
    /// Processors x ms of the jobs that ended.
    done: i128,
    /// Jobs without an end: their processors, and the sum of processors x ms of their starts.
    open: i128,
    open_starts: i128,
}

impl Busy {
    fn new(window: Window) -> Self {
        Self { window, done: 0, open: 0, open_starts: 0 }
    }

    fn add(&mut self, processors: u32, start: Time, end: Option<Time>) {
        let processors = i128::from(processors);
        let from = start.max(self.window.from);
        match end {
            Some(end) => {
                let within = (end.min(self.window.until) - from).ms().max(0);
                self.done += processors * i128::from(within);
            }
            None if from < self.window.until => {
                self.open += processors;
                self.open_starts += processors * i128::from(from.unix_ms());
            }
            None => {}
        }
    }

    /// Returns processors x ms; jobs without an end count until `end`.
    fn until(&self, end: Time) -> i128 {
        let end = end.min(self.window.until);
        if end < self.window.from {
            self.done
        } else {
            self.done + self.open * i128::from(end.unix_ms()) - self.open_starts
        }
    }
}

/// Sums over the samples.
#[derive(Debug, Clone, Copy, Default)]
struct Drawn {
    /// Energy in mW x ms.
    energy: i128,
    energy_in_window: i128,
    cost_in_window: Option<i128>,
    /// Cost in mW x ms x 1/1000 EUR per MWh; `None` before the first price.
    cost: Option<i128>,
    ms: i128,
    outside_ms: i128,
}

/// Figures of a run. One sample per instant is fastest, but several are also counted correctly.
#[derive(Debug, Clone)]
pub struct Metrics {
    processors: u32,
    window: Option<Window>,
    pub counts: Counts,
    wait_ms: i128,
    wait_max_ms: i64,
    turnaround_ms: i128,
    slowdown_nano: i128,
    slowdown_max_nano: i128,
    busy: Busy,
    busy_in_window: Option<Busy>,
    first_submit: Option<Time>,
    last_end: Option<Time>,
    drawn: Drawn,
    current: Option<Sample>,
    draw_at_end: Power,
    end: Time,
}

impl Metrics {
    pub fn new(heading: &Heading) -> Self {
        let always = Window { from: Time::from_unix_ms(i64::MIN), until: Time::MAX };
        Self {
            processors: heading.processors,
            window: heading.window,
            counts: Counts::default(),
            wait_ms: 0,
            wait_max_ms: 0,
            turnaround_ms: 0,
            slowdown_nano: 0,
            slowdown_max_nano: 0,
            busy: Busy::new(always),
            busy_in_window: heading.window.map(Busy::new),
            first_submit: None,
            last_end: None,
            drawn: Drawn::default(),
            current: None,
            draw_at_end: Power::ZERO,
            end: heading.start,
        }
    }

    pub fn jobs(&self) -> u64 {
        self.counts.completed + self.counts.killed + self.counts.refused + self.counts.unfinished
    }

    /// Returns the time from the first submission to the last end, or to the end of the simulation if jobs are left;
    /// zero without jobs.
    pub fn makespan(&self) -> Span {
        let until = if self.counts.unfinished > 0 { Some(self.end) } else { self.last_end };
        self.first_submit.zip(until).map_or(Span::ZERO, |(from, until)| until - from)
    }

    /// Returns processor time in use by all processor time, in millionths, over the window or the makespan.
    pub fn utilisation_millionths(&self) -> i128 {
        let (busy, span) = match (self.window, &self.busy_in_window) {
            (Some(window), Some(busy)) => (busy, window.until - window.from),
            _ => (&self.busy, self.makespan()),
        };
        divide(busy.until(self.end) * 1_000_000, i128::from(self.processors) * i128::from(span.ms()))
    }

    /// Returns the mean of `max((wait + p) / max(p, tau), 1)` over the jobs that ended, in millionths.
    pub fn avebsld_millionths(&self) -> i128 {
        divide(self.slowdown_nano * 1_000_000, i128::from(self.ended()) * NANO)
    }

    pub fn max_bsld_millionths(&self) -> i128 {
        divide(self.slowdown_max_nano * 1_000_000, NANO)
    }

    /// Returns the mean wait of the jobs that started, in microseconds.
    pub fn mean_wait_us(&self) -> i128 {
        divide(self.wait_ms * 1_000, i128::from(self.counts.started))
    }

    pub fn max_wait(&self) -> Span {
        Span::from_ms(self.wait_max_ms)
    }

    /// Returns the mean turnaround of the jobs that ended, in microseconds.
    pub fn mean_turnaround_us(&self) -> i128 {
        divide(self.turnaround_ms * 1_000, i128::from(self.ended()))
    }

    /// Returns the integral of the real draw from the first sample to the end.
    pub fn energy(&self) -> Energy {
        Energy::from_mj(narrow(divide(self.drawn.energy, 1_000)))
    }

    /// Returns the energy within the window.
    pub fn energy_in_window(&self) -> Option<Energy> {
        self.window.map(|_| Energy::from_mj(narrow(divide(self.drawn.energy_in_window, 1_000))))
    }

    /// Returns the integral of draw x price; `None` if no sample had a price.
    pub fn cost(&self) -> Option<Money> {
        self.drawn.cost.map(money)
    }

    /// Returns the cost within the window.
    pub fn cost_in_window(&self) -> Option<Money> {
        self.drawn.cost_in_window.map(money)
    }

    /// Returns the platform's draw after the end of all activity.
    pub fn draw_at_end(&self) -> Power {
        self.draw_at_end
    }

    /// Returns the share of time with a draw above the upper or below the lower limit, from the first sample to the
    /// end, in millionths.
    pub fn outside_limits_millionths(&self) -> i128 {
        divide(self.drawn.outside_ms * 1_000_000, self.drawn.ms)
    }

    /// Returns the processor time of all jobs, in processors x ms.
    pub fn busy_processor_ms(&self) -> i128 {
        self.busy.until(self.end)
    }

    fn ended(&self) -> u64 {
        self.counts.completed + self.counts.killed
    }

    /// Counts one job.
    pub fn add_job(&mut self, job: &JobRow<'_>) {
        *match job.fate {
            Fate::Completed => &mut self.counts.completed,
            Fate::Killed => &mut self.counts.killed,
            Fate::Refused => &mut self.counts.refused,
            Fate::Unfinished => &mut self.counts.unfinished,
        } += 1;
        if job.fate == Fate::Refused {
            return;
        }
        self.first_submit = Some(self.first_submit.map_or(job.submit, |first| first.min(job.submit)));
        let Some(start) = job.start else { return };
        self.counts.started += 1;
        let wait = (start - job.submit).ms();
        self.wait_ms += i128::from(wait);
        self.wait_max_ms = self.wait_max_ms.max(wait);
        self.busy.add(job.processors, start, job.end);
        if let Some(busy) = &mut self.busy_in_window {
            busy.add(job.processors, start, job.end);
        }
        let Some(end) = job.end else { return };
        self.last_end = Some(self.last_end.map_or(end, |last| last.max(end)));
        let turnaround = (end - job.submit).ms();
        self.turnaround_ms += i128::from(turnaround);
        let slowdown = slowdown_nano(turnaround, (end - start).ms());
        self.slowdown_nano += slowdown;
        self.slowdown_max_nano = self.slowdown_max_nano.max(slowdown);
    }

    /// Counts a sample from its time on.
    pub fn add_sample(&mut self, sample: &Sample) {
        self.hold_until(sample.at);
        self.current = Some(*sample);
    }

    /// Returns the newest sample, until the end.
    pub fn current(&self) -> Option<&Sample> {
        self.current.as_ref()
    }

    /// Ends the last sample.
    pub fn end(&mut self, end: Time) {
        self.hold_until(end);
        self.draw_at_end = self.current.take().map_or(Power::ZERO, |sample| sample.draw);
        self.end = end;
    }

    fn hold_until(&mut self, until: Time) {
        let Some(sample) = &self.current else { return };
        let ms = i128::from((until - sample.at).ms().max(0));
        let draw = i128::from(sample.draw.mw());
        let drawn = &mut self.drawn;
        drawn.ms += ms;
        drawn.energy += draw * ms;
        if let Some(window) = self.window {
            let within = (until.min(window.until) - sample.at.max(window.from)).ms().max(0);
            drawn.energy_in_window += draw * i128::from(within);
            if let Some(price) = sample.price {
                let cost = draw * i128::from(within) * i128::from(price.milli_per_mwh());
                *drawn.cost_in_window.get_or_insert(0) += cost;
            }
        }
        if let Some(price) = sample.price {
            *drawn.cost.get_or_insert(0) += draw * ms * i128::from(price.milli_per_mwh());
        }
        let above = sample.limit.is_some_and(|limit| sample.draw > limit);
        let below = sample.lower.is_some_and(|lower| sample.draw < lower);
        if above || below {
            drawn.outside_ms += ms;
        }
    }
}

impl Sink for Metrics {
    fn job(&mut self, job: &JobRow<'_>) -> Result<(), WriteError> {
        self.add_job(job);
        Ok(())
    }

    fn sample(&mut self, sample: &Sample) -> Result<(), WriteError> {
        self.add_sample(sample);
        Ok(())
    }

    fn finish(&mut self, summary: &Summary) -> Result<(), WriteError> {
        self.end(summary.end);
        Ok(())
    }
}

/// Converts from mW x ms x 1/1000 EUR per MWh: mW x ms is 1e-3 mJ, 1 MWh is 3.6e12 mJ, and a price unit is 1000
/// micro-units per MWh.
fn money(sum: i128) -> Money {
    Money::from_micro(narrow(divide(sum, 3_600_000_000_000)))
}

/// Returns `max(turnaround / max(run, tau), 1)` in billionths, rounded.
fn slowdown_nano(turnaround: i64, run: i64) -> i128 {
    let run = run.max(TAU_MS);
    if turnaround <= run {
        return NANO;
    }
    match u64::try_from(turnaround).ok().zip(u64::try_from(run).ok()) {
        // This avoids a 128-bit division for up to 213 days.
        Some((turnaround, run)) if turnaround < u64::MAX / 1_000_000_000 - run => {
            i128::from((turnaround * 1_000_000_000 + run / 2) / run)
        }
        _ => divide(i128::from(turnaround) * NANO, i128::from(run)),
    }
}

#[cfg(test)]
mod tests;
