//! A generated year, simulated under each policy.

use anyhow::{Context, Result};
use limo_model::{Preset, Span, Time};
use limo_sched::{Knowledge, PoolOptions, PoolRank};
use limo_trace::pool::PoolYear;
use lsim::engine::{NodeActivity, PoolFigures, simulate};
use lsim::setup::{Loaded, Reboots, Setup};
use serde_json::{Value, json};

use crate::reproduce::published::Nothing;

/// Windows of S6 in minutes, as the paper's figures have them.
pub const WINDOWS: [i64; 6] = [5, 15, 30, 60, 120, 240];

/// Results of a policy in a year.
#[derive(Debug, Clone)]
pub struct OfPolicy {
    /// S1, S2, S3a, S3b, S4, S5a, S5b, or S6 with its window, such as S6/30.
    pub name: String,
    /// Mean overhead of completed jobs, in seconds.
    pub overhead_s: f64,
    /// Energy of the pool, and its part while computers had a job, in J.
    pub pool_j: f64,
    pub jobs_j: f64,
    /// Energy of work that was lost, in J.
    pub wasted_j: f64,
    pub evictions: u64,
    pub completed: u64,
    pub given_up: u64,
    /// Duration of the simulation without reading its input.
    pub wall_s: f64,
}

/// A year with its input read.
pub struct Year {
    loaded: Loaded,
}

impl Year {
    /// Generates and reads a year, or its first days.
    ///
    /// # Errors
    /// If the scale is out of range, or a file cannot be written.
    pub fn new(seed: u64, scale: f64, days: Option<u16>) -> Result<Self> {
        let year =
            PoolYear::new(seed, scale).with_context(|| format!("--scale {scale} is not above 0 and below 178"))?;
        let folder = tempfile::tempdir()?;
        year.write(folder.path(), false)?;
        let file = |name: &str| Some(folder.path().join(name));
        let setting = |text: &str| text.parse().map_err(|error| anyhow::anyhow!("{text}: {error}"));
        let setup = Setup {
            trace: file("jobs.csv.gz"),
            platform: file("groups.toml"),
            sessions: file("sessions.csv.gz"),
            policy: Some(Preset::Fifo),
            part: vec![setting("placement=pool")?],
            // The groups get the hours that S4 reads; other ranks ignore them.
            set: vec![setting("rest=idle:30min")?, setting("pool-rank=S4")?],
            reboots: Some(Reboots::Evict),
            ..Setup::default()
        };
        let mut workload = setup.workload()?;
        if let Some(days) = days {
            let until = Span::from_secs(i64::from(days) * 86_400);
            workload.jobs.retain(|job| job.submit < until);
        }
        let mut loaded = setup.over(workload.into())?;
        if let (Some(days), Some(visits)) = (days, &mut loaded.visits) {
            let begin = visits.visits.first().map_or(Time::from_unix_ms(0), |visit| visit.login);
            visits.visits.retain(|visit| visit.login < begin + Span::from_secs(i64::from(days) * 86_400));
        }
        Ok(Self { loaded })
    }

    /// Simulates the year under each policy.
    ///
    /// # Errors
    /// If a simulation fails.
    pub fn run(mut self) -> Result<Vec<OfPolicy>> {
        let ranks = PoolRank::NAMES.into_iter().filter(|(_, rank)| !matches!(rank, PoolRank::S6 | PoolRank::Learned));
        let others = ranks.map(|(name, rank)| (name.to_owned(), PoolOptions { rank, ..PoolOptions::default() }));
        let window = |minutes: i64| {
            let window = Span::from_secs(60 * minutes);
            (format!("S6/{minutes}"), PoolOptions { rank: PoolRank::S6, window, ..PoolOptions::default() })
        };
        let policies: Vec<_> = others.chain(WINDOWS.into_iter().map(window)).collect();
        policies.into_iter().map(|(name, pool)| self.under(name, pool)).collect()
    }

    fn under(&mut self, name: String, pool: PoolOptions) -> Result<OfPolicy> {
        self.loaded.options.pool = PoolOptions { knowledge: Knowledge::Trace, ..pool };
        let summary = simulate(&self.loaded.scenario(), &mut Nothing)?;
        let wall_s = summary.host.wall.ms() as f64 / 1e3;
        let figures = summary.pool.with_context(|| format!("{name}: the simulation has no pool"))?;
        Ok(OfPolicy::new(name, &figures, wall_s))
    }
}

impl OfPolicy {
    fn new(name: String, figures: &PoolFigures, wall_s: f64) -> Self {
        let joules = |uj: i128| uj as f64 / 1e6;
        let with_job = [NodeActivity::Job, NodeActivity::Both, NodeActivity::Suspended];
        let spent = |counts: &dyn Fn(NodeActivity) -> bool| {
            let of_group = |group: &[lsim::engine::Spent; 9]| {
                let states = NodeActivity::ALL.into_iter().zip(group);
                states.filter(|(activity, _)| counts(*activity)).map(|(_, of)| of.uj).sum::<i128>()
            };
            joules(figures.ledger.iter().map(of_group).sum())
        };
        let overheads = figures.overheads.iter().map(|ms| *ms as f64 / 1e3);
        Self {
            name,
            overhead_s: overheads.sum::<f64>() / figures.overheads.len().max(1) as f64,
            pool_j: spent(&|_| true),
            jobs_j: spent(&|activity| with_job.contains(&activity)),
            wasted_j: figures.wasted.iter().map(|of| joules(of.spent.uj)).sum(),
            evictions: figures.wasted.iter().map(|of| of.count).sum(),
            completed: figures.good.count,
            given_up: figures.given_up,
            wall_s,
        }
    }

    pub fn json(&self) -> Value {
        let Self { name, overhead_s, pool_j, jobs_j, wasted_j, evictions, completed, given_up, wall_s } = self;
        json!({
            "policy": name, "overhead_s": overhead_s, "pool_j": pool_j, "jobs_j": jobs_j, "wasted_j": wasted_j,
            "evictions": evictions, "completed": completed, "given_up": given_up, "wall_s": wall_s,
        })
    }
}
