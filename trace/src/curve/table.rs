//! Rows of a CSV file with their places, and parsers for their times and numbers.

use std::io::Read;
use std::path::Path;

use limo_model::decimal::{Decimal, DecimalError};
use limo_model::{CurrencyError, Span, Time};

use super::error::CurveFileError;
use crate::input::{self, InputFault, Lines};

/// Conversion of a file's times to the reader's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Clock {
    /// Start of the workload on the reader's clock.
    pub zero: Time,
    /// Date of the workload's start. Without it, a file with dates is refused.
    pub start: Option<Time>,
}

impl Clock {
    /// Makes a clock that counts from the Unix epoch, for a workload that starts at `start`.
    pub fn unix(start: Time) -> Self {
        Self { zero: start, start: Some(start) }
    }

    /// Makes a clock that counts from the start of the workload, whose date may be known.
    pub fn from_start(start: Option<Time>) -> Self {
        Self { zero: Time::from_unix_ms(0), start }
    }

    /// Converts a date to the reader's clock.
    pub(super) fn place(self, date: Time) -> Result<Time, String> {
        let no_date = "the start of the workload has no date: write seconds from it, such as `3600`";
        self.start.map(|start| self.zero + (date - start)).ok_or_else(|| no_date.to_owned())
    }

    fn read(self, text: &str) -> Result<Time, String> {
        match Decimal::read(text.as_bytes()).and_then(|seconds| seconds.rounded(3)) {
            Ok(ms) => return Ok(self.zero + Span::from_ms(ms)),
            Err(DecimalError::OutOfRange) => return Err("that is out of range".to_owned()),
            Err(DecimalError::NoNumber) => {}
        }
        if is_date(text) {
            let date: jiff::Timestamp =
                text.parse().map_err(|_| "that is not a date: write for example `2017-10-28T00:00:00Z`".to_owned())?;
            return self.place(Time::from_unix_ms(date.as_millisecond()));
        }
        let span: Result<Span, _> = text.parse();
        span.map(|span| self.zero + span)
            .map_err(|_| "that is not a time: write `2017-10-28T00:00:00Z`, `3600` (seconds) or `1d 2h`".to_owned())
    }
}

/// Returns true for four digits and a dash.
fn is_date(text: &str) -> bool {
    matches!(text.as_bytes(), [a, b, c, d, b'-', ..] if [a, b, c, d].into_iter().all(u8::is_ascii_digit))
}

/// CSV file that is being read.
pub struct Table {
    file: String,
    lines: Lines,
    columns: Vec<String>,
}

impl Table {
    /// Opens a file, plain or gzipped, and reads its header.
    ///
    /// # Errors
    /// [`CurveFileError`] if the file cannot be opened or has no header.
    pub fn open(path: &Path) -> Result<Self, CurveFileError> {
        let file = path.display().to_string();
        let lines = Lines::open(path).map_err(|source| CurveFileError::Open { file: file.clone(), source })?;
        Self::start(file, lines)
    }

    /// Reads from bytes; errors use `name`.
    ///
    /// # Errors
    /// The same as for [`Table::open`].
    pub fn new(name: &str, source: impl Read + Send + 'static) -> Result<Self, CurveFileError> {
        let file = name.to_owned();
        let lines = Lines::new(source).map_err(|source| CurveFileError::Open { file: file.clone(), source })?;
        Self::start(file, lines)
    }

    fn start(file: String, lines: Lines) -> Result<Self, CurveFileError> {
        let mut table = Self { file, lines, columns: Vec::new() };
        match table.cells()? {
            Some(cells) => table.columns = cells,
            None => return Err(CurveFileError::Empty { file: table.file }),
        }
        Ok(table)
    }

    pub(super) fn columns(&self) -> &[String] {
        &self.columns
    }

    pub(super) fn empty(&self) -> CurveFileError {
        CurveFileError::Empty { file: self.file.clone() }
    }

    /// Refuses a header other than `wanted`.
    pub(super) fn require(&self, wanted: &[&str]) -> Result<(), CurveFileError> {
        if self.columns == wanted { Ok(()) } else { Err(self.wrong_columns(wanted.join(","))) }
    }

    pub(super) fn wrong_columns(&self, wanted: String) -> CurveFileError {
        let found = input::shown(self.columns.join(",").as_bytes());
        CurveFileError::Columns { file: self.file.clone(), line: self.lines.number(), found, wanted }
    }

