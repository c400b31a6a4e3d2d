//! Times and sizes as Slurm writes and reads them: minutes and megabytes, unless there is a unit.

use limo_model::{Memory, Span};

const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;

/// Longest time limit, a year of Slurm's.
const LONGEST: i64 = 365 * DAY;

/// Reads a time limit: `MIN`, `MIN:SEC`, `H:MIN:SEC`, `D-H`, `D-H:MIN` or `D-H:MIN:SEC`; rounded up to minutes. The inner
/// `None` is for no limit. `None` if it is not a time.
pub fn time_limit(text: &str) -> Option<Option<Span>> {
    if ["infinite", "unlimited", "-1", "0"].contains(&text.to_ascii_lowercase().as_str()) {
        return Some(None);
    }
    let (days, rest) = match text.split_once('-') {
        Some((days, rest)) => (Some(digits(days)?), rest),
        None => (None, text),
    };
    let parts = rest.split(':').map(digits).collect::<Option<Vec<i64>>>()?;
    let seconds = match (days, parts.as_slice()) {
        (None, [minutes]) => minutes.checked_mul(MINUTE)?,
        (None, [minutes, seconds]) => minutes.checked_mul(MINUTE)?.checked_add(*seconds)?,
        (None, [hours, minutes, seconds]) => clock(0, *hours, *minutes, *seconds)?,
        (Some(days), [hours]) => clock(days, *hours, 0, 0)?,
        (Some(days), [hours, minutes]) => clock(days, *hours, *minutes, 0)?,
        (Some(days), [hours, minutes, seconds]) => clock(days, *hours, *minutes, *seconds)?,
        _ => return None,
    };
    let minutes = seconds.checked_add(MINUTE - 1)? / MINUTE;
    (minutes * MINUTE <= LONGEST).then_some((minutes > 0).then_some(Span::from_secs(minutes * MINUTE)))
}

fn clock(days: i64, hours: i64, minutes: i64, seconds: i64) -> Option<i64> {
    let days = days.checked_mul(DAY)?.checked_add(hours.checked_mul(HOUR)?)?;
    days.checked_add(minutes.checked_mul(MINUTE)?)?.checked_add(seconds)
}

fn digits(text: &str) -> Option<i64> {
    let plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if plain { text.parse().ok() } else { None }
}

/// Formats a time as squeue does: `5:00`, `1:05:00`, `2-01:05:00`.
pub fn time_run(span: Span) -> String {
    let seconds = span.ms().max(0) / 1000;
    let (days, hours, minutes) = (seconds / DAY, seconds / HOUR % 24, seconds / MINUTE % 60);
    match (days, hours) {
        (0, 0) => format!("{minutes}:{:02}", seconds % 60),
        (0, _) => format!("{hours}:{minutes:02}:{:02}", seconds % 60),
        _ => format!("{days}-{hours:02}:{minutes:02}:{:02}", seconds % 60),
    }
}

/// Formats a time as sacct does: `00:05:00`, `2-01:05:00`.
pub fn time_whole(span: Span) -> String {
    let seconds = span.ms().max(0) / 1000;
    let clock = format!("{:02}:{:02}:{:02}", seconds / HOUR % 24, seconds / MINUTE % 60, seconds % 60);
    if seconds >= DAY { format!("{}-{clock}", seconds / DAY) } else { clock }
}

/// Formats CPU time as sacct does: `00:00.023`, `00:05:00` for whole seconds, `2-01:05:00`.
pub fn time_used(span: Span) -> String {
    let (seconds, ms) = (span.ms().max(0) / 1000, span.ms().max(0) % 1000);
    if seconds >= HOUR || ms == 0 {
        return time_whole(span);
    }
    format!("{:02}:{:02}.{ms:03}", seconds / MINUTE, seconds % MINUTE)
}

