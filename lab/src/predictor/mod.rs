//! `lab predictor`: tests the predictor of draws on jobs that it has not seen, and prints the figures next to their
//! targets.
//!
//! No figure comes from a job that a model was trained with: a job is predicted at its submission, by what had ended
//! before it ([`walk`]), or by a model of the first 70 % of all jobs.

pub mod command;
mod eurora;
pub mod generator;
mod rows;
pub mod walk;

pub use eurora::predictions;
use limo_model::{Power, Time};
use limo_profiles::predict::{Features, FinishedJob};

/// A job of a test.
#[derive(Debug, Clone, PartialEq)]
pub struct KnownJob {
    pub row: FinishedJob,
    /// Start of the run.
    pub start: Time,
    /// The draw that an all-knowing predictor expects; `None` if it is not known.
    pub expected: Option<Power>,
}

impl KnownJob {
    pub fn features(&self) -> &Features {
        &self.row.features
    }

    pub fn watts(&self) -> f64 {
        watts(self.row.mean)
    }
}

pub fn watts(power: Power) -> f64 {
    power.mw() as f64 / 1e3
}

/// Errors over jobs that were predicted before they ran.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Errors {
    pub jobs: u32,
    pub measured_w: f64,
    pub predicted_w: f64,
    pub distance_w: f64,
    pub relative: f64,
    pub naive_w: f64,
    pub naive_relative: f64,
    /// The relative error of an all-knowing predictor, where it is known.
    pub floor: f64,
    pub covered: u32,
}

impl Errors {
    fn add(&mut self, case: &KnownJob, mean: Power, high: Power, naive: Power) {
        let measured = case.watts();
        let (distance, naive) = ((watts(mean) - measured).abs(), (watts(naive) - measured).abs());
        self.jobs += 1;
        self.measured_w += measured;
        self.predicted_w += watts(mean);
        self.distance_w += distance;
        self.naive_w += naive;
        // Some jobs have no draw, and so no relative error.
        if measured > 0.0 {
            self.relative += distance / measured;
            self.naive_relative += naive / measured;
            self.floor += case.expected.map_or(0.0, |expected| (watts(expected) - measured).abs() / measured);
        }
        self.covered += u32::from(case.row.mean <= high);
    }

    fn per_job(&self, sum: f64) -> f64 {
        sum / f64::from(self.jobs.max(1))
    }

    /// Returns the mean distance in parts of the mean draw.
    pub fn distance(&self) -> f64 {
        self.distance_w / self.measured_w
    }

    pub fn naive_distance(&self) -> f64 {
        self.naive_w / self.measured_w
    }

    /// Returns the mean relative error.
    pub fn mape(&self) -> f64 {
        self.per_job(self.relative)
    }

    pub fn naive_mape(&self) -> f64 {
        self.per_job(self.naive_relative)
    }

    pub fn floor(&self) -> f64 {
        self.per_job(self.floor)
    }

    pub fn covered_percent(&self) -> f64 {
        100.0 * self.per_job(f64::from(self.covered))
    }

    /// Returns how far the predicted sum is from the measured one, in per cent of the latter.
    pub fn sum_percent(&self) -> f64 {
        100.0 * (self.predicted_w / self.measured_w - 1.0).abs()
    }
}
