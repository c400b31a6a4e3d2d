//! Where log lines go and in which form: stderr, for people or as JSON. What is logged can be changed while running.

use std::io::{IsTerminal, stderr};

use anyhow::{Context, Result};
use tracing_subscriber::filter::EnvFilter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::reload::{self, Handle};
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, Registry, fmt};

use crate::config::LogFormat;

/// Changes what is logged.
pub struct Log {
    filter: Handle<EnvFilter, Registry>,
}

fn parse(filter: &str) -> Result<EnvFilter> {
    EnvFilter::try_new(filter)
        .with_context(|| format!("log = `{filter}` is no filter: write a level, or `lmaster=debug,info`"))
}

/// # Errors
/// If `filter` cannot be read.
pub fn check(filter: &str) -> Result<()> {
    parse(filter).map(drop)
}

/// Begins to log.
///
/// # Errors
/// If `filter` cannot be read, or something in this process logs already.
pub fn start(format: LogFormat, filter: &str) -> Result<Log> {
    let (level, handle) = reload::Layer::new(parse(filter)?);
    let colour = stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let lines = fmt::layer().with_writer(stderr).with_ansi(colour);
    let lines = match format {
        LogFormat::Human => lines.boxed(),
        LogFormat::Json => lines.json().flatten_event(true).boxed(),
    };
    tracing_subscriber::registry().with(level).with(lines).try_init().context("cannot begin to log")?;
    Ok(Log { filter: handle })
}

impl Log {
    /// # Errors
    /// If `filter` cannot be read.
    pub fn set(&self, filter: &str) -> Result<()> {
        self.filter.reload(parse(filter)?).context("cannot change what is logged")
    }
}
