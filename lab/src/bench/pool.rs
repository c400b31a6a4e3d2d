//! A generated year of a pool with owners, from prepared files to written results, as `lsim run` simulates it.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use limo_trace::pool::PoolYear;

use super::figure::{Figure, Limit};
use super::host::{Taken, child};
use super::htc::{MIB, PEAK, WALL};
use super::part::Report;

/// A measurement with a generated year.
#[derive(Debug)]
pub struct PoolPart {
    pub name: &'static str,
    /// The simulated part of the year, for the title.
    pub what: &'static str,
    /// Number of jobs, for the growth with it.
    pub jobs: Option<u32>,
    /// The same in relation to that of the paper.
    scale: f64,
    has_jobs: bool,
    has_owners: bool,
    /// Upper limits of the wall time in seconds, and of the memory in MiB.
    wall_s: f64,
    peak_mib: Option<f64>,
    peers: &'static str,
    /// Upper limit of the time with checkpoints under each other rank, in relation to S1 without; `None` does not
    /// measure it.
    ranks: Option<f64>,
}

const YEAR: PoolPart = PoolPart {
    name: "pool",
    what: "S1, deferred reboots",
    jobs: Some(561_851),
    scale: 1.0,
    has_jobs: true,
    has_owners: true,
    wall_s: 2.0,
    peak_mib: Some(128.0),
    peers: "HTC-Sim: 183 s and 802 MB",
    ranks: None,
};

pub const POOL_PARTS: [PoolPart; 5] = [
    YEAR,
    PoolPart {
        name: "pool-no-jobs",
        what: "owners and reboots only",
        jobs: None,
        has_jobs: false,
        wall_s: 1.2,
        peak_mib: None,
        peers: "HTC-Sim: 126 s and 750 MB",
        ..YEAR
    },
    PoolPart {
        name: "pool-no-owners",
        what: "jobs and reboots only",
        jobs: None,
        has_owners: false,
        wall_s: 0.8,
        peak_mib: None,
        peers: "HTC-Sim: 73 s and 795 MB",
        ..YEAR
    },
    PoolPart {
        name: "pool-ranks",
        what: "S2 to S6 with checkpoints every 15 min, in relation to S1 without",
        jobs: None,
        ranks: Some(1.5),
        ..YEAR
    },
    PoolPart {
        name: "pool-6000000",
        what: "6,000,000 jobs",
        jobs: Some(6_000_000),
        scale: 10.68,
        wall_s: 15.0,
        peak_mib: Some(640.0),
        peers: "",
        ..YEAR
    },
];

const OTHER_RANKS: [&str; 7] = ["S2", "S3a", "S3b", "S4", "S5a", "S5b", "S6"];

impl PoolPart {
    /// Generates the year of seed 1, and simulates it in a process of its own.
    ///
    /// # Errors
    /// If a file cannot be written, or a simulation fails.
    pub fn measure(&self) -> Result<Report> {
        let scratch = tempfile::tempdir().context("a folder for the year")?;
        PoolYear::new(1, self.scale).context("the scale")?.write(scratch.path(), false)?;
        if !self.has_jobs {
            let titles = "id,batch,submit,duration,user,result,removed,bytes_in,bytes_out\n";
            fs::write(scratch.path().join("jobs.csv"), titles).context("the jobs")?;
        }
        let first = self.simulate(scratch.path(), "S1", &[])?;
        let Some(most) = self.ranks else {
            let wall = Figure::new(WALL, first.wall_s, "s").within(Limit::AtMost(self.wall_s)).beside(self.peers);
            let peak = Figure::new(PEAK, first.peak_rss_bytes / MIB, "MiB");
            let peak = self.peak_mib.map(Limit::AtMost).into_iter().fold(peak, Figure::within);
            return Ok(Report::of(vec![wall, Figure::new("CPU time", first.cpu_s, "s"), peak]));
        };
        let checkpoints = ["--checkpoint-every", "15min", "--checkpoint-cost", "1min"];
        let figures = OTHER_RANKS.map(|rank| {
            let taken = self.simulate(scratch.path(), rank, &checkpoints)?;
            Ok(Figure::new(rank, taken.wall_s / first.wall_s, "times S1").within(Limit::AtMost(most)))
        });
        Ok(Report::of(figures.into_iter().collect::<Result<_>>()?))
    }

    fn simulate(&self, year: &Path, rank: &str, more: &[&str]) -> Result<Taken> {
        let file = |name: &str| year.join(name).display().to_string();
        let (jobs, groups, sessions, out) = (
            file(if self.has_jobs { "jobs.csv.gz" } else { "jobs.csv" }),
            file("groups.toml"),
            file("sessions.csv.gz"),
            file("out"),
        );
        let rank = format!("pool-rank={rank}");
        let mut arguments = vec!["run", "--trace", &jobs, "--platform", &groups, "--out", &out, "--replace"];
        arguments.extend(["--policy", "fifo", "--part", "placement=pool", "--set", &rank, "--reboots", "defer"]);
        arguments.extend(["--set", "pool-knowledge=trace", "--samples", "1h"]);
        if self.has_owners {
            arguments.extend(["--sessions", &sessions]);
        }
        arguments.extend(more);
        child(&arguments)
    }
}
