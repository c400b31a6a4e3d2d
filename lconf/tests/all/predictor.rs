//! The predictor: shown and trained.

use limo_fake::answer;
use limo_model::Time;
use limo_proto::{Answer, Change, ModelReport, PredictorQuery, PredictorReport, Query};

use crate::{answered, ask, change, printed};

fn report(is_used: bool) -> PredictorReport {
    let model = ModelReport {
        number: 3,
        trained: Time::from_unix_ms(1_767_225_600_000),
        rows: 120,
        trial: 24,
        error_permille: Some(42),
        nameplate_error_permille: Some(851),
        covered_permille: 917,
        is_used,
    };
    PredictorReport { model: Some(model), since: 14, needed: 20, is_training: false, confidence_permille: 900 }
}

async fn shown(report: PredictorReport, more: &[&str]) -> String {
    let (output, asked) = answered(&[&["predictor", "show"], more].concat(), answer(Answer::Predictor(report))).await;
    assert_eq!(asked, vec![ask(Query::Predictor(PredictorQuery))]);
    output
}

#[tokio::test]
async fn a_model_is_shown_with_its_errors() {
    let expected = "\
        model        3\n\
        trained      2026-01-01 00:00 from 120 jobs; 14 have finished since\n\
        error        4.2 % of the mean draw; nameplate: 85.1 %; over 24 jobs that it did not know\n\
        coverage     91.7 % of them below the 90 % quantile\n";
    let used = "in use       yes, limits count draws with a confidence of 90.0 %\n";
    assert_eq!(shown(report(true), &[]).await, printed(&format!("{expected}{used}")));
    let unused = "in use       no: its error is not smaller than that of the nameplate\n";
    assert_eq!(shown(report(false), &[]).await, printed(&format!("{expected}{unused}")));
    let json = "{\"schema\":1,\"model\":{\"number\":3,\"trained_unix_ms\":1767225600000,\"rows\":120,\"trial\":24,\
        \"error\":0.042,\"nameplate_error\":0.851,\"covered\":0.917,\"is_used\":true},\"since\":14,\"needed\":20,\
        \"is_training\":false,\"confidence\":0.9}\n";
    assert_eq!(shown(report(true), &["--json"]).await, printed(json));
}

#[tokio::test]
async fn without_a_model_the_missing_jobs_are_counted() {
    let none = PredictorReport { model: None, since: 7, is_training: true, ..report(true) };
    let expected = "model        none: 7 measured jobs have finished, a training needs 20; one is being trained\n";
    assert_eq!(shown(none, &[]).await, printed(expected));
}

#[tokio::test]
async fn trained() {
    let (output, asked) = answered(&["predictor", "train"], answer(Answer::Done)).await;
    assert_eq!((output, asked), (printed(""), vec![change(Change::TrainPredictor)]));
}
