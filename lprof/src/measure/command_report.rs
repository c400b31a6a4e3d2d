//! Figures that a measured command reports about itself: lines `NAME=NUMBER` on a descriptor, whose number is in
//! `LPROF_REPORT_FD`.
//!
//! The descriptor is a file without a name: the command may write or not, and nothing is left behind. Several processes
//! of a command may write; equal names are added.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::fd::AsRawFd;

use anyhow::Context;
use nix::fcntl::{FcntlArg, FdFlag, OFlag, fcntl};
use serde::{Deserialize, Serialize};

/// Variable with the number of the descriptor.
pub const REPORT_FD: &str = "LPROF_REPORT_FD";

/// Most bytes that are read.
const LONGEST: u64 = 1 << 20;

/// Largest number that counts: a year of operations at 10^18 a second.
const LARGEST: f64 = 1e26;

/// Figures of one run. All are sums, and `None` if they were not reported.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct CommandReport {
    /// Time in which the work itself was done, without reading its input or waiting for it, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel_s: Option<f64>,
    /// Number of jobs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jobs: Option<f64>,
    /// Operations of all jobs: limo-2018, Equation (4.1), for matrices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operations: Option<f64>,
    /// Rows of all matrices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rows: Option<f64>,
}

impl CommandReport {
    /// Returns true if nothing was reported.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the figures of one of `times` equal runs.
    pub fn of_one(self, times: f64) -> Self {
        let part = |sum: Option<f64>| sum.map(|sum| sum / times);
        Self {
            kernel_s: part(self.kernel_s),
            jobs: part(self.jobs),
            operations: part(self.operations),
            rows: part(self.rows),
        }
    }

    /// Adds up the lines of a report. Other lines are ignored: the descriptor belongs to the command.
    fn parse(text: &str) -> Self {
        let mut report = Self::default();
        for (name, value) in text.lines().filter_map(|line| line.split_once('=')) {
            let sum = match name.trim() {
                "kernel_s" => &mut report.kernel_s,
                "jobs" => &mut report.jobs,
                "operations" => &mut report.operations,
                "rows" => &mut report.rows,
                _ => continue,
            };
            let value = value.trim().parse().ok().filter(|value| (0.0..=LARGEST).contains(value));
            if let Some(value) = value {
                *sum = Some((sum.unwrap_or_default() + value).min(LARGEST));
            }
        }
        report
    }

    /// Writes the figures for the `lprof` that measures this process; does nothing without one.
    ///
    /// # Errors
    /// If the descriptor cannot be written.
    pub fn send(&self) -> anyhow::Result<()> {
        let Some(number) = std::env::var(REPORT_FD).ok().and_then(|number| number.parse::<u32>().ok()) else {
            return Ok(());
        };
        let known =
            [("kernel_s", self.kernel_s), ("jobs", self.jobs), ("operations", self.operations), ("rows", self.rows)];
        let lines: String =
            known.into_iter().filter_map(|(name, value)| value.map(|value| format!("{name}={value}\n"))).collect();
        let file = OpenOptions::new().append(true).open(format!("/proc/self/fd/{number}"));
        let written = file.and_then(|mut file| file.write_all(lines.as_bytes()));
        written.with_context(|| format!("cannot write to the descriptor {number} of {REPORT_FD}"))
    }
}

/// Receives the report of a command.
#[derive(Debug)]
pub struct ReportFile(File);

impl ReportFile {
    /// Makes an empty one.
    ///
    /// # Errors
    /// If a temporary file cannot be made.
    pub fn new() -> io::Result<Self> {
        let file = tempfile::tempfile()?;
        // Processes that share the descriptor and those that open it again then write one after another.
        fcntl(&file, FcntlArg::F_SETFL(OFlag::O_APPEND))?;
        Ok(Self(file))
    }

    /// Returns the number of the descriptor, as the command inherits it.
    pub fn number(&self) -> i32 {
        self.0.as_raw_fd()
    }

    /// Runs `start`, during which new processes inherit the descriptor.
    ///
    /// # Errors
    /// If the descriptor cannot be changed.
    pub fn inherited<T>(&self, start: impl FnOnce() -> T) -> io::Result<T> {
        let set = |flag| fcntl(&self.0, FcntlArg::F_SETFD(flag)).map_err(io::Error::from);
        set(FdFlag::empty())?;
        let result = start();
        set(FdFlag::FD_CLOEXEC)?;
        Ok(result)
    }

    /// Returns what was reported so far.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn read(&mut self) -> io::Result<CommandReport> {
        let mut bytes = Vec::new();
        self.0.rewind()?;
        Read::by_ref(&mut self.0).take(LONGEST).read_to_end(&mut bytes)?;
        Ok(CommandReport::parse(&String::from_utf8_lossy(&bytes)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_names_are_added_and_other_lines_ignored() {
        let text = "kernel_s=1.5\nkernel_s = 2\njobs=3\nhello\nother=1\noperations=-1\nrows=nan\noperations=inf\n";
        let report = CommandReport::parse(text);
        assert_eq!(report, CommandReport { kernel_s: Some(3.5), jobs: Some(3.0), ..CommandReport::default() });
        assert_eq!(report.of_one(2.0).kernel_s, Some(1.75));
        assert!(CommandReport::parse("kernel_s=x").is_empty());
    }
}
