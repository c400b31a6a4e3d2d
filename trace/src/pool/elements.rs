//! Divides JSON and XML into records, each with a limited number of bytes, so that a file of any size is read in little
//! memory.

use std::io::{BufRead, BufReader, Read};

use super::RECORD_LIMIT;
use super::error::PoolError;
use crate::input::{CHUNK, InputFault, shown};

/// Records of a file as bytes in one reused buffer.
pub(super) struct Elements<S> {
    source: BufReader<Box<dyn Read + Send>>,
    gzip: bool,
    file: String,
    /// Line of the next byte, from 1.
    line: u64,
    syntax: S,
    element: Vec<u8>,
}

/// Finds the begin and the end of records, byte by byte.
pub(super) trait Syntax {
    /// Looks at the next byte, which is the last one of `element`.
    fn step(&mut self, byte: u8, element: &mut Vec<u8>) -> Step;
}

/// Result of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// No record has begun.
    Outside,
    /// The byte belongs to a record.
    Inside,
    /// The byte ends a record.
    End,
    /// The byte cannot stand between records.
    Wrong,
}

impl<S: Syntax> Elements<S> {
    pub fn new(source: Box<dyn Read + Send>, gzip: bool, file: &str, syntax: S) -> Self {
        let source = BufReader::with_capacity(CHUNK, source);
        Self { source, gzip, file: file.to_owned(), line: 1, syntax, element: Vec::new() }
    }

    /// Returns the bytes of the next record and the line on which it begins.
    pub fn advance(&mut self) -> Result<Option<(&[u8], u64)>, PoolError> {
        self.element.clear();
        let mut begin = self.line;
        loop {
            let (mut used, mut is_complete) = (0, false);
            let fault = |error| PoolError::of_input(&self.file, self.line, InputFault::of(error, self.gzip));
            let bytes = self.source.fill_buf().map_err(fault)?;
            let is_end = bytes.is_empty();
            for byte in bytes {
                used += 1;
                self.line += u64::from(*byte == b'\n');
                self.element.push(*byte);
                match self.syntax.step(*byte, &mut self.element) {
                    Step::Outside => {
                        self.element.clear();
                        begin = self.line;
                    }
                    Step::Inside => {}
                    Step::End => {
                        is_complete = true;
                        break;
                    }
                    Step::Wrong => {
                        let value = shown(&self.element);
                        return Err(PoolError::Between { file: self.file.clone(), line: begin, value });
                    }
                }
            }
            self.source.consume(used);
            if self.element.len() > RECORD_LIMIT {
                return Err(PoolError::LongRecord { file: self.file.clone(), line: begin });
            }
            if is_complete {
                return Ok(Some((&self.element, begin)));
            }
            if is_end {
                let is_open = !self.element.iter().all(u8::is_ascii_whitespace);
                return if is_open { Err(PoolError::NoEnd { file: self.file.clone(), line: begin }) } else { Ok(None) };
            }
        }
    }
}

/// Objects of JSON: one after the other, or in an array.
#[derive(Debug, Default)]
pub(super) struct JsonObjects {
    depth: u32,
    is_text: bool,
    is_escaped: bool,
}

impl Syntax for JsonObjects {
    fn step(&mut self, byte: u8, _: &mut Vec<u8>) -> Step {
        if self.is_text {
            match byte {
                _ if self.is_escaped => self.is_escaped = false,
                b'\\' => self.is_escaped = true,
                b'"' => self.is_text = false,
                _ => {}
            }
            return Step::Inside;
        }
        match (byte, self.depth) {
            (b'{', _) => self.depth += 1,
            (b'[' | b']' | b',' | b' ' | b'\t' | b'\r' | b'\n', 0) => return Step::Outside,
            (_, 0) => return Step::Wrong,
            (b'}', 1) => {
                self.depth = 0;
                return Step::End;
            }
            (b'}', _) => self.depth -= 1,
            (b'"', _) => self.is_text = true,
            _ => {}
        }
        Step::Inside
    }
}

/// Elements `c` of XML, which may contain others. All other elements around them are skipped.
#[derive(Debug, Default)]
pub(super) struct XmlAds {
    depth: u32,
}

impl Syntax for XmlAds {
    fn step(&mut self, byte: u8, element: &mut Vec<u8>) -> Step {
        match (byte, self.depth) {
            (b'>', _) => {}
            (_, 0) if element[0] != b'<' => {
                return if byte.is_ascii_whitespace() { Step::Outside } else { Step::Wrong };
            }
            _ => return Step::Inside,
        }
        // The tag that this byte ends: an angle bracket in a value is written `&lt;`.
        let from = element.iter().rposition(|byte| *byte == b'<').unwrap_or_default();
        let tag = element[from..].trim_ascii_end();
        let opens = tag == b"<c>" || (tag.starts_with(b"<c ") && !tag.ends_with(b"/>"));
        self.depth = match (opens, tag == b"</c>") {
            (true, _) => self.depth + 1,
            (_, true) => self.depth.saturating_sub(1),
            _ => self.depth,
        };
        match (self.depth, opens) {
            (0, _) if tag == b"</c>" => Step::End,
            (0, _) => Step::Outside,
            _ => Step::Inside,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    fn split<S: Syntax>(text: &str, syntax: S) -> Result<Vec<(String, u64)>, String> {
        let mut elements = Elements::new(Box::new(Cursor::new(text.to_owned())), false, "f", syntax);
        let mut all = Vec::new();
        loop {
            match elements.advance() {
                Ok(Some((element, line))) => all.push((String::from_utf8_lossy(element).into_owned(), line)),
                Ok(None) => return Ok(all),
                Err(error) => return Err(error.to_string()),
            }
        }
    }

    #[test]
    fn objects_of_json() {
        let of = |text| split(text, JsonObjects::default());
        let two = vec![("{\"a\":{}}".to_owned(), 1), ("{\n}".to_owned(), 2)];
        assert_eq!(of("[{\"a\":{}},\n{\n}]\n").as_ref(), Ok(&two));
        assert_eq!(of("{\"a\":{}}\n{\n}").as_ref(), Ok(&two));
        assert_eq!(of(r#"{"}\"{":"{"}"#).map(|all| all.len()), Ok(1));
        assert_eq!(
            of("[\n{\"a\": 1"),
            Err("f:2: the record that begins here has no end: the file is truncated".to_owned())
        );
        assert_eq!(of("{}\nx{}"), Err("f:2: `x` stands between two records".to_owned()));
        let long = format!("{{\"{}\"}}", "x".repeat(RECORD_LIMIT));
        assert_eq!(of(&long), Err("f:1: the record that begins here has more than 1048576 bytes".to_owned()));
    }

    #[test]
    fn elements_of_xml() {
        let of = |text| split(text, XmlAds::default());
        let text = "<?xml version=\"1.0\"?>\n<!DOCTYPE classads SYSTEM \"classads.dtd\">\n<classads>\n<c>\n<a n=\"A\"><c></c></a>\n</c>\n</classads>\n";
        assert_eq!(of(text), Ok(vec![("<c>\n<a n=\"A\"><c></c></a>\n</c>".to_owned(), 4)]));
        assert_eq!(of("<c/>"), Ok(Vec::new()));
        assert_eq!(of("</c><c></c>").map(|all| all.len()), Ok(2));
        assert_eq!(of("<c><a>"), Err("f:1: the record that begins here has no end: the file is truncated".to_owned()));
        assert_eq!(of("<c></c>\n x"), Err("f:2: `x` stands between two records".to_owned()));
    }
}
