//! Comma-separated values from a file or a server: one row for each slot, columns by their titles. A row holds until
//! the next one, as in the files of `lconf set price`. The last row lasts as long as the one before it. A last row
//! with an empty value only ends the row before it. Lines that begin with `#` are comments.

use std::path::{Path, PathBuf};

use ::csv::{ReaderBuilder, StringRecord, Trim};
use jiff::tz::TimeZone;
use limo_model::Time;

use crate::error::FeedError;
use crate::fetch::Request;
use crate::moment::{self, TimeFormat, Window};
use crate::piece::{Ends, Piece, closed};
use crate::slot::{Quantity, ordered};
use crate::source::{CurveSource, Page};
use crate::template::Template;
use crate::unit::{Unit, quantity};

/// Place of a table.
#[derive(Debug, Clone)]
pub enum Place {
    /// File on this machine.
    File(PathBuf),
    /// Address on a server; see [`Template`].
    Url(Template),
}

/// Table with its columns.
#[derive(Debug, Clone)]
pub struct CsvFeed {
    /// File or address.
    pub place: Place,
    /// Titles of columns.
    pub start: String,
    /// Title of the column of ends; without it a row ends where the next one begins.
    pub end: Option<String>,
    /// Title of the column of values.
    pub value: String,
    /// Separator of cells, such as `;`.
    pub delimiter: u8,
    /// True if `,` separates the decimals.
    pub decimal_comma: bool,
    /// Format of times.
    pub times: TimeFormat,
    /// Zone of local times.
    pub zone: TimeZone,
    /// Unit of the values.
    pub unit: Unit,
    /// Factor of all values, in millionths.
    pub scale_millionths: i64,
}

/// Indices of the columns.
struct Columns {
    start: usize,
    end: Option<usize>,
    value: usize,
}

impl<V: Quantity> CurveSource<V> for CsvFeed {
    fn currency(&self) -> &str {
        self.unit.currency()
    }

    fn zone(&self) -> &TimeZone {
        &self.zone
    }

    fn file(&self) -> Option<&Path> {
        if let Place::File(path) = &self.place { Some(path) } else { None }
    }

    fn requests(&self, window: &Window) -> Vec<Request> {
        let Place::Url(url) = &self.place else { return Vec::new() };
        let accepts = &["text/csv", "text/plain", "application/csv", "application/octet-stream"];
        url.expand(window, &self.zone).into_iter().map(|url| Request::get(url).accepting(accepts)).collect()
    }

    fn parse(&self, body: &[u8]) -> Result<Page<V>, FeedError> {
        let mut reader = ReaderBuilder::new()
            .has_headers(false)
            .flexible(true)
            .trim(Trim::All)
            .comment(Some(b'#'))
            .delimiter(self.delimiter)
            .from_reader(body.strip_prefix(b"\xef\xbb\xbf").unwrap_or(body));
        let mut columns = None;
        let mut pieces: Vec<Piece<V>> = Vec::new();
        let mut record = StringRecord::new();
        let syntax = |error: ::csv::Error| FeedError::Syntax { kind: "CSV", reason: error.to_string() };
        while reader.read_record(&mut record).map_err(syntax)? {
            let line = record.position().map_or(0, ::csv::Position::line);
            match &columns {
                None => columns = Some(self.columns(&record, line)?),
                Some(columns) => {
                    let before = pieces.last().map(|piece| piece.from);
                    pieces.push(self.row(&record, columns, line, before)?);
                }
            }
        }
        let slots = ordered(closed(pieces, Ends::AtNext)?)?;
        if slots.is_empty() {
            return Err(FeedError::NotPublished { said: "the table has no values".into() });
        }
        Ok(Page { slots, next: None })
    }
}

impl CsvFeed {
    fn columns(&self, titles: &StringRecord, line: u64) -> Result<Columns, FeedError> {
        let column = |wanted: &String| {
            titles.iter().position(|title| title == wanted).ok_or_else(|| {
                let found = titles.iter().collect::<Vec<_>>().join(",");
                FeedError::found(format!("line {line}, the titles,"), found, format!("a column `{wanted}`"))
            })
        };
        let end = self.end.as_ref().map(column).transpose()?;
        Ok(Columns { start: column(&self.start)?, end, value: column(&self.value)? })
    }

