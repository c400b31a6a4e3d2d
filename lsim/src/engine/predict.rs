//! Predictions: a model learns from jobs that have ended in the simulation, as that of the master does, and predicts
//! each job at its submission. Predictions reach the core as data. No job is predicted from a later end.

use limo_model::{JobId, Part, Predicted, Request, Span, Time};
use limo_profiles::predict::{ExpectedDraw, Features, FinishedJob, Predictor, Settings, is_due, train};
use limo_sched::{Event, OnHardware, Phase};

use super::{Load, Run, Simulation, SimulationError};
use crate::record::{Fate, PredictionErrors, Sink};

/// Seed of the random choices of each training.
const SEED: u64 = 1;
/// Most waiting jobs that a new model predicts, as in the master.
const PREDICTED_AGAIN: usize = 1_000;

/// The newest model and the jobs that it learns from.
#[derive(Debug, Default)]
pub struct Predictions {
    model: Option<Predictor>,
    rows: Vec<FinishedJob>,
    /// Number of rows, and time, of the last training.
    trained: usize,
    tried: Option<Time>,
    pub errors: PredictionErrors,
}

impl<L: Load, S: Sink> Simulation<'_, L, S> {
    fn features(&self, index: usize, request: &Request, on: &OnHardware) -> Features {
        let row = self.load.row(index, Fate::Unfinished);
        let request = Request { user: row.user.to_string(), ..request.clone() };
        Features::of_chunk(&request, (&on.hardware, on.cores, on.is_accelerator), (false, row.submit))
    }

    /// Predicts a job on each type of hardware that it may have; nothing without a model that is better than the
    /// nameplates.
    pub fn predicted(&self, index: usize, request: &Request) -> Vec<Predicted> {
        let model = self.predictions.as_ref().and_then(|predictions| predictions.model.as_ref());
        let Some(model) = model.filter(|model| model.trial().is_better_than_nameplate()) else { return Vec::new() };
        let offered = self.core.view(self.now).offered_hardware(request);
        let predict = |on: OnHardware| {
            let found = model.predict(&self.features(index, request, &on))?;
            Some(found.on(model.number(), (on.hardware, on.cores)))
        };
        offered.into_iter().filter_map(predict).collect()
    }

    /// Learns from a job that ended well by itself on one unit and without a cap, as the master does.
    pub fn learn(&mut self, (id, index): (JobId, usize), run: &Run, span: Span) -> Result<(), SimulationError> {
        if self.predictions.is_none() || span <= Span::ZERO {
            return Ok(());
        }
        let [part @ Part { count: 1, cap: None, .. }] = run.placement.as_slice() else { return Ok(()) };
        let Some(job) = self.core.job(id) else { return Ok(()) };
        let Some(unit) =
            self.core.node(part.unit.node).and_then(|node| node.spec().units.get(usize::from(part.unit.unit)))
        else {
            return Ok(());
        };
        let request = &job.request;
        let chunks = request.chunks_by_node(&run.placement).first().copied().unwrap_or(1).max(1);
        let above = self.machine.energy_of(&run.placement, span, run.running.draw)
            - self.machine.idle_energy_of(&run.placement, span);
        let mean = above.over(span).scaled(1, i64::from(chunks));
        let on = OnHardware::of(request, unit);
        let features = self.features(index, request, &on);
        let nameplate = unit.nameplate.scaled(i64::from(on.cores), i64::from(unit.cores));
        let submitted = self.load.row(index, Fate::Unfinished).submit;
        let row = FinishedJob { features, mean, peak: mean, nameplate, duration: span, submitted, ended: self.now };
        let predicted = request.predicted.iter().find(|of| of.hardware == on.hardware && of.cores == on.cores);
        let (expected, draws) = (predicted.map(ExpectedDraw::from), predicted.map(|of| (of.mean, of.high)));
        let Some(predictions) = &mut self.predictions else { return Ok(()) };
        if let Some(draws) = draws {
            predictions.errors.add(mean, draws);
        }
        if let Some(model) = &mut predictions.model {
            model.observe(&row, expected.as_ref());
        }
        predictions.rows.push(row);
        let (trained, rows) = (predictions.trained, predictions.rows.len());
        if is_due((trained, rows - trained), predictions.tried, self.now) {
            let number = predictions.model.as_ref().map_or(1, |model| model.number() + 1);
            predictions.model = Some(train(&predictions.rows, Settings { number, seed: SEED }));
            (predictions.trained, predictions.tried) = (rows, Some(self.now));
            self.predict_again()?;
        }
        Ok(())
    }

    /// Predicts the first waiting jobs by a new model.
    fn predict_again(&mut self) -> Result<(), SimulationError> {
        let waiting = self.core.jobs().filter(|(_, job)| matches!(job.phase, Phase::Waiting(_)));
        let waiting: Vec<JobId> = waiting.take(PREDICTED_AGAIN).map(|(id, _)| id).collect();
        for id in waiting {
            let Some((job, present)) = self.core.job(id).zip(self.jobs.get(id)) else { continue };
            let predicted = self.predicted(present.index, &job.request);
            if predicted != job.request.predicted {
                self.apply(&Event::Predicted { job: id, predicted })?;
            }
        }
        Ok(())
    }
}
