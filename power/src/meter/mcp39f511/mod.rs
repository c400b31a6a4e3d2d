//! Wattmeter with the chip MCP39F511 (one channel) or MCP39F511N (two): a serial line, 04d8:00dd on USB.
//!
//! - One request reads status and power together, so that sign and number belong together. The power is unsigned; a
//!   bit of the status has the sign.
//! - The meaning of the number depends on the power range, which other programs may set: it is read again each second.
//! - The chip shows the mean over 2^N cycles of the mains, 320 ms at 50 Hz by default. N is reduced only if readings
//!   are more frequent. N = 0 gives wrong power, and is replaced. Nothing is saved to its flash memory.
//! - Its energy counters are not used: they must be switched on, and other programs may reset them.

mod error;
mod frame;
mod line;

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use limo_model::Power;

pub use error::Mcp39f511Error;
use frame::{Ask, Reply};
use line::Line;

use super::error::MeterError;
use super::{Meter, Reading, plausible};

/// Register of the status on both chips; a request reads from here on.
const STATUS: u16 = 0x02;

/// Returns the data in `sent`, once that has a complete answer to a request for `count` bytes.
pub(crate) fn answered(sent: &[u8], count: u8) -> Option<Vec<u8>> {
    match (Ask::Read { address: STATUS, count }).reply(sent) {
        Reply::Done(data) => Some(data),
        _ => None,
    }
}

/// One cycle of the mains at 50 Hz; at 60 Hz the chip is a little faster than calculated.
const CYCLE: Duration = Duration::from_millis(20);

/// Default of the chip: 2^4 cycles, 320 ms at 50 Hz.
const DEFAULT_CYCLES: u16 = 4;

/// Longest valid setting: 2^15 cycles are eleven minutes. A larger value comes from another register.
const MOST_CYCLES: u16 = 15;

/// At this range the lowest bit is 10 mW; each step doubles it.
const RANGE_OF_10_MW: i32 = 19;

/// Highest valid range, at which one bit would be 41 W. A larger value comes from another register.
const HIGHEST_RANGE: u16 = 31;

/// Interval between readings of the range.
const RANGE_AGE: Duration = Duration::from_secs(1);

/// Type of the chip.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Chip {
    /// MCP39F511.
    One,
    /// MCP39F511N.
    Two,
}

/// Registers of one channel, and its sign bit in the status: 1 means drawn power.
struct ChannelRegisters {
    power: u16,
    sign: u16,
    range: u16,
}

/// Registers of a chip.
struct Map {
    channels: &'static [ChannelRegisters],
    /// N of 2^N line cycles.
    cycles: u16,
}

const ONE: Map = Map { channels: &[ChannelRegisters { power: 0x12, sign: 1 << 4, range: 0x82 }], cycles: 0x9e };
const TWO: Map = Map {
    channels: &[
        ChannelRegisters { power: 0x16, sign: 1 << 4, range: 0xae },
        ChannelRegisters { power: 0x1a, sign: 1 << 6, range: 0xbe },
    ],
    cycles: 0xa8,
};

impl Chip {
    fn map(self) -> &'static Map {
        match self {
            Self::One => &ONE,
            Self::Two => &TWO,
        }
    }

    /// Returns the prefix in an operator's choice.
    pub fn scheme(self) -> &'static str {
        match self {
            Self::One => "mcp39f511",
            Self::Two => "mcp39f511n",
        }
    }

    fn other(self) -> Self {
        match self {
            Self::One => Self::Two,
            Self::Two => Self::One,
        }
    }
}

impl fmt::Display for Chip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::One => "MCP39F511",
            Self::Two => "MCP39F511N",
        })
    }
}

/// Wattmeter and channel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wattmeter {
    /// Type: one or two outlets.
    pub chip: Chip,
    /// Path of the serial line: `/dev/ttyACM0`.
    pub path: PathBuf,
    /// Channel, 1 or 2; `None` for the sum of all, as for a machine with two power supplies.
    pub channel: Option<u8>,
}

impl Wattmeter {
    /// Parses `DEVICE`, or `DEVICE/CHANNEL` for a chip with channels.
    pub fn parse(chip: Chip, text: &str) -> Option<Self> {
        let (path, channel) = match text.rsplit_once('/') {
            Some((path, "1")) if !path.is_empty() => (path, Some(1)),
            Some((path, "2")) if !path.is_empty() && chip == Chip::Two => (path, Some(2)),
            _ => (text, None),
        };
        let path = PathBuf::from(path);
        // A plain number is probably meant as a channel.
        let is_name = |name: &str| channel.is_some() || !name.bytes().all(|byte| byte.is_ascii_digit());
        let is_device = path.is_absolute() && path.file_name().and_then(|name| name.to_str()).is_some_and(is_name);
        is_device.then_some(Self { chip, path, channel })
    }
}

