//! Text files with a header: lines, columns, and the errors that name both.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::io;
use std::str::FromStr;

use csv::{Position, ReaderBuilder, StringRecord, Trim};
use limo_model::{UnitError, check_name};
use thiserror::Error;

/// Reason why a file was refused. Lines count from 1; the header is usually line 1.
#[derive(Debug, Error)]
#[expect(missing_docs, reason = "the messages say what each variant is")]
pub enum TextError {
    #[error("the file is empty: its first line must be `{columns}`")]
    Empty { columns: String },
    #[error("line {line}: unknown column `{column}` (columns: {columns})")]
    UnknownColumn { line: u64, column: String, columns: String },
    #[error("line {line}: column `{column}` is missing")]
    MissingColumn { line: u64, column: &'static str },
    #[error("line {line}: column `{column}` occurs twice")]
    DuplicateColumn { line: u64, column: &'static str },
    #[error("line {line}: {found} fields, but the header has {header}")]
    Width { line: u64, found: usize, header: usize },
    #[error("line {line}, column `{column}`: {problem}")]
    Field { line: u64, column: &'static str, problem: String },
    #[error("line {line}: {key} is already on line {first}")]
    DuplicateKey { line: u64, key: String, first: u64 },
    #[error("line {line}: not UTF-8 text")]
    Encoding { line: u64 },
    #[error("cannot read the file")]
    Read(#[source] io::Error),
}

/// The columns of a file, in the order in which they are written.
pub(crate) struct Columns {
    pub names: &'static [&'static str],
    /// Columns that may be missing.
    pub optional: &'static [&'static str],
}

/// A line of a file.
pub(crate) struct Row<'a> {
    pub line: u64,
    columns: &'a Columns,
    places: &'a [Option<usize>],
    record: &'a StringRecord,
}

impl Columns {
    /// Reads all lines, each with its number; their keys must differ.
    pub fn read<K: Clone + Ord + Display, V>(
        &self,
        source: impl io::Read,
        parse: impl Fn(&Row<'_>) -> Result<(K, V), TextError>,
    ) -> Result<Vec<(u64, K, V)>, TextError> {
        let mut builder = ReaderBuilder::new();
        let mut reader =
            builder.has_headers(false).flexible(true).trim(Trim::All).comment(Some(b'#')).from_reader(source);
        let mut record = StringRecord::new();
        if !reader.read_record(&mut record).map_err(from_csv)? {
            return Err(TextError::Empty { columns: self.names.join(",") });
        }
        let (places, header) = (self.places(&record)?, record.len());
        let mut rows = Vec::new();
        let mut seen = BTreeMap::new();
        while reader.read_record(&mut record).map_err(from_csv)? {
            let row = Row { line: line(&record), columns: self, places: &places, record: &record };
            if record.len() != header {
                return Err(TextError::Width { line: row.line, found: record.len(), header });
            }
            let (key, value) = parse(&row)?;
            if let Some(first) = seen.insert(key.clone(), row.line) {
                return Err(TextError::DuplicateKey { line: row.line, key: key.to_string(), first });
            }
            rows.push((row.line, key, value));
        }
        Ok(rows)
    }

    /// Returns the places of the columns in the header.
    fn places(&self, header: &StringRecord) -> Result<Vec<Option<usize>>, TextError> {
        let line = line(header);
        if let Some(column) = header.iter().find(|name| !self.names.contains(name)) {
            let columns = self.names.join(", ");
            return Err(TextError::UnknownColumn { line, column: column.to_owned(), columns });
        }
        let place = |column: &&'static str| {
            let mut found = header.iter().enumerate().filter(|(_, name)| name == column);
            let place = found.next().map(|(place, _)| place);
            match (place, found.next()) {
                (None, _) if !self.optional.contains(column) => Err(TextError::MissingColumn { line, column }),
                (_, Some(_)) => Err(TextError::DuplicateColumn { line, column }),
                _ => Ok(place),
            }
        };
        self.names.iter().map(place).collect()
    }
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

impl Row<'_> {
    pub fn text(&self, column: &str) -> &str {
        let place = self.columns.names.iter().position(|name| *name == column).and_then(|index| self.places[index]);
        place.and_then(|place| self.record.get(place)).unwrap_or("")
    }

    pub fn refused(&self, column: &'static str, problem: impl Display) -> TextError {
        TextError::Field { line: self.line, column, problem: problem.to_string() }
    }

    /// Parses a field that may be empty.
    pub fn optional<T>(
        &self,
        column: &'static str,
        parse: impl FnOnce(&Self) -> Result<T, TextError>,
    ) -> Result<Option<T>, TextError> {
        if self.text(column).is_empty() { Ok(None) } else { parse(self).map(Some) }
    }

    pub fn name(&self, column: &'static str, what: &'static str) -> Result<String, TextError> {
        let name = self.text(column);
        check_name(what, name).map_err(|error| self.refused(column, error))?;
        Ok(name.to_owned())
    }

    /// Parses a number of runs.
    pub fn runs(&self, column: &'static str) -> Result<u32, TextError> {
        let text = self.text(column);
        let limit = u32::MAX;
        text.parse().map_err(|_| self.refused(column, format!("`{text}` is not a number of runs: write 0 to {limit}")))
    }

    /// Parses a quantity that is not negative.
    pub fn quantity<T: FromStr<Err = UnitError> + Default + PartialOrd>(
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
