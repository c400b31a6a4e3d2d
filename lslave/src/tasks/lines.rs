//! Joins the output of one task by whole lines, each with the task's number before it if requested.

/// Longest line that is kept, in bytes; bounds the memory for a task. Lines of other tasks may split a longer line.
pub const LINE_LIMIT: usize = 64 * 1024;

/// One output of one task.
#[derive(Debug, Default)]
pub struct Lines {
    /// Label before each line; empty without labels.
    label: Vec<u8>,
    /// Beginning of a line whose end has not arrived.
    rest: Vec<u8>,
    /// True if the line before `rest` was passed on without its end.
    torn: bool,
}

impl Lines {
    /// Makes the joiner for a task. Labels are padded to the width of the largest number below `total`, as in srun.
    pub fn of_task(task: u32, total: u32, label: bool) -> Self {
        let width = total.saturating_sub(1).to_string().len();
        let label = if label { format!("{task:>width$}: ").into_bytes() } else { Vec::new() };
        Self { label, ..Self::default() }
    }

    /// Adds output; returns the part that may be passed on.
    pub fn take(&mut self, bytes: &[u8]) -> Vec<u8> {
        let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        let mut out = Vec::new();
        if whole > 0 {
            let rest = std::mem::take(&mut self.rest);
            self.pass(&rest, &bytes[..whole], &mut out);
        }
        self.rest.extend_from_slice(&bytes[whole..]);
        if self.rest.len() > LINE_LIMIT {
            let rest = std::mem::take(&mut self.rest);
            self.pass(&rest, &[], &mut out);
        }
        out
    }

    /// Ends the output; returns its last line, which gets a line break if it has a label.
    pub fn end(mut self) -> Vec<u8> {
        let rest = std::mem::take(&mut self.rest);
        let mut out = Vec::new();
        self.pass(&rest, &[], &mut out);
        if self.torn && !self.label.is_empty() {
            out.push(b'\n');
        }
        out
    }

    fn pass(&mut self, first: &[u8], second: &[u8], out: &mut Vec<u8>) {
        if self.label.is_empty() {
            out.extend_from_slice(first);
            out.extend_from_slice(second);
        } else {
            for line in
                first.split_inclusive(|byte| *byte == b'\n').chain(second.split_inclusive(|byte| *byte == b'\n'))
            {
                if !self.torn {
                    out.extend_from_slice(&self.label);
                }
                out.extend_from_slice(line);
                self.torn = line.last() != Some(&b'\n');
            }
        }
        if let Some(last) = second.last().or(first.last()) {
            self.torn = *last != b'\n';
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(label: bool, pieces: &[&str], passed: &[&str], end: &str) {
        let mut lines = Lines::of_task(7, 12, label);
        let got: Vec<String> =
            pieces.iter().map(|piece| String::from_utf8(lines.take(piece.as_bytes())).expect("UTF-8")).collect();
        assert_eq!(got, passed, "{pieces:?}");
        assert_eq!(String::from_utf8(lines.end()).expect("UTF-8"), end, "{pieces:?}");
    }

    #[test]
    fn only_whole_lines_are_passed_on() {
        check(false, &["a\nb", "c\n", "d"], &["a\n", "bc\n", ""], "d");
        check(false, &["a\n\nb\n"], &["a\n\nb\n"], "");
        check(false, &[], &[], "");
    }

    #[test]
    fn each_line_has_one_label() {
        check(true, &["a\nb", "c\n\n", "d"], &[" 7: a\n", " 7: bc\n 7: \n", ""], " 7: d\n");
        check(true, &["a\n"], &[" 7: a\n"], "");
    }

    #[test]
    fn labels_are_as_wide_as_the_last_one() {
        let label = |task, total| String::from_utf8(Lines::of_task(task, total, true).take(b"a\n")).expect("UTF-8");
        assert_eq!(
            [label(0, 1), label(9, 10), label(9, 11), label(7, 1_000)],
            ["0: a\n", "9: a\n", " 9: a\n", "  7: a\n"]
        );
    }

    #[test]
    fn a_line_that_is_too_long_is_passed_on_in_pieces() {
        let long = "x".repeat(LINE_LIMIT + 1);
        let labelled = format!(" 7: {long}");
        check(true, &[&long, "y\nz\n"], &[&labelled, "y\n 7: z\n"], "");
        check(true, &[&long], &[&labelled], "\n");
        check(false, &[&long, "y"], &[&long, ""], "y");
    }
}
