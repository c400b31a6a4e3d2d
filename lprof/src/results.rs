//! Results of measurements: JSON lines in a directory, with all samples and the circumstances.
//!
//! A file is only ever appended to. Of several measurements of one key the newest counts.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::{self, OpenOptions};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use limo_model::{EstimateSource, Power, Profile, ProfileKey, Span};
use limo_power::ClockPair;
use limo_profiles::statistics::{self, Measurement as TypicalRun};
use serde::{Deserialize, Serialize};

use crate::machine::Setting;
use crate::measure::command_report::CommandReport;
use crate::measure::gpu_watch::LimitCounts;
use crate::measure::sheet::MeterSheet;
use crate::measure::statistics::{Interval, Pair, Repeated, median};
use crate::measure::window::{Idle, Sample};

/// Name of the file in the directory.
const FILE: &str = "results.jsonl";

/// Version of the format.
const SCHEMA: u32 = 1;

/// Longest line: 60 runs with 20,000 samples of 100 bytes each.
const LONGEST_LINE: u64 = 128 << 20;

/// Most lines that are read.
const MOST_LINES: usize = 100_000;

/// One run, or several in a row of a short command. Times are on the clock of the samples.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names have the units")]
pub struct RunRecord {
    pub begin_s: f64,
    pub end_s: f64,
    /// Number of times that the command ran.
    pub times: u32,
    /// Duration of the command.
    pub duration_s: f64,
    /// Energy of the command above idle.
    pub energy_j: f64,
    /// The same by the draw that the meter shows beside its energy counter, if it has both.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by_draw_j: Option<f64>,
    pub idle_before: Idle,
    pub idle_after: Idle,
    /// Idle draw that was subtracted.
    pub idle_w: f64,
    pub idle_error_w: f64,
    /// Covered part, 0 to 1.
    pub coverage: f64,
    pub looks: usize,
    /// Cores that other processes kept busy.
    pub other_cores: f64,
    /// Number of times that the processor was too hot.
    pub throttled: u64,
    /// True if the run does not count.
    pub is_outlier: bool,
    /// Clock limits of the GPU, if they were sampled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<LimitCounts>,
    /// Figures that the command reported about itself.
    #[serde(default, skip_serializing_if = "CommandReport::is_empty")]
    pub reported: CommandReport,
    /// From the idle time before to that after the run.
    pub samples: Vec<Sample>,
}

impl RunRecord {
    /// Returns the figures for statistics.
    pub fn pair(&self) -> Pair {
        Pair { time_s: self.duration_s, energy_j: self.energy_j }
    }

    /// Returns the mean draw above idle, in watts.
    pub fn above_w(&self) -> f64 {
        if self.duration_s > 0.0 { self.energy_j / self.duration_s } else { 0.0 }
    }

    /// Returns the energy of the whole node, in joules.
    pub fn node_j(&self) -> f64 {
        self.energy_j + self.idle_w * self.duration_s
    }

    /// Returns the highest draw during the run, in watts.
    pub fn highest_w(&self) -> f64 {
        let inside = self.samples.iter().filter(|sample| sample.at_s > self.begin_s && sample.at_s <= self.end_s);
        inside.map(|sample| sample.draw_w).fold(0.0, f64::max)
    }
}

/// Circumstances of a measurement.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names say what they are")]
pub struct Provenance {
    pub version: String,
    pub host: String,
    pub kernel: String,
    /// Begin, in milliseconds since 1970.
    pub started_ms: i64,
    pub command: Vec<String>,
    /// True if the watts are modelled.
    pub emulated: bool,
    pub meter: String,
    pub sheet: MeterSheet,
    /// Duration of each idle time.
    pub idle_s: f64,
    /// Seed of the order of caps, if there are several.
    pub seed: Option<u64>,
    /// Durations of the runs that do not count.
    pub warm_up_s: Vec<f64>,
}

/// Typical run of a measurement: medians without the outliers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names have the units")]
pub struct Summary {
    pub runs: usize,
    pub outliers: usize,
    pub duration_s: f64,
    /// Energy above idle.
    pub energy_j: f64,
    /// Mean draw above idle.
    pub power_w: f64,
    /// Energy of the whole node.
    pub node_j: f64,
    /// 95 % interval of the durations.
    pub duration_interval: Interval,
    /// 95 % interval of the energies above idle.
    pub energy_interval: Interval,
    pub idle_w: f64,
    /// Change of the idle draw from the first to the last run.
    pub drift_w: f64,
}

/// Measurement of one application with one cap.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names say what they are")]
pub struct Measurement {
    pub schema: u32,
    pub application: String,
    pub size: String,
    pub hardware: String,
    pub cores: u32,
    /// Cap of the unit; `None` without one.
    pub cap_w: Option<f64>,
    /// Clocks of the unit, if they were set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clocks: Option<ClockPair>,
    pub provenance: Provenance,
    /// `None` if there are too few runs.
    pub summary: Option<Summary>,
    /// Reasons not to trust it; none if it is good.
    pub reasons: Vec<String>,
    pub runs: Vec<RunRecord>,
}

