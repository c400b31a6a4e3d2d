//! `lab bench`: figures of speed and memory, printed next to limits and the figures of other programs.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use limo_requirements::{TRACES, traces};

#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Folder of the traces; parts without their traces are skipped [default: the one next to the workspace]
    #[arg(long, value_name = "DIR", env = TRACES)]
    traces: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Run only this part or group of parts: easy, kth-sp2, sdsc-sp2, sdsc-blue, curie, htc, rounds, campaign or predictor
    #[arg(long, value_name = "NAME")]
    only: Option<String>,
    /// Run smaller measurements, enough to see that they work
    #[arg(long)]
    quick: bool,
    /// Measure this part in this process and print its figures; used by the program itself
    #[arg(long, value_name = "NAME", hide = true, conflicts_with_all = ["json", "only"])]
    part: Option<String>,
}

/// Runs `lab bench`.
///
/// # Errors
/// If a file cannot be read or written, or a simulation fails. A missed limit is not an error: the machine may be busy.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let traces = arguments.traces.clone().unwrap_or_else(traces);
    if let Some(part) = &arguments.part {
        println!("{}", super::measure(part, &traces, arguments.quick)?);
        return Ok(ExitCode::SUCCESS);
    }
    let tell = |title: &str| eprintln!("lab: measuring {title}");
    let findings = super::run(arguments.only.as_deref(), &traces, arguments.quick, tell)?;
    if arguments.json {
        println!("{}", serde_json::to_string_pretty(&findings)?);
    } else {
        print!("{}", findings.text());
    }
    match findings.missed().count() {
        0 => {}
        missed => eprintln!("lab: {missed} figures are not within their limits"),
    }
    Ok(ExitCode::SUCCESS)
}