    pub(super) fn wrong_currency(&self, source: CurrencyError) -> CurveFileError {
        CurveFileError::Currency { file: self.file.clone(), line: self.lines.number(), source }
    }

    /// Returns the cells of the next line that is neither empty nor a comment.
    fn cells(&mut self) -> Result<Option<Vec<String>>, CurveFileError> {
        while self.lines.advance().map_err(|fault| self.fault(fault))? {
            let line = self.lines.line().trim_ascii();
            let line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
            if !line.is_empty() && line[0] != b'#' {
                let text = String::from_utf8_lossy(line);
                return Ok(Some(text.split(',').map(|cell| cell.trim().to_owned()).collect()));
            }
        }
        Ok(None)
    }

    fn fault(&self, fault: InputFault) -> CurveFileError {
        let (file, line) = (self.file.clone(), self.lines.number());
        match fault {
            InputFault::Truncated => CurveFileError::Truncated { file, line },
            InputFault::Long => CurveFileError::LongLine { file, line },
            InputFault::Io(source) => CurveFileError::Read { file, line, source },
        }
    }

    /// Returns the next row, with as many cells as the header.
    pub(super) fn row(&mut self) -> Result<Option<Row<'_>>, CurveFileError> {
        let Some(cells) = self.cells()? else { return Ok(None) };
        if cells.len() != self.columns.len() {
            let (found, wanted) = (cells.len(), self.columns.len());
            return Err(CurveFileError::Cells { file: self.file.clone(), line: self.lines.number(), found, wanted });
        }
        Ok(Some(Row { table: self, cells }))
    }
}

/// Row with its place in the file.
pub(super) struct Row<'t> {
    table: &'t Table,
    cells: Vec<String>,
}

impl Row<'_> {
    pub fn cell(&self, column: usize) -> &str {
        &self.cells[column]
    }

    /// Returns true if the row has only a time, which ends a curve.
    pub fn is_end(&self) -> bool {
        self.cells[1..].iter().all(String::is_empty)
    }

    /// Makes an error about the cell at `column`, from 0.
    pub fn error(&self, column: usize, reason: impl Into<String>) -> CurveFileError {
        CurveFileError::Value {
            file: self.table.file.clone(),
            line: self.table.lines.number(),
            column: column + 1,
            name: input::shown(self.table.columns[column].as_bytes()),
            value: input::shown(self.cells[column].as_bytes()),
            reason: reason.into(),
        }
    }

    pub fn time(&self, column: usize, clock: Clock) -> Result<Time, CurveFileError> {
        clock.read(self.cell(column)).map_err(|reason| self.error(column, reason))
    }

    /// Parses a time that must be after `before`.
    pub fn later(&self, column: usize, clock: Clock, before: Option<Time>) -> Result<Time, CurveFileError> {
        let time = self.time(column, clock)?;
        if before.is_some_and(|before| time <= before) {
            return Err(self.error(column, "that is not after the time before it: sort the rows by time"));
        }
        Ok(time)
    }

    /// Parses the number at `column` in units of `10^-places`.
    pub fn number(&self, column: usize, places: i32) -> Result<i64, CurveFileError> {
        match Decimal::read(self.cell(column).as_bytes()).and_then(|number| number.rounded(places)) {
            Ok(number) => Ok(number),
            Err(DecimalError::NoNumber) => Err(self.error(column, "that is not a number")),
            Err(DecimalError::OutOfRange) => Err(self.error(column, "that is out of range")),
        }
    }
}

/// Reads rows of `time` and values, in order of time; a last row without values ends the curve.
pub(super) fn steps<T>(
    mut table: Table,
    clock: Clock,
    value: impl Fn(&Row<'_>) -> Result<T, CurveFileError>,
) -> Result<limo_model::Curve<T>, CurveFileError> {
    let mut steps: Vec<(Time, T)> = Vec::new();
    let mut until = None;
    while let Some(row) = table.row()? {
        if until.is_some() {
            return Err(row.error(0, "the row before it ends the curve, because it has no value: no row can follow"));
        }
        let time = row.later(0, clock, steps.last().map(|(time, _)| *time))?;
        if row.is_end() && !steps.is_empty() {
            until = Some(time);
        } else {
            let value = value(&row)?;
            steps.push((time, value));
        }
    }
    // Times ascend and the end is after them, so the only possible error is a file without a step.
    limo_model::Curve::new(steps, until).map_err(|_| table.empty())
}
