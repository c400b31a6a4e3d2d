//! A synthetic year of the pool of Newcastle University in 2010, whose logs are not public: groups, sessions and jobs. Equal seeds
//! give equal files on every machine.

mod calendar;
mod groups;
mod jobs;
mod logins;
mod numbers;
#[cfg(test)]
mod tests;
mod validation;

use std::io;
use std::path::Path;

use limo_model::decimal::text;

use super::error::PoolError;
use super::prepared;
use super::session::Sessions;
use crate::generate::Dice;
use logins::DumpLine;
use numbers as n;
pub use validation::Validation;

/// Purpose of random numbers. Each has its own stream, so that sessions do not depend on jobs.
#[derive(Debug, Clone, Copy)]
enum Purpose {
    Classes,
    Logins,
    Stays,
    Dumps,
    Batches,
    Jobs,
}

/// A generated year.
#[derive(Debug, Clone, Copy)]
pub struct PoolYear {
    /// Seed of all random numbers.
    pub seed: u64,
    /// Number of jobs.
    jobs: u32,
}

impl PoolYear {
    /// Makes a year with `scale` times the jobs, and always the same number of sessions. `None` if the scale is not
    /// positive, or above 178.
    pub fn new(seed: u64, scale: f64) -> Option<Self> {
        let is_valid = scale > 0.0 && scale <= n::MAX_SCALE;
        let jobs = (f64::from(n::JOBS) * scale).round().max(1.0);
        // Below 2^32, by the largest scale.
        is_valid.then_some(Self { seed, jobs: jobs as u32 })
    }

    /// Writes `groups.toml`, `sessions.csv.gz` and `jobs.csv.gz` to a folder, and with `raw` the dumps `logins.csv.gz` and
    /// `logouts.csv.gz` from which the sessions can be made again.
    ///
    /// # Errors
    /// [`PoolError::Write`] if a file cannot be written.
    pub fn write(self, folder: &Path, raw: bool) -> Result<Validation, PoolError> {
        let fault = |source| PoolError::Write { file: folder.display().to_string(), source };
        std::fs::create_dir_all(folder).map_err(fault)?;
        prepared::file(&folder.join("groups.toml"), |out| groups::write(out).map_err(fault))?;
        let sessions = logins::sessions(self.seed);
        sessions.write(&folder.join("sessions.csv.gz"))?;
        if raw {
            for (lines, name) in logins::dumps(&sessions.sessions, self.seed).iter().zip(["logins", "logouts"]) {
                let path = folder.join(format!("{name}.csv.gz"));
                prepared::file(&path, |out| dump(lines, &sessions, out).map_err(fault))?;
            }
        }
        let mut days = vec![0; n::DAYS];
        prepared::file(&folder.join("jobs.csv.gz"), |out| {
            prepared::jobs_head(out).map_err(fault)?;
            jobs::jobs(self.seed, self.jobs, |job| {
                days[((job.submit - n::START) / 86_400) as usize] += 1;
                prepared::job(out, job).map_err(fault)
            })
        })?;
        Ok(Validation::new(&sessions.sessions, &days, self.jobs))
    }
}

fn dump(lines: &[DumpLine], sessions: &Sessions, out: &mut dyn io::Write) -> io::Result<()> {
    out.write_all(b"time,computer,user\n")?;
    for (at, computer, user) in lines {
        write!(out, "{},", text((*at).into(), 3))?;
        out.write_all(sessions.computers.name(*computer))?;
        out.write_all(b",")?;
        out.write_all(sessions.users.name(*user))?;
        out.write_all(b"\n")?;
    }
    Ok(())
}

/// Draws an index by sums of weights.
fn picked(sums: &[f64], dice: &mut Dice) -> usize {
    let at = dice.unit() * sums.last().copied().unwrap_or_default();
    sums.partition_point(|sum| *sum <= at).min(sums.len().saturating_sub(1))
}

fn lognormal(dice: &mut Dice, median: f64, sigma: f64) -> f64 {
    median * libm::exp(sigma * dice.normal())
}
