//! A measurement as the page needs it, without its runs; and the samples of a typical run of some of them.

use std::collections::BTreeMap;

use limo_model::ProfileKey;

use crate::machine::Setting;
use crate::measure::command_report::CommandReport;
use crate::measure::statistics::{Interval, median};
use crate::measure::window::thinned;
use crate::results::{Measurement, ResultKey, RunRecord};

/// Most measurements whose draw over time is kept.
const MOST_TRACES: usize = 500;

/// Most samples of a draw over time.
const TRACE_SAMPLES: usize = 300;

/// Largest usable figure. A larger one cannot be drawn, and is an error of the meter or of the file.
const LARGEST: f64 = 1e15;

/// Shortest usable duration.
const SHORTEST_S: f64 = 1e-6;

/// Longest name of a key in bytes, and longest and most texts of reasons.
const LONGEST_NAME: usize = 300;
const LONGEST_REASON: usize = 500;
const MOST_REASONS: usize = 20;

/// One measurement.
#[derive(Debug, Clone, PartialEq)]
pub struct Point {
    /// Its key.
    pub key: ResultKey,
    /// Host that was measured.
    pub host: String,
    /// Its meter.
    pub meter: String,
    /// True if the watts are modelled.
    pub emulated: bool,
    /// Reasons not to trust it.
    pub reasons: Vec<String>,
    /// Duration in seconds, above zero.
    pub duration_s: f64,
    /// Its 95 % interval, as a part of it.
    pub duration_error: f64,
    /// Energy of the node, in joules.
    pub node_j: f64,
    /// Part of it that is above idle.
    pub above_j: f64,
    /// Its 95 % interval, as a part of it.
    pub energy_error: f64,
    /// Highest draw of a typical run in watts, if there are samples.
    pub highest_w: Option<f64>,
    /// Figures that the command reported.
    pub reported: CommandReport,
    /// Draw over time: begin, end and watts of each piece, in seconds since the begin of the run.
    pub trace: Vec<(f64, f64, f64)>,
}

/// Keeps the newest measurement of each key, in little memory.
#[derive(Debug, Default)]
pub struct Collector {
    points: BTreeMap<ResultKey, Point>,
    traces: usize,
    left_out: usize,
}

impl Collector {
    /// Adds a measurement.
    pub fn add(&mut self, measurement: &Measurement) {
        let key = measurement.key();
        if let Some(replaced) = self.points.remove(&key) {
            self.traces -= usize::from(!replaced.trace.is_empty());
        }
        match Point::of(measurement, self.traces < MOST_TRACES) {
            Some(point) => {
                self.traces += usize::from(!point.trace.is_empty());
                self.points.insert(key, point);
            }
            None => self.left_out += 1,
        }
    }

    /// Returns the points in the order of their keys, and the number of results without usable figures.
    pub fn finish(self) -> (Vec<Point>, usize) {
        (self.points.into_values().collect(), self.left_out)
    }
}

/// Returns true if a figure can be drawn.
pub fn is_usable(value: f64) -> bool {
    (0.0..=LARGEST).contains(&value)
}

impl Point {
    /// Summarises a measurement; `None` if it has no figures, or none that can be drawn.
    fn of(measurement: &Measurement, has_trace: bool) -> Option<Self> {
        let summary = measurement.summary.as_ref()?;
        let kept: Vec<&RunRecord> = measurement.runs.iter().filter(|run| !run.is_outlier).collect();
        let key = measurement.key();
        let is_named = key.to_string().len() <= LONGEST_NAME;
        let figures = [summary.duration_s, summary.node_j, summary.energy_j.max(0.0)];
        if !is_named || !figures.into_iter().all(is_usable) || summary.duration_s < SHORTEST_S {
            return None;
        }
        let highest: Vec<f64> =
            kept.iter().map(|run| run.highest_w()).filter(|draw| *draw > 0.0 && is_usable(*draw)).collect();
        let error = |interval: Interval| interval.relative().clamp(0.0, 10.0);
        let typical = kept.iter().min_by(|one, other| {
            let distance = |run: &RunRecord| (run.duration_s - summary.duration_s).abs();
            distance(one).total_cmp(&distance(other))
        });
        let reasons = measurement.reasons.iter().take(MOST_REASONS);
        Some(Self {
            key,
            host: cut(&measurement.provenance.host),
            meter: cut(&measurement.provenance.meter),
            emulated: measurement.provenance.emulated,
            reasons: reasons.map(|reason| reason.chars().take(LONGEST_REASON).collect()).collect(),
            duration_s: summary.duration_s,
            duration_error: error(summary.duration_interval),
            node_j: summary.node_j,
            above_j: summary.energy_j.max(0.0),
            energy_error: error(summary.energy_interval),
            highest_w: median(&highest),
            reported: reported(&kept),
            trace: typical.filter(|_| has_trace).map(|run| trace(run)).unwrap_or_default(),
        })
    }

    /// Returns true if it can be trusted.
    pub fn is_good(&self) -> bool {
        self.reasons.is_empty()
    }

    /// Returns the mean draw of the node, in watts.
    pub fn mean_w(&self) -> f64 {
        self.node_j / self.duration_s
    }

    /// Returns the configuration of the unit.
    pub fn setting(&self) -> Setting {
        self.key.clocks.map_or_else(|| self.key.profile.cap.into(), Setting::Clocks)
    }

    /// Returns its key without cap and clocks.
    pub fn subject(&self) -> ProfileKey {
        ProfileKey { cap: None, ..self.key.profile.clone() }
    }

    /// Returns the part of the duration in which the work itself was done, 0 to 1, if the command reported it.
    pub fn kernel_share(&self) -> Option<f64> {
        Some((self.reported.kernel_s? / self.duration_s).clamp(0.0, 1.0))
    }
}

fn cut(text: &str) -> String {
    text.chars().take(LONGEST_NAME).collect()
}

/// Returns the medians of what the runs reported.
fn reported(runs: &[&RunRecord]) -> CommandReport {
    let middle = |of: fn(&CommandReport) -> Option<f64>| {
        let values: Vec<f64> =
            runs.iter().filter_map(|run| of(&run.reported)).filter(|value| is_usable(*value)).collect();
        median(&values)
    };
    CommandReport {
        kernel_s: middle(|report| report.kernel_s),
        jobs: middle(|report| report.jobs),
        operations: middle(|report| report.operations),
        rows: middle(|report| report.rows),
    }
}

fn trace(run: &RunRecord) -> Vec<(f64, f64, f64)> {
    let piece = |sample: &crate::measure::window::Sample| {
        let (from, until) = (sample.at_s - sample.over_s - run.begin_s, sample.at_s - run.begin_s);
        (from.max(0.0), until, sample.draw_w)
    };
    let samples = run.samples.iter().filter(|sample| sample.at_s > run.begin_s && sample.at_s <= run.end_s);
    let samples: Vec<_> = samples.copied().collect();
    let pieces = thinned(&samples, TRACE_SAMPLES);
    let is_drawn =
        |(from, until, draw_w): &(f64, f64, f64)| [*from, *until, *draw_w].into_iter().all(is_usable) && until > from;
    pieces.iter().map(piece).filter(is_drawn).collect()
}
