//! Trains a model, and tries it on its newest rows before it is used.

use std::collections::BTreeMap;

use super::Predictor;
use super::features::{FinishedJob, Target};
use super::moving::VALUES;
use super::tree::{Binned, Shape, forest, grow};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;

/// Most rows that a training uses: the newest ones.
pub const MOST_ROWS: usize = 200_000;
/// Rows from which on a model can be used: four of them are the trial.
pub const LEAST_ROWS: u32 = 20;
/// One row of so many is kept for the trial: the newest ones.
const TRIAL: usize = 5;
/// Trees of the forest, and most rows of each.
const TREES: usize = 24;
const SAMPLE: usize = 40_000;
const FOREST: Shape = Shape { leaf: 5, leaves: 1_024, depth: 14, features: 8 };
/// Rows of a user from which on it has a tree, and most rows that it learns from.
const USER_ROWS: usize = 20;
const MOST_USER_ROWS: usize = 2_000;
const USER: Shape = Shape { leaf: 3, leaves: 32, depth: 8, features: VALUES };

/// How to train.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Number of the model.
    pub number: u32,
    /// Seed of the random choices.
    pub seed: u64,
}

/// Sums of a trial: rows that were predicted before they were learned. Draws are in watts.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Trial {
    /// Number of rows.
    pub rows: u32,
    /// Sum of the measured draws.
    pub measured_w: f64,
    /// Sum of the predicted draws.
    pub predicted_w: f64,
    /// Sum of the distances of predicted and measured draws.
    pub error_w: f64,
    /// The same sum for the naive guess.
    pub naive_error_w: f64,
    /// Sum of the distances relative to the measured draws.
    pub relative: f64,
    /// The same sum for the naive guess.
    pub naive_relative: f64,
    /// Sum of the distances of nameplates and measured draws.
    pub nameplate_error_w: f64,
    /// Rows whose draw was at most the 90 % quantile.
    pub covered: u32,
}

impl Trial {
    /// Adds a row with its prediction and the naive guess, which must have been made before.
    pub fn add(&mut self, predictor: &Predictor, row: &FinishedJob) {
        let features = &row.features;
        let Some((found, naive)) = predictor.predict(features).zip(predictor.naive(features)) else { return };
        let watts = |power: limo_model::Power| power.mw() as f64 / 1e3;
        let measured = watts(row.mean);
        self.rows += 1;
        self.measured_w += measured;
        self.predicted_w += watts(found.mean);
        let (error, naive_error) = ((watts(found.mean) - measured).abs(), (watts(naive) - measured).abs());
        self.error_w += error;
        self.naive_error_w += naive_error;
        self.nameplate_error_w += (watts(row.nameplate) - measured).abs();
        // A job without a measurable draw has no relative error.
        if measured >= 1e-3 {
            self.relative += error / measured;
            self.naive_relative += naive_error / measured;
        }
        self.covered += u32::from(row.mean <= found.high);
    }

    /// Returns true if the trial had rows, and the errors are smaller than those of the naive guess.
    pub fn is_better_than_naive(&self) -> bool {
        self.rows > 0 && self.error_w < self.naive_error_w
    }

    /// Returns true if the trial had rows, and the errors are smaller than those of the nameplates.
    pub fn is_better_than_nameplate(&self) -> bool {
        self.rows > 0 && self.error_w < self.nameplate_error_w
    }

    /// Returns the mean error in parts of the mean draw; `None` without a measured draw.
    pub fn error(&self) -> Option<f64> {
        self.of_measured(self.error_w)
    }

    /// Returns the mean error of the nameplates in parts of the mean draw; `None` without a measured draw.
    pub fn nameplate_error(&self) -> Option<f64> {
        self.of_measured(self.nameplate_error_w)
    }

    fn of_measured(&self, error_w: f64) -> Option<f64> {
        (self.measured_w > 0.0).then(|| error_w / self.measured_w)
    }

    /// Returns the mean relative error; `None` without rows.
    pub fn relative_error(&self) -> Option<f64> {
        (self.rows > 0).then(|| self.relative / f64::from(self.rows))
    }
}

/// Trains a model from finished jobs in the order of their ends. Older rows than the newest 200,000 are ignored. The newest
/// fifth is first predicted by a model of the others, which gives the trial, errors and spreads; then the trees are
/// grown from all rows.
pub fn train(rows: &[FinishedJob], settings: Settings) -> Predictor {
    let rows = &rows[rows.len().saturating_sub(MOST_ROWS)..];
    let mut model = Predictor::empty(settings.number);
    let (mut values, mut targets) = (Vec::with_capacity(rows.len()), Vec::with_capacity(rows.len()));
    let kept = rows.len() - rows.len() / TRIAL;
    for row in &rows[..kept] {
        let target = model.history.without_drift(&row.features, &Target::of(row));
        values.push(model.history.view(&row.features).values(&row.features));
        model.history.add(&row.features, &target, None);
        model.nearest.add(&row.features, &target);
        targets.push(target);
    }
    model.grow(&rows[..kept], &values, &targets, settings.seed);
    let mut trial = Trial::default();
    for row in &rows[kept..] {
        targets.push(model.history.without_drift(&row.features, &Target::of(row)));
        values.push(model.history.view(&row.features).values(&row.features));
        trial.add(&model, row);
        model.observe(row);
    }
    model.trial = trial;
    if kept < rows.len() {
        model.grow(rows, &values, &targets, settings.seed);
    }
    model
}

impl Predictor {
    /// Grows all trees anew.
    fn grow(&mut self, rows: &[FinishedJob], values: &[[f32; VALUES]], targets: &[Target], seed: u64) {
        let binned = Binned::new(values, targets);
        self.forest = forest(&binned, TREES, rows.len().min(SAMPLE), FOREST, seed);
        let mut by_user: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        // There are at most MOST_ROWS rows.
        for (index, row) in rows.iter().enumerate() {
            by_user.entry(row.features.user).or_default().push(index as u32);
        }
        let mut draw = Xoshiro256PlusPlus::seed_from_u64(seed);
        for (user, mut members) in by_user {
            // Those that the means have dropped were not seen for long.
            if members.len() < USER_ROWS || !self.history.users.contains_key(&user) {
                continue;
            }
            members.drain(..members.len().saturating_sub(MOST_USER_ROWS));
            let tree = grow(&binned, &mut members, USER, &mut draw);
            self.users.entry(user).or_default().tree = Some(tree);
        }
    }
}
