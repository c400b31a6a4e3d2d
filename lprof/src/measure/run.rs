//! Measures a command: warm-up, then idle, run, idle, run, idle and so on.

use std::time::Duration;

use anyhow::Context;
use limo_model::Span;
use limo_power::Site;

use super::baseline::Surroundings;
use super::command_report::CommandReport;
use super::process::MeasuredCommand;
use super::recorder::Recorder;
use super::sheet::MeterSheet;
use super::statistics::{LEAST_RUNS, StopRule};
use super::verdict::{Limits, Reason, RunFacts, of_runs};
use super::window::{Idle, Sample, TimeRange, above_idle, above_idle_by_draw, idle, thinned};
use crate::interrupt::{Events, Interrupted};
use crate::machine::{CapProblem, Setting, Testbed};
use crate::progress::Progress;
use crate::results::{RunRecord, Summary};

/// Difference of two successive runs at which the machine is warm.
const WARM: f64 = 0.01;

/// Most runs of a warm-up: a command whose duration varies never has two equal runs, and its interval shows that.
const MOST_WARM_UPS: usize = 10;

/// Most runs of a short command in a row.
const MOST_TIMES: u32 = 100_000;

/// Most samples of a run that are stored: neighbours are joined, so that the results of long runs can be read.
const KEPT_SAMPLES: usize = 20_000;

/// Times of a measurement.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Timing {
    /// Time behaviour of the meter.
    pub sheet: MeterSheet,
    /// Duration of each idle time, in seconds.
    pub idle_s: f64,
    /// Least duration of a run, in seconds: shorter commands run several times.
    pub at_least_s: f64,
    /// Most cores that other processes may use.
    pub other_cores: f64,
}

/// Runs that do not count, after which the machine is warm.
#[derive(Debug, Clone, PartialEq)]
pub struct WarmUp {
    /// Number of times that the command must run to last long enough.
    pub times: u32,
    /// Durations of all runs, in seconds.
    pub durations_s: Vec<f64>,
}

/// A machine with a meter, on which commands are measured.
pub struct Laboratory {
    /// The machine.
    pub testbed: Testbed,
    /// Its meter.
    pub recorder: Recorder,
    /// Signals and ends of commands.
    pub events: Events,
    /// Times.
    pub timing: Timing,
    /// The library of NVIDIA, and other places of interfaces.
    pub site: Site,
    /// Display.
    pub progress: Progress,
}

/// Idle time, with the state of the machine at its begin.
struct IdleTime {
    range: TimeRange,
    idle: Idle,
    surroundings: Surroundings,
}

impl Laboratory {
    /// Measures this unit from now on.
    pub fn select(&mut self, unit: usize) {
        self.testbed.select(unit);
        self.recorder.watch(self.testbed.gpu_watch(&self.site));
    }

    /// Returns the present time on the clock of the samples.
    pub fn now_s(&self) -> f64 {
        self.recorder.clock().now().as_secs_f64()
    }

    /// Waits until this time.
    ///
    /// # Errors
    /// [`Interrupted`] after a signal.
    pub fn pause_until(&self, until_s: f64) -> Result<(), Interrupted> {
        self.events.pause(Duration::from_secs_f64((until_s - self.now_s()).max(0.0)))
    }

    /// Sets a cap or clocks, and waits until the meter shows the effect.
    ///
    /// # Errors
    /// [`CapProblem`] inside if the setting does not hold; other errors end the measurement.
    pub fn set(&mut self, setting: Setting) -> anyhow::Result<Result<(), CapProblem>> {
        let now = self.recorder.clock().now();
        let set = self.testbed.set(setting, Span::from_ms(i64::try_from(now.as_millis()).unwrap_or(i64::MAX)));
        self.events.pause(Duration::from_secs_f64(self.timing.sheet.pad_s()))?;
        Ok(set)
    }

    /// Runs the command once, a number of times in a row.
    fn run(&self, command: &MeasuredCommand, times: u32) -> anyhow::Result<(TimeRange, CommandReport)> {
        command.run(times, &self.testbed, (&self.events, self.recorder.clock()))
    }

    /// Runs the command without measuring it.
    ///
    /// # Errors
    /// If the command fails, or after a signal.
    pub fn run_once(&self, command: &MeasuredCommand, times: u32) -> anyhow::Result<()> {
        self.progress.show("one run that does not count");
        self.run(command, times).map(|_| ())
    }

    /// Runs the command until two successive runs differ by less than 1 %.
    ///
    /// # Errors
    /// If the command fails, or after a signal.
    pub fn warm_up(&self, command: &MeasuredCommand) -> anyhow::Result<WarmUp> {
        let mut found = WarmUp { times: 1, durations_s: Vec::new() };
        let mut before_s = None;
        while found.durations_s.len() < MOST_WARM_UPS {
            self.progress.show(&format!("warm-up, run {}", found.durations_s.len() + 1));
            let length_s = self.run(command, found.times)?.0.length_s();
            let duration_s = length_s / f64::from(found.times);
            found.durations_s.push(duration_s);
            if length_s < self.timing.at_least_s {
                found.times = times(duration_s, self.timing.at_least_s).max(found.times);
                before_s = None;
                continue;
            }
            if before_s.is_some_and(|before_s: f64| (duration_s / before_s - 1.0).abs() < WARM) {
                break;
            }
            before_s = Some(duration_s);
        }
        Ok(found)
    }

