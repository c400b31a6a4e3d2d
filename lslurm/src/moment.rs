//! Moments as Slurm reads and writes them: `2026-11-22T18:24:14`, `now+1hour`, `noon`, `11/22/26-18:00`.

use limo_client::Clock;
use limo_model::{Span, Time};

/// Direction in which a time of day without a date lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Toward {
    Future,
    Past,
}

/// Formats a moment as Slurm does.
pub fn shown(time: Time, clock: &Clock) -> String {
    clock.show_full(time).replace(' ', "T")
}

/// Formats the present as date(1) does without a zone: `Sun Nov 22 18:24:14 2026`.
pub fn long_date(clock: &Clock) -> String {
    const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let shown = clock.show_full(clock.now());
    let parts: Vec<&str> = shown.split(['-', ' ']).collect();
    let [year, month, day, time] = parts.as_slice() else { return shown };
    // Midnight of that date in UTC gives the day of the week.
    let midnight = Clock::utc(clock.now()).parse_dated(&format!("{year}-{month}-{day} 00:00"));
    let days = midnight.map_or(0, |at| at.unix_ms().div_euclid(86_400_000).rem_euclid(7));
    let weekday = DAYS[usize::try_from(days).unwrap_or_default()];
    let month = month.parse::<usize>().ok().and_then(|month| MONTHS.get(month.checked_sub(1)?)).unwrap_or(month);
    format!("{weekday} {month} {day} {time} {year}")
}

/// Reads a moment; `None` if it is not one.
pub fn read(text: &str, toward: Toward, clock: &Clock) -> Option<Time> {
    let text = text.trim().to_ascii_lowercase();
    if let Some(rest) = text.strip_prefix("now") {
        return relative(rest, clock);
    }
    let today = clock.date(clock.now());
    let dated = |day: &str, time: &str| clock.parse_dated(&format!("{day} {time}")).ok();
    match text.as_str() {
        "midnight" => return of_day("00:00", toward, clock),
        "noon" => return of_day("12:00", toward, clock),
        "fika" => return of_day("15:00", toward, clock),
        "teatime" => return of_day("16:00", toward, clock),
        "elevenses" => return of_day("11:00", toward, clock),
        "today" => return dated(&today, "00:00"),
        "tomorrow" => return dated(&clock.date(clock.now() + Span::from_secs(86_400)), "00:00"),
        _ => {}
    }
    let (date, time) = match text.split_once('t') {
        Some((date, time)) => (date, Some(time)),
        // `MM/DD/YY-HH:MM`
        None if text.contains('/') => match text.split_once('-') {
            Some((date, time)) => (date, Some(time)),
            None => (text.as_str(), None),
        },
        None => (text.as_str(), None),
    };
    if time.is_none() && date.contains(':') {
        return of_day(date, toward, clock);
    }
    dated(&day(date, &today)?, &hour(time.unwrap_or("00:00"))?)
}

fn of_day(time: &str, toward: Toward, clock: &Clock) -> Option<Time> {
    let time = hour(time)?;
    match toward {
        Toward::Future => clock.parse(&time).ok(),
        Toward::Past => clock.parse_past(&time).ok(),
    }
}

/// Returns `HH:MM` or `HH:MM:SS` for one with fewer digits or with `am` and `pm`.
fn hour(text: &str) -> Option<String> {
    let (text, later) = match (text.strip_suffix("am"), text.strip_suffix("pm")) {
        (Some(rest), _) => (rest, Some(false)),
        (_, Some(rest)) => (rest, Some(true)),
        _ => (text, None),
    };
    let mut parts = text.split(':').map(|part| part.parse::<u32>().ok()).collect::<Option<Vec<u32>>>()?;
    let first = parts.first_mut()?;
    match later {
        Some(true) if *first < 12 => *first += 12,
        Some(false) if *first == 12 => *first = 0,
        _ => {}
    }
    let parts: Vec<String> = parts.iter().map(|part| format!("{part:02}")).collect();
    (2..=3).contains(&parts.len()).then(|| parts.join(":"))
}

