//! Log of the daemon on stderr, with a level that can change.

use std::io::{self, IsTerminal};

use anyhow::Context;
use clap::ValueEnum;
use serde::Deserialize;
use tracing_subscriber::EnvFilter;

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    Human,
    Json,
}

/// Function that sets another level; its argument is the configured level.
pub type Relevel = Box<dyn Fn(&str) -> anyhow::Result<()> + Send>;

fn filter(level: &str) -> anyhow::Result<EnvFilter> {
    EnvFilter::try_new(level)
        .with_context(|| format!("`{level}` is not a log level: write error, warn, info, debug or trace"))
}

/// Starts logging.
///
/// # Errors
/// If the level is invalid.
pub fn start(level: &str, format: Option<LogFormat>) -> anyhow::Result<Relevel> {
    let terminal = io::stderr().is_terminal();
    let format = format.unwrap_or(LogFormat::Human);
    let plain = std::env::var_os("NO_COLOR").is_some() || !terminal;
    let builder = tracing_subscriber::fmt().with_writer(io::stderr).with_target(false).with_ansi(!plain);
    Ok(match format {
        LogFormat::Human => {
            let builder = builder.with_env_filter(filter(level)?).with_filter_reloading();
            let handle = builder.reload_handle();
            builder.init();
            Box::new(move |level| Ok(handle.reload(filter(level)?)?))
        }
        LogFormat::Json => {
            let builder = builder.json().with_env_filter(filter(level)?).with_filter_reloading();
            let handle = builder.reload_handle();
            builder.init();
            Box::new(move |level| Ok(handle.reload(filter(level)?)?))
        }
    })
}
