//! Profiles as a text file, for `lconf profile import` and `export`: CSV with a header, quantities with their units.
//! Written profiles are read back equal, except for their source: read profiles count as imported.
//!
//! ```text
//! application,size,hardware,cores,cap,duration,power,energy,spread,runs
//! cg,C,xeon-e3-1275v5,8,,12.345 s,41.5 W,512.3 J,2.5 %,17
//! ```
//!
//! Columns may have any order; all except `cores` are required. `size`, `cores` and `cap` may be empty: no size class,
//! any number of cores, no cap. Lines that begin with `#` are comments.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::io;
use std::str::FromStr;

use csv::{Position, ReaderBuilder, StringRecord, Trim};
use limo_model::{
    CORE_LIMIT, Energy, EstimateSource, Power, Profile, ProfileKey, Span, UnitError, check_name, decimal,
};
use thiserror::Error;

/// The columns, in the order in which they are written.
pub const COLUMNS: [&str; 10] =
    ["application", "size", "hardware", "cores", "cap", "duration", "power", "energy", "spread", "runs"];

/// Column that is missing in files of earlier versions.
const OPTIONAL: &str = "cores";

/// Reason why a file of profiles was refused. Lines count from 1; the header is usually line 1.
#[derive(Debug, Error)]
#[expect(missing_docs, reason = "the messages say what each variant is")]
pub enum TextError {
    #[error("the file is empty: its first line must be `{}`", COLUMNS.join(","))]
    Empty,
    #[error("line {line}: unknown column `{column}` (columns: {})", COLUMNS.join(", "))]
    UnknownColumn { line: u64, column: String },
    #[error("line {line}: column `{column}` is missing")]
    MissingColumn { line: u64, column: &'static str },
    #[error("line {line}: column `{column}` occurs twice")]
    DuplicateColumn { line: u64, column: &'static str },
    #[error("line {line}: {found} fields, but the header has {header}")]
    Width { line: u64, found: usize, header: usize },
    #[error("line {line}, column `{column}`: {problem}")]
    Field { line: u64, column: &'static str, problem: String },
    #[error("line {line}: {key} is already on line {first}")]
    DuplicateKey { line: u64, key: Box<ProfileKey>, first: u64 },
    #[error("line {line}: not UTF-8 text")]
    Encoding { line: u64 },
    #[error("cannot read the profiles")]
    Read(#[source] io::Error),
}

/// Writes `profiles` with a header.
///
/// # Errors
/// The errors of `sink`.
pub fn write(profiles: &[(ProfileKey, Profile)], sink: impl io::Write) -> io::Result<()> {
    let mut writer = csv::Writer::from_writer(sink);
    writer.write_record(COLUMNS)?;
    for (key, profile) in profiles {
        writer.write_record([
            key.application.clone(),
            key.size.clone(),
            key.hardware.clone(),
            key.cores.map_or_else(String::new, |cores| cores.to_string()),
            key.cap.map_or_else(String::new, |cap| thousandths(cap.mw(), "W")),
            thousandths(profile.duration.ms(), "s"),
            thousandths(profile.power.mw(), "W"),
            thousandths(profile.energy.mj(), "J"),
            format!("{}.{} %", profile.spread_permille / 10, profile.spread_permille % 10),
            profile.runs.to_string(),
        ])?;
    }
    writer.flush()
}

/// Formats `value` thousandths of `unit` exactly.
fn thousandths(value: i64, unit: &str) -> String {
    format!("{} {unit}", decimal::text(value.into(), 3))
}

/// Reads a file of profiles.
///
/// # Errors
/// [`TextError`] for the first error, with its line, column and value.
pub fn read(source: impl io::Read) -> Result<Vec<(ProfileKey, Profile)>, TextError> {
    let mut builder = ReaderBuilder::new();
    let mut reader = builder.has_headers(false).flexible(true).trim(Trim::All).comment(Some(b'#')).from_reader(source);
    let mut record = StringRecord::new();
    if !reader.read_record(&mut record).map_err(from_csv)? {
        return Err(TextError::Empty);
    }
    let (columns, header) = (columns(&record)?, record.len());
    let mut profiles = Vec::new();
    let mut seen = BTreeMap::new();
    while reader.read_record(&mut record).map_err(from_csv)? {
        let row = Row { line: line(&record), header, columns, record: &record };
        let (key, profile) = row.parse()?;
        if let Some(first) = seen.insert(key.clone(), row.line) {
            return Err(TextError::DuplicateKey { line: row.line, key: Box::new(key), first });
        }
        profiles.push((key, profile));
    }
    Ok(profiles)
}

fn line(record: &StringRecord) -> u64 {
    record.position().map_or(0, Position::line)
}

fn from_csv(error: csv::Error) -> TextError {
    let line = error.position().map_or(0, Position::line);
    match error.into_kind() {
        csv::ErrorKind::Io(error) => TextError::Read(error),
        // Records may have any width and nothing is deserialized, so the only other error is a wrong encoding.
        _ => TextError::Encoding { line },
    }
}

/// Returns the indices of [`COLUMNS`] in the header.
fn columns(header: &StringRecord) -> Result<[Option<usize>; COLUMNS.len()], TextError> {
    let line = line(header);
    if let Some(column) = header.iter().find(|name| !COLUMNS.contains(name)) {
        return Err(TextError::UnknownColumn { line, column: column.to_owned() });
    }
    let mut places = [None; COLUMNS.len()];
    for (place, column) in places.iter_mut().zip(COLUMNS) {
        let mut found = header.iter().enumerate().filter(|(_, name)| *name == column);
        *place = found.next().map(|(place, _)| place);
        if place.is_none() && column != OPTIONAL {
            return Err(TextError::MissingColumn { line, column });
        }
        if found.next().is_some() {
            return Err(TextError::DuplicateColumn { line, column });
        }
    }
    Ok(places)
}

struct Row<'a> {
    line: u64,
    /// Number of columns in the header.
    header: usize,
    columns: [Option<usize>; COLUMNS.len()],
    record: &'a StringRecord,
}

impl Row<'_> {
    fn parse(&self) -> Result<(ProfileKey, Profile), TextError> {
        if self.record.len() != self.header {
            return Err(TextError::Width { line: self.line, found: self.record.len(), header: self.header });
        }
        let [application, size, hardware, cores, cap, duration, power, energy, spread, runs] = COLUMNS;
        let key = ProfileKey {
            application: self.name(application, "application")?,
            size: if self.text(size).is_empty() { String::new() } else { self.name(size, "size class")? },
            hardware: self.name(hardware, "hardware")?,
            cores: if self.text(cores).is_empty() { None } else { Some(self.count(cores)?) },
            cap: if self.text(cap).is_empty() { None } else { Some(self.quantity::<Power>(cap)?) },
        };
        let profile = Profile {
            duration: self.quantity::<Span>(duration)?,
            power: self.quantity::<Power>(power)?,
            energy: self.quantity::<Energy>(energy)?,
            spread_permille: permille(self.text(spread)).map_err(|problem| self.refused(spread, problem))?,
            runs: self.text(runs).parse().map_err(|_| {
                let limit = u32::MAX;
                self.refused(runs, format!("`{}` is not a number of runs: write 0 to {limit}", self.text(runs)))
            })?,
            source: EstimateSource::Imported,
        };
        Ok((key, profile))
    }

    fn text(&self, column: &str) -> &str {
        let place = COLUMNS.iter().position(|name| *name == column).and_then(|index| self.columns[index]);
        place.and_then(|place| self.record.get(place)).unwrap_or("")
    }

    fn refused(&self, column: &'static str, problem: impl Display) -> TextError {
        TextError::Field { line: self.line, column, problem: problem.to_string() }
    }

    /// Parses a number of cores.
    fn count(&self, column: &'static str) -> Result<u32, TextError> {
        let text = self.text(column);
        text.parse().ok().filter(|count| (1..=CORE_LIMIT).contains(count)).ok_or_else(|| {
            self.refused(
                column,
                format!("`{text}` is not a number of cores: 1 to {CORE_LIMIT}, or empty for any number"),
            )
        })
    }

    fn name(&self, column: &'static str, what: &'static str) -> Result<String, TextError> {
        let name = self.text(column);
        check_name(what, name).map_err(|error| self.refused(column, error))?;
        Ok(name.to_owned())
    }

    /// Parses a quantity that is not negative.
    fn quantity<T: FromStr<Err = UnitError> + Default + PartialOrd>(
        &self,
        column: &'static str,
    ) -> Result<T, TextError> {
        let value = self.text(column);
        match value.parse::<T>() {
            Ok(quantity) if quantity < T::default() => {
                Err(self.refused(column, UnitError::Negative { value: value.to_owned() }))
            }
            Ok(quantity) => Ok(quantity),
            Err(error) => Err(self.refused(column, error)),
        }
    }
}

/// Parses `2.5 %` as thousandths; at most one decimal, so that nothing is rounded.
fn permille(text: &str) -> Result<u32, String> {
    let refused = || format!("`{text}` is not a spread: write for example `2.5 %`, with at most one decimal");
    decimal::percent(text, 1).and_then(|permille| permille.try_into().ok()).ok_or_else(refused)
}

#[cfg(test)]
mod tests;
