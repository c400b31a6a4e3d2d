//! Records of history files and of `condor_history -long`: lines `Name = value`, then a line that begins with `***`, or
//! an empty one.

use super::attribute::Attribute;
use super::error::PoolError;
use super::record::{Literal, PoolRecord};
use super::{ATTRIBUTE_LIMIT, RECORD_LIMIT};
use crate::input::Lines;

/// History that is being read.
pub(super) struct Long {
    lines: Lines,
    file: String,
    /// True if a line of stars has ended a record. Then one also ends the last record, unless the file is truncated.
    has_stars: bool,
    /// Lines that are neither an attribute nor an end.
    pub unreadable: u64,
}

impl Long {
    pub fn new(lines: Lines, file: &str) -> Self {
        Self { lines, file: file.to_owned(), has_stars: false, unreadable: 0 }
    }

    /// Reads the next record; returns false at the end of the file.
    pub fn advance(&mut self, record: &mut PoolRecord) -> Result<bool, PoolError> {
        let (mut attributes, mut bytes) = (0, 0);
        loop {
            let more = self.lines.advance();
            let line = self.lines.number();
            if !more.map_err(|fault| PoolError::of_input(&self.file, line, fault))? {
                if attributes > 0 && self.has_stars {
                    return Err(PoolError::NoEnd { file: self.file.clone(), line: record.line });
                }
                return Ok(attributes > 0);
            }
            let text = self.lines.line();
            if text.starts_with(b"***") || text.trim_ascii().is_empty() {
                self.has_stars |= text.starts_with(b"***");
                if attributes > 0 {
                    return Ok(true);
                }
                continue;
            }
            let Some((name, value)) = assignment(text) else {
                self.unreadable += 1;
                continue;
            };
            if attributes == 0 {
                record.begin(line);
            }
            attributes += 1;
            bytes += text.len();
            if attributes > ATTRIBUTE_LIMIT {
                return Err(PoolError::Attributes { file: self.file.clone(), line: record.line });
            }
            if bytes > RECORD_LIMIT {
                return Err(PoolError::LongRecord { file: self.file.clone(), line: record.line });
            }
            if let Some(attribute) = Attribute::of(name) {
                record.set(attribute, &Literal::of_long(value));
            }
        }
    }
}

/// Divides `Name = value`.
fn assignment(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let start = line.iter().position(|byte| *byte != b' ' && *byte != b'\t')?;
    let line = &line[start..];
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_' || *byte == b'.';
    let end = line.iter().position(|byte| !is_part(byte))?;
    let rest = line[end..].trim_ascii_start();
    let value = rest.strip_prefix(b"=")?;
    (end > 0 && !line[0].is_ascii_digit()).then_some((&line[..end], value))
}

/// Returns true for a line that a history can begin with.
pub(super) fn begins(line: &[u8]) -> bool {
    line.starts_with(b"***") || assignment(line).is_some()
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    /// Line and cluster of a record.
    type Found = (u64, Option<i64>);

    /// Returns the records, and the number of unreadable lines.
    fn read(text: &str) -> Result<(Vec<Found>, u64), String> {
        let source = Box::new(Cursor::new(text.to_owned()));
        let mut long = Long::new(Lines::unpacked(source, false, RECORD_LIMIT), "f");
        let (mut record, mut all) = (PoolRecord::default(), Vec::new());
        while long.advance(&mut record).map_err(|error| error.to_string())? {
            all.push((record.line, record.number(Attribute::ClusterId)));
        }
        Ok((all, long.unreadable))
    }

    #[test]
    fn old_and_new_separators_and_empty_lines_end_a_record() {
        let expected = Ok((vec![(1, Some(7)), (4, Some(8))], 0));
        assert_eq!(read("ClusterId = 7\nA = \"x\"\n***\nclusterid=8\n***\n"), expected);
        let new = "*** Offset = 0 ClusterId = 7 ProcId = 0 Owner = \"a\" CompletionDate = 9\n";
        assert_eq!(read(&format!("ClusterId = 7\nA = \"x\"\n{new}ClusterId = 8\n{new}")), expected);
        assert_eq!(read("ClusterId = 7\r\nA = \"x\"\r\n\r\n  ClusterId = 8\r\n\r\n"), expected);
        assert_eq!(read("ClusterId = 7\nA = \"x\"\n\nClusterId = 8"), expected);
        assert_eq!(read("\n***\n\n"), Ok((vec![], 0)));
    }

    #[test]
    fn the_last_value_counts_and_wrong_lines_are_counted() {
        assert_eq!(read("ClusterId = 7\n= 4\n1A = 2\nClusterId = x\nClusterId\n\n"), Ok((vec![(1, None)], 3)));
    }

    #[test]
    fn limits_and_truncation_are_errors() {
        let cut = "f:3: the record that begins here has no end: the file is truncated";
        assert_eq!(read("A = 1\n***\nA = 2\n"), Err(cut.to_owned()));
        let long = format!("A = {}\n", "x".repeat(RECORD_LIMIT));
        assert_eq!(read(&long), Err("f:1: the line has more than 1048576 bytes".to_owned()));
        let many = "A = 1\n".repeat(ATTRIBUTE_LIMIT + 1);
        assert_eq!(read(&many), Err("f:1: the record that begins here has more than 10000 attributes".to_owned()));
        let wide = format!("A = {}\n", "x".repeat(RECORD_LIMIT / 2)).repeat(3);
        assert_eq!(read(&wide), Err("f:1: the record that begins here has more than 1048576 bytes".to_owned()));
    }
}
