//! The workload file of limo-2018, Grammar 3.1: a streaming reader and a writer.
//!
//! A file is a sequence of comments, `#TEXT` and a newline, and packages, `DELAY:SIZE`, a newline and SIZE bytes of
//! any value, with nothing after them. DELAY is in microseconds. Neither side holds more than one package.

use std::io::{self, BufRead, Read, Write};
use std::time::Duration;

use thiserror::Error;

/// Default limit of the content of a package, in bytes: four times the largest matrix of Table 4.3.
pub const MAX_PACKAGE: u64 = 1 << 30;

/// Longest delay before a package. An executor waits little longer for one.
pub const MAX_DELAY: Duration = Duration::from_secs(3600);

/// Most bytes of a header: room for leading zeros, and an end for a file that is not a workload.
const MAX_HEADER: usize = 64;

/// The header of a package.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Time between the due times of the package before and of this one; for the first, after the start of the session.
    /// At most [`MAX_DELAY`].
    pub delay: Duration,
    /// Size of the content, in bytes. An executor ignores a package without content.
    pub size: u64,
}

/// A place in a workload file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    /// Number of the line, from 1. Newlines within contents count, so that an editor shows the same number.
    pub line: u64,
    /// Offset in the file, in bytes from 0.
    pub byte: u64,
}

/// Reason why a workload file cannot be read.
#[derive(Debug, Error)]
#[error("line {}, byte {}: {cause}", .at.line, .at.byte)]
pub struct FormatError {
    /// The begin of the comment, header or content that is wrong.
    pub at: Position,
    /// What is wrong there.
    pub cause: FormatCause,
}

/// Errors of a workload file.
#[derive(Debug, Error)]
pub enum FormatCause {
    /// The file has neither a comment nor a package.
    #[error("the workload is empty, but needs at least one package or comment")]
    Empty,
    /// A line is neither a comment nor a header.
    #[error("{text:?} is neither a comment (#TEXT) nor a header of a package (DELAY:SIZE, in us and bytes)")]
    Malformed {
        /// The line, or its first 64 bytes.
        text: String,
    },
    /// The delay of a header exceeds [`MAX_DELAY`].
    #[error("the delay of {delay} us is longer than {} us", MAX_DELAY.as_micros())]
    LongDelay {
        /// The delay as it is written.
        delay: String,
    },
    /// The size of a header exceeds the limit of the reader.
    #[error("the package of {size} bytes is larger than {limit} bytes; --max-package raises the limit")]
    Large {
        /// The size as it is written.
        size: String,
        /// The limit, in bytes.
        limit: u64,
    },
    /// The file ends within a comment or a header.
    #[error("the file ends before the newline of this line")]
    CutLine,
    /// The file ends within a content.
    #[error("the file ends after {have} of the {size} bytes of this package")]
    CutContent {
        /// The number of bytes that are there.
        have: u64,
        /// The number of bytes that the header states.
        size: u64,
    },
    /// The file cannot be read.
    #[error("cannot read: {0}")]
    Io(#[from] io::Error),
}

/// Reads a workload file, one package after the other.
#[derive(Debug)]
pub struct Reader<R> {
    source: R,
    max_package: u64,
    next: Position,
}

impl<R: BufRead> Reader<R> {
    /// Reads from `source`. Packages of more than `max_package` bytes are refused.
    pub fn new(source: R, max_package: u64) -> Self {
        Self { source, max_package, next: Position { line: 1, byte: 0 } }
    }

    /// Reads up to the end of the next package and replaces `content` with its content. Returns `None` at the end of
    /// the file. Comments are skipped; their length is not limited.
    ///
    /// # Errors
    /// [`FormatError`], after which the reader must not be used.
    pub fn next_package(&mut self, content: &mut Vec<u8>) -> Result<Option<Header>, FormatError> {
        content.clear();
        loop {
            let at = self.next;
            let fail = |cause: FormatCause| FormatError { at, cause };
            let first = self.source.fill_buf().map_err(|error| fail(error.into()))?.first().copied();
            match first {
                None if at.byte == 0 => return Err(fail(FormatCause::Empty)),
                None => return Ok(None),
                Some(b'#') => self.skip_comment().map_err(fail)?,
                Some(_) => {
                    let header = self.header().map_err(fail)?;
                    let at = self.next;
                    self.content(header.size, content).map_err(|cause| FormatError { at, cause })?;
                    return Ok(Some(header));
                }
            }
        }
    }

