//! Line of the Standard Workload Format, unchanged: eighteen numbers, parsed from bytes.

use limo_model::Span;

use limo_model::decimal::{Decimal, DecimalError};

/// Number of fields in a line.
pub const FIELDS: usize = 18;

/// Fields of a line, in their order; `Field::X as usize + 1` is the number in the format's definition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Field {
    /// Number of the job; files need not be sorted by it.
    Number,
    /// Seconds from the start of the workload.
    Submit,
    /// Wait in seconds.
    Wait,
    /// Running time in seconds.
    Run,
    /// Processors that were allocated.
    Allocated,
    /// Seconds of CPU time, the mean over its processors.
    CpuTime,
    /// Used memory in KiB for each processor.
    UsedMemory,
    /// Processors that were requested.
    RequestedProcessors,
    /// Requested time in seconds.
    RequestedTime,
    /// Requested memory in KiB for each processor.
    RequestedMemory,
    /// 1 done, 0 failed, 5 cancelled.
    Status,
    /// Number of the user.
    User,
    /// Number of the group of the user.
    Group,
    /// Number of the executable.
    Application,
    /// Number of the queue; 0 is often the interactive one.
    Queue,
    /// Number of the part of the machine.
    Partition,
    /// Number of the job whose end preceded the submission of this one.
    PrecedingJob,
    /// Time in seconds between the preceding job's end and the submission.
    ThinkTime,
}

impl Field {
    pub(super) const ALL: [Self; FIELDS] = [
        Self::Number,
        Self::Submit,
        Self::Wait,
        Self::Run,
        Self::Allocated,
        Self::CpuTime,
        Self::UsedMemory,
        Self::RequestedProcessors,
        Self::RequestedTime,
        Self::RequestedMemory,
        Self::Status,
        Self::User,
        Self::Group,
        Self::Application,
        Self::Queue,
        Self::Partition,
        Self::PrecedingJob,
        Self::ThinkTime,
    ];

    /// Returns the number in the format's definition, from 1.
    pub fn number(self) -> usize {
        self as usize + 1
    }

    /// Returns the name in the format's definition.
    pub fn name(self) -> &'static str {
        match self {
            Self::Number => "job number",
            Self::Submit => "submit time",
            Self::Wait => "wait time",
            Self::Run => "run time",
            Self::Allocated => "allocated processors",
            Self::CpuTime => "average CPU time",
            Self::UsedMemory => "used memory",
            Self::RequestedProcessors => "requested processors",
            Self::RequestedTime => "requested time",
            Self::RequestedMemory => "requested memory",
            Self::Status => "status",
            Self::User => "user",
            Self::Group => "group",
            Self::Application => "application",
            Self::Queue => "queue",
            Self::Partition => "partition",
            Self::PrecedingJob => "preceding job",
            Self::ThinkTime => "think time",
        }
    }
}

/// Contents of a line. Values are in thousandths, which hold every fraction of the archive's traces; finer ones are
/// rounded half away from zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Record {
    thousandths: [i64; FIELDS],
    /// True if a number of the line has an exponent, such as `7e+05`, which some older readers do not accept.
    pub exponent: bool,
}

/// Error of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LineFault<'l> {
    NoNumber { field: Field, value: &'l [u8] },
    OutOfRange { field: Field, value: &'l [u8] },
    Missing { fields: usize },
    Extra { value: &'l [u8] },
}

impl Record {
    /// Returns the value in thousandths; -1000 for unknown.
    pub fn thousandths(&self, field: Field) -> i64 {
        self.thousandths[field as usize]
    }

    /// Returns the whole number at `field`, without its fraction; `None` if it is negative, which means unknown.
    pub fn count(&self, field: Field) -> Option<i64> {
        let value = self.thousandths(field);
        (value >= 0).then_some(value / 1_000)
    }

    /// Returns the seconds at `field`; `None` if they are negative, which means unknown.
    pub fn span(&self, field: Field) -> Option<Span> {
        let value = self.thousandths(field);
        (value >= 0).then_some(Span::from_ms(value))
    }

    /// Parses a line without its line break.
    pub(super) fn parse(line: &[u8]) -> Result<Self, LineFault<'_>> {
        let mut record = Self::default();
        let mut at = 0;
        for (index, field) in Field::ALL.into_iter().enumerate() {
            at = after_blanks(line, at);
            if at == line.len() {
                return Err(LineFault::Missing { fields: index });
            }
            // In the archive's lines, most fields are unknown.
            if line.get(at..at + UNKNOWN.len()) == Some(UNKNOWN) {
                record.thousandths[index] = -1_000;
                at += UNKNOWN.len();
                continue;
            }
            let (value, end) = match whole(line, at) {
                Some(read) => read,
                None => record.slow(line, at, field)?,
            };
            record.thousandths[index] = value;
            at = end;
        }
        at = after_blanks(line, at);
        if at == line.len() { Ok(record) } else { Err(LineFault::Extra { value: token(line, at) }) }
    }

    /// Parses a number that is more than a few digits: a fraction, an exponent, or an error.
    #[cold]
    fn slow<'l>(&mut self, line: &'l [u8], at: usize, field: Field) -> Result<(i64, usize), LineFault<'l>> {
        let value = token(line, at);
        let refused = |error| match error {
            DecimalError::NoNumber => LineFault::NoNumber { field, value },
            DecimalError::OutOfRange => LineFault::OutOfRange { field, value },
        };
        let number = Decimal::read(value).map_err(refused)?;
        self.exponent |= number.exponent.is_some();
        Ok((number.rounded(3).map_err(refused)?, at + value.len()))
    }
}