impl fmt::Display for Wattmeter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.chip.scheme(), self.path.display())?;
        self.channel.map_or(Ok(()), |channel| write!(f, "/{channel}"))
    }
}

/// Draw by a wattmeter.
#[derive(Debug)]
pub struct Mcp39f511 {
    wattmeter: Wattmeter,
    /// Time between readings; the chip's own interval should not be longer.
    interval: Duration,
    limit: Duration,
    open: Option<Open>,
}

/// Line on which the chip has answered.
#[derive(Debug)]
struct Open {
    line: Line,
    /// Ranges of the channels.
    ranges: Vec<u8>,
    ranges_read: Duration,
}

impl Mcp39f511 {
    /// Makes a reader; opens nothing. `interval` is the time between readings.
    pub fn new(wattmeter: Wattmeter, interval: Duration) -> Self {
        Self { wattmeter, interval, limit: line::LIMIT, open: None }
    }

    /// Sets another time limit than 300 ms for each of three attempts.
    pub fn with_limit(self, limit: Duration) -> Self {
        Self { limit, ..self }
    }

    fn look(&mut self, now: Duration) -> Result<Power, Mcp39f511Error> {
        // After an error the line stays closed, and the chip's settings are read again.
        let mut open = match self.open.take() {
            Some(open) => open,
            None => self.open(now)?,
        };
        if now.saturating_sub(open.ranges_read) >= RANGE_AGE {
            open.ranges = self.ranges(&mut open.line)?;
            open.ranges_read = now;
        }
        let map = self.wattmeter.chip.map();
        let end = map.channels.iter().map(|channel| channel.power + 4).max().unwrap_or(STATUS);
        let bytes = open.line.exchange(Ask::Read { address: STATUS, count: count(end - STATUS) })?;
        let status = number::<2>(&bytes, 0) as u16;
        let mut total = Power::ZERO;
        for (index, channel) in map.channels.iter().enumerate() {
            if self.wattmeter.channel.is_some_and(|chosen| usize::from(chosen) != index + 1) {
                continue;
            }
            let power = watts(number::<4>(&bytes, channel.power - STATUS), open.ranges[index]);
            total += if status & channel.sign == 0 { -power } else { power };
        }
        self.open = Some(open);
        Ok(total)
    }

    fn open(&self, now: Duration) -> Result<Open, Mcp39f511Error> {
        let mut line = Line::open(&self.wattmeter.path, self.limit)?;
        self.set_cycles(&mut line)?;
        let ranges = self.ranges(&mut line)?;
        Ok(Open { line, ranges, ranges_read: now })
    }

    fn ranges(&self, line: &mut Line) -> Result<Vec<u8>, Mcp39f511Error> {
        let channels = self.wattmeter.chip.map().channels;
        channels
            .iter()
            .map(|channel| {
                let bytes = line.exchange(Ask::Read { address: channel.range, count: 4 })?;
                // The bytes are the ranges of voltage, current and power, and one unused byte.
                let range = bytes[2];
                self.checked("power range", range.into(), HIGHEST_RANGE).map(|_| range)
            })
            .collect()
    }

    /// Makes the chip's interval as short as the reading interval.
    fn set_cycles(&self, line: &mut Line) -> Result<(), Mcp39f511Error> {
        let address = self.wattmeter.chip.map().cycles;
        let mut read = || Ok(number::<2>(&line.exchange(Ask::Read { address, count: 2 })?, 0) as u16);
        let found = self.checked("accumulation interval", read()?, MOST_CYCLES)?;
        let wanted = match cycles(self.interval) {
            Some(wanted) if found == 0 || found > wanted => wanted,
            None if found == 0 => DEFAULT_CYCLES,
            _ => return Ok(()),
        };
        line.exchange(Ask::Write { address, value: wanted })?;
        let found = number::<2>(&line.exchange(Ask::Read { address, count: 2 })?, 0) as u16;
        let path = self.wattmeter.path.clone();
        if found == wanted { Ok(()) } else { Err(Mcp39f511Error::Interval { path, found, wanted }) }
    }

    /// Checks a number: a larger one is from a register of the other chip.
    fn checked(&self, what: &'static str, found: u16, limit: u16) -> Result<u16, Mcp39f511Error> {
        let Wattmeter { chip, path, .. } = &self.wattmeter;
        if found <= limit {
            Ok(found)
        } else {
            Err(Mcp39f511Error::OtherChip { path: path.clone(), what, found, limit, chip: *chip })
        }
    }
}

impl Meter for Mcp39f511 {
    fn read(&mut self, now: Duration) -> Result<Reading, MeterError> {
        let draw = self.look(now)?;
        plausible(draw, || format!("the wattmeter at {}", self.wattmeter.path.display()))
    }
}

