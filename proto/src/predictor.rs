//! The predictor of the master, as it reports it: its model, and the errors of the model in its trial.

use limo_model::Time;
use serde::{Deserialize, Serialize};

/// The state of the predictor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PredictorReport {
    /// The newest model, if there is one.
    pub model: Option<ModelReport>,
    /// Finished jobs since its training; without a model, all that are known.
    pub since: u32,
    /// Finished jobs that a training needs.
    pub needed: u32,
    /// True while a model is being trained.
    pub is_training: bool,
    /// Confidence of the draws that count against the limits, in thousandths.
    pub confidence_permille: u32,
}

/// A model. Its errors are parts of the mean draw, in thousandths; `None` if the jobs of the trial drew nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelReport {
    /// Its number, which goes up by one with each training.
    pub number: u32,
    /// Time of the training.
    pub trained: Time,
    /// Number of jobs that it learned from.
    pub rows: u32,
    /// Number of the newest of these, which were predicted before they were learned.
    pub trial: u32,
    /// Mean distance of predicted and measured draws.
    pub error_permille: Option<u32>,
    /// The same for the nameplate, which is the estimate without a model.
    pub nameplate_error_permille: Option<u32>,
    /// Jobs of the trial below the 90 % quantile.
    pub covered_permille: u32,
    /// True if it predicts jobs: its error is smaller than that of the nameplate.
    pub is_used: bool,
}

/// Asks for the model of the predictor, and its errors.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PredictorQuery;