/// Reads a size: megabytes, or with a unit `K`, `M`, `G` or `T`, also `MB` and the like.
pub fn memory(text: &str) -> Option<Memory> {
    let text = text.strip_suffix(['b', 'B', 'c', 'n']).filter(|rest| !rest.is_empty()).unwrap_or(text);
    let (number, shift) = match text.chars().last()?.to_ascii_uppercase() {
        'K' => (&text[..text.len() - 1], 10),
        'M' => (&text[..text.len() - 1], 20),
        'G' => (&text[..text.len() - 1], 30),
        'T' => (&text[..text.len() - 1], 40),
        _ => (text, 20),
    };
    let number = u64::try_from(digits(number)?).ok()?;
    number.checked_mul(1 << shift).map(Memory::from_bytes)
}

/// Formats a size as squeue does: whole units where possible, else with two digits.
pub fn memory_shown(memory: Memory) -> String {
    let mut size = memory.bytes() as f64 / f64::from(1 << 20);
    let mut unit = 'M';
    for next in ['G', 'T'] {
        if size < 1024.0 {
            break;
        }
        (size, unit) = (size / 1024.0, next);
    }
    if size.fract() == 0.0 { format!("{size:.0}{unit}") } else { format!("{size:.2}{unit}") }
}

/// Formats a size as sacct does: in the largest unit in which it is a multiple of a half.
pub fn memory_exact(memory: Memory) -> String {
    let (mut halves, mut units) = (memory.bytes().saturating_mul(2), "KMGTP".chars());
    let mut unit = String::new();
    while halves >= 2048 && halves % 1024 == 0 {
        let Some(next) = units.next() else { break };
        (halves, unit) = (halves / 1024, next.to_string());
    }
    if halves % 2 == 0 { format!("{}{unit}", halves / 2) } else { format!("{}.50{unit}", halves / 2) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_limits_are_those_of_sbatch() {
        // The forms of sbatch(1), each with its minutes.
        let forms =
            [("5", 5), ("5:00", 5), ("5:01", 6), ("1:00:00", 60), ("2-3", 3060), ("2-3:04", 3064), ("0-0:0:1", 1)];
        for (text, minutes) in forms {
            assert_eq!(time_limit(text), Some(Some(Span::from_secs(minutes * 60))), "{text}");
        }
        for text in ["0", "-1", "UNLIMITED", "infinite", "0:00"] {
            assert_eq!(time_limit(text), Some(None), "{text}");
        }
        for text in ["", "x", "1:", "5min", "1-", "1:2:3:4", "-5", "99999999999999999999", "9223372036854775807"] {
            assert_eq!(time_limit(text), None, "{text}");
        }
    }

    #[test]
    fn sizes_are_megabytes_without_a_unit() {
        let forms = [("50", 50 << 20), ("287M", 287 << 20), ("204MB", 204 << 20), ("1g", 1 << 30), ("4K", 4 << 10)];
        for (text, bytes) in forms {
            assert_eq!(memory(text), Some(Memory::from_bytes(bytes)), "{text}");
        }
        for text in ["", "M", "B", "1.5G", "-1", "1P", "99999999999999999T"] {
            assert_eq!(memory(text), None, "{text}");
        }
    }

    #[test]
    fn times_and_sizes_are_shown_as_by_slurm() {
        for (seconds, run, whole) in [
            (0, "0:00", "00:00:00"),
            (301, "5:01", "00:05:01"),
            (3_900, "1:05:00", "01:05:00"),
            (176_700, "2-01:05:00", "2-01:05:00"),
        ] {
            let span = Span::from_secs(seconds);
            assert_eq!((time_run(span).as_str(), time_whole(span).as_str()), (run, whole));
        }
        for (ms, shown) in
            [(0, "00:00:00"), (23, "00:00.023"), (300_000, "00:05:00"), (301_500, "05:01.500"), (3_600_007, "01:00:00")]
        {
            assert_eq!(time_used(Span::from_ms(ms)), shown);
        }
        for (bytes, shown) in
            [(0, "0"), (5 << 10, "5K"), (1432 << 10, "1432K"), (3 << 29, "1.50G"), (1 << 30, "1G"), (7, "7")]
        {
            assert_eq!(memory_exact(Memory::from_bytes(bytes)), shown);
        }
        for (bytes, shown) in [(0, "0M"), (50 << 20, "50M"), (1 << 30, "1G"), (1536 << 20, "1.50G")] {
            assert_eq!(memory_shown(Memory::from_bytes(bytes)), shown);
        }
    }
}
