//! `lprof report`: a page with the figures and tables of limo-2018, sections 4.2 and 4.3, from results.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::Args;
use limo_files::Outlasts;

use crate::page::{Collector, page};
use crate::results;

/// Arguments of `lprof report`.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Directory with results
    #[arg(value_name = "DIR")]
    results: PathBuf,
    /// File to write, instead of standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Runs the command.
///
/// # Errors
/// If the results cannot be read, or the page cannot be written.
pub fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let mut collector = Collector::default();
    results::each(&arguments.results, |measurement| collector.add(&measurement))?;
    let (points, left_out) = collector.finish();
    let html = page(&format!("lprof: {}", arguments.results.display()), &points, left_out);
    match &arguments.output {
        Some(path) => limo_files::replace(path, 0o666, Outlasts::Process, |file| file.write_all(html.as_bytes()))
            .with_context(|| format!("cannot write {}", path.display()))?,
        None => io::stdout().lock().write_all(html.as_bytes()).context("cannot write to standard output")?,
    }
    Ok(ExitCode::SUCCESS)
}