/// Returns a date as `YYYY-MM-DD`.
fn day(text: &str, today: &str) -> Option<String> {
    let number = |text: &str| text.parse::<u32>().ok();
    let whole = |year: &str, month: &str, day: &str| {
        let year = if year.len() == 2 { 2000 + number(year)? } else { number(year)? };
        Some(format!("{year:04}-{:02}-{:02}", number(month)?, number(day)?))
    };
    let year = today.split('-').next().unwrap_or(today);
    let parts: Vec<&str> = text.split(['/', '.']).collect();
    match parts.as_slice() {
        [month, day, year] => whole(year, month, day),
        [month, day] => whole(year, month, day),
        _ => match text.split('-').collect::<Vec<_>>().as_slice() {
            [year, month, day] => whole(year, month, day),
            [month, day] => whole(year, month, day),
            // `MMDDYY`
            _ if text.len() == 6 && text.is_ascii() => whole(&text[4..], &text[..2], &text[2..4]),
            _ => None,
        },
    }
}

/// Reads what follows `now`: nothing, or a sign, a count and a unit, seconds by default.
fn relative(rest: &str, clock: &Clock) -> Option<Time> {
    let sign = match rest.chars().next() {
        None => return Some(clock.now()),
        Some('+') => 1,
        Some('-') => -1,
        Some(_) => return None,
    };
    let rest = &rest[1..];
    let unit = rest.trim_start_matches(|letter: char| letter.is_ascii_digit());
    let count = rest[..rest.len() - unit.len()].parse::<i64>().ok()?;
    let seconds = match unit {
        "" => 1,
        _ if "seconds".starts_with(unit) => 1,
        _ if "minutes".starts_with(unit) => 60,
        _ if "hours".starts_with(unit) => 3_600,
        _ if "days".starts_with(unit) => 86_400,
        _ if "weeks".starts_with(unit) => 7 * 86_400,
        _ => return None,
    };
    let seconds = count.checked_mul(seconds)?.checked_mul(sign).filter(|span| span.abs() < 1 << 40)?;
    Some(clock.now() + Span::from_secs(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_read_as_by_slurm() {
        // 2026-11-22 18:24:14 UTC.
        let clock = Clock::utc(Time::from_unix_ms(1_795_371_854_000));
        let check = |text: &str, toward, expected: &str| {
            let found = read(text, toward, &clock).map(|time| shown(time, &clock));
            assert_eq!(found.as_deref(), Some(expected), "{text}");
        };
        check("now", Toward::Past, "2026-11-22T18:24:14");
        check("now+1hour", Toward::Future, "2026-11-22T19:24:14");
        check("now+60", Toward::Future, "2026-11-22T18:25:14");
        check("now-1day", Toward::Past, "2026-11-21T18:24:14");
        check("2026-11-20T18:00", Toward::Past, "2026-11-20T18:00:00");
        check("2026-11-20", Toward::Past, "2026-11-20T00:00:00");
        check("112026", Toward::Past, "2026-11-20T00:00:00");
        check("11/20/26-18:00:05", Toward::Past, "2026-11-20T18:00:05");
        check("11/20", Toward::Past, "2026-11-20T00:00:00");
        check("20:00", Toward::Future, "2026-11-22T20:00:00");
        check("20:00", Toward::Past, "2026-11-21T20:00:00");
        check("6:30pm", Toward::Future, "2026-11-22T18:30:00");
        check("noon", Toward::Future, "2026-11-23T12:00:00");
        check("midnight", Toward::Past, "2026-11-22T00:00:00");
        check("today", Toward::Past, "2026-11-22T00:00:00");
        check("tomorrow", Toward::Future, "2026-11-23T00:00:00");
        // As date(1) shows 1795371854.
        assert_eq!(long_date(&clock), "Sun Nov 22 18:24:14 2026");
        for text in ["", "x", "now+", "now+1year", "now*2", "25:00", "2026-13-01", "18", "now+99999999999999999h"] {
            assert_eq!(read(text, Toward::Future, &clock), None, "{text}");
        }
    }
}