/// A field of -1 and the blank after it.
const UNKNOWN: &[u8] = b"-1 ";

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r')
}

fn after_blanks(line: &[u8], mut at: usize) -> usize {
    while at < line.len() && is_blank(line[at]) {
        at += 1;
    }
    at
}

fn token(line: &[u8], at: usize) -> &[u8] {
    let rest = &line[at..];
    &rest[..rest.iter().position(|byte| is_blank(*byte)).unwrap_or(rest.len())]
}

/// Parses a whole number of up to 15 digits at `at`, in thousandths, and returns its end; `None` means that the slow
/// parser is needed.
#[inline]
fn whole(line: &[u8], mut at: usize) -> Option<(i64, usize)> {
    let negative = line[at] == b'-';
    at += usize::from(negative);
    let start = at;
    let mut value = 0_i64;
    while at < line.len() {
        let digit = line[at].wrapping_sub(b'0');
        if digit > 9 {
            break;
        }
        // The product wraps only for more digits than are accepted below.
        value = value.wrapping_mul(10).wrapping_add(i64::from(digit));
        at += 1;
    }
    let digits = at - start;
    if digits == 0 || digits > 15 || (at < line.len() && !is_blank(line[at])) {
        return None;
    }
    let value = value * 1_000;
    Some((if negative { -value } else { value }, at))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_keeps_all_its_fields() {
        let line = b" 7e+05\t0.1 3 4 5 6.25 7 8 9 -1 1 12 13 14 15 16 17 18 \r";
        let record = Record::parse(line).expect("a line");
        let expected = [700_000_000, 100, 3_000, 4_000, 5_000, 6_250, 7_000, 8_000, 9_000, -1_000, 1_000];
        assert_eq!(&record.thousandths[..11], &expected);
        assert_eq!(record.count(Field::ThinkTime), Some(18));
        assert_eq!(record.span(Field::Submit), Some(Span::from_ms(100)));
        assert_eq!(record.count(Field::RequestedMemory), None);
        assert!(record.exponent);
    }

    #[test]
    fn sixteen_digits_go_the_slow_way() {
        let line = |number: &str| format!("{number}{}", " 1".repeat(17));
        let read = |number: &str| Record::parse(line(number).as_bytes()).map(|r| r.thousandths[0]).ok();
        assert_eq!(read("9223372036854775"), Some(9_223_372_036_854_775_000));
        assert_eq!(read("999999999999999"), Some(999_999_999_999_999_000));
        assert_eq!(read("9999999999999999"), None);
        assert_eq!(read("0000000000000000000001"), Some(1_000));
        assert_eq!(read("99999999999999999999999"), None);
    }

    #[test]
    fn faults() {
        let fault = |line: &str| format!("{:?}", Record::parse(line.as_bytes()).expect_err("a fault"));
        assert_eq!(fault("1 2 3"), "Missing { fields: 3 }");
        assert_eq!(fault(&"1 ".repeat(19)), "Extra { value: [49] }");
        assert_eq!(fault("1 x"), "NoNumber { field: Submit, value: [120] }");
        assert_eq!(fault("1 2 3 -"), "NoNumber { field: Run, value: [45] }");
        assert_eq!(fault("1 2 3 4;"), "NoNumber { field: Run, value: [52, 59] }");
        assert_eq!(fault("1e70 "), "OutOfRange { field: Number, value: [49, 101, 55, 48] }");
    }
}
