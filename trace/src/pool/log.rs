//! Events of an event log in text: a line `005 (1.0.0) 2010-01-31 12:00:00 Job terminated.`, indented lines, and a line
//! of three dots.

use limo_model::decimal::Decimal;

use super::attribute::Attribute;
use super::clock::{PoolClock, TimeFault};
use super::error::PoolError;
use super::record::{Literal, PoolRecord};
use super::{ATTRIBUTE_LIMIT, RECORD_LIMIT};
use crate::input::{Lines, shown};

/// Endings of the lines with bytes, and their attributes.
const BYTES: [(&[u8], Attribute); 4] = [
    (b"  -  Run Bytes Sent By Job", Attribute::SentBytes),
    (b"  -  Run Bytes Received By Job", Attribute::ReceivedBytes),
    (b"  -  Total Bytes Sent By Job", Attribute::TotalSentBytes),
    (b"  -  Total Bytes Received By Job", Attribute::TotalReceivedBytes),
];

/// Event log that is being read.
pub(super) struct Log {
    lines: Lines,
    file: String,
}

impl Log {
    pub fn new(lines: Lines, file: &str) -> Self {
        Self { lines, file: file.to_owned() }
    }

    fn line(&mut self) -> Result<bool, PoolError> {
        let more = self.lines.advance();
        more.map_err(|fault| PoolError::of_input(&self.file, self.lines.number(), fault))
    }

    /// Reads the next event as the attributes that it has in XML; returns false at the end of the file.
    pub fn advance(&mut self, record: &mut PoolRecord, clock: &mut PoolClock) -> Result<bool, PoolError> {
        loop {
            if !self.line()? {
                return Ok(false);
            }
            if !self.lines.line().trim_ascii().is_empty() {
                break;
            }
        }
        let begin = self.lines.number();
        record.begin(begin);
        self.head(record, clock)?;
        let (mut lines, mut bytes) = (0, 0);
        loop {
            if !self.line()? {
                return Err(PoolError::NoEnd { file: self.file.clone(), line: begin });
            }
            let line = self.lines.line();
            lines += 1;
            bytes += line.len();
            if line.trim_ascii_end() == b"..." {
                return Ok(true);
            }
            if lines > ATTRIBUTE_LIMIT {
                return Err(PoolError::Attributes { file: self.file.clone(), line: begin });
            }
            if bytes > RECORD_LIMIT {
                return Err(PoolError::LongRecord { file: self.file.clone(), line: begin });
            }
            let line = line.trim_ascii();
            if let Some((number, attribute)) =
                BYTES.iter().find_map(|(end, attribute)| Some((line.strip_suffix(*end)?, *attribute)))
            {
                record.set(attribute, &Literal::number(number));
            }
        }
    }

    fn head(&self, record: &mut PoolRecord, clock: &mut PoolClock) -> Result<(), PoolError> {
        let text = self.lines.line();
        let (file, line) = (self.file.clone(), self.lines.number());
        let Some(head) = Head::of(text) else { return Err(PoolError::Event { file, line, value: shown(text) }) };
        for (attribute, digits) in [
            (Attribute::EventTypeNumber, head.number),
            (Attribute::Cluster, head.cluster),
            (Attribute::Proc, head.process),
        ] {
            let value = Decimal::read(digits).and_then(|number| number.rounded(0)).ok();
            record.set(attribute, &value.map_or(Literal::Other, |value| Literal::Number { value, whole: true }));
        }
        match clock.date(&head.time) {
            Ok(ms) => record.set_time(Attribute::EventTime, Some(ms.div_euclid(1_000))),
            Err(TimeFault::NoTime) => record.set_time(Attribute::EventTime, None),
            Err(TimeFault::NoYear) => return Err(PoolError::NoYear { file, line, value: head.time }),
        }
        Ok(())
    }
}

/// First line of an event.
struct Head<'a> {
    number: &'a [u8],
    cluster: &'a [u8],
    process: &'a [u8],
    /// Date and time.
    time: String,
}

