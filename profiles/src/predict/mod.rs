//! Predicts draw and duration of a job from its request, for jobs whose application has no profile (power-capping-2018,
//! section 4.1). Pure: the same rows give the same model and predictions on every machine.
//!
//! Four ways guess the logarithm of the watts for each core and of the seconds: a tree of the user, a forest of all users,
//! the nearest jobs of equal shape, and moving means. They are mixed by their recent errors for this user and all users
//! ([`mix`]). The paper has a tree or forest for each user, and one for new users.
//!
//! The spread of a prediction follows the recent errors of similar jobs. The factor between spread and quantile, and that
//! between measured and predicted sums, follow the measurements, so that they hold for any distribution.

mod encode;
mod features;
pub mod margin;
mod mix;
mod moving;
mod nearest;
mod train;
mod tree;

use std::collections::BTreeMap;

use limo_model::{Power, Span};

pub use encode::ModelError;
pub use features::{Features, FinishedJob, Submission};
pub use train::{LEAST_ROWS, Settings, Trial, train};

use features::Target;
use mix::{EXPERTS, Errors, Guesses, Quantile, Totals};
use moving::{History, View};
use nearest::Nearest;
use tree::Tree;

/// What is expected of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Prediction {
    /// Expected mean draw of the whole job.
    pub mean: Power,
    /// The mean draw stays below this one in 90 % of all cases.
    pub high: Power,
    /// Expected highest draw.
    pub peak: Power,
    /// Standard deviation of the mean draw from the expected one.
    pub deviation: Power,
    /// Expected duration.
    pub duration: Span,
    /// Way that has most weight.
    pub way: Way,
}

/// A way to guess.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Way(u8);

impl std::fmt::Display for Way {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(mix::NAMES.get(usize::from(self.0)).copied().unwrap_or_default())
    }
}

/// What is kept about a user besides its means.
#[derive(Debug, Clone, PartialEq, Default)]
struct Known {
    tree: Option<Tree>,
    errors: Errors,
}

/// A trained model, which goes on learning from finished jobs ([`Predictor::observe`]); only its trees need a training.
#[derive(Debug, Clone, PartialEq)]
pub struct Predictor {
    /// Number of the model, which its maker chooses.
    number: u32,
    trial: Trial,
    forest: Vec<Tree>,
    users: BTreeMap<u32, Known>,
    history: History,
    nearest: Nearest,
    errors: Errors,
    quantile: Quantile,
    /// Mean square of the errors, in units of their expected absolute value.
    square: f32,
    totals: Totals,
}

/// Largest exponent of a prediction: `exp(20)` is half a billion watts, or 15 years in seconds.
const MOST: f64 = 20.0;
/// Least spread, relative to the draw.
const LEAST_SPREAD: f64 = 0.003;
/// Mean square of a normal variable in units of its squared mean absolute value: pi / 2.
const NORMAL_SQUARE: f32 = std::f32::consts::FRAC_PI_2;
/// Largest spread.
const MOST_SPREAD: f64 = 2.0;

/// A prediction before its corrections, in logarithms.
#[derive(Debug, Clone, Copy)]
struct Raw {
    watts: f64,
    duration: f64,
    peak: f64,
    /// Expected distance of the measured draw.
    spread: f64,
    way: usize,
}

fn bounded_exp(exponent: f64) -> f64 {
    libm::exp(exponent.clamp(-MOST, MOST))
}

fn power(watts: f64) -> Power {
    Power::from_mw(libm::round(watts * 1e3) as i64)
}

impl Predictor {
    fn empty(number: u32) -> Self {
        Self {
            number,
            trial: Trial::default(),
            forest: Vec::new(),
            users: BTreeMap::new(),
            history: History::new(),
            nearest: Nearest::new(),
            errors: Errors::default(),
            quantile: Quantile(1.6),
            square: NORMAL_SQUARE,
            totals: Totals::default(),
        }
    }

    /// Returns the number of the model.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Returns the errors on the newest rows of the training, which were predicted before they were learned.
    pub fn trial(&self) -> &Trial {
        &self.trial
    }