/// Returns the devices of wattmeters on USB, below `dev`; `None` for one without a serial line.
///
/// # Errors
/// [`MeterError`] if sysfs cannot be read.
pub fn wattmeters(sysfs: &Path, dev: &Path) -> Result<Vec<Option<PathBuf>>, MeterError> {
    use super::files::{entries, name, text};
    let is = |dir: &Path, file: &str, id: &str| text(&dir.join(file)).is_ok_and(|found| found == id);
    let mut found = Vec::new();
    for device in entries(&sysfs.join("bus/usb/devices"))? {
        if !is(&device, "idVendor", "04d8") || !is(&device, "idProduct", "00dd") {
            continue;
        }
        let interface = format!("{}:", name(&device));
        let interfaces = entries(&device)?.into_iter().filter(|entry| name(entry).starts_with(&interface));
        let lines = interfaces.map(|interface| entries(&interface.join("tty"))).collect::<Result<Vec<_>, _>>()?;
        found.push(lines.concat().first().map(|line| dev.join(name(line))));
    }
    Ok(found)
}

/// Returns the largest N with 2^N cycles in `interval`, at least 1; `None` if the chip's default is short enough.
fn cycles(interval: Duration) -> Option<u16> {
    (interval < CYCLE * (1 << DEFAULT_CYCLES))
        .then(|| (1..DEFAULT_CYCLES).rev().find(|n| CYCLE * (1 << n) <= interval).unwrap_or(1))
}

fn count(bytes: u16) -> u8 {
    // The value is at most 28.
    u8::try_from(bytes).unwrap_or(u8::MAX)
}

/// Decodes `N` bytes at `at`, the lowest first. A reply has as many bytes as requested.
fn number<const N: usize>(bytes: &[u8], at: u16) -> u32 {
    let at = usize::from(at);
    bytes.iter().skip(at).take(N).rev().fold(0, |number, byte| number << 8 | u32::from(*byte))
}

/// Converts a raw value: 10 mW at range 19, twice that at 20, half of it at 18, rounded half up. `range` is at most 31.
fn watts(raw: u32, range: u8) -> Power {
    let mw = i64::from(raw) * 10;
    let shift = i32::from(range) - RANGE_OF_10_MW;
    // 2^32 * 10 * 2^12 is far below the limit of an i64.
    Power::from_mw(if shift >= 0 { mw << shift } else { ((mw >> (-shift - 1)) + 1) >> 1 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn power_by_range() {
        let check =
            |raw: u32, range: u8, mw: i64| assert_eq!(watts(raw, range), Power::from_mw(mw), "{raw} at {range}");
        check(12_345, 19, 123_450);
        check(12_345, 20, 246_900);
        check(12_345, 18, 61_725);
        // 12,345 * 10 mW / 2^13 = 15.07 mW, and 820 * 10 / 8192 = 1.001.
        check(12_345, 6, 15);
        check(820, 6, 1);
        // Half a milliwatt is rounded up and less is rounded down: 410 * 10 / 8192 = 0.5005, 409 * 10 / 8192 =
        // 0.4993.
        check(410, 6, 1);
        check(409, 6, 0);
        check(u32::MAX, 31, i64::from(u32::MAX) * 40_960);
        check(7, 0, 0);
    }

    #[test]
    fn intervals() {
        let check = |ms: u64, n: Option<u16>| assert_eq!(cycles(Duration::from_millis(ms)), n, "{ms} ms");
        check(1000, None);
        check(320, None);
        check(319, Some(3));
        check(160, Some(3));
        check(159, Some(2));
        check(80, Some(2));
        check(79, Some(1));
        check(20, Some(1));
        check(0, Some(1));
    }

    #[test]
    fn devices_and_channels() {
        let check = |chip: Chip, text: &str, expected: Option<(&str, Option<u8>)>| {
            let found = Wattmeter::parse(chip, text);
            assert_eq!(
                found.as_ref().map(|found| (found.path.to_str().expect("text"), found.channel)),
                expected,
                "{text}"
            );
            if let Some(found) = found {
                assert_eq!(found.to_string(), format!("{}:{text}", chip.scheme()));
            }
        };
        check(Chip::One, "/dev/ttyACM0", Some(("/dev/ttyACM0", None)));
        check(Chip::One, "/dev/ttyACM0/1", Some(("/dev/ttyACM0", Some(1))));
        check(Chip::One, "/dev/ttyACM0/2", None);
        check(Chip::Two, "/dev/ttyACM0/2", Some(("/dev/ttyACM0", Some(2))));
        check(Chip::Two, "/dev/ttyACM0/3", None);
        check(Chip::Two, "/dev/pts/7/1", Some(("/dev/pts/7", Some(1))));
        check(Chip::Two, "/dev/serial/by-id/usb-x", Some(("/dev/serial/by-id/usb-x", None)));
        check(Chip::Two, "ttyACM0", None);
        check(Chip::Two, "", None);
    }
}
