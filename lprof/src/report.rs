//! Figures of measurements as a table and as JSON.

use limo_model::Power;
use limo_power::ClockPair;
use serde::Serialize;

use crate::measure::statistics::Interval;
use crate::results::{Measurement, Summary};

/// Measurement without its samples.
#[derive(Debug, Serialize)]
struct Row<'a> {
    application: &'a str,
    size: &'a str,
    hardware: &'a str,
    cores: u32,
    cap_w: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    clocks: Option<ClockPair>,
    emulated: bool,
    meter: &'a str,
    /// Part of the samples at which its power limit held the GPU down, if that was sampled.
    #[serde(skip_serializing_if = "Option::is_none")]
    power_limited: Option<f64>,
    #[serde(flatten)]
    summary: Option<&'a Summary>,
    good: bool,
    reasons: &'a [String],
}

/// Answer with `--json`.
#[derive(Debug, Serialize)]
struct Answer<'a> {
    schema: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    seed: Option<u64>,
    measurements: Vec<Row<'a>>,
    /// Best of a sweep: absent if nothing was chosen.
    #[serde(skip_serializing_if = "Option::is_none")]
    best: Option<&'a Best>,
}

/// The best cap or clocks of a variant.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Best {
    /// Hardware of the variant.
    pub hardware: String,
    /// The cap; `None` if it is best to have none.
    pub cap_w: Option<f64>,
    /// The clocks, if pairs of clocks were measured and the original ones are not the best.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clocks: Option<ClockPair>,
    /// Part of the node's energy without a cap that it saves.
    pub saved: f64,
    /// Part of the duration without a cap that it adds.
    pub longer: f64,
}

fn row(measurement: &Measurement) -> Row<'_> {
    Row {
        application: &measurement.application,
        size: &measurement.size,
        hardware: &measurement.hardware,
        cores: measurement.cores,
        cap_w: measurement.cap_w,
        clocks: measurement.clocks,
        emulated: measurement.provenance.emulated,
        meter: &measurement.provenance.meter,
        power_limited: power_limited(measurement),
        summary: measurement.summary.as_ref(),
        good: measurement.is_good(),
        reasons: &measurement.reasons,
    }
}

/// Returns the part of the samples at which its power limit held the GPU down; `None` if that was not sampled.
fn power_limited(measurement: &Measurement) -> Option<f64> {
    let limits = measurement.limits();
    (limits.looks > 0).then(|| f64::from(limits.power) / f64::from(limits.looks))
}

/// Returns measurements as JSON on one line.
///
/// # Errors
/// If a figure cannot be written.
pub fn json(measurements: &[&Measurement], seed: Option<u64>, best: Option<&Best>) -> serde_json::Result<String> {
    let measurements = measurements.iter().map(|measurement| row(measurement)).collect();
    serde_json::to_string(&Answer { schema: 1, seed, measurements, best })
}

/// Returns measurements as a table, with the reasons below it.
pub fn table(measurements: &[&Measurement]) -> String {
    let has_clocks = measurements.iter().any(|measurement| measurement.clocks.is_some());
    let first = if has_clocks { "CLOCKS" } else { "CAP" };
    let head = [first, "DURATION", "+-", "ABOVE IDLE", "+-", "NODE", "DRAW", "IDLE", "RUNS", "VERDICT"];
    let mut rows = vec![head.map(str::to_owned)];
    rows.extend(measurements.iter().map(|measurement| cells(measurement)));
    let widths: Vec<usize> = (0..head.len())
        .map(|column| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or_default())
        .collect();
    let mut text = String::new();
    for row in rows {
        let cells: Vec<String> = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        text += cells.join("  ").trim_end();
        text.push('\n');
    }
    for measurement in measurements {
        for reason in &measurement.reasons {
            text += &format!("{}: {reason}\n", measurement.setting());
        }
    }
    if measurements.iter().any(|measurement| measurement.provenance.emulated) {
        text += "The watts are emulated.\n";
    }
    text
}

/// Returns a cap in words.
pub fn cap(cap: Option<Power>) -> String {
    cap.map_or_else(|| "none".to_owned(), |cap| cap.to_string())
}

fn cells(measurement: &Measurement) -> [String; 10] {
    let cap = measurement.setting().to_string();
    let bites = power_limited(measurement).filter(|part| measurement.cap_w.is_some() && *part > 0.0);
    let bites = bites.map_or_else(String::new, |part| format!(", the cap bites in {:.0} % of the time", part * 100.0));
    let verdict = format!("{}{bites}", if measurement.is_good() { "good" } else { "do not trust" });
    let Some(summary) = &measurement.summary else {
        let none = || "-".to_owned();
        return [cap, none(), none(), none(), none(), none(), none(), none(), "0".to_owned(), verdict];
    };
    let relative = |interval: Interval| format!("{:.1} %", interval.relative() * 100.0);
    let outliers = if summary.outliers == 0 { String::new() } else { format!(", {} outliers", summary.outliers) };
    [
        cap,
        format!("{:.3} s", summary.duration_s),
        relative(summary.duration_interval),
        format!("{:.1} J", summary.energy_j),
        relative(summary.energy_interval),
        format!("{:.1} J", summary.node_j),
        format!("{:.1} W", summary.idle_w + summary.power_w),
        format!("{:.1} W", summary.idle_w),
        format!("{}{outliers}", summary.runs),
        verdict,
    ]
}
