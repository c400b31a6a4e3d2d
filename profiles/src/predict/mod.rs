//! Predicts draw and duration of a job from its request, for jobs whose application has no profile (power-capping-2018,
//! section 4.1). Pure: the same rows give the same model and predictions on every machine.
//!
//! Four ways guess the logarithm of the watts for each core and of the seconds: a tree of the user, a forest of all users,
//! the nearest jobs of equal shape, and moving means. They are mixed by their recent errors for this user and all users
//! ([`mix`]). The paper has a tree or forest for each user, and one for new users.
//!
//! The spread of a prediction follows the recent errors of similar jobs and of all jobs. The factor between spread and
//! quantile, and that between measured and predicted sums, follow the measurements, so that they hold for any distribution.
//!
//! Spread and quantile learn from what was predicted when a job was submitted. Users submit many equal jobs before the
//! first of them ends, so a prediction at the end of a job knows its siblings, and its error is too small.

mod encode;
mod features;
pub mod margin;
mod mix;
mod moving;
mod nearest;
mod train;
mod tree;

use std::collections::BTreeMap;

use limo_model::{Power, Predicted, Span};

pub use encode::ModelError;
pub use features::{Features, FinishedJob, Submission};
pub use train::{LEAST_ROWS, Settings, Trial, is_due, train, train_until};

use features::Target;
use mix::{Distance, EXPERTS, Errors, Guesses, Quantile, Totals};
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

impl Prediction {
    /// Returns the draw with its deviation.
    pub fn draw(&self) -> ExpectedDraw {
        ExpectedDraw { mean: self.mean, deviation: self.deviation }
    }

    /// Returns it as it is recorded with a job, by model `number`, on hardware with the cores that a chunk takes.
    pub fn on(self, number: u32, (hardware, cores): (String, u32)) -> Predicted {
        let Self { mean, deviation, high, duration, .. } = self;
        Predicted { hardware, cores, model: number, mean, deviation, high, duration }
    }
}

impl From<&Predicted> for ExpectedDraw {
    fn from(of: &Predicted) -> Self {
        Self { mean: of.mean, deviation: of.deviation }
    }
}

/// Draw that was predicted for a job when it was submitted. The model learns its spread from it ([`Predictor::observe`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExpectedDraw {
    /// Expected mean draw.
    pub mean: Power,
    /// Standard deviation of the mean draw from the expected one.
    pub deviation: Power,
}

impl ExpectedDraw {
    /// Returns the distance of the logarithms of the measured and this draw, and the deviation of the latter.
    fn error(&self, measured_w: f64) -> (f64, f64) {
        let mean = self.mean.mw().max(1) as f64;
        let relative = self.deviation.mw() as f64 / mean;
        let deviation = libm::sqrt(libm::log1p(relative * relative)).clamp(LEAST_DEVIATION, MOST_DEVIATION);
        (libm::log(measured_w * 1e3 / mean), deviation)
    }
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
    distance: Distance,
    totals: Totals,
}

/// Largest exponent of a prediction: `exp(20)` is half a billion watts, or 15 years in seconds.
const MOST: f64 = 20.0;
/// Bounds of the deviation of the logarithm of a draw.
const LEAST_DEVIATION: f64 = 0.003;
const MOST_DEVIATION: f64 = 1.5;
/// Deviation of a normal variable in units of its mean absolute value: the root of pi / 2.
const NORMAL: f64 = 1.253_314_137_315_500_3;
/// Weight of the error of all jobs against that of similar jobs. Similar jobs can be equal for long, and then change.
const OF_ALL: f64 = 2.0;

/// A prediction before its corrections, in logarithms.
#[derive(Debug, Clone, Copy)]
struct Raw {
    watts: f64,
    duration: f64,
    peak: f64,
    /// Standard deviation.
    deviation: f64,
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
            quantile: Quantile::NORMAL,
            distance: Distance::FIRST,
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
        let error = (f64::from(moving.error) + OF_ALL * f64::from(self.distance.mean)) / (1.0 + OF_ALL);
        let deviation = (error * NORMAL).clamp(LEAST_DEVIATION, MOST_DEVIATION);
        let watts = watts + f64::from(self.history.drift(features));
        Some(Raw { watts, duration, peak: f64::from(moving.peak), deviation, way })
    }

    /// Predicts a job; `None` if no job was learned. A requested time limits the duration.
    pub fn predict(&self, features: &Features) -> Option<Prediction> {
        let view = self.history.view(features);
        let raw = self.raw(&view, features, &self.guesses(&view, features))?;
        let mean = bounded_exp(raw.watts) * features.scale() * self.totals.factor();
        let seconds = bounded_exp(raw.duration);
        let limit = if features.requested_s > 0 { f64::from(features.requested_s) } else { f64::INFINITY };
        Some(Prediction {
            mean: power(mean),
            high: power(mean * bounded_exp(f64::from(self.quantile.0) * raw.deviation)),
            peak: power(mean * bounded_exp(raw.peak)),
            deviation: power(mean * libm::sqrt(libm::expm1(raw.deviation * raw.deviation))),
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
    /// `expected` is what was predicted when the job was submitted, if it was; spreads learn from nothing else. Weights
    /// and sums learn from a prediction by what is known now: an error that the means have learned meanwhile must not be
    /// corrected twice.
    pub fn observe(&mut self, row: &FinishedJob, expected: Option<&ExpectedDraw>) {
        let (features, measured) = (&row.features, Target::of(row));
        let view = self.history.view(features);
        let guesses = self.guesses(&view, features);
        let watts = bounded_exp(f64::from(measured.watts)) * features.scale();
        if let Some(raw) = self.raw(&view, features, &guesses) {
            self.totals.follow(watts, bounded_exp(raw.watts) * features.scale());
        }
        let error = expected.map(|expected| {
            let (error, deviation) = expected.error(watts);
            self.quantile.follow(error / deviation);
            let error = error.abs().min(MOST_DEVIATION);
            self.distance.follow(error);
            error
        });
        let target = self.history.without_drift(features, &measured);
        self.errors.add_for_all(&guesses, f64::from(target.watts));
        self.history.add(features, &target, error);
        // The users of both maps are the same, so that both have the same limit.
        let history = &self.history;
        if self.users.len() >= moving::USERS {
            self.users.retain(|user, _| history.users.contains_key(user));
        }
        self.users.entry(features.user).or_default().errors.add_for_user(&guesses, f64::from(target.watts));
        self.nearest.add(features, &target);
    }
}

// All indices of ways fit a byte.
const _: () = assert!(EXPERTS < 256);

#[cfg(test)]
mod tests;
