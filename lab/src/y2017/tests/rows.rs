//! The rows that the authors of energy-budget-2017 printed, over their inputs if these are present.
//!
//! The remaining differences come from the order of events at one instant, as far as is known. One swap changes the
//! rest of a schedule, and the order of the published runs was not recorded.

use std::fs;

use limo_requirements::trace_set;
use limo_trace::swf;

use super::super::*;
use super::Kept;

/// A published row, the columns that agree in all printed digits, and the largest errors of the others in millionths:
/// energies first, then other figures.
struct Expected {
    trace: &'static str,
    algorithm: &'static str,
    percent: u32,
    equal: &'static [&'static str],
    within: (f64, f64),
}

const fn row(
    trace: &'static str,
    algorithm: &'static str,
    percent: u32,
    equal: &'static [&'static str],
    within: (f64, f64),
) -> Expected {
    Expected { trace, algorithm, percent, equal, within }
}

const ALL: &[&str] = &[];
const EQUAL: (f64, f64) = (0.0, 0.0);

const SDSC: &[Expected] = &[
    row("sdscblue_1w_43207292", "PC_IDLE", 49, ALL, EQUAL),
    row("sdscblue_1w_16944036", "energyBud_SHUT", 60, ALL, EQUAL),
    row("sdscblue_1w_30499265", "energyBud_SHUT", 70, &["energyBudget"], (29_000.0, 29_000.0)),
];

const CURIE: &[Expected] = &[
    row("curie_1w_48889200", "reducePC_IDLE", 70, ALL, EQUAL),
    row("curie_1w_51996500", "PC_SHUT", 49, &["energyBudget"], (70.0, 70.0)),
    row("curie_1w_43659000", "energyBud_SHUT", 30, &[], (9_300.0, 9_400.0)),
    row("curie_1w_48911100", "energyBud_SHUT", 30, &[], (710.0, 710.0)),
];

const METACENTRUM: &[Expected] = &[
    row(
        "metacentrum_1w_1362700000",
        "energyBud_IDLE",
        100,
        &["maxbsld", "ctime", "energyTot", "jobRun"],
        (125.0, 830.0),
    ),
    row("metacentrum_1w_1366230000", "PC_SHUT", 50, &["energyBudget"], (150.0, 152.0)),
    row("metacentrum_1w_1360041254", "reducePC_SHUT", 90, &["ctime"], (2_900.0, 78_000.0)),
    row("metacentrum_1w_1363658910", "energyBud_SHUT", 30, &[], (160.0, 10_000.0)),
    row("metacentrum_1w_1363658910", "energyBud_SHUT", 80, &[], (1_450.0, 49_000.0)),
];

fn config(expected: &Expected) -> Config {
    let processors = match expected.trace.split('_').next() {
        Some("sdscblue") => 1_152,
        Some("curie") => 80_640,
        _ => 3_356,
    };
    let (algorithm, rest) = expected.algorithm.split_once('_').expect("an algorithm and what is done with idle nodes");
    let algorithm = match algorithm {
        "PC" => Algorithm::PowerCap,
        "reducePC" => Algorithm::ReducePc,
        _ => Algorithm::EnergyBud,
    };
    Config::published(processors, algorithm, rest == "SHUT", expected.percent)
}

fn check(rows: &[Expected]) {
    let Some(dir) = trace_set("energy-budget-2017") else { return };
    let published = fs::read_to_string(dir.join("published_rows.csv")).expect("the published rows");
    for expected in rows {
        let start = format!("{},{},{},", expected.trace, expected.algorithm, expected.percent);
        let printed = published.lines().find_map(|line| line.strip_prefix(&start)).expect("a published row");
        let path = dir.join(format!("{}.swf.gz", expected.trace));
        let workload = swf::load(&path, swf::Options::COMPAT_2017).expect("a workload");
        let mut kept = Kept::default();
        let outcome = simulate(&workload, &config(expected), &mut kept).expect("a simulation");
        assert_eq!(kept.jobs.len(), workload.jobs.len());
        let text = outcome.row.to_string();
        for ((column, ours), theirs) in COLUMNS.split(',').zip(text.split(',')).zip(printed.split(',')) {
            compare(expected, column, ours, theirs);
        }
    }
}

fn compare(expected: &Expected, column: &str, ours: &str, theirs: &str) {
    if theirs.is_empty() || ours == theirs {
        return;
    }
    let place = format!("{} {} {}: {column}", expected.trace, expected.algorithm, expected.percent);
    assert!(expected.within != EQUAL && !expected.equal.contains(&column), "{place} is {ours}, published is {theirs}");
    let number = |text: &str| text.parse::<f64>().expect("a number");
    let off = (number(ours) / number(theirs) - 1.0).abs() * 1e6;
    let within = if column.starts_with("energy") { expected.within.0 } else { expected.within.1 };
    assert!(off <= within, "{place} is {ours}, published is {theirs}: {off:.0} of {within:.0} millionths off");
}

#[test]
fn sdsc_blue() {
    check(SDSC);
}

#[test]
fn curie() {
    check(CURIE);
}

#[test]
fn metacentrum() {
    check(METACENTRUM);
}
