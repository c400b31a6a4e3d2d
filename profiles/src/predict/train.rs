//! Trains a model, and tries it on its newest rows before it is used.

use std::collections::BTreeMap;

use limo_model::{Power, Span, Time};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;

use super::features::{FinishedJob, Target};
use super::moving::VALUES;
use super::tree::{Binned, Shape, forest, grow};
use super::{Prediction, Predictor};

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

/// Shortest time between two trainings that nobody asked for.
const PAUSE: Span = Span::from_secs(600);
/// A training needs as many new rows as one in this many of those in the last one.
const NEW_PART: usize = 10;

/// Returns true if another training is due: the last one had `trained` rows, `since` have come, and it began at `tried`.
pub fn is_due((trained, since): (usize, usize), tried: Option<Time>, now: Time) -> bool {
    tried.is_none_or(|tried| now - tried >= PAUSE) && since >= (LEAST_ROWS as usize).max(trained / NEW_PART)
}

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
    fn add(&mut self, row: &FinishedJob, found: &Prediction, naive: Power) {
        let watts = |power: Power| power.mw() as f64 / 1e3;
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
    trained(rows, settings, &|| false)
}

/// Does the same until `is_stopped` returns true, which it asks before each tree; then returns nothing.
pub fn train_until(rows: &[FinishedJob], settings: Settings, is_stopped: &dyn Fn() -> bool) -> Option<Predictor> {
    let model = trained(rows, settings, is_stopped);
    (!is_stopped()).then_some(model)
}

/// Trains a model, which lacks trees if it is stopped.
fn trained(rows: &[FinishedJob], settings: Settings, is_stopped: &dyn Fn() -> bool) -> Predictor {
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
    model.grow((&rows[..kept], &values, &targets), settings.seed, is_stopped);
    let mut trial = Trial::default();
    model.follow(&rows[kept..], |model, row, known| {
        targets.push(model.history.without_drift(&row.features, &Target::of(row)));
        values.push(model.history.view(&row.features).values(&row.features));
        if let Some((found, naive)) = known {
            trial.add(row, found, *naive);
        }
    });
    model.trial = trial;
    if kept < rows.len() {
        model.grow((rows, &values, &targets), settings.seed, is_stopped);
    }
    model
}

impl Predictor {
    /// Learns from finished jobs in the order of their ends, as [`Predictor::observe`] does. Each is predicted at its
    /// submission; one that was submitted before, at the beginning.
    pub fn observe_all(&mut self, rows: &[FinishedJob]) {
        self.follow(rows, |_, _, _| {});
    }

    /// Does this, and first shows each row with its prediction and the naive guess.
    fn follow(
        &mut self,
        rows: &[FinishedJob],
        mut show: impl FnMut(&Self, &FinishedJob, Option<&(Prediction, Power)>),
    ) {
        let mut by_submission: Vec<usize> = (0..rows.len()).collect();
        by_submission.sort_by_key(|index| rows[*index].submitted);
        let mut submitted = by_submission.into_iter().peekable();
        let mut predicted: Vec<Option<(Prediction, Power)>> = vec![None; rows.len()];
        let predict = |model: &Self, row: &FinishedJob| model.predict(&row.features).zip(model.naive(&row.features));
        for (index, row) in rows.iter().enumerate() {
            // A job that is submitted when another ends knows of this end.
            while let Some(next) = submitted.next_if(|next| rows[*next].submitted < row.ended) {
                predicted[next] = predict(self, &rows[next]);
            }
            // Rows of older files have no times.
            let known = predicted[index].or_else(|| predict(self, row));
            show(self, row, known.as_ref());
            self.observe(row, known.map(|(found, _)| found.draw()).as_ref());
        }
    }
}

impl Predictor {
    /// Grows all trees anew; fewer of them if it is stopped.
    fn grow(
        &mut self,
        (rows, values, targets): (&[FinishedJob], &[[f32; VALUES]], &[Target]),
        seed: u64,
        is_stopped: &dyn Fn() -> bool,
    ) {
        let binned = Binned::new(values, targets);
        self.forest = forest(&binned, (TREES, rows.len().min(SAMPLE)), FOREST, seed, is_stopped);
        let mut by_user: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        // There are at most MOST_ROWS rows.
        for (index, row) in rows.iter().enumerate() {
            by_user.entry(row.features.user).or_default().push(index as u32);
        }
        let mut draw = Xoshiro256PlusPlus::seed_from_u64(seed);
        for (user, mut members) in by_user {
            if is_stopped() {
                return;
            }
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
