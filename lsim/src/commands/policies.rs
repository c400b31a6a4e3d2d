//! `lsim policies`: lists the policies with their source, promises and options.

use std::fmt::Write as _;
use std::process::ExitCode;

use anyhow::Result;
use limo_model::{Described, NamedPart, PartRule, Preset};
use serde::Serialize;

use crate::setup::options::{KEYS, Key};

#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct PoliciesJson {
    schema: u32,
    policies: Vec<Policy>,
    options: Vec<Choice>,
}

#[derive(Serialize)]
struct Policy {
    name: &'static str,
    idea: &'static str,
    source: &'static str,
    parts: PartNames,
    promises: Vec<&'static str>,
    options: Vec<&'static str>,
}

#[derive(Clone, Copy, Serialize)]
struct PartNames {
    order: &'static str,
    admission: &'static str,
    placement: &'static str,
    caps: &'static str,
    idle: &'static str,
}

#[derive(Serialize)]
struct Choice {
    name: &'static str,
    values: &'static str,
    default: &'static str,
    meaning: &'static str,
}

fn listing() -> PoliciesJson {
    let policy = |preset: Preset| {
        let Described { name, parts, idea, source, .. } = preset.described();
        Policy {
            name,
            idea,
            source,
            parts: PartNames {
                order: parts.order.name(),
                admission: parts.admission.name(),
                placement: parts.placement.name(),
                caps: parts.caps.name(),
                idle: parts.idle.name(),
            },
            promises: parts.promises(),
            options: KEYS.iter().filter(|key| !key.is_part() && (key.counts)(parts)).map(|key| key.name).collect(),
        }
    };
    let option = |key: &Key| Choice { name: key.name, values: key.values, default: key.default, meaning: key.meaning };
    PoliciesJson {
        schema: 1,
        policies: Preset::ALL.into_iter().map(policy).collect(),
        options: KEYS.iter().map(option).collect(),
    }
}

fn text(listing: &PoliciesJson) -> String {
    let mut text = String::new();
    // Writing to a `String` cannot fail.
    for policy in &listing.policies {
        let _ = writeln!(text, "{}\n    {}\n    source    {}", policy.name, policy.idea, policy.source);
        let PartNames { order, admission, placement, caps, idle } = policy.parts;
        let parts = format!("order={order} admission={admission} placement={placement} caps={caps} idle={idle}");
        let _ = writeln!(text, "    parts     {parts}");
        for promise in &policy.promises {
            let _ = writeln!(text, "    promise   {promise}");
        }
        let options = if policy.options.is_empty() { "none".to_owned() } else { policy.options.join(", ") };
        let _ = writeln!(text, "    options   {options}\n");
    }
    for (title, are_parts) in [("Parts, each as --part PART=RULE:", true), ("Options, each as --set KEY=VALUE:", false)]
    {
        let _ = writeln!(text, "{title}");
        for option in listing.options.iter().filter(|option| PartRule::KINDS.contains(&option.name) == are_parts) {
            let Choice { name, values, default, meaning } = option;
            let default = if are_parts { "the policy's own" } else { default };
            let _ = writeln!(text, "    {name:<25}{meaning}\n    {:<25}{values} [default: {default}]", "");
        }
    }
    text
}

/// Prints the list.
///
/// # Errors
/// If the JSON cannot be written.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let listing = listing();
    if arguments.json {
        println!("{}", serde_json::to_string_pretty(&listing)?);
    } else {
        print!("{}", text(&listing));
    }
    Ok(ExitCode::SUCCESS)
}