    /// The place of the next unread byte.
    pub fn position(&self) -> Position {
        self.next
    }

    fn skip_comment(&mut self) -> Result<(), FormatCause> {
        loop {
            let part = self.source.fill_buf()?;
            if part.is_empty() {
                return Err(FormatCause::CutLine);
            }
            let newline = part.iter().position(|byte| *byte == b'\n');
            let skipped = newline.map_or(part.len(), |at| at + 1);
            self.source.consume(skipped);
            self.next.byte += skipped as u64;
            if newline.is_some() {
                self.next.line += 1;
                return Ok(());
            }
        }
    }

    fn header(&mut self) -> Result<Header, FormatCause> {
        let mut line = Vec::new();
        self.source.by_ref().take(MAX_HEADER as u64).read_until(b'\n', &mut line)?;
        let read = line.len();
        let Some(text) = line.strip_suffix(b"\n") else {
            let is_header = read < MAX_HEADER && line.iter().all(|byte| byte.is_ascii_digit() || *byte == b':');
            return Err(if is_header { FormatCause::CutLine } else { malformed(&line) });
        };
        self.next.byte += read as u64;
        self.next.line += 1;
        let split = text.iter().position(|byte| *byte == b':').ok_or_else(|| malformed(text))?;
        let (delay, size) = (number(&text[..split]), number(&text[split + 1..]));
        let (Some(delay), Some(size)) = (delay, size) else { return Err(malformed(text)) };
        let delay = delay
            .parse()
            .map(Duration::from_micros)
            .ok()
            .filter(|delay| *delay <= MAX_DELAY)
            .ok_or_else(|| FormatCause::LongDelay { delay: delay.to_owned() })?;
        let size = size
            .parse()
            .ok()
            .filter(|size| *size <= self.max_package)
            .ok_or_else(|| FormatCause::Large { size: size.to_owned(), limit: self.max_package })?;
        Ok(Header { delay, size })
    }

    fn content(&mut self, size: u64, content: &mut Vec<u8>) -> Result<(), FormatCause> {
        // The memory grows with the bytes that are there, not with those that a header promises.
        let have = self.source.by_ref().take(size).read_to_end(content)? as u64;
        if have < size {
            return Err(FormatCause::CutContent { have, size });
        }
        self.next.byte += have;
        self.next.line += content.iter().filter(|byte| **byte == b'\n').count() as u64;
        Ok(())
    }
}

fn malformed(text: &[u8]) -> FormatCause {
    FormatCause::Malformed { text: String::from_utf8_lossy(text).into_owned() }
}

/// Returns the text of a number in the sense of the grammar: one or more digits.
fn number(text: &[u8]) -> Option<&str> {
    let is_number = !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(text).ok().filter(|_| is_number)
}

/// Writes a workload file. It buffers nothing.
#[derive(Debug)]
pub struct Writer<W> {
    target: W,
}

impl<W: Write> Writer<W> {
    /// Writes to `target`.
    pub fn new(target: W) -> Self {
        Self { target }
    }

    /// Writes a comment. Newlines in `text` become spaces.
    ///
    /// # Errors
    /// If `target` fails.
    pub fn comment(&mut self, text: &str) -> io::Result<()> {
        writeln!(self.target, "# {}", text.replace('\n', " "))
    }

    /// Writes a package that is due `delay` after the one before, rounded down to microseconds.
    ///
    /// # Errors
    /// If `target` fails, or `delay` exceeds [`MAX_DELAY`].
    pub fn package(&mut self, delay: Duration, content: &[u8]) -> io::Result<()> {
        if delay > MAX_DELAY {
            return Err(io::Error::other(FormatCause::LongDelay { delay: delay.as_micros().to_string() }));
        }
        writeln!(self.target, "{}:{}", delay.as_micros(), content.len())?;
        self.target.write_all(content)
    }
}

#[cfg(test)]
mod tests;
