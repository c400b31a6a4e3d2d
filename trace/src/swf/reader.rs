//! Reads the lines of a workload file in constant memory.

use std::io::Read;
use std::path::Path;

use super::error::SwfError;
use super::header::Header;
use super::record::Record;
use crate::input::Lines;

/// Reader of the records of a file, in their order. It ends after an error.
pub struct Reader {
    file: String,
    lines: Lines,
    header: Header,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// The line in the buffer is the next record.
    Held,
    Between,
    Ended,
}

impl Reader {
    /// Opens a file, plain or gzipped, and reads its header.
    ///
    /// # Errors
    /// [`SwfError`] if the file cannot be opened or its header not read.
    pub fn open(path: &Path) -> Result<Self, SwfError> {
        let file = path.display().to_string();
        let lines = Lines::open(path).map_err(|source| SwfError::Open { file: file.clone(), source })?;
        Self::start(file, lines)
    }

    /// Reads from bytes; errors use `name`.
    ///
    /// # Errors
    /// [`SwfError`] if the header cannot be read.
    pub fn new(name: &str, source: impl Read + Send + 'static) -> Result<Self, SwfError> {
        let file = name.to_owned();
        let lines = Lines::new(source).map_err(|source| SwfError::Open { file: file.clone(), source })?;
        Self::start(file, lines)
    }

    fn start(file: String, lines: Lines) -> Result<Self, SwfError> {
        let mut reader = Self { file, lines, header: Header::default(), state: State::Between };
        while reader.advance()? {
            match comment(reader.lines.line()) {
                Line::Comment(text) => reader.header.push(text),
                Line::Empty => {}
                Line::Record => {
                    reader.state = State::Held;
                    return Ok(reader);
                }
            }
        }
        reader.state = State::Ended;
        Ok(reader)
    }

    fn advance(&mut self) -> Result<bool, SwfError> {
        self.lines.advance().map_err(|fault| SwfError::of_input(&self.file, self.lines.number(), fault))
    }

    /// Returns the comments before the first job.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Returns the path for errors.
    pub fn file(&self) -> &str {
        &self.file
    }

    /// Returns the line of the last record, from 1.
    pub fn line(&self) -> u64 {
        self.lines.number()
    }

    fn step(&mut self) -> Result<Option<Record>, SwfError> {
        loop {
            if self.state == State::Held {
                self.state = State::Between;
            } else if !self.advance()? {
                return Ok(None);
            }
            let line = self.lines.line();
            match comment(line) {
                Line::Record => {
                    return Record::parse(line)
                        .map(Some)
                        .map_err(|fault| SwfError::of_line(&self.file, self.lines.number(), line, fault));
                }
                Line::Comment(_) | Line::Empty => {}
            }
        }
    }
}

impl Iterator for Reader {
    type Item = Result<Record, SwfError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.state == State::Ended {
            return None;
        }
        let step = self.step().transpose();
        if !matches!(step, Some(Ok(_))) {
            self.state = State::Ended;
        }
        step
    }
}

enum Line<'l> {
    Comment(&'l [u8]),
    Empty,
    Record,
}

fn comment(line: &[u8]) -> Line<'_> {
    match line.trim_ascii_start() {
        [] => Line::Empty,
        [b';', text @ ..] => Line::Comment(text),
        _ => Line::Record,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::swf::Field;
    use std::io::Cursor;

    fn records(text: &[u8]) -> Result<Vec<Record>, String> {
        let reader = Reader::new("t.swf", Cursor::new(text.to_vec())).map_err(|error| error.to_string())?;
        reader.collect::<Result<Vec<_>, _>>().map_err(|error| error.to_string())
    }

    fn check(text: &[u8], expected: &str) {
        assert_eq!(records(text).expect_err("an error"), expected);
    }

    const LINE: &str = "1 0 -1 10 2 -1 -1 2 20 -1 1 3 -1 4 -1 -1 -1 -1\n";

    #[test]
    fn comments_and_empty_lines_may_stand_anywhere() {
        let text = format!("; MaxProcs: 4\n\n{LINE}; between\n  \n{LINE}");
        let reader = Reader::new("t.swf", Cursor::new(text.into_bytes())).expect("a header");
        assert_eq!(reader.header().processors(), Some(4));
        let users: Vec<_> = reader.map(|record| record.expect("a record").count(Field::User)).collect();
        assert_eq!(users, [Some(3), Some(3)]);
    }

    #[test]
    fn errors_name_file_line_and_field() {
        check(b"1 2 3\n", "t.swf:1: the line has 3 of 18 fields; the next is 4 (run time): write -1 for unknown");
        let late = format!("; x\n{LINE}{}", LINE.replace("20", "two"));
        check(late.as_bytes(), "t.swf:3: field 9 (requested time) is `two`: that is not a number");
        let extra = LINE.replace('\n', " 7\n");
        check(extra.as_bytes(), "t.swf:1: `7` follows the 18 fields of the line");
        check(
            b"\x7fELF\x02\x01\x01\0\0",
            "t.swf:1: this is not text (`\\u{7f}ELF\\u{2}\\u{1}\\u{1}\\0\\0`): a workload must be plain or gzipped text",
        );
        check(&[b'1'; 70_000], "t.swf:1: the line has more than 65536 bytes");
        let range = LINE.replace("10", "1e30");
        check(
            range.as_bytes(),
            "t.swf:1: field 4 (run time) is `1e30`: that is out of range (at most 9223372036854775 either way)",
        );
        check(b"\x1f\x8b\x08\0", "t.swf:1: the gzip stream is truncated: fetch the file again");
    }

    #[test]
    fn ends_after_an_error() {
        let text = format!("x\n{LINE}");
        let mut reader = Reader::new("t.swf", Cursor::new(text.into_bytes())).expect("a header");
        assert!(reader.next().is_some_and(|record| record.is_err()));
        assert!(reader.next().is_none());
    }
}
