//! The instances: the published ones, and more of the same kind from their jobs.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use limo_model::{Power, Slowdown, Span};
use limo_trace::hot_start::{FILLING_DRAW, FILLINGS};
use limo_trace::log_crypt::{self, ApplicationKind, LoggedJob};
use limo_trace::{Application, Workload};

use super::simulate::eurora;
use crate::predictor::predictions;
use crate::random::Random;

/// Dynamic power of a unit without a prediction, of a GPU and of a MIC, in watts: those of the authors' program.
const UNIT_W: i64 = 40;
const GPU_W: i64 = 62;
const MIC_W: i64 = 115;
/// Bursts of a window: the paper has no number.
const BURSTS: usize = 5;

/// Distribution of the arrivals over the window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spreading {
    Uniform,
    Burst,
}

/// The draw of a job, and its slowdown by a cap.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Behaviour {
    /// Above idle, of the cores of one chunk.
    pub cores: Power,
    /// Above idle, of each accelerator.
    pub accelerator: Power,
    /// Duration without a cap, and the requested time.
    pub run: Span,
    pub requested: Span,
    /// Factor and cycles per instruction, drawn by the kind of the application.
    pub factor: Slowdown,
    pub cpi: Slowdown,
}

/// Jobs of one simulation. The application of each job is its own.
#[derive(Debug, Clone)]
pub struct CappedLoad {
    pub workload: Workload,
    /// By application.
    pub behaviours: Vec<Behaviour>,
    /// Jobs of the instance; the others fill nodes at the start.
    pub counted: usize,
}

/// The published jobs, and their predicted draws by name.
pub struct Published {
    pub folder: PathBuf,
    predictions: BTreeMap<String, Power>,
    synthetic: Vec<LoggedJob>,
}

impl Published {
    /// Reads the synthetic jobs, from which instances are made, and the predictions.
    ///
    /// # Errors
    /// If a file is missing or invalid.
    pub fn read(traces: &Path) -> Result<Self> {
        let folder = traces.join("power-capping-2018");
        let predictions = predictions(&folder)?;
        let mut published = Self { folder, predictions, synthetic: Vec::new() };
        for path in published.files("synthetic/jobs_50/ws_300")? {
            published.synthetic.extend(log_crypt::read(&path)?);
        }
        Ok(published)
    }

    /// Returns the instances in a folder, in the order of their names.
    ///
    /// # Errors
    /// If it cannot be read, or has none.
    pub fn files(&self, folder: &str) -> Result<Vec<PathBuf>> {
        let folder = self.folder.join(folder);
        let entries = std::fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))?;
        let mut paths = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
        paths.retain(|path| log_crypt::name(path).is_some());
        ensure!(!paths.is_empty(), "{} holds no instance (*.log_crypt.gz)", folder.display());
        paths.sort();
        Ok(paths)
    }

    /// Makes an instance of published jobs, drawn with replacement, which arrive within the window.
    pub fn drawn(&self, (jobs, window): (usize, Span), spreading: Spreading, seed: u64) -> Vec<LoggedJob> {
        let mut random = Random::new(seed, 1);
        let window_s = window.secs();
        let mut arrivals: Vec<i64> = (0..jobs)
            .map(|_| {
                let share = match spreading {
                    Spreading::Uniform => random.unit(),
                    Spreading::Burst => random.index(BURSTS) as f64 / BURSTS as f64,
                };
                (share * window_s) as i64
            })
            .collect();
        arrivals.sort_unstable();
        let job = |arrival_s| LoggedJob { arrival_s, ..self.synthetic[random.index(self.synthetic.len())].clone() };
        arrivals.into_iter().map(job).collect()
    }

    /// Makes the load of an instance. A share of the nodes is filled before the first job arrives.
    ///
    /// # Errors
    /// If the platform cannot be read or filled, which is not the case.
    pub fn load(&self, logged: &[LoggedJob], filled: f64, seed: u64) -> Result<CappedLoad> {
        let mut random = Random::new(seed, 2);
        let mut workload = log_crypt::workload(logged);
        let kinds = logged.iter().map(|job| job.kind);
        let (factors, cpis): (Vec<_>, Vec<_>) = kinds.map(|kind| slowdowns(kind, &mut random)).unzip();
        let behaviour = |(job, (factor, cpi)): (&LoggedJob, _)| {
            let units = i64::from(job.units.get());
            let predicted = self.predictions.get(&job.id).map(|all| all.scaled(1, units));
            let accelerator = if job.gpus > 0 { GPU_W } else { MIC_W };
            let cores = predicted.unwrap_or(Power::from_watts(UNIT_W)).max(Power::from_watts(1));
            let (run, requested) =
                (Span::from_secs((job.end_s - job.start_s).max(1)), Span::from_secs(job.requested_s()));
            Behaviour { cores, accelerator: Power::from_watts(accelerator), run, requested, factor, cpi }
        };
        let mut behaviours: Vec<Behaviour> = logged.iter().zip(factors.into_iter().zip(cpis)).map(behaviour).collect();
        // The workload is sorted by submission; the number of a job is that of its line.
        for job in &mut workload.jobs {
            job.application = i32::try_from(job.number - 1).unwrap_or(-1);
        }
        let counted = workload.jobs.len();
        let application = |index| Application { name: format!("job{index}"), variants: Vec::new() };
        workload.applications = (0..behaviours.len()).map(application).collect();
        workload.hot_start(&eurora()?, filled)?;
        let filling = workload.applications.len() - behaviours.len();
        behaviours.extend(FILLINGS.into_iter().take(filling).map(|(_, run)| Behaviour {
            cores: FILLING_DRAW,
            accelerator: Power::ZERO,
            run,
            requested: run,
            factor: Slowdown::Factor(0),
            cpi: Slowdown::Factor(0),
        }));
        Ok(CappedLoad { workload, behaviours, counted })
    }
}

/// Draws the factor and the CPI of an application. The factors are those of the authors' program; the traces have no CPI.
fn slowdowns(kind: ApplicationKind, random: &mut Random) -> (Slowdown, Slowdown) {
    let (mean, deviation) = match kind {
        ApplicationKind::Average => (0.7, 0.1),
        ApplicationKind::CpuBound => (0.8, 0.2),
        ApplicationKind::MemoryBound => (0.3, 0.2),
    };
    let factor = (mean + deviation * random.normal()).clamp(0.0, 1.0);
    let cpi = match kind {
        ApplicationKind::Average => 1.0 + 4.0 * random.unit(),
        ApplicationKind::CpuBound => 1.0,
        ApplicationKind::MemoryBound => 5.0 + 5.0 * random.unit(),
    };
    let permille = |value: f64| (value * 1e3).round() as u32;
    (Slowdown::Factor(permille(factor)), Slowdown::Cpi(permille(cpi)))
}
