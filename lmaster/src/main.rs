//! The master of a Limo cluster: one process that keeps the queue, decides, and relays the input and output of jobs.
//!
//! `controller` decides, as a state machine without I/O. All other modules bring its inputs and carry out its
//! effects.

mod accounts;
mod audit;
mod backup;
mod budget;
mod changed;
mod clock;
mod config;
mod connection;
mod controller;
mod database;
mod energy;
mod enrol;
mod feeds;
mod former;
mod freed;
mod history;
mod hook;
mod limits;
mod listen;
mod log_limits;
mod logging;
mod messenger;
mod meters;
mod missing;
mod pace;
mod pass;
mod predictor;
mod privacy;
mod readings;
mod recover;
mod renewal;
mod report;
mod room;
mod serve;
mod signs;
mod site_program;
mod states;
mod store;
mod wake;
mod web;

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::{CommandFactory, Parser};
use limo_program::generate::{Section, requested};

use config::Cli;

/// Longest wait for a meter reading at the end of the process; one exchange takes at most 5 s.
const UNFINISHED: Duration = Duration::from_secs(6);

fn main() -> ExitCode {
    if let Some(code) = requested("lmaster", Section::Daemons, Cli::command()) {
        return code;
    }
    limo_program::run("lmaster", Cli::try_parse(), |cli| run(cli).map(|()| ExitCode::SUCCESS))
}

fn run(cli: Cli) -> Result<()> {
    let settings = cli.settings()?;
    if cli.check_config {
        println!("the configuration is valid");
        return Ok(());
    }
    if cli.restored {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("cannot begin")?;
        let journal = runtime.block_on(store::begin_incarnation(&settings.state_dir, settings.journal.as_ref()))?;
        println!("cluster {}: incarnation {} begins", journal.cluster, journal.incarnation);
        return Ok(());
    }
    if let Some(from) = &cli.import_journal {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("cannot begin")?;
        let rows = runtime.block_on(store::import_journal(from, &settings.state_dir, settings.journal))?;
        println!("moved the journal: {rows} rows");
        return Ok(());
    }
    let log = logging::start(settings.log_format, &settings.log)?;
    // One thread is enough: all input is for the controller, and waking another thread takes longer than reading a
    // frame. The connections to the journal and the profile database have their own threads.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("cannot begin")?;
    let result = runtime.block_on(serve::run(cli, settings, log));
    // A read that blocks in the kernel must not delay the end of the process.
    runtime.shutdown_timeout(UNFINISHED);
    result
}
