//! Sections of the running time of an attempt: input, work with checkpoints, output. They follow from its running time, so
//! they cost no events.

use std::fmt;
use std::num::NonZeroU64;
use std::str::FromStr;

use limo_model::{Span, decimal};

use super::checkpoints::{CheckpointedRun, Checkpoints};

/// Units of a bandwidth, in bits per second.
const UNITS: [(&str, u64); 7] = [
    ("Gbit/s", 1_000_000_000),
    ("Mbit/s", 1_000_000),
    ("kbit/s", 1_000),
    ("GB/s", 8_000_000_000),
    ("MB/s", 8_000_000),
    ("kB/s", 8_000),
    ("bit/s", 1),
];

/// Rate of transfers of one computer, in bits per second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bandwidth(NonZeroU64);

impl Bandwidth {
    /// Makes a rate of bits per second.
    pub fn from_bits(bits: NonZeroU64) -> Self {
        Self(bits)
    }

    /// Returns the time for this many bytes, rounded up to milliseconds.
    pub fn takes(self, bytes: u64) -> Span {
        let ms = (u128::from(bytes) * 8_000).div_ceil(u128::from(self.0.get()));
        Span::from_ms(i64::try_from(ms).unwrap_or(i64::MAX).min(LONGEST))
    }
}

/// Longest transfer, in ms: a thousand years.
const LONGEST: i64 = 1_000 * 366 * 86_400_000;

impl FromStr for Bandwidth {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let refused = || {
            let units = UNITS.map(|(unit, _)| unit).join(", ");
            format!(
                "`{text}` is not a bandwidth of 1 bit/s to 1000000 Gbit/s: write for example 100Mbit/s (units: {units})"
            )
        };
        let find = |(unit, bits): &(&str, u64)| Some((text.trim().strip_suffix(unit)?.trim(), *bits));
        let (number, bits) = UNITS.iter().find_map(find).ok_or_else(refused)?;
        // In millionths, so that fractions of larger units are exact.
        let millionths = decimal::parse(number, 6).ok_or_else(refused)?;
        let bits = millionths.checked_mul(i128::from(bits)).and_then(|bits| u64::try_from(bits / 1_000_000).ok());
        bits.filter(|bits| *bits <= 1_000_000_000_000_000).and_then(NonZeroU64::new).map(Self).ok_or_else(refused)
    }
}

impl fmt::Display for Bandwidth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bits = self.0.get();
        let (unit, per) = UNITS
            .into_iter()
            .find(|(unit, per)| unit.contains("bit") && bits.is_multiple_of(*per))
            .unwrap_or(("bit/s", 1));
        write!(f, "{}{unit}", bits / per)
    }
}

/// Times of the transfers of a job: before and after its work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Transfer {
    pub input: Span,
    pub output: Span,
}

/// Sections of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sections {
    pub transfer: Transfer,
    pub checkpoints: Option<Checkpoints>,
}

/// Division of the running time of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Done {
    /// Time of transfers.
    pub transferred: Span,
    /// Work, also that which the job will repeat.
    pub work: Span,
    pub made: CheckpointedRun,
}

impl Sections {
    /// Returns the running time of an attempt that has this work to do.
    pub fn running(&self, work: Span) -> Span {
        self.transfer.input + self.checkpoints.map_or(work, |of| of.running(work)) + self.transfer.output
    }

    /// Returns the division of `ran` of an attempt, which takes `running` in all.
    pub fn done(&self, running: Span, ran: Span) -> Done {
        let Transfer { input, output } = self.transfer;
        let all = running - input - output;
        let worked = (ran - input).max(Span::ZERO).min(all);
        let made = self.checkpoints.map_or(CheckpointedRun::default(), |of| {
            if worked == all { of.after_running(all) } else { of.during(worked) }
        });
        Done { transferred: ran - worked, work: worked - made.cost, made }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn minutes(count: i64) -> Span {
        Span::from_secs(60 * count)
    }

    #[test]
    fn bandwidths_are_bits_or_bytes_per_second() {
        for (text, bytes, ms) in [
            ("100Mbit/s", 12_500_000, 1_000),
            ("1 MB/s", 1, 1),
            ("8bit/s", 7, 7_000),
            ("0.5 Gbit/s", u64::MAX, LONGEST),
        ] {
            assert_eq!(text.parse::<Bandwidth>().map(|of| of.takes(bytes).ms()), Ok(ms.min(LONGEST)), "{text}");
        }
        let shown = ["1000kbit/s", "1.5MB/s", "9 bit/s"].map(|text| text.parse::<Bandwidth>().map(|of| of.to_string()));
        assert_eq!(shown, ["1Mbit/s", "12Mbit/s", "9bit/s"].map(|text| Ok(text.to_owned())));
        for text in ["", "100", "0 bit/s", "-1Mbit/s", "1 Mbps", "2000000 Gbit/s"] {
            assert!(text.parse::<Bandwidth>().is_err_and(|error| error.starts_with(&format!("`{text}` is not"))));
        }
    }

    /// An attempt: 5 min of input, 30 min of work with a checkpoint of 1 min after 15 min, 2 min of output.
    #[test]
    fn an_attempt_is_divided_exactly() {
        let checkpoints = Some(Checkpoints { every: minutes(15), cost: minutes(1) });
        let sections = Sections { transfer: Transfer { input: minutes(5), output: minutes(2) }, checkpoints };
        let running = sections.running(minutes(30));
        assert_eq!(running, minutes(38));
        let done = |ran: i64| {
            let of = sections.done(running, minutes(ran));
            [of.transferred, of.work, of.made.kept, of.made.cost].map(|span| span.ms() / 60_000)
        };
        assert_eq!(done(4), [4, 0, 0, 0]);
        assert_eq!(done(10), [5, 5, 0, 0]);
        assert_eq!(done(21), [5, 15, 15, 1]);
        // The output has begun.
        assert_eq!(done(37), [6, 30, 15, 1]);
        assert_eq!(done(38), [7, 30, 15, 1]);
    }
}
