//! Joins output of several nodes by whole lines. An unfinished line of a node is kept until its end arrives.

use bytes::{Bytes, BytesMut};

/// Longest line that is kept, in bytes: a quarter of a stream's window, so that its sender can continue. Lines of
/// other nodes may split a longer line.
const LINE_LIMIT: usize = 64 * 1024;

/// Beginning of a line whose end has not arrived.
#[derive(Debug, Default)]
pub struct Lines(BytesMut);

impl Lines {
    /// Adds bytes; returns those that may be written now.
    pub fn take(&mut self, bytes: Bytes) -> Option<Bytes> {
        let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        if self.0.is_empty() && whole == bytes.len() {
            // Nothing is copied if no bytes are kept.
            return Some(bytes).filter(|bytes| !bytes.is_empty());
        }
        let mut out = BytesMut::new();
        if whole > 0 {
            out = std::mem::take(&mut self.0);
            out.extend_from_slice(&bytes[..whole]);
        }
        self.0.extend_from_slice(&bytes[whole..]);
        if self.0.len() > LINE_LIMIT {
            out.unsplit(std::mem::take(&mut self.0));
        }
        Some(out.freeze()).filter(|out| !out.is_empty())
    }

    /// Ends the stream; returns the remaining bytes.
    pub fn end(&mut self) -> Option<Bytes> {
        Some(std::mem::take(&mut self.0).freeze()).filter(|rest| !rest.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(pieces: &[&str], written: &[&str], end: &str) {
        let text = |bytes: Option<Bytes>| String::from_utf8(bytes.unwrap_or_default().to_vec()).expect("UTF-8");
        let mut lines = Lines::default();
        let got: Vec<String> =
            pieces.iter().map(|piece| text(lines.take(Bytes::copy_from_slice(piece.as_bytes())))).collect();
        assert_eq!((got, text(lines.end())), (written.iter().map(|line| (*line).to_owned()).collect(), end.to_owned()));
    }

    #[test]
    fn only_whole_lines_are_written() {
        check(&["a\nb", "c\nd\n", "e\n"], &["a\n", "bc\nd\n", "e\n"], "");
        check(&["a", "b"], &["", ""], "ab");
        let long = "x".repeat(LINE_LIMIT + 1);
        check(&[&long, "y"], &[&long, ""], "y");
    }
}
