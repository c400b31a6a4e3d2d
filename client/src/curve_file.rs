//! Reads limits, prices and budgets from CSV files. Each value has its unit, in its cell or in the title of its column.
//!
//! Limits: `time,low,high` with `2026-10-26 00:00,39 W,60 W`; `none` means no limit. Prices: `time,price` with `80
//! EUR/MWh`, or `time,price_eur_per_mwh` with bare numbers, in any currency. Budgets: `time,budget` with `40 MWh`, or
//! `time,budget,release`; `none` means no budget, and the last line must be the end.
//!
//! Times are local or RFC 3339. A last line with a time and no values ends the curve. Without it, the last price
//! holds as long as the one before it, and the last limits have no end. Empty lines and lines that begin with `#` are
//! skipped.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use csv::{ByteRecord, ReaderBuilder, Trim};
use limo_model::{Band, Budget, Budgets, Currency, Curve, CurveError, Energy, Power, Price, Release, Time};
use thiserror::Error;

use limo_json::Clock;

/// Most values of a file: a year of quarter hours fits. The curve goes to the master in one message.
const ROW_LIMIT: usize = 40_000;

/// Title of a column of bare prices, in one of the currencies.
const PRICE: &str = "price_eur_per_mwh";

/// Error of a file that is not a curve; lines and columns count from 1.
#[derive(Debug, Error)]
#[expect(missing_docs, reason = "the messages say what each variant is")]
pub enum CurveFileError {
    #[error("cannot read {}: {source}", path.display())]
    Read { path: PathBuf, source: std::io::Error },
    #[error("{}: line {line}: {reason}", path.display())]
    Line { path: PathBuf, line: u64, reason: String },
    #[error("{}: line {line}, column {column} ({title}): {reason}", path.display())]
    Cell { path: PathBuf, line: u64, column: usize, title: &'static str, reason: String },
    #[error("{}: {reason}", path.display())]
    Whole { path: PathBuf, reason: String },
}

/// Index of the wrong cell among those after the time, from 0, and the error.
type CellError = (usize, String);

/// Layout of a file: its titles, and the conversion of the cells after the time to a value.
struct Layout<T> {
    titles: &'static [&'static str],
    value: fn(&[&str]) -> Result<T, CellError>,
}

/// Reads limits.
///
/// # Errors
/// [`CurveFileError`], naming file, line, column and value.
pub fn read_limits(path: &Path, clock: &Clock) -> Result<Curve<Band>, CurveFileError> {
    let layout = Layout { titles: &["time", "low", "high"], value: band };
    let table = Steps::read(open(path)?, path, &[layout], clock)?;
    let until = table.until;
    table.curve(until)
}

/// Reads prices.
///
/// # Errors
/// The same as for [`read_limits`].
pub fn read_prices(path: &Path, clock: &Clock) -> Result<Curve<Price>, CurveFileError> {
    let with_unit = Layout { titles: &["time", "price"], value: price };
    let bare = Layout { titles: &["time", PRICE], value: bare_price };
    let table = Steps::read(open(path)?, path, &[with_unit, bare], clock)?;
    let until = table.until;
    table.curve(until).map(Curve::closed)
}

/// Reads budgets. `release` applies to files without a column for it.
///
/// # Errors
/// The same as for [`read_limits`]; also if the last period has no end.
pub fn read_budgets(path: &Path, release: Release, clock: &Clock) -> Result<Budgets, CurveFileError> {
    let whole = |reason: String| CurveFileError::Whole { path: path.to_owned(), reason };
    let plain = Layout { titles: &["time", "budget"], value: budget };
    let released = Layout { titles: &["time", "budget", "release"], value: budget };
    let table = Steps::read(open(path)?, path, &[plain, released], clock)?;
    let until = table.until.ok_or_else(|| whole("has no end: add a last line with a time and no budget".into()))?;
    let ends = table.steps.iter().skip(1).map(|(time, _)| *time).chain([until]);
    let periods = table.steps.iter().zip(ends).filter_map(|((from, value), until)| {
        let (energy, own) = (*value)?;
        Some(Budget { from: *from, until, energy, release: own.unwrap_or(release) })
    });
    Budgets::new(periods.collect()).map_err(|error| whole(error.to_string()))
}

fn open(path: &Path) -> Result<File, CurveFileError> {
    File::open(path).map_err(|source| CurveFileError::Read { path: path.to_owned(), source })
}

/// Parses a limit: watts, or `none`.
///
/// # Errors
/// Text that names the value and the units.
pub fn parse_limit(text: &str) -> Result<Option<Power>, String> {
    match text {
        "none" => Ok(None),
        _ => text.parse().map(Some).map_err(|error: limo_model::UnitError| error.to_string()),
    }
}

/// Makes the band of two limits; either may be absent.
///
/// # Errors
/// Text about a lower limit that is negative or above the upper one.
pub fn band_of(low: Option<Power>, high: Option<Power>) -> Result<Band, String> {
    Band::new(low.unwrap_or(Power::ZERO), high.unwrap_or(Power::MAX)).map_err(|error| error.to_string())
}

fn band(cells: &[&str]) -> Result<Band, CellError> {
    let low = parse_limit(cells[0]).map_err(|reason| (0, reason))?;
    let high = parse_limit(cells[1]).map_err(|reason| (1, reason))?;
    band_of(low, high).map_err(|reason| (0, reason))
}

fn price(cells: &[&str]) -> Result<Price, CellError> {
    cells[0].parse().map_err(|error: limo_model::UnitError| (0, error.to_string()))
}

