//! `lconf predictor`: shows the model that predicts draws, and trains another one.

use clap::Subcommand;
use limo_client::json::SCHEMA;
use limo_client::{Clock, Failure, Master, answer, answer_json, exit};
use limo_proto::{Change, ModelReport, PredictorReport};
use serde::Serialize;

#[derive(Debug, Subcommand)]
pub enum PredictorCommand {
    /// Show the model, its errors, and if it is in use
    Show,
    /// Train a model from all measured jobs, and predict waiting jobs by it
    Train,
}

#[derive(Serialize)]
struct PredictorJson {
    schema: u32,
    model: Option<ModelJson>,
    /// Jobs that have finished since the training.
    since: u32,
    /// Jobs that a training needs.
    needed: u32,
    is_training: bool,
    /// Confidence of the draws that count against the limits.
    confidence: f64,
}

#[derive(Serialize)]
struct ModelJson {
    number: u32,
    trained_unix_ms: i64,
    rows: u32,
    /// Newest of these, which were predicted before they were learned.
    trial: u32,
    /// Mean error in the trial, relative to the mean draw; `null` if nothing was drawn.
    error: Option<f64>,
    nameplate_error: Option<f64>,
    /// Share of the trial below the 90 % quantile.
    covered: f64,
    is_used: bool,
}

/// Runs a command.
///
/// # Errors
/// If the master cannot be asked, or it refuses.
pub async fn run(command: PredictorCommand, json: bool, master: &Master) -> Result<u8, Failure> {
    match command {
        PredictorCommand::Train => master.change(Change::TrainPredictor).await?,
        PredictorCommand::Show if json => answer_json(&as_json(&master.predictor().await?))?,
        PredictorCommand::Show => answer(&as_text(&master.predictor().await?, &Clock::system()))?,
    }
    Ok(exit::DONE)
}

fn as_json(report: &PredictorReport) -> PredictorJson {
    let part = |permille: u32| f64::from(permille) / 1e3;
    let model = |model: ModelReport| ModelJson {
        number: model.number,
        trained_unix_ms: model.trained.unix_ms(),
        rows: model.rows,
        trial: model.trial,
        error: model.error_permille.map(part),
        nameplate_error: model.nameplate_error_permille.map(part),
        covered: part(model.covered_permille),
        is_used: model.is_used,
    };
    PredictorJson {
        schema: SCHEMA,
        model: report.model.map(model),
        since: report.since,
        needed: report.needed,
        is_training: report.is_training,
        confidence: part(report.confidence_permille),
    }
}

fn percent(permille: u32) -> String {
    format!("{}.{} %", permille / 10, permille % 10)
}

fn as_text(report: &PredictorReport, clock: &Clock) -> String {
    let training = if report.is_training { "; another one is being trained" } else { "" };
    let Some(model) = report.model else {
        let training = if report.is_training { "; one is being trained" } else { "" };
        let (since, needed) = (report.since, report.needed);
        return format!(
            "model        none: {since} measured jobs have finished, a training needs {needed}{training}\n"
        );
    };
    let error = |permille: Option<u32>| permille.map_or_else(|| "unknown".to_owned(), percent);
    let used = match model.is_used {
        true => format!("yes, limits count draws with a confidence of {}", percent(report.confidence_permille)),
        false => "no: its error is not smaller than that of the nameplate".to_owned(),
    };
    format!(
        "model        {}{training}\n\
         trained      {} from {} jobs; {} have finished since\n\
         error        {} of the mean draw; nameplate: {}; over {} jobs that it did not know\n\
         coverage     {} of them below the 90 % quantile\n\
         in use       {used}\n",
        model.number,
        clock.show(model.trained),
        model.rows,
        report.since,
        error(model.error_permille),
        error(model.nameplate_error_permille),
        model.trial,
        percent(model.covered_permille),
    )
}