    fn row<V: Quantity>(
        &self,
        record: &StringRecord,
        columns: &Columns,
        line: u64,
        before: Option<Time>,
    ) -> Result<Piece<V>, FeedError> {
        let cell = |column: usize| record.get(column).unwrap_or_default();
        let time = |column: usize, before: Option<Time>| {
            moment::parse(cell(column), self.times, &self.zone, before)
                .ok_or_else(|| self.wrong(record, column, line, "a time in the configured format"))
        };
        let from = time(columns.start, before)?;
        let until = columns.end.map(|end| time(end, Some(from))).transpose()?;
        let text = cell(columns.value);
        let value = if text.is_empty() {
            None
        } else {
            let number = if self.decimal_comma { text.replace(',', ".") } else { text.to_owned() };
            let read = quantity(&self.unit, self.scale_millionths, &number);
            let expected = format!("a number of {}", self.unit);
            Some(read.ok_or_else(|| self.wrong(record, columns.value, line, &expected))?)
        };
        Ok(Piece { from, until, value })
    }

    fn wrong(&self, record: &StringRecord, column: usize, line: u64, expected: &str) -> FeedError {
        let place = format!("line {line}, column {}", column + 1);
        FeedError::found(place, record.get(column).unwrap_or_default(), expected)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use limo_model::Price;

    fn feed() -> CsvFeed {
        CsvFeed {
            place: Place::File("prices.csv".into()),
            start: "time".into(),
            end: None,
            value: "price_eur_per_mwh".into(),
            delimiter: b',',
            decimal_comma: false,
            times: TimeFormat::Rfc3339,
            zone: TimeZone::UTC,
            unit: "EUR/MWh".parse().expect("a unit"),
            scale_millionths: 1_000_000,
        }
    }

    fn read(feed: &CsvFeed, text: &str) -> Result<Vec<(i64, i64, i64)>, String> {
        let page: Page<Price> = feed.parse(text.as_bytes()).map_err(|error| error.to_string())?;
        let minutes = |time: Time| time.unix_ms() / 60_000;
        Ok(page
            .slots
            .iter()
            .map(|slot| (minutes(slot.from), minutes(slot.until), slot.value.milli_per_mwh()))
            .collect())
    }

    #[test]
    fn the_file_that_operators_write() {
        let text = "# prices\ntime,price_eur_per_mwh\n1970-01-01T00:00:00Z,80.25\n1970-01-01T01:00:00Z,-83.04\n\
                    1970-01-01T01:30:00Z,\n";
        assert_eq!(read(&feed(), text), Ok(vec![(0, 60, 80_250), (60, 90, -83_040)]));
    }

    #[test]
    fn other_tables() {
        let feed = CsvFeed {
            start: "von".into(),
            end: Some("bis".into()),
            value: "Preis".into(),
            delimiter: b';',
            decimal_comma: true,
            times: TimeFormat::Local,
            zone: TimeZone::get("Europe/Berlin").expect("known"),
            unit: "ct/kWh".parse().expect("a unit"),
            ..feed()
        };
        let text = "\u{feff}von;bis;Preis\n1970-01-01 01:00;1970-01-01 01:15;1,5\n1970-01-01 01:15;1970-01-01 01:30;\n";
        assert_eq!(read(&feed, text), Ok(vec![(0, 15, 15_000)]));
    }

    #[test]
    fn the_day_of_25_hours_in_local_time() {
        let feed = CsvFeed { times: TimeFormat::Local, zone: TimeZone::get("Europe/Berlin").expect("known"), ..feed() };
        let hours = ["01", "02", "02", "03"].map(|hour| format!("2025-10-26T{hour}:00:00,1"));
        let text = format!("time,price_eur_per_mwh\n{}\n", hours.join("\n"));
        let slots = read(&feed, &text).expect("good");
        assert!(slots.windows(2).all(|pair| pair[0].1 == pair[1].0) && slots.len() == 4, "{slots:?}");
    }

    #[test]
    fn refusals() {
        let check = |text: &str, expected: &str| assert_eq!(read(&feed(), text), Err(expected.to_owned()), "{text}");
        check("time,price\n", "line 1, the titles, is `time,price`; expected a column `price_eur_per_mwh`");
        let titles = "time,price_eur_per_mwh\n";
        check(&format!("{titles}noon,1\n"), "line 2, column 1 is `noon`; expected a time in the configured format");
        check(&format!("{titles}1970-01-01T00:00:00Z,x\n"), "line 2, column 2 is `x`; expected a number of EUR/MWh");
        check(titles, "nothing is published: the table has no values");
        check("", "nothing is published: the table has no values");
        assert!(read(&feed(), "time,price_eur_per_mwh\n\u{1}\n").is_err());
        let bytes: Result<Page<Price>, _> = feed().parse(b"time,price_eur_per_mwh\n\xff\xfe,1\n");
        assert!(bytes.expect_err("refused").to_string().starts_with("the answer is not CSV"));
    }
}
