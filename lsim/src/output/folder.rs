//! Folder of `lsim run --out`: the [`Sink`] that writes its four files.
//!
//! Files are written into `OUT.partial` and moved at the end; a failed run removes its partial folder. A folder is an
//! lsim result if it has `schedule.json`, which is moved last.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use limo_model::{Span, Time};

use super::draw;
use super::jobs::{self, Rows};
use super::metrics::Metrics;
use super::report::Report;
use super::schedule;
use super::sheet::Sheet;
use crate::record::{Heading, JobRow, Sample, Sink, Summary, WriteError};

const SCHEDULE: &str = "schedule.json";
/// Names of the files, in the order in which they are moved. The file that marks a result comes last.
const FILES: [&str; 4] = ["jobs.csv", "draw.csv", "report.html", SCHEDULE];

/// Reason why a folder cannot take a result.
#[derive(Debug, thiserror::Error)]
pub enum OutputError {
    #[error("{} cannot be the name of a folder of results; name a new folder, for example --out results", .0.display())]
    NoName(PathBuf),
    #[error("{} exists and is not an lsim result (it has no schedule.json); name another folder with --out", .0.display())]
    Foreign(PathBuf),
    #[error("{} already holds a result; add --replace to overwrite it, or name another folder with --out", .0.display())]
    Kept(PathBuf),
    #[error(
        "{} holds {found}, which lsim did not write there; move it away or name another folder with --out",
        path.display()
    )]
    ForeignPartial { path: PathBuf, found: String },
    #[error(transparent)]
    Write(#[from] WriteError),
}

/// The output folder; see the module.
#[derive(Debug)]
pub struct Output {
    heading: Heading,
    out: PathBuf,
    partial: PathBuf,
    jobs: Sheet,
    draw: Sheet,
    rows: Rows,
    metrics: Metrics,
    report: Report,
    /// Newest sample, until time moves on: the last sample of an instant counts.
    newest: Option<Sample>,
    /// Shortest time between two rows of `draw.csv`, and the time from which on the next one may be written.
    every: Span,
    row_from: Time,
    schedule: Option<String>,
}

impl Output {
    /// Prepares `OUT.partial`. `out` must not exist or must be empty. With `replace` it may hold an earlier result,
    /// which is replaced at the end of the run.
    pub fn create(out: &Path, replace: bool, heading: Heading) -> Result<Self, OutputError> {
        // This drops a trailing slash.
        let out: PathBuf = out.components().collect();
        let name = out.file_name().ok_or_else(|| OutputError::NoName(out.clone()))?;
        let mut partial_name = name.to_owned();
        partial_name.push(".partial");
        let partial = out.with_file_name(partial_name);
        match held(&out)? {
            Held::Nothing => {}
            Held::Result if replace => {}
            Held::Result => return Err(OutputError::Kept(out)),
            Held::Other => return Err(OutputError::Foreign(out)),
        }
        clear_partial(&partial)?;
        fs::create_dir_all(&partial).map_err(|source| WriteError::new(&partial, source))?;
        let sheets = Sheet::create(&partial.join("jobs.csv"), jobs::COLUMNS)
            .and_then(|jobs| Ok((jobs, Sheet::create(&partial.join("draw.csv"), draw::COLUMNS)?)));
        let (jobs, draw) = sheets.inspect_err(|_| discard(&partial))?;
        Ok(Self {
            rows: Rows::new(heading.start, &heading.workload),
            metrics: Metrics::new(&heading),
            report: Report::new(&heading),
            out,
            partial,
            jobs,
            draw,
            newest: None,
            every: Span::ZERO,
            row_from: heading.start,
            heading,
            schedule: None,
        })
    }

    /// Omits rows of `draw.csv` that come sooner than this after the row before them.
    pub fn thin(&mut self, every: Span) {
        self.every = every;
    }

    /// Returns the text of `schedule.json` after the end of the run.
    pub fn schedule(&self) -> Option<&str> {
        self.schedule.as_deref()
    }

    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// Passes the newest sample on, once no other sample can replace it.
    fn settle(&mut self) -> Result<(), WriteError> {
        let Some(sample) = &self.newest else { return Ok(()) };
        if self.metrics.current().is_some_and(|before| Sample { at: before.at, ..*sample } == *before) {
            return Ok(());
        }
        self.metrics.add_sample(sample);
        self.report.sample(sample);
        if sample.at < self.row_from {
            return Ok(());
        }
        self.row_from = sample.at + self.every;
        draw::write(self.draw.line(), self.heading.start, sample);
        self.draw.end_row()
    }

