//! `lprof measure`: one application at one cap.

use std::process::ExitCode;

use clap::Args;
use limo_model::Power;

use super::laboratory::LaboratoryArguments;
use super::subject::{Subject, SubjectArguments, finish};
use crate::machine::Setting;
use crate::measure::run::REFERENCE_RUNS;
use crate::report;

/// Exit codes, for the help.
pub const EXIT_CODES: &str = "\
Exit codes:
  0  the result can be trusted
  3  it cannot; the reasons are printed
  1  the command, the meter or a cap failed";

/// Arguments of `lprof measure`.
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub struct Arguments {
    #[command(flatten)]
    laboratory: LaboratoryArguments,
    #[command(flatten)]
    subject: SubjectArguments,
    /// Cap of the unit; a few runs without a cap show if it has an effect [default: no cap]
    #[arg(long, value_name = "POWER")]
    cap: Option<Power>,
}

/// Runs the command.
///
/// # Errors
/// If the measurement fails.
pub fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let laboratory = arguments.laboratory.open()?;
    let mut subject = arguments.subject.warm_up(laboratory, None)?;
    let result = measure(arguments, &mut subject);
    finish(subject, result)
}

fn measure(arguments: &Arguments, subject: &mut Subject) -> anyhow::Result<bool> {
    let judged = match arguments.cap {
        None => subject.measure(Setting::Original, None, Vec::new())?,
        Some(cap) => {
            let uncapped = subject.measure(Setting::Original, Some(REFERENCE_RUNS), Vec::new())?;
            let mut capped = subject.measure(Setting::Cap(cap), None, Vec::new())?;
            subject.compare(&mut capped, &uncapped);
            capped
        }
    };
    subject.store(&judged.measurement)?;
    let measurements = [&judged.measurement];
    if arguments.subject.json {
        println!("{}", report::json(&measurements, None, None)?);
    } else {
        subject.laboratory.progress.end();
        print!("{}", report::table(&measurements));
    }
    subject.say_where();
    Ok(judged.measurement.is_good())
}
