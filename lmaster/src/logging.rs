//! The destination and format of log lines: stderr, as text or JSON. The filter can be changed while the process runs.

use std::io::{IsTerminal, stderr};

use anyhow::{Context, Result};
use tracing_subscriber::filter::EnvFilter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::reload::{self, Handle};
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, Registry, fmt};

use crate::config::LogFormat;

/// Changes the log filter.
pub struct Log {
    filter: Handle<EnvFilter, Registry>,
}

fn parse(filter: &str) -> Result<EnvFilter> {
    EnvFilter::try_new(filter)
        .with_context(|| format!("log = `{filter}` is not a filter: write a level, or `lmaster=debug,info`"))
}

/// Checks a filter.
///
/// # Errors
/// If `filter` cannot be parsed.
pub fn check(filter: &str) -> Result<()> {
    parse(filter).map(drop)
}

/// Starts logging.
///
/// # Errors
/// If `filter` cannot be parsed, or a logger is already installed in this process.
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
    /// Replaces the filter.
    ///
    /// # Errors
    /// If `filter` cannot be parsed.
    pub fn set(&self, filter: &str) -> Result<()> {
        self.filter.reload(parse(filter)?).context("cannot change the log filter")
    }
}