    fn write(&self, name: &str, text: &str) -> Result<(), WriteError> {
        let path = self.partial.join(name);
        fs::write(&path, text).map_err(|source| WriteError::new(&path, source))
    }

    /// Moves the files to their final place.
    fn publish(&self) -> Result<(), WriteError> {
        let exists = self.out.exists();
        if !exists {
            return fs::rename(&self.partial, &self.out).map_err(|source| WriteError::new(&self.out, source));
        }
        // The marker of the old result is removed first, and the new one is added last; other files stay.
        let old = self.out.join(SCHEDULE);
        match fs::remove_file(&old) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => return Err(WriteError::new(&old, source)),
            _ => {}
        }
        for file in FILES {
            let to = self.out.join(file);
            fs::rename(self.partial.join(file), &to).map_err(|source| WriteError::new(&to, source))?;
        }
        fs::remove_dir(&self.partial).map_err(|source| WriteError::new(&self.partial, source))
    }
}

impl Sink for Output {
    fn job(&mut self, job: &JobRow<'_>) -> Result<(), WriteError> {
        self.rows.write(self.jobs.line(), job);
        self.metrics.add_job(job);
        self.report.job(job);
        self.jobs.end_row()
    }

    fn sample(&mut self, sample: &Sample) -> Result<(), WriteError> {
        if self.newest.is_some_and(|newest| newest.at != sample.at) {
            self.settle()?;
        }
        self.newest = Some(*sample);
        Ok(())
    }

    fn finish(&mut self, summary: &Summary) -> Result<(), WriteError> {
        self.settle()?;
        self.metrics.end(summary.end);
        self.jobs.flush()?;
        self.draw.flush()?;
        let figures = schedule::text(&self.heading, &self.metrics, summary, None);
        let page = self.report.page(&self.heading, (summary, self.metrics.counts.unfinished), figures.trim_end());
        self.write("report.html", &page)?;
        let text = schedule::text(&self.heading, &self.metrics, summary, Some(summary.host));
        self.write(SCHEDULE, &text)?;
        self.publish()?;
        self.schedule = Some(text);
        Ok(())
    }
}

/// Removes the files of an unfinished run.
impl Drop for Output {
    fn drop(&mut self) {
        if self.schedule.is_none() {
            discard(&self.partial);
        }
    }
}

/// Removes this program's files, and the folder if it is then empty. Files that cannot be removed stay in the folder
/// `.partial`.
fn discard(partial: &Path) {
    for file in FILES {
        let _ = fs::remove_file(partial.join(file));
    }
    let _ = fs::remove_dir(partial);
}

/// Contents of the place of a result.
enum Held {
    Nothing,
    Result,
    Other,
}

fn held(out: &Path) -> Result<Held, WriteError> {
    match fs::read_dir(out) {
        Ok(_) if out.join(SCHEDULE).is_file() => Ok(Held::Result),
        Ok(mut entries) => Ok(if entries.next().is_none() { Held::Nothing } else { Held::Other }),
        Err(source) if source.kind() == io::ErrorKind::NotFound => Ok(Held::Nothing),
        Err(source) if source.kind() == io::ErrorKind::NotADirectory => Ok(Held::Other),
        Err(source) => Err(WriteError::new(out, source)),
    }
}

/// Removes the folder of a killed run, and refuses to remove anything else.
fn clear_partial(partial: &Path) -> Result<(), OutputError> {
    let entries = match fs::read_dir(partial) {
        Ok(entries) => entries,
        Err(source) if source.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(source) => return Err(WriteError::new(partial, source).into()),
    };
    for entry in entries {
        let name = entry.map_err(|source| WriteError::new(partial, source))?.file_name();
        if !FILES.iter().any(|file| name == *file) {
            let found = name.to_string_lossy().into_owned();
            return Err(OutputError::ForeignPartial { path: partial.to_owned(), found });
        }
    }
    discard(partial);
    Ok(())
}

#[cfg(test)]
mod tests;
