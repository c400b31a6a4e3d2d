//! `lsim policies`: what can be simulated, where it is from, what it promises and what can be set.

use std::fmt::Write as _;
use std::process::ExitCode;

use anyhow::Result;
use limo_model::Preset;
use serde::Serialize;

use crate::setup::options::{KEYS, Key};

#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Listing {
    schema: u32,
    policies: Vec<Policy>,
    options: Vec<Choice>,
}

#[derive(Serialize)]
struct Policy {
    name: &'static str,
    idea: &'static str,
    source: &'static str,
    promises: Vec<&'static str>,
    options: Vec<&'static str>,
}

#[derive(Serialize)]
struct Choice {
    name: &'static str,
    values: &'static str,
    default: &'static str,
    meaning: &'static str,
}

/// The idea and the source of a policy.
fn described(preset: Preset) -> (&'static str, &'static str) {
    match preset {
        Preset::Fifo => ("in order of submission, each on the first node with room", "limo-2018, section 4.4"),
        Preset::LimoPrototype => (
            "in order of submission, as long as mode and power band allow it",
            "limo-2018, section 3.3.3, Algorithm 3.3",
        ),
        Preset::Limo => (
            "aims for the bottom of the power band while energy is dear and for its top while it is cheap",
            "limo-2018, section 3.1.3, Figure 3.4",
        ),
        Preset::Easy => (
            "backfilling with a reservation for the first job that waits",
            "energy-budget-2017, section II-B, Algorithm 1",
        ),
        Preset::Conservative => (
            "backfilling with a planned start for every job, which no later job may delay",
            "D. G. Feitelson, A. M. Weil: Utilization and predictability in scheduling the IBM SP2 with backfilling, 1998",
        ),
        Preset::Powercap => (
            "easy, and no job starts that takes the estimated draw above the rate of the budget",
            "energy-budget-2017, section V-C",
        ),
        Preset::Energybud => (
            "easy on a counter of available energy, reserved for the first job once it has waited long",
            "energy-budget-2017, section IV, Algorithm 2",
        ),
        Preset::Reducepc => (
            "easy on a counter of available energy; later jobs under a power cap that is lowered for the first one",
            "energy-budget-2017, section IV-D",
        ),
    }
}

fn listing() -> Listing {
    let policy = |preset: Preset| {
        let (idea, source) = described(preset);
        let promises = [
            (preset.keeps_upper_limit(), "starts nothing that takes the draw above the upper limit"),
            (preset.keeps_budget(), "never spends more than the budget of a period"),
        ];
        Policy {
            name: preset.name(),
            idea,
            source,
            promises: promises.into_iter().filter(|(kept, _)| *kept).map(|(_, promise)| promise).collect(),
            options: KEYS.iter().filter(|key| key.policies.contains(&preset)).map(|key| key.name).collect(),
        }
    };
    let option = |key: &Key| Choice { name: key.name, values: key.values, default: key.default, meaning: key.meaning };
    Listing {
        schema: 1,
        policies: Preset::ALL.into_iter().map(policy).collect(),
        options: KEYS.iter().map(option).collect(),
    }
}

fn text(listing: &Listing) -> String {
    let mut text = String::new();
    // Writing to a `String` cannot fail.
    for policy in &listing.policies {
        let _ = writeln!(text, "{}\n    {}\n    source    {}", policy.name, policy.idea, policy.source);
        for promise in &policy.promises {
            let _ = writeln!(text, "    promise   {promise}");
        }
        let options = if policy.options.is_empty() { "none".to_owned() } else { policy.options.join(", ") };
        let _ = writeln!(text, "    options   {options}\n");
    }
    text.push_str("Options, each as --set KEY=VALUE:\n");
    for option in &listing.options {
        let Choice { name, values, default, meaning } = option;
        let _ = writeln!(text, "    {name:<25}{meaning}\n    {:<25}{values} [default: {default}]", "");
    }
    text
}

/// # Errors
/// None but those of writing JSON to memory.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let listing = listing();
    if arguments.json {
        println!("{}", serde_json::to_string_pretty(&listing)?);
    } else {
        print!("{}", text(&listing));
    }
    Ok(ExitCode::SUCCESS)
}
