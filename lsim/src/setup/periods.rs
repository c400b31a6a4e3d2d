//! `--budget` and `--budgets`: the periods of energy budgets.

use anyhow::{Result, bail};
use limo_model::{Budget, Budgets, Span, Time};
use limo_trace::{Platform, Workload};

use super::{Setup, check, files};

impl Setup {
    /// Returns the budgets, on the clock of the simulation.
    pub(super) fn periods(&self, workload: &Workload, platform: &Platform) -> Result<Budgets> {
        let release = self.release.unwrap_or_default();
        if let Some(path) = &self.budgets {
            if self.budget.is_some() {
                bail!("--budget and --budgets exclude each other: give one of them");
            }
            return files::budgets(path, files::clock(workload.start), release);
        }
        let Some(amount) = self.budget else { return Ok(Budgets::default()) };
        let (Some(from), Some(until)) = (self.from, self.until) else {
            bail!("--budget {amount} needs a period: give --from and --until, for example --from 2d --until 5d");
        };
        if from < Span::ZERO || until <= from {
            bail!(
                "--from {from} --until {until}: the period of a budget must end after its begin and must not begin before the workload"
            );
        }
        let start = workload.start.unwrap_or(Time::from_unix_ms(0));
        let energy = amount.energy(check::full(platform), until - from);
        Ok(Budgets::new(vec![Budget { from: start + from, until: start + until, energy, release }])?)
    }
}
