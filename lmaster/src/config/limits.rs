//! Limits on one user's use of the master, in the section `[limits]` of the settings.

use anyhow::{Result, ensure};
use limo_model::{Memory, as_text};
use serde::Deserialize;

use crate::limits::Limits;

/// Smallest size, so that several pages of an answer and frames of stdio fit.
const LEAST: usize = 1 << 20;

/// The section `[limits]`; only in the file.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct LimitsTable {
    #[serde(with = "as_text::option")]
    answers: Option<Memory>,
    #[serde(with = "as_text::option")]
    stdio: Option<Memory>,
    #[serde(with = "as_text::option")]
    reading: Option<Memory>,
    #[serde(with = "as_text::option")]
    requests: Option<Memory>,
    jobs: Option<u32>,
    #[serde(with = "as_text::option")]
    launches: Option<Memory>,
    #[serde(with = "as_text::option")]
    all_launches: Option<Memory>,
    #[serde(with = "as_text::option")]
    submissions: Option<Memory>,
    wait_numbers: Option<u32>,
    open_waits: Option<u32>,
    selectors: Option<u32>,
    queries_running: Option<u32>,
    queries_queued: Option<u32>,
    log_lines: Option<u32>,
}

impl LimitsTable {
    pub(super) fn resolve(self) -> Result<Limits> {
        let default = Limits::default();
        Ok(Limits {
            answers: size("answers", self.answers, default.answers)?,
            stdio: size("stdio", self.stdio, default.stdio)?,
            reading: size("reading", self.reading, default.reading)?,
            requests: size("requests", self.requests, default.requests)?,
            jobs: count("jobs", self.jobs, default.jobs)?,
            launches: size("launches", self.launches, default.launches)?,
            all_launches: size("all_launches", self.all_launches, default.all_launches)?,
            submissions: size("submissions", self.submissions, default.submissions)?,
            wait_numbers: count("wait_numbers", self.wait_numbers, default.wait_numbers)?,
            open_waits: count("open_waits", self.open_waits, default.open_waits)?,
            selectors: count("selectors", self.selectors, default.selectors)?,
            queries_running: count("queries_running", self.queries_running, default.queries_running)?,
            queries_queued: self.queries_queued.unwrap_or(default.queries_queued),
            log_lines: self.log_lines.unwrap_or(default.log_lines),
        })
    }
}

fn count(key: &str, value: Option<u32>, default: u32) -> Result<u32> {
    let value = value.unwrap_or(default);
    ensure!(value > 0, "limits.{key} is 0: it must be 1 or more");
    Ok(value)
}

fn size(key: &str, value: Option<Memory>, default: usize) -> Result<usize> {
    let Some(value) = value else { return Ok(default) };
    let size = usize::try_from(value.bytes()).unwrap_or(usize::MAX);
    ensure!(size >= LEAST, "limits.{key} is {value}: it must be {} or more", Memory::from_bytes(LEAST as u64));
    Ok(size)
}
