//! `lprof diff`: what changed between two sets of results, as far as their intervals show it.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use serde::Serialize;

use crate::measure::statistics::Interval;
use crate::measure::verdict::UNTRUSTED;
use crate::results::{self, ResultKey};

/// Exit codes, for the help.
const EXIT_CODES: &str = "\
Exit codes:
  0  nothing differs
  3  something differs
  1  the results cannot be read";

/// Arguments of `lprof diff`.
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub struct Arguments {
    /// Directory with the earlier results
    #[arg(value_name = "BEFORE")]
    before: PathBuf,
    /// Directory with the later results
    #[arg(value_name = "AFTER")]
    after: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// A quantity before and after.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
struct Change {
    before: f64,
    after: f64,
    /// Change as a part of the value before.
    relative: f64,
    /// True if the intervals have no value in common.
    differs: bool,
}

/// Both quantities of one key.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct KeyDifference {
    key: String,
    duration_s: Change,
    energy_j: Change,
}

#[derive(Debug, Serialize)]
struct Differences {
    schema: u32,
    differences: Vec<KeyDifference>,
    only_before: Vec<String>,
    only_after: Vec<String>,
}

fn change(before: Interval, after: Interval) -> Change {
    let relative = if before.mean == 0.0 { 0.0 } else { (after.mean - before.mean) / before.mean };
    Change { before: before.mean, after: after.mean, relative, differs: before.is_apart_from(after) }
}

/// Runs the command.
///
/// # Errors
/// If the results cannot be read.
pub fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let (before, after) = (results::read(&arguments.before)?, results::read(&arguments.after)?);
    let keys: BTreeSet<&ResultKey> = before.keys().chain(after.keys()).collect();
    let mut found = Differences { schema: 1, differences: Vec::new(), only_before: Vec::new(), only_after: Vec::new() };
    for key in keys {
        let summary = |of: &std::collections::BTreeMap<ResultKey, results::Measurement>| {
            of.get(key).and_then(|measurement| measurement.summary.clone())
        };
        match (summary(&before), summary(&after)) {
            (Some(one), Some(other)) => found.differences.push(KeyDifference {
                key: key.to_string(),
                duration_s: change(one.duration_interval, other.duration_interval),
                energy_j: change(one.energy_interval, other.energy_interval),
            }),
            (Some(_), None) => found.only_before.push(key.to_string()),
            (None, _) => found.only_after.push(key.to_string()),
        }
    }
    if arguments.json {
        println!("{}", serde_json::to_string(&found)?);
    } else {
        print!("{}", words(&found));
    }
    let differs = found.differences.iter().any(|one| one.duration_s.differs || one.energy_j.differs);
    Ok(if differs { ExitCode::from(UNTRUSTED) } else { ExitCode::SUCCESS })
}

fn words(found: &Differences) -> String {
    let quantity = |name: &str, unit: &str, change: &Change| {
        let verdict = if change.differs { "differs" } else { "within the intervals" };
        let percent = change.relative * 100.0;
        format!("  {name}: {:.3} {unit} -> {:.3} {unit} ({percent:+.1} %, {verdict})\n", change.before, change.after)
    };
    let mut text = String::new();
    for one in &found.differences {
        text += &format!("{}\n", one.key);
        text += &quantity("duration", "s", &one.duration_s);
        text += &quantity("energy above idle", "J", &one.energy_j);
    }
    for (keys, place) in [(&found.only_before, "before"), (&found.only_after, "after")] {
        keys.iter().for_each(|key| text += &format!("{key}: only {place}\n"));
    }
    text
}