    /// Measures the idle draw from `begin_s` on.
    fn idle(&self, begin_s: f64) -> anyhow::Result<IdleTime> {
        self.progress.show("idle");
        self.pause_until(begin_s)?;
        let surroundings = Surroundings::read(&self.site.sysfs);
        let range = TimeRange { begin_s, end_s: begin_s + self.timing.idle_s };
        self.pause_until(range.end_s)?;
        self.recorder.wait(range.end_s)?;
        let samples = self.recorder.samples(range);
        let idle = idle(&samples, range).with_context(|| {
            format!(
                "the idle time of {:.1} s has {} samples of the meter: set a longer --idle, or a shorter --interval",
                self.timing.idle_s,
                samples.len()
            )
        })?;
        Ok(IdleTime { range, idle, surroundings })
    }

    /// Measures runs until there are enough, or until there are `most`; adds them to `runs`.
    ///
    /// # Errors
    /// If the command or the meter fails, or after a signal.
    pub fn series(
        &self,
        command: &MeasuredCommand,
        times: u32,
        most: usize,
        runs: &mut Vec<RunRecord>,
    ) -> anyhow::Result<()> {
        let mut rule = StopRule::default();
        let mut before = self.idle(self.now_s() + self.timing.sheet.pad_s())?;
        for number in 1..=most {
            self.progress.show(&format!("run {number}"));
            self.pause_until(self.now_s() + self.timing.sheet.phase_s(runs.len()))?;
            let (range, reported) = self.run(command, times)?;
            let end = Surroundings::read(&self.site.sysfs);
            let after = self.idle(range.end_s + self.timing.sheet.pad_s())?;
            let reported = reported.of_one(f64::from(times));
            let run = RunRecord { reported, ..self.record((&before, range, &after), end, times)? };
            self.progress.step(&format!(
                "run {number}: {:.3} s, {:.2} J above idle, idle {:.2} W",
                run.duration_s, run.energy_j, run.idle_w
            ));
            let is_enough = rule.add(run.pair());
            runs.push(run);
            self.recorder.forget(after.range.begin_s);
            before = after;
            if is_enough {
                break;
            }
        }
        Ok(())
    }

    fn record(
        &self,
        (before, range, after): (&IdleTime, TimeRange, &IdleTime),
        end: Surroundings,
        times: u32,
    ) -> anyhow::Result<RunRecord> {
        let whole = TimeRange { begin_s: before.range.begin_s, end_s: after.range.end_s };
        let samples: Vec<Sample> = self.recorder.samples(whole);
        let pad_s = self.timing.sheet.pad_s();
        let by_draw_j = above_idle_by_draw(&samples, range, pad_s, (before.range, after.range));
        let found = above_idle(&samples, range, pad_s, (before.idle, after.idle));
        let found = found.context("the meter has no sample around a run")?;
        let (count, length_s) = (f64::from(times), range.length_s());
        let (other_cores, throttled) = if self.testbed.is_emulated() {
            // The model does not observe processes.
            (0.0, 0)
        } else {
            let since = before.surroundings;
            (end.other_cores(since, range.end_s - before.range.begin_s), end.throttled(since))
        };
        Ok(RunRecord {
            begin_s: range.begin_s,
            end_s: range.end_s,
            times,
            duration_s: length_s / count,
            energy_j: found.above_j / count,
            by_draw_j: by_draw_j.map(|energy_j| energy_j / count),
            idle_before: before.idle,
            idle_after: after.idle,
            idle_w: found.idle_w,
            idle_error_w: found.idle_error_w,
            coverage: found.coverage,
            looks: found.looks,
            other_cores,
            throttled,
            is_outlier: false,
            limits: self.recorder.limits(range),
            reported: CommandReport::default(),
            samples: thinned(&samples, KEPT_SAMPLES),
        })
    }

    /// Summarises and judges runs.
    pub fn judge(&self, runs: &mut [RunRecord]) -> (Option<Summary>, Vec<Reason>) {
        let found = Summary::of(runs);
        let facts: Vec<RunFacts> = runs.iter().filter(|run| !run.is_outlier).map(facts).collect();
        let sheet = self.timing.sheet;
        let is_sparse = !self.recorder.is_counted() && sheet.interval_s > sheet.window_s;
        let limits = Limits { other_cores: self.timing.other_cores, is_sparse };
        let reasons = of_runs(&facts, found.as_ref().map(|(_, repeated)| repeated), limits);
        (found.map(|(summary, _)| summary), reasons)
    }
}

/// Returns how often a command of this duration must run; at least once.
fn times(duration_s: f64, at_least_s: f64) -> u32 {
    let times = (at_least_s / duration_s.max(1e-6)).ceil();
    (times as u32).clamp(1, MOST_TIMES)
}

fn facts(run: &RunRecord) -> RunFacts {
    RunFacts {
        above_w: run.above_w(),
        idle_error_w: run.idle_error_w,
        idle_change_w: run.idle_after.draw_w - run.idle_before.draw_w,
        coverage: run.coverage,
        looks: run.looks,
        other_cores: run.other_cores,
        throttled: run.throttled,
        limits: run.limits.unwrap_or_default(),
        by_both: run.by_draw_j.map(|by_draw_j| (run.energy_j, by_draw_j)),
    }
}

/// Number of runs without a cap to which the runs with a single given cap are compared.
pub const REFERENCE_RUNS: usize = LEAST_RUNS;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_commands_run_often_enough() {
        assert_eq!(times(12.0, 10.0), 1);
        assert_eq!(times(3.0, 10.0), 4);
        assert_eq!(times(0.0, 10.0), MOST_TIMES);
    }
}
