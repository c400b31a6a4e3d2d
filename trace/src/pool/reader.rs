//! Reads the records of a file, whose form is known by its content.

use std::fs::File;
use std::io::{Cursor, Read};
use std::path::Path;

use super::RECORD_LIMIT;
use super::attribute::Attribute;
use super::clock::{PoolClock, TimeFault};
use super::elements::{Elements, JsonObjects, XmlAds};
use super::error::PoolError;
use super::log::Log;
use super::long::Long;
use super::record::{PoolRecord, Slot};
use super::{json, log, long, xml};
use crate::input::{InputFault, Lines, shown, unpacked};

/// Bytes in which the form must be recognised.
const START: u64 = 4096;

/// Form of a file.
enum Form {
    Long(Long),
    Log(Log),
    Json(Elements<JsonObjects>),
    Xml(Elements<XmlAds>),
    Empty,
}

/// History or event log that is being read.
pub struct RecordReader {
    file: String,
    form: Form,
}

impl RecordReader {
    /// Opens a file, plain or gzipped.
    ///
    /// # Errors
    /// [`PoolError`] if it cannot be opened, or is in none of the forms.
    pub fn open(path: &Path) -> Result<Self, PoolError> {
        let name = path.display().to_string();
        match File::open(path) {
            Ok(file) => Self::new(&name, file),
            Err(source) => Err(PoolError::Open { file: name, source }),
        }
    }

    /// Reads from bytes; errors use `name`.
    ///
    /// # Errors
    /// The same as for [`RecordReader::open`].
    pub fn new(name: &str, source: impl Read + Send + 'static) -> Result<Self, PoolError> {
        let file = name.to_owned();
        let opened = unpacked(source);
        let (mut source, gzip) = opened.map_err(|source| PoolError::Open { file: file.clone(), source })?;
        let mut start = Vec::new();
        let read = source.by_ref().take(START).read_to_end(&mut start);
        read.map_err(|error| PoolError::of_input(name, 1, InputFault::of(error, gzip)))?;
        let blank = start.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
        let line = start[blank..].split(|byte| *byte == b'\n').next().unwrap_or_default().to_vec();
        let number = 1 + start[..blank].iter().filter(|byte| **byte == b'\n').count() as u64;
        let whole = Box::new(Cursor::new(start).chain(source));
        let form = match line.first() {
            None => Form::Empty,
            Some(b'<') => Form::Xml(Elements::new(whole, gzip, name, XmlAds::default())),
            Some(b'[' | b'{') => Form::Json(Elements::new(whole, gzip, name, JsonObjects::default())),
            Some(_) if log::begins(&line) => Form::Log(Log::new(Lines::unpacked(whole, gzip, RECORD_LIMIT), name)),
            Some(_) if long::begins(&line) => Form::Long(Long::new(Lines::unpacked(whole, gzip, RECORD_LIMIT), name)),
            Some(_) => return Err(PoolError::Form { file, line: number, value: shown(&line) }),
        };
        Ok(Self { file, form })
    }

    /// Reads the next record; returns false at the end of the file.
    ///
    /// # Errors
    /// [`PoolError`] if the file is truncated, exceeds a limit, or is not in its form.
    pub fn advance(&mut self, record: &mut PoolRecord, clock: &mut PoolClock) -> Result<bool, PoolError> {
        let (element, line, read): (_, _, fn(&[u8], &mut PoolRecord) -> _) = match &mut self.form {
            Form::Empty => return Ok(false),
            Form::Log(log) => return log.advance(record, clock),
            Form::Long(long) => {
                let more = long.advance(record)?;
                return if more { self.timed(record, clock) } else { Ok(false) };
            }
            Form::Json(elements) => match elements.advance()? {
                Some((element, line)) => (element, line, json::read),
                None => return Ok(false),
            },
            Form::Xml(elements) => match elements.advance()? {
                Some((element, line)) => (element, line, xml::read),
                None => return Ok(false),
            },
        };
        record.begin(line);
        let wrong = |reason| PoolError::Record { file: self.file.clone(), line, reason };
        read(element, record).map_err(wrong)?;
        self.timed(record, clock)
    }

    /// Returns the number of lines that are neither an attribute nor an end.
    pub fn unreadable(&self) -> u64 {
        if let Form::Long(long) = &self.form { long.unreadable } else { 0 }
    }

    pub(super) fn file(&self) -> &str {
        &self.file
    }

    /// Replaces the date of an event by its seconds.
    fn timed(&self, record: &mut PoolRecord, clock: &mut PoolClock) -> Result<bool, PoolError> {
        if let Slot::Text(..) = record.slot(Attribute::EventTime) {
            let text = String::from_utf8_lossy(record.text(Attribute::EventTime).unwrap_or_default()).into_owned();
            match clock.date(&text) {
                Ok(ms) => record.set_time(Attribute::EventTime, Some(ms.div_euclid(1_000))),
                Err(TimeFault::NoTime) => record.set_time(Attribute::EventTime, None),
                Err(TimeFault::NoYear) => {
                    return Err(PoolError::NoYear {
                        file: self.file.clone(),
                        line: record.line,
                        value: shown(text.as_bytes()),
                    });
                }
            }
        }
        Ok(true)
    }
}
