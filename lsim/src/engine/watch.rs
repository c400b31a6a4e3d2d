//! Output of a simulation: samples of the platform after changes, and the summary at its end.

use super::{Load, Simulation, SimulationError};
use crate::record::{BudgetSample, Fate, HostUse, JobRow, Sample, Sink, Summary};

impl<L: Load, S: Sink> Simulation<'_, L, S> {
    /// Hands over a sample if anything has changed.
    pub fn sample(&mut self) -> Result<(), SimulationError> {
        let settings = self.core.settings();
        let band = settings.limits.band(self.now);
        let known = |power: limo_model::Power| Some(power).filter(|power| !power.is_unlimited());
        let spent = settings.budgets.at(self.now).and_then(|budget| self.spending.of(budget));
        let budget = self.core.counter().zip(spent).map(|(counter, spent)| BudgetSample {
            released: counter.released(),
            spent,
            reserved: counter.reserved(),
        });
        let sample = Sample {
            at: self.now,
            draw: self.machine.draw(),
            believed: self.core.sums().draw,
            limit: known(band.high()),
            lower: Some(band.low()).filter(|low| !low.is_zero()),
            budget,
            price: settings.prices.as_ref().and_then(|prices| prices.at(self.now).copied()),
            queued: u32::try_from(self.core.waiting()).unwrap_or(u32::MAX),
            running: u32::try_from(self.core.active()).unwrap_or(u32::MAX),
            processors: self.machine.processors(),
        };
        if self.last.as_ref().is_none_or(|last| Sample { at: sample.at, ..*last } != sample) {
            self.sink.sample(&sample)?;
            self.last = Some(sample);
        }
        Ok(())
    }

    pub fn finish(self) -> Result<Summary, SimulationError> {
        for (_, job) in self.jobs.iter().filter(|(_, job)| self.load.counts(job.index)) {
            let start = job.run.as_ref().and_then(|run| run.started);
            self.sink.job(&JobRow { start, ..self.load.row(job.index, Fate::Unfinished) })?;
        }
        Ok(Summary {
            end: self.now,
            energy_by_state: self.machine.energy_by_state(),
            switches: self.machine.switches(),
            steering: self.steered.counts,
            budgets: self.spending.periods(),
            pool: self
                .visiting
                .map(|visiting| visiting.close(self.now, (&self.core, self.load.visits(), self.load.start()))),
            predictions: self.predictions.map(|predictions| predictions.errors),
            rounds: self.rounds,
            violations: self.core.sums().rejected_plans,
            host: HostUse::default(),
        })
    }
}
