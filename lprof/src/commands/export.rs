//! `lprof export`: the profiles of results that can be trusted, as `lconf profile import` reads them.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::Args;
use limo_model::{Profile, ProfileKey};
use limo_profiles::text;

use crate::measure::verdict::UNTRUSTED;
use crate::report;
use crate::results::{self, Measurement};

/// Arguments of `lprof export`.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Directory with results
    #[arg(value_name = "DIR")]
    results: PathBuf,
    /// Export also what cannot be trusted
    #[arg(long)]
    force: bool,
}

/// Runs the command.
///
/// # Errors
/// If the results cannot be read, or nothing can be exported.
pub fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let measurements = results::read(&arguments.results)?;
    let (mut comments, mut profiles): (String, Vec<(ProfileKey, Profile)>) = (String::new(), Vec::new());
    for (key, measurement) in &measurements {
        if !measurement.is_good() && !arguments.force {
            eprintln!("lprof: {key} is left out: {}", measurement.reasons.join("; "));
            continue;
        }
        if key.clocks.is_some() {
            eprintln!("lprof: {key} is left out: profiles have caps, and no clocks");
            continue;
        }
        if let Some(profile) = measurement.profile() {
            comments += &comment(&key.profile, measurement);
            profiles.push((key.profile.clone(), profile));
        }
    }
    if profiles.is_empty() {
        eprintln!("lprof: no result can be exported; `--force` exports also what cannot be trusted");
        return Ok(ExitCode::from(UNTRUSTED));
    }
    let mut output = io::stdout().lock();
    let written = output.write_all(comments.as_bytes()).and_then(|()| text::write(&profiles, &mut output));
    written.context("cannot write the profiles")?;
    Ok(ExitCode::SUCCESS)
}

/// Returns lines that a reader of profiles ignores.
fn comment(key: &ProfileKey, measurement: &Measurement) -> String {
    let provenance = &measurement.provenance;
    let source = if provenance.emulated { "emulated" } else { &provenance.meter };
    let application =
        if key.size.is_empty() { key.application.clone() } else { format!("{}/{}", key.application, key.size) };
    let mut text = format!(
        "# {application} on {}, {} cores, cap {}: {source}, lprof {} on {} ({})",
        key.hardware,
        measurement.cores,
        report::cap(key.cap),
        provenance.version,
        provenance.host,
        provenance.kernel
    );
    if let Some(summary) = &measurement.summary {
        text += &format!(
            "\n#   duration +-{:.1} %, energy +-{:.1} %, idle {:.2} W, drift {:+.2} W, {} runs, {} outliers",
            summary.duration_interval.relative() * 100.0,
            summary.energy_interval.relative() * 100.0,
            summary.idle_w,
            summary.drift_w,
            summary.runs,
            summary.outliers
        );
    }
    for reason in &measurement.reasons {
        text += &format!("\n#   NOT TRUSTED: {reason}");
    }
    // A name cannot contain a line break, but the words of a meter or a host may.
    text.lines().map(|line| if line.starts_with('#') { format!("{line}\n") } else { format!("# {line}\n") }).collect()
}
