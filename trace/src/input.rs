//! Opens files and reads them line by line, with a limit on the length of a line. Files that begin with the bytes of
//! gzip are unpacked.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use flate2::read::MultiGzDecoder;

/// Most bytes of a line with its line break. Lines of the archive's traces have about a hundred; free text of a header
/// has more.
pub(crate) const LINE_LIMIT: usize = 64 * 1024;
/// Bytes of one read: more than the 64 KiB of a pipe, but less than the second-level cache.
pub(crate) const CHUNK: usize = 256 * 1024;

/// Reason why the next line could not be read.
#[derive(Debug)]
pub(crate) enum InputFault {
    /// The gzip stream is incomplete.
    Truncated,
    /// The line is longer than the limit.
    Long,
    Io(io::Error),
}

impl InputFault {
    /// Returns the fault of an error while a file is read that may be gzipped.
    pub fn of(error: io::Error, gzip: bool) -> Self {
        match error.kind() {
            io::ErrorKind::UnexpectedEof if gzip => Self::Truncated,
            _ => Self::Io(error),
        }
    }
}

/// Lines as bytes in one reused buffer.
pub(crate) struct Lines {
    source: BufReader<Box<dyn Read + Send>>,
    line: Vec<u8>,
    number: u64,
    gzip: bool,
    /// Most bytes of a line with its line break.
    limit: usize,
}

impl Lines {
    pub fn open(path: &Path) -> io::Result<Self> {
        Self::new(File::open(path)?)
    }

    pub fn new(source: impl Read + Send + 'static) -> io::Result<Self> {
        let (source, gzip) = unpacked(source)?;
        Ok(Self::unpacked(source, gzip, LINE_LIMIT))
    }

    /// Reads from bytes that are unpacked already.
    pub fn unpacked(source: Box<dyn Read + Send>, gzip: bool, limit: usize) -> Self {
        Self { source: BufReader::with_capacity(CHUNK, source), line: Vec::with_capacity(256), number: 0, gzip, limit }
    }

    /// Reads the next line into the buffer, without its end; returns false at the end of the file.
    pub fn advance(&mut self) -> Result<bool, InputFault> {
        self.line.clear();
        self.number += 1;
        let limit = self.limit as u64 + 1;
        let read = self.source.by_ref().take(limit).read_until(b'\n', &mut self.line);
        let read = read.map_err(|error| InputFault::of(error, self.gzip))?;
        if read > self.limit {
            return Err(InputFault::Long);
        }
        if self.line.last() == Some(&b'\n') {
            self.line.pop();
        }
        if self.line.last() == Some(&b'\r') {
            self.line.pop();
        }
        Ok(read > 0)
    }

    pub fn line(&self) -> &[u8] {
        &self.line
    }

    /// Returns the line's number, from 1.
    pub fn number(&self) -> u64 {
        self.number
    }
}

/// Returns the bytes of `source`, unpacked if they start with the two bytes of gzip.
pub(crate) fn unpacked(mut source: impl Read + Send + 'static) -> io::Result<(Box<dyn Read + Send>, bool)> {
    let mut start = Vec::with_capacity(2);
    source.by_ref().take(2).read_to_end(&mut start)?;
    let gzip = start == [0x1f, 0x8b];
    let whole = io::Cursor::new(start).chain(source);
    if gzip { Ok((Box::new(MultiGzDecoder::new(BufReader::new(whole))), true)) } else { Ok((Box::new(whole), false)) }
}

/// Returns the contents of a text file of at most `limit` bytes, unpacked if it is gzipped.
///
/// # Errors
/// If the file cannot be read, has more bytes, or is not UTF-8.
pub fn text(path: &Path, limit: u64) -> io::Result<String> {
    let (source, _) = unpacked(File::open(path)?)?;
    let mut text = String::new();
    let read = source.take(limit + 1).read_to_string(&mut text)?;
    if read as u64 > limit {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("the file has more than {limit} bytes")));
    }
    Ok(text)
}

/// Formats a value of a file for an error: at most 40 characters, with unprintable ones escaped.
pub fn shown(value: &[u8]) -> String {
    let text = String::from_utf8_lossy(&value[..value.len().min(160)]);
    let mut shown: String = text.chars().take(40).flat_map(char::escape_debug).collect();
    if text.chars().count() > 40 || value.len() > 160 {
        shown.push_str("...");
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn lines(bytes: &[u8]) -> Result<Vec<(u64, String)>, InputFault> {
        let mut lines = Lines::new(io::Cursor::new(bytes.to_vec())).map_err(InputFault::Io)?;
        let mut all = Vec::new();
        while lines.advance()? {
            all.push((lines.number(), String::from_utf8_lossy(lines.line()).into_owned()));
        }
        Ok(all)
    }

    fn packed(text: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(text).expect("memory");
        encoder.finish().expect("memory")
    }

    #[test]
    fn lines_of_plain_and_of_packed_files() {
        let expected = [(1, "a".to_owned()), (2, String::new()), (3, "b".to_owned())];
        for text in [b"a\n\nb\n".as_slice(), b"a\r\n\r\nb"] {
            assert_eq!(lines(text).expect("lines"), expected);
            assert_eq!(lines(&packed(text)).expect("lines"), expected);
        }
        // A file of several gzip members is one text.
        let both = [packed(b"a\n"), packed(b"\nb\n")].concat();
        assert_eq!(lines(&both).expect("lines"), expected);
        assert_eq!(lines(b"").expect("nothing"), []);
        assert_eq!(lines(b"\x1f").expect("one byte").len(), 1);
    }

    #[test]
    fn a_cut_stream_and_a_long_line_are_faults() {
        let whole = packed(b"a\nb\n");
        for length in 2..whole.len() {
            let fault = lines(&whole[..length]).expect_err("cut");
            assert!(matches!(fault, InputFault::Truncated), "{length}: {fault:?}");
        }
        let long = vec![b'x'; LINE_LIMIT + 1];
        assert!(matches!(lines(&long), Err(InputFault::Long)));
        assert!(lines(&long[..LINE_LIMIT]).is_ok());
    }

    #[test]
    fn values_are_shown_short_and_printable() {
        assert_eq!(shown(b"a\x00b\n"), "a\\0b\\n");
        assert_eq!(shown(&[b'x'; 50]), format!("{}...", "x".repeat(40)));
        assert_eq!(shown(&[0xff]), "\u{fffd}");
    }
}