    fn guesses(&self, view: &View, features: &Features) -> Guesses {
        let values = view.values(features);
        let own = self.users.get(&features.user).and_then(|user| user.tree.as_ref());
        let forest = tree::guess(&self.forest, &values);
        let moving = view.narrowest(forest).map(|moving| (f64::from(moving.watts), f64::from(moving.duration)));
        [own.map(|tree| tree.guess(&values)), forest, self.nearest.guess(features), moving]
    }

    fn raw(&self, view: &View, features: &Features, guesses: &Guesses) -> Option<Raw> {
        let none = Errors::default();
        let own = self.users.get(&features.user).map_or(&none, |user| &user.errors);
        let ((watts, duration), way) = mix::mixed(guesses, own, &self.errors)?;
        let moving = view.narrowest(None).unwrap_or_default();
        let spread = f64::from(moving.error).clamp(LEAST_SPREAD, MOST_SPREAD);
        let watts = watts + f64::from(self.history.drift(features));
        Some(Raw { watts, duration, peak: f64::from(moving.peak), spread, way })
    }

    /// Returns the expected draw in watts before the correction of sums: the mean of a lognormal distribution.
    fn mean(raw: &Raw, square: f32, scale: f64) -> f64 {
        let variance = (raw.spread * raw.spread * f64::from(square)).min(1.0);
        bounded_exp(raw.watts + variance / 2.0) * scale
    }

    /// Predicts a job; `None` if no job was learned. A requested time limits the duration.
    pub fn predict(&self, features: &Features) -> Option<Prediction> {
        let view = self.history.view(features);
        let raw = self.raw(&view, features, &self.guesses(&view, features))?;
        let scale = features.scale();
        let mean = Self::mean(&raw, self.square, scale) * self.totals.factor();
        let high = bounded_exp(raw.watts + f64::from(self.quantile.0) * raw.spread) * scale;
        let variance = (raw.spread * raw.spread * f64::from(self.square)).min(MOST_SPREAD);
        let seconds = bounded_exp(raw.duration);
        let limit = if features.requested_s > 0 { f64::from(features.requested_s) } else { f64::INFINITY };
        Some(Prediction {
            mean: power(mean),
            high: power(high),
            peak: power(mean * bounded_exp(raw.peak)),
            deviation: power(mean * libm::sqrt(libm::expm1(variance))),
            duration: Span::from_ms(libm::round(seconds.min(limit) * 1e3) as i64),
            way: Way(raw.way as u8),
        })
    }

    /// Returns the naive guess for the draw: the user's mean watts for each core, or that of all users.
    pub fn naive(&self, features: &Features) -> Option<Power> {
        let watts = self.history.view(features).naive()? + f64::from(self.history.drift(features));
        Some(power(bounded_exp(watts) * features.scale()))
    }

    /// Learns from a finished job: means, neighbours, errors and spreads, but not trees. Call it in the order of the ends.
    pub fn observe(&mut self, row: &FinishedJob) {
        let (features, target) = (&row.features, Target::of(row));
        let view = self.history.view(features);
        let guesses = self.guesses(&view, features);
        let measured = f64::from(target.watts);
        let target = self.history.without_drift(features, &target);
        let raw = self.raw(&view, features, &guesses);
        let error = raw.map(|raw| measured - raw.watts);
        if let Some((raw, error)) = raw.zip(error) {
            let relative = error / raw.spread;
            self.quantile.follow(relative);
            let square = (relative * relative).min(100.0) as f32;
            self.square += (square - self.square) / 300.0;
            let scale = features.scale();
            self.totals.follow(bounded_exp(measured) * scale, Self::mean(&raw, self.square, scale));
        }
        let without_drift = f64::from(target.watts);
        self.errors.add_for_all(&guesses, without_drift);
        self.history.add(features, &target, error.map(f64::abs));
        // The users of both maps are the same, so that both have the same limit.
        let history = &self.history;
        if self.users.len() >= moving::USERS {
            self.users.retain(|user, _| history.users.contains_key(user));
        }
        self.users.entry(features.user).or_default().errors.add_for_user(&guesses, without_drift);
        self.nearest.add(features, &target);
    }
}

// All indices of ways fit a byte.
const _: () = assert!(EXPERTS < 256);

#[cfg(test)]
mod tests;
