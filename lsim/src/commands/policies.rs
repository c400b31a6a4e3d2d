//! `lsim policies`: what can be simulated, and where it is from.

use std::process::ExitCode;

use anyhow::Result;
use limo_sched::Preset;

#[derive(Debug, clap::Args)]
pub struct Arguments {}

pub fn run(_: &Arguments) -> Result<ExitCode> {
    for preset in Preset::ALL {
        println!("{preset}");
    }
    Ok(ExitCode::SUCCESS)
}
