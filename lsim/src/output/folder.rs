//! The folder that `lsim run --out` names: the [`Sink`] that writes all four files.
//!
//! Everything is written into `OUT.partial` and takes its name at the end; a run that fails takes its partial folder
//! away. A folder is an lsim result exactly if it has `schedule.json`, which is the last to come.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::draw;
use super::jobs::{self, Rows};
use super::metrics::Metrics;
use super::report::Report;
use super::schedule;
use super::sheet::Sheet;
use crate::record::{Heading, JobRow, Sample, Sink, Summary, WriteError};

const SCHEDULE: &str = "schedule.json";
/// In the order in which they take their places; what makes a folder a result comes last.
const FILES: [&str; 4] = ["jobs.csv", "draw.csv", "report.html", SCHEDULE];

/// Why a folder cannot take a result.
#[derive(Debug, thiserror::Error)]
pub enum OutputError {
    #[error("{} is no name for a folder of results; name a new folder, for example --out results", .0.display())]
    NoName(PathBuf),
    #[error("{} exists and is no lsim result (it has no schedule.json); name another folder with --out", .0.display())]
    Foreign(PathBuf),
    #[error("{} holds a result already; give --replace to lose it, or name another folder with --out", .0.display())]
    Kept(PathBuf),
    #[error(
        "{} holds {found}, which lsim did not write there; move it away or name another folder with --out",
        path.display()
    )]
    ForeignPartial { path: PathBuf, found: String },
    #[error(transparent)]
    Write(#[from] WriteError),
}

/// See the module.
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
    /// The newest sample, until time moves on: of several at one instant the last one holds.
    newest: Option<Sample>,
    schedule: Option<String>,
}

impl Output {
    /// Prepares `OUT.partial`. `out` may not exist or may be empty; with `replace` it may also hold an earlier result,
    /// which is replaced at the end of the run, not before.
    pub fn create(out: &Path, replace: bool, heading: Heading) -> Result<Self, OutputError> {
        // Without the slash that may stand at the end.
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
            heading,
            out,
            partial,
            jobs,
            draw,
            newest: None,
            schedule: None,
        })
    }

    /// The text of `schedule.json`, once the run is finished.
    pub fn schedule(&self) -> Option<&str> {
        self.schedule.as_deref()
    }

    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// Passes the newest sample on, now that nothing at its instant can replace it.
    fn settle(&mut self) -> Result<(), WriteError> {
        let Some(sample) = &self.newest else { return Ok(()) };
        if self.metrics.current().is_some_and(|before| Sample { at: before.at, ..*sample } == *before) {
            return Ok(());
        }
        draw::write(self.draw.line(), self.heading.start, sample);
        self.metrics.add_sample(sample);
        self.report.sample(sample);
        self.draw.end_row()
    }

    fn write(&self, name: &str, text: &str) -> Result<(), WriteError> {
        let path = self.partial.join(name);
        fs::write(&path, text).map_err(|source| WriteError::new(&path, source))
    }

    /// Gives the files their place.
    fn publish(&self) -> Result<(), WriteError> {
        let exists = self.out.exists();
        if !exists {
            return fs::rename(&self.partial, &self.out).map_err(|source| WriteError::new(&self.out, source));
        }
        // The earlier result stops being one first, the new one starts being one last; other files stay.
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

/// A run that did not finish leaves nothing.
impl Drop for Output {
    fn drop(&mut self) {
        if self.schedule.is_none() {
            discard(&self.partial);
        }
    }
}

/// Takes our files away, and the folder if nothing else is in it. What cannot be removed keeps its name `.partial`.
fn discard(partial: &Path) {
    for file in FILES {
        let _ = fs::remove_file(partial.join(file));
    }
    let _ = fs::remove_dir(partial);
}

/// What is where a result is to be.
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

/// Takes away what a killed run left, and refuses to touch anything else.
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
