//! `lprof apps`: the applications, whether they work on this machine, and what is missing.

use std::process::ExitCode;

use anyhow::{Context, Result};
use serde::Serialize;

use crate::apps::lud::opencl;
use crate::apps::{self, ApplicationError, Entry};

#[derive(Debug, clap::Args)]
pub struct Apps {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct List {
    schema: u32,
    applications: Vec<AppRow>,
}

#[derive(Debug, Serialize)]
struct AppRow {
    name: &'static str,
    number: u16,
    about: &'static str,
    works: bool,
    devices: Vec<String>,
    missing: Option<String>,
}

/// Lists the applications. Each runs a small job, whose result is checked.
///
/// # Errors
/// If no temporary directory can be made. An application that does not work is listed and is not an error.
pub fn run(arguments: &Apps) -> Result<ExitCode> {
    let _cache = opencl::own_cache().context("cannot make a temporary directory")?;
    let list = List { schema: 1, applications: apps::ALL.iter().map(row).collect() };
    if arguments.json {
        println!("{}", serde_json::to_string_pretty(&list)?);
    } else {
        list.applications.iter().for_each(|row| print!("{}", told(row)));
    }
    Ok(ExitCode::SUCCESS)
}

fn row(entry: &Entry) -> AppRow {
    let devices = (entry.devices)();
    let checked = devices.and_then(|devices| works(entry).map(|()| devices));
    let (devices, missing) = match checked {
        Ok(devices) => (devices, None),
        Err(error) => (Vec::new(), Some(error.to_string())),
    };
    AppRow { name: entry.name, number: entry.id, about: entry.about, works: missing.is_none(), devices, missing }
}

fn works(entry: &Entry) -> Result<(), ApplicationError> {
    let mut application = (entry.init)("")?;
    (entry.check)(application.as_mut())?;
    application.fini()
}

fn told(row: &AppRow) -> String {
    let mut text =
        format!("{:<11} {:<13} {}\n", row.name, if row.works { "works" } else { "does not work" }, row.about);
    row.devices.iter().chain(&row.missing).for_each(|line| text += &format!("{:26}{line}\n", ""));
    text
}