impl<'a> Head<'a> {
    fn of(line: &'a [u8]) -> Option<Self> {
        let (number, rest) = line.split_at_checked(3)?;
        let rest = rest.strip_prefix(b" (")?;
        let end = rest.iter().position(|byte| *byte == b')')?;
        let mut ids = rest[..end].split(|byte| *byte == b'.');
        let (cluster, process) = (ids.next()?, ids.next()?);
        // An event about the log itself may have the cluster -1.
        let is_number = |text: &[u8]| {
            let digits = text.strip_prefix(b"-").unwrap_or(text);
            !digits.is_empty() && digits.iter().all(u8::is_ascii_digit)
        };
        if ![number, cluster, process].into_iter().all(is_number) {
            return None;
        }
        let rest = str::from_utf8(&rest[end + 1..]).ok()?.trim_start();
        let mut words = rest.split_ascii_whitespace();
        let date = words.next()?;
        // The newer form may have a `T` between date and time.
        let time = if date.contains('T') { date.to_owned() } else { format!("{date} {}", words.next()?) };
        Some(Self { number, cluster, process, time })
    }
}

/// Returns true for a line that an event log can begin with.
pub(super) fn begins(line: &[u8]) -> bool {
    Head::of(line).is_some()
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    fn read(text: &str, clock: &mut PoolClock) -> Result<Vec<[Option<i64>; 5]>, String> {
        let source = Box::new(Cursor::new(text.to_owned()));
        let mut log = Log::new(Lines::unpacked(source, false, RECORD_LIMIT), "f");
        let (mut record, mut all) = (PoolRecord::default(), Vec::new());
        while log.advance(&mut record, clock).map_err(|error| error.to_string())? {
            use Attribute::{Cluster, EventTime, EventTypeNumber, Proc, TotalSentBytes};
            all.push([EventTypeNumber, Cluster, Proc, EventTime, TotalSentBytes].map(|of| record.number(of)));
        }
        Ok(all)
    }

    const END: &str = "\t(1) Normal termination (return value 0)\n\t10  -  Run Bytes Sent By Job\n\
        \t20  -  Total Bytes Sent By Job\n...\n";

    #[test]
    fn events_of_both_forms() {
        // 2010-01-31 12:00:00 UTC.
        let expected = Ok(vec![[Some(5), Some(17), Some(3), Some(1_264_939_200), Some(20)]]);
        let mut clock = PoolClock::new(jiff::tz::TimeZone::UTC, Some(2010));
        for time in ["2010-01-31 12:00:00", "2010-01-31T12:00:00.123Z", "01/31 12:00:00"] {
            let text = format!("005 (017.003.000) {time} Job terminated.\n{END}");
            assert_eq!(read(&text, &mut clock), expected, "{time}");
        }
        let own = "008 (-01.-01.-01) 2010-01-31 12:00:00 Global JobLog: ctime=1 id=a\n...\n";
        assert_eq!(read(own, &mut clock), Ok(vec![[Some(8), Some(-1), Some(-1), Some(1_264_939_200), None]]));
        assert_eq!(read("\n\n", &mut clock), Ok(vec![]));
    }

    #[test]
    fn wrong_events_are_errors() {
        let mut clock = PoolClock::default();
        let mut refused = |text: &str, error: &str| assert_eq!(read(text, &mut clock), Err(error.to_owned()));
        let head = "000 (1.0.0) 2010-01-31 12:00:00 Job submitted\n";
        refused(head, "f:1: the record that begins here has no end: the file is truncated");
        refused(
            &format!("{head}...\nxyz\n"),
            "f:3: `xyz` does not begin an event: expected `000 (1.0.0) 2010-01-31 12:00:00 ...`",
        );
        refused(
            "000 (1.0.0) 01/31 12:00:00 Job submitted\n...\n",
            "f:1: the time `01/31 12:00:00` has no year: give that of the first event with --year",
        );
        let many = format!("{head}{}", "\tx\n".repeat(ATTRIBUTE_LIMIT + 1));
        refused(&many, "f:1: the record that begins here has more than 10000 attributes");
    }
}
