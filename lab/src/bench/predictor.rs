//! Training of the predictor of draws, its predictions, and the size of its model.

use std::hint::black_box;
use std::time::Instant;

use anyhow::Result;
use limo_profiles::predict::{Features, FinishedJob, Predictor, Settings, train};

use super::figure::{Figure, Limit};
use super::host::Watch;
use crate::predictor::generator::{RECIPE, Recipe, generate};

const ROWS: u32 = 100_000;
/// Upper limits for this number of rows.
const TRAINING_S: f64 = 3.0;
const PREDICTION_US: f64 = 20.0;
const MODEL_MB: f64 = 10.0;

/// Measures in this process.
///
/// # Errors
/// If the kernel does not report the usage, or the model cannot be read again.
pub fn measure(quick: bool) -> Result<Vec<Figure>> {
    let jobs = if quick { ROWS / 10 } else { ROWS };
    let rows: Vec<FinishedJob> = generate(&Recipe { jobs, ..RECIPE }).iter().map(|case| case.row).collect();
    let all = Watch::start()?;
    let model = train(&rows, Settings { number: 1, seed: 1 });
    let trained = all.taken()?;
    let each = |mut work: Box<dyn FnMut(&FinishedJob) + '_>| {
        let begun = Instant::now();
        rows.iter().for_each(&mut work);
        begun.elapsed().as_secs_f64() * 1e6 / f64::from(jobs)
    };
    let predicted = each(Box::new(|row| {
        black_box(model.predict(&row.features));
    }));
    let mut learning = model.clone();
    let expected = model.predict(&Features::default()).map(|found| found.draw());
    let observed = each(Box::new(|row| learning.observe(row, expected.as_ref())));
    let bytes = model.to_bytes();
    let begun = Instant::now();
    black_box(Predictor::from_bytes(&bytes)?);
    let read = begun.elapsed().as_secs_f64();
    let peer = "reference";
    Ok(vec![
        Figure::new("rows", f64::from(jobs), ""),
        Figure::new("CPU time of the training", trained.cpu_s, "s")
            .within(Limit::AtMost(TRAINING_S))
            .beside(&format!("{peer}: 2.2 s")),
        Figure::new("prediction of a job", predicted, "us")
            .within(Limit::AtMost(PREDICTION_US))
            .beside(&format!("{peer}: 11 us")),
        Figure::new("learning from a finished job", observed, "us"),
        Figure::new("model", bytes.len() as f64 / 1e6, "MB").within(Limit::AtMost(MODEL_MB)),
        Figure::new("reading the model", read * 1e3, "ms"),
    ])
}