/// Parses a budget; `None` for a time without one.
fn budget(cells: &[&str]) -> Result<Option<(Energy, Option<Release>)>, CellError> {
    if cells[0] == "none" {
        return Ok(None);
    }
    let energy: Energy = cells[0].parse().map_err(|error: limo_model::UnitError| (0, error.to_string()))?;
    if energy < Energy::ZERO {
        return Err((0, format!("`{}` must not be negative", cells[0])));
    }
    let release = cells.get(1).filter(|cell| !cell.is_empty()).map(|cell| cell.parse::<Release>()).transpose();
    Ok(Some((energy, release.map_err(|error| (1, error.to_string()))?)))
}

fn bare_price(cells: &[&str]) -> Result<Price, CellError> {
    let number = format!("{} {}/MWh", cells[0], Currency::agreed());
    let is_bare = cells[0].parse::<f64>().is_ok();
    number.parse().ok().filter(|_| is_bare).ok_or_else(|| (0, format!("`{}` is not a number", cells[0])))
}

/// Steps of a file before the end of its curve is known.
struct Steps<T> {
    path: PathBuf,
    steps: Vec<(Time, T)>,
    lines: Vec<u64>,
    until: Option<Time>,
}

impl<T> Steps<T> {
    fn read(file: impl Read, path: &Path, layouts: &[Layout<T>], clock: &Clock) -> Result<Self, CurveFileError> {
        let mut reader = ReaderBuilder::new()
            .flexible(true)
            .trim(Trim::All)
            .comment(Some(b'#'))
            .has_headers(false)
            .from_reader(file);
        let mut table = Self { path: path.to_owned(), steps: Vec::new(), lines: Vec::new(), until: None };
        let mut layout = None;
        let mut record = ByteRecord::new();
        while reader.read_byte_record(&mut record).map_err(|error| table.unreadable(&error))? {
            let line = record.position().map_or(0, csv::Position::line);
            let cells = record.iter().map(std::str::from_utf8).collect::<Result<Vec<_>, _>>();
            let cells = cells.map_err(|_| table.line(line, "is not UTF-8 text"))?;
            match layout {
                None => layout = Some(table.choose(layouts, &cells, line)?),
                Some(layout) => table.add(layout, &cells, line, clock)?,
            }
        }
        if table.steps.is_empty() {
            return Err(CurveFileError::Whole { path: table.path, reason: "has no values".into() });
        }
        Ok(table)
    }

    fn choose<'a>(&self, layouts: &'a [Layout<T>], cells: &[&str], line: u64) -> Result<&'a Layout<T>, CurveFileError> {
        let currency = cells.iter().find_map(|title| Currency::of_title(title));
        currency.map_or(Ok(()), Currency::agree).map_err(|error| self.line(line, &error.to_string()))?;
        let alike = |title: &str, cell: &str| title == cell || title == PRICE && Currency::of_title(cell).is_some();
        let fits = |titles: &[&str]| {
            titles.len() == cells.len() && titles.iter().zip(cells).all(|(title, cell)| alike(title, cell))
        };
        let expected = || layouts.iter().map(|layout| format!("`{}`", layout.titles.join(","))).collect::<Vec<_>>();
        layouts.iter().find(|layout| fits(layout.titles)).ok_or_else(|| {
            self.line(line, &format!("the titles are `{}`, not {}", cells.join(","), expected().join(" or ")))
        })
    }

    fn add(&mut self, layout: &Layout<T>, cells: &[&str], line: u64, clock: &Clock) -> Result<(), CurveFileError> {
        let cell = |column: usize, reason: String| CurveFileError::Cell {
            path: self.path.clone(),
            line,
            column: column + 1,
            title: layout.titles[column],
            reason,
        };
        let ends = cells.len() > 1 && cells[1..].iter().all(|text| text.is_empty());
        if self.until.is_some() {
            return Err(self.line(line, "follows the line that ends the curve"));
        }
        if cells.len() != layout.titles.len() && !ends {
            let reason = format!("has {} values instead of {}", cells.len(), layout.titles.len());
            return Err(self.line(line, &reason));
        }
        let time = clock.parse_dated(cells[0]).map_err(|error| cell(0, error.to_string()))?;
        if let Some((before, _)) = self.steps.last().filter(|(before, _)| time <= *before) {
            let reason = format!(
                "`{}` is not after the time before it, {} (where clocks change, write RFC 3339)",
                cells[0],
                clock.show_full(*before)
            );
            return Err(cell(0, reason));
        }
        if ends {
            self.until = Some(time);
            return Ok(());
        }
        let value = (layout.value)(&cells[1..]).map_err(|(column, reason)| cell(column + 1, reason))?;
        if self.steps.len() == ROW_LIMIT {
            return Err(self.line(line, &format!("is past the limit of {ROW_LIMIT} values")));
        }
        self.steps.push((time, value));
        self.lines.push(line);
        Ok(())
    }

    fn line(&self, line: u64, reason: &str) -> CurveFileError {
        CurveFileError::Line { path: self.path.clone(), line, reason: reason.to_owned() }
    }

    fn unreadable(&self, error: &csv::Error) -> CurveFileError {
        match error.position() {
            Some(position) => self.line(position.line(), &error.to_string()),
            None => CurveFileError::Whole { path: self.path.clone(), reason: error.to_string() },
        }
    }

    fn curve(self, until: Option<Time>) -> Result<Curve<T>, CurveFileError> {
        let path = self.path;
        Curve::new(self.steps, until)
            .map_err(|error: CurveError| CurveFileError::Whole { path, reason: error.to_string() })
    }
}

#[cfg(test)]
mod tests;