impl Summary {
    /// Summarises runs, and marks the outliers among them. `None` if there are too few.
    pub fn of(runs: &mut [RunRecord]) -> Option<(Self, Repeated)> {
        let repeated = Repeated::of(&runs.iter().map(RunRecord::pair).collect::<Vec<_>>())?;
        for (run, is_outlier) in runs.iter_mut().zip(&repeated.is_outlier) {
            run.is_outlier = *is_outlier;
        }
        let kept = |of: fn(&RunRecord) -> f64| {
            median(&runs.iter().filter(|run| !run.is_outlier).map(of).collect::<Vec<_>>()).unwrap_or_default()
        };
        let (first, last) = (runs.first()?, runs.last()?);
        let summary = Self {
            runs: runs.len(),
            outliers: repeated.outliers(),
            duration_s: kept(|run| run.duration_s),
            energy_j: kept(|run| run.energy_j),
            power_w: kept(RunRecord::above_w),
            node_j: kept(RunRecord::node_j),
            duration_interval: repeated.time,
            energy_interval: repeated.energy,
            idle_w: kept(|run| run.idle_w),
            drift_w: last.idle_after.draw_w - first.idle_before.draw_w,
        };
        Some((summary, repeated))
    }
}

/// Key of a measurement: that of its profile, and the clocks.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ResultKey {
    /// Key of the profile.
    pub profile: ProfileKey,
    /// Clocks of the unit, if they were set.
    pub clocks: Option<ClockPair>,
}

impl fmt::Display for ResultKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.profile.fmt(f)?;
        self.clocks.map_or(Ok(()), |pair| write!(f, " at {pair}"))
    }
}

/// Rounds watts to a power.
fn power(watts: f64) -> Power {
    Power::from_mw((watts * 1000.0).round() as i64)
}

impl Measurement {
    /// Returns the version of the format that this program writes.
    pub const SCHEMA: u32 = SCHEMA;

    /// Returns the cap.
    pub fn cap(&self) -> Option<Power> {
        self.cap_w.map(power)
    }

    /// Returns the configuration of the unit.
    pub fn setting(&self) -> Setting {
        self.clocks.map_or_else(|| self.cap().into(), Setting::Clocks)
    }

    /// Returns its key.
    pub fn key(&self) -> ResultKey {
        let profile = ProfileKey {
            application: self.application.clone(),
            size: self.size.clone(),
            hardware: self.hardware.clone(),
            cores: Some(self.cores),
            nodes: None,
            cap: self.cap(),
        };
        ResultKey { profile, clocks: self.clocks }
    }

    /// Returns how often the GPU had clock limits in all runs that count.
    pub fn limits(&self) -> LimitCounts {
        LimitCounts::sum(self.runs.iter().filter(|run| !run.is_outlier).filter_map(|run| run.limits))
    }

    /// Returns true if the measurement can be trusted.
    pub fn is_good(&self) -> bool {
        self.reasons.is_empty()
    }

    /// Returns the profile: medians of the runs that count. `None` without any.
    pub fn profile(&self) -> Option<Profile> {
        let typical = |run: &RunRecord| TypicalRun {
            duration: Span::from_ms((run.duration_s * 1000.0).round() as i64),
            power: power(run.above_w().max(0.0)),
            energy: limo_model::Energy::from_mj((run.energy_j.max(0.0) * 1000.0).round() as i64),
        };
        let kept: Vec<TypicalRun> = self.runs.iter().filter(|run| !run.is_outlier).map(typical).collect();
        let count = u32::try_from(kept.len()).unwrap_or(u32::MAX);
        let profile = statistics::profile(&kept, count)?;
        Some(Profile { source: EstimateSource::Imported, ..profile })
    }
}

/// Appends a measurement to the results in `dir`, which is made if it is missing.
///
/// # Errors
/// If the file cannot be written.
pub fn append(dir: &Path, measurement: &Measurement) -> anyhow::Result<()> {
    let path = dir.join(FILE);
    let mut line = serde_json::to_vec(measurement).context("cannot encode the results")?;
    line.push(b'\n');
    let write = || {
        fs::create_dir_all(dir)?;
        let mut file = OpenOptions::new().create(true).append(true).open(&path)?;
        file.write_all(&line)?;
        file.sync_data()
    };
    write().with_context(|| format!("cannot write {}", path.display()))
}

/// Reads the results in `dir`, or in a file. Returns the newest measurement of each key.
///
/// # Errors
/// If the file cannot be read, or a line is wrong; names the line. A last line without its end is ignored: its program
/// was killed.
pub fn read(dir: &Path) -> anyhow::Result<BTreeMap<ResultKey, Measurement>> {
    let mut found = BTreeMap::new();
    each(dir, |measurement| {
        found.insert(measurement.key(), measurement);
    })?;
    Ok(found)
}

/// Reads the results in `dir`, or in a file, one after another, and passes each on. The newest of a key is the last.
///
/// # Errors
/// The same as for [`read`].
pub fn each(dir: &Path, mut take: impl FnMut(Measurement)) -> anyhow::Result<()> {
    let path: PathBuf = if dir.is_dir() { dir.join(FILE) } else { dir.to_owned() };
    let file = fs::File::open(&path).with_context(|| format!("cannot read the results {}", path.display()))?;
    let mut reader = BufReader::new(file);
    for number in 1.. {
        let mut line = Vec::new();
        let read = reader.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut line);
        let read = read.with_context(|| format!("cannot read {}", path.display()))?;
        if read == 0 || (line.last() != Some(&b'\n') && read as u64 != LONGEST_LINE) {
            break;
        }
        if number > MOST_LINES || read as u64 == LONGEST_LINE {
            bail!("{}:{number}: the limit is {MOST_LINES} lines of {LONGEST_LINE} bytes", path.display());
        }
        let measurement: Measurement =
            serde_json::from_slice(&line).with_context(|| format!("{}:{number}: not a measurement", path.display()))?;
        if measurement.schema != SCHEMA {
            bail!("{}:{number}: the schema is {}, but this version knows {SCHEMA}", path.display(), measurement.schema);
        }
        take(measurement);
    }
    Ok(())
}
