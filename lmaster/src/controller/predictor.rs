//! Predicts jobs by the newest model. Predictions are recorded with the jobs, so the state does not include the model.

use limo_model::{JobId, Predicted, Request, Time};
use limo_profiles::predict::{LEAST_ROWS, is_due};
use limo_proto::{Answer, MasterToClient, ModelReport, PredictorQuery, PredictorReport};
use limo_sched::{Event, Phase};

use super::commit::After;
use super::finished::Observation;
use super::lookup::Lookup;
use super::queries::Serve;
use super::{Controller, Effect, PeerId, Question};
use crate::database::Database;
use crate::predictor::{Loaded, Model, features};

/// Most waiting jobs that a new model predicts: the first ones. Others keep the predictions of their submission.
const PREDICTED_AGAIN: usize = 1_000;

/// The newest model, which learns from each finished job.
#[derive(Debug, Default)]
pub(super) struct Predictions {
    pub(super) model: Option<Box<Model>>,
    /// Finished jobs since the training of the model.
    since: u32,
    is_training: bool,
    /// Start of the last training of this process, which may have failed.
    tried: Option<Time>,
}

/// Reads the model that an earlier process trained.
#[derive(Debug)]
pub(super) struct LoadModel(pub(super) Time);

impl Lookup for LoadModel {
    type Found = Loaded;

    async fn read(&self, from: &dyn Database) -> anyhow::Result<Loaded> {
        from.load_model(self.0).await
    }

    fn found(self, controller: &mut Controller, _: PeerId, found: Loaded) {
        let predictions = &mut controller.predictions;
        // A training that has ended meanwhile has a newer one.
        if predictions.model.is_none() {
            predictions.model = found.model.map(Box::new);
            predictions.since = found.since;
        }
    }

    fn failed(&self, _: &mut Controller, reason: &str) {
        tracing::warn!(reason, "there is no model of the predictor");
    }
}

/// Trains a model, and predicts waiting jobs by it.
#[derive(Debug)]
struct TrainModel(Time);

impl Lookup for TrainModel {
    type Found = Model;

    async fn read(&self, from: &dyn Database) -> anyhow::Result<Model> {
        from.train_model(self.0).await
    }

    fn found(self, controller: &mut Controller, peer: PeerId, model: Model) {
        controller.trained(peer, model);
    }

    fn failed(&self, controller: &mut Controller, reason: &str) {
        controller.predictions.is_training = false;
        tracing::warn!(reason, "the predictor was not trained");
    }

    fn changes_something(&self) -> bool {
        true
    }
}

impl Serve for PredictorQuery {
    fn serve(self, controller: &mut Controller, peer: PeerId) {
        let report = controller.predictor_report();
        controller.say(peer, Answer::Predictor(report));
    }
}

impl Model {
    /// Returns true if its trial had smaller errors than the nameplate, which is the estimate without it.
    fn is_used(&self) -> bool {
        self.predictor.trial().is_better_than_nameplate()
    }

    fn report(&self) -> ModelReport {
        let trial = self.predictor.trial();
        let permille = |part: f64| (part * 1e3).round() as u32;
        ModelReport {
            number: self.predictor.number(),
            trained: self.trained,
            rows: self.rows,
            trial: trial.rows,
            error_permille: trial.error().map(permille),
            nameplate_error_permille: trial.nameplate_error().map(permille),
            covered_permille: permille(f64::from(trial.covered) / f64::from(trial.rows.max(1))),
            is_used: self.is_used(),
        }
    }
}

impl Predictions {
    /// Returns true if so much has finished since the last training that another one is due.
    fn is_due(&self, wall: Time) -> bool {
        let (rows, trained) = self.model.as_ref().map_or((0, None), |model| (model.rows, Some(model.trained)));
        !self.is_training && is_due((rows as usize, self.since as usize), self.tried.max(trained), wall)
    }
}

impl Controller {
    fn predictor_report(&self) -> PredictorReport {
        let Predictions { model, since, is_training, .. } = &self.predictions;
        PredictorReport {
            model: model.as_ref().map(|model| model.report()),
            since: *since,
            needed: LEAST_ROWS,
            is_training: *is_training,
            confidence_permille: self.tx.core.settings().options.confidence.permille().into(),
        }
    }

    /// Predicts a job on each type of hardware that it may have; returns nothing if no model is in use.
    pub(super) fn predicted(&self, request: &Request, of: (bool, Time)) -> Vec<Predicted> {
        let Some(model) = self.predictions.model.as_ref().filter(|model| model.is_used()) else { return Vec::new() };
        let number = model.predictor.number();
        let offered = self.tx.core.view(self.tx.now).offered_hardware(request);
        let predict = |on: limo_sched::OnHardware| {
            let found = model.predictor.predict(&features(request, &on, of))?;
            Some(found.on(number, (on.hardware, on.cores)))
        };
        offered.into_iter().filter_map(predict).collect()
    }

    /// Learns from a finished job. Its end is on disk.
    pub(super) fn observe(&mut self, job: JobId, Observation { row, expected }: Observation) {
        let predictions = &mut self.predictions;
        if let Some(model) = &mut predictions.model {
            model.predictor.observe(&row, expected.as_ref());
        }
        predictions.since = predictions.since.saturating_add(1);
        self.tx.effects.push(Effect::Observe(job, row));
        let wall = self.tx.wall();
        if self.predictions.is_due(wall) {
            (self.predictions.is_training, self.predictions.tried) = (true, Some(wall));
            let ticket = self.questions.ask(PeerId::NOBODY);
            self.tx.effects.push(Effect::Ask(ticket, Question::new(TrainModel(wall))));
        }
    }

    /// Trains a model for an operator.
    pub(super) fn train_predictor(&mut self, peer: PeerId) {
        if self.predictions.is_training {
            return self.refuse(peer, "the predictor is being trained", Some("lconf predictor show"));
        }
        self.predictions.is_training = true;
        let wall = self.tx.wall();
        self.ask(peer, TrainModel(wall));
    }

    /// Uses a new model from now on.
    fn trained(&mut self, peer: PeerId, model: Model) {
        let (number, rows, is_used) = (model.predictor.number(), model.rows, model.is_used());
        tracing::info!(number, rows, is_used, "the predictor is trained");
        let tried = self.predictions.tried;
        self.predictions = Predictions { model: Some(Box::new(model)), since: 0, is_training: false, tried };
        let waiting = self.tx.core.jobs().filter(|(_, job)| matches!(job.phase, Phase::Waiting(_)));
        let waiting: Vec<JobId> = waiting.take(PREDICTED_AGAIN).map(|(id, _)| id).collect();
        for id in waiting {
            let Some(job) = self.tx.core.job(id) else { continue };
            let is_task = self.live_of(id).is_some_and(|live| live.launch.array.is_some());
            let submitted = self.tx.core.clock().shown(job.submitted);
            let predicted = self.predicted(&job.request, (is_task, submitted));
            if predicted != job.request.predicted {
                self.tx.must(Event::Predicted { job: id, predicted });
            }
        }
        self.after(After::Answer(peer, MasterToClient::Answer(Box::new(Answer::Done))));
    }
}
