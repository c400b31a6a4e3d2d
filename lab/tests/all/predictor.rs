//! `lab predictor`: figures of the predictor of draws on jobs that it has not seen, through the program.

use std::path::Path;
use std::process::Command;

use limo_requirements::{Requirement, skip, trace_set};
use serde_json::Value;

use super::{lab, printed, refused};

fn figures(folder: &Path, arguments: &str) -> Value {
    serde_json::from_str(&printed(folder, &format!("predictor {arguments} --json"))).expect("JSON")
}

/// Returns the value of the figure with this name that is the `nth` from 0.
fn figure(of: &Value, name: &str, nth: usize) -> f64 {
    let all = of["figures"].as_array().expect("figures");
    let mut found = all.iter().filter(|figure| figure["name"].as_str().is_some_and(|full| full.trim() == name));
    found.nth(nth).and_then(|figure| figure["value"].as_f64()).unwrap_or_else(|| panic!("no {name} in {of}"))
}

/// docs/prediction.md has the targets that are missed. A forest of scikit-learn has an error of 0.518, and 1.05 times
/// this error is allowed. The quantile of the learning model covers 92.9 %; those of models that begin elsewhere 83.6 to
/// 92.9 %, 89.3 % on average.
#[test]
fn published_draws_of_eurora_are_predicted() {
    let Some(traces) = trace_set("power-capping-2018") else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let traces = traces.parent().expect("a folder above").display().to_string();
    let found = figures(folder.path(), &format!("eurora --traces {traces}"));
    let (fixed, learning) = (figure(&found, "fixed model: MAE/mean", 0), figure(&found, "MAE/mean", 0));
    assert!(learning <= 0.47 && fixed <= 1.05 * 0.518, "{found}");
    assert!(figure(&found, "quantile: distance from 90 %", 1) <= 3.0, "{found}");
    assert!(figure(&found, "quantile: distance from 90 %", 2) <= 2.0, "{found}");
    // 70 % of 3,082 jobs are 2,157.
    assert_eq!(figure(&found, "learning model: jobs", 0), 925.0);
}

/// The target is at most 1.05 times the error of the other forest.
#[test]
fn a_fixed_model_is_as_good_as_a_forest_of_scikit_learn() {
    let Some(traces) = trace_set("power-capping-2018") else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let traces = traces.parent().expect("a folder above").display().to_string();
    let found = figures(folder.path(), &format!("eurora --traces {traces} --rows rows.csv"));
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/forest.py");
    let output = match Command::new("python3").arg(script).arg(folder.path().join("rows.csv")).output() {
        Ok(output) => output,
        Err(error) => return skip(Requirement::Program, &format!("no python3: {error}")),
    };
    let told = String::from_utf8_lossy(&output.stderr);
    if told.contains("ModuleNotFoundError") {
        return skip(Requirement::Program, "python3 has no scikit-learn");
    }
    assert!(output.status.success(), "{told}");
    let forest: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(forest["jobs"], 925);
    let (own, other) = (figure(&found, "fixed model: MAE/mean", 0), forest["mae_by_mean"].as_f64().expect("a number"));
    assert!(own <= 1.05 * other, "{own} against {other}");
}

/// The targets hold for 100,000 jobs of 500 users. These users submit as many jobs each.
#[test]
fn generated_jobs_are_predicted_close_to_their_noise() {
    let folder = tempfile::tempdir().expect("a folder");
    let found = figures(folder.path(), "generated --jobs 10000 --users 50");
    assert!(figure(&found, "MAPE / noise floor", 0) <= 1.1, "{found}");
    assert!(figure(&found, "quantile: distance from 90 %", 0) <= 2.0, "{found}");
    assert!(figure(&found, "within the margin of 99 %", 0) >= 98.5, "{found}");
    assert!(figure(&found, "mean margin", 0) <= 30.0, "{found}");
    assert!(figure(&found, "intervals", 0) > 1_000.0, "{found}");
}

#[test]
fn refusals_name_the_value_and_the_limit() {
    let folder = tempfile::tempdir().expect("a folder");
    let output = lab(folder.path(), "predictor generated --jobs 10");
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(125) && told.contains("10 is not in 1000..=1000000"), "{told}");
    let missing = "lab: nowhere/power-capping-2018/power_predictions.csv.gz cannot be read: No such file or directory (os error 2)";
    refused(folder.path(), "predictor eurora --traces nowhere", 1, missing);
    let set = folder.path().join("set/power-capping-2018");
    std::fs::create_dir_all(&set).expect("a folder");
    std::fs::write(set.join("power_predictions.csv.gz"), "1.node129;93.0\n2.node129;many\n").expect("written");
    let wrong = "lab: set/power-capping-2018/power_predictions.csv.gz:2: `2.node129;many` is not a job and its watts, such as 498459.node129;93.0";
    refused(folder.path(), "predictor eurora --traces set", 1, wrong);
}
