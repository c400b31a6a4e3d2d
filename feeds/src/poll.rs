//! Plans the next request to a source. Pure: times and seeds are passed in.
//!
//! Day-ahead prices appear about 13:00 Central European time. From then until tomorrow's prices arrive, a source is
//! polled every few minutes; otherwise at the configured interval. The pause after failures doubles each time, and is
//! at least as long as the server requests.

use std::time::Duration;

use jiff::ToSpan;
use jiff::tz::TimeZone;
use limo_model::{Backoff, Span, Time};

use crate::fetch::pause_after;
use crate::moment::{date_of, hour_of, start_of};

/// Publication of Europe's coupled auction, local time of [`AUCTION_ZONE`]; usually some minutes earlier.
const PUBLICATION_HOUR: i8 = 13;

const AUCTION_ZONE: &str = "Europe/Brussels";

/// Interval between requests for late prices.
const LATE: Span = Span::from_secs(300);

/// Time after the hour over which first requests are spread, because many clients poll then.
const SPREAD_MS: u64 = 120_000;

/// Pause after the first failure, if the configured interval is not shorter.
const FIRST_PAUSE: Span = Span::from_secs(30);

/// Longest pause after failures.
const LONGEST_PAUSE: Span = Span::from_secs(3600);

/// State for the plan of the next request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Polled {
    /// The time of the cluster.
    pub now: Time,
    /// Configured interval.
    pub every: Span,
    /// End of the known values; `None` without any.
    pub known_until: Option<Time>,
    /// Failures in a row; 0 after a success.
    pub failures: u32,
    /// Pause that the server requested.
    pub retry_after: Option<Duration>,
    /// True for a source of day-ahead prices.
    pub day_ahead: bool,
}

/// Returns the time of the next request, after `now`.
pub fn next_look(polled: &Polled, seed: u64) -> Time {
    let Polled { now, every, failures, .. } = *polled;
    if failures > 0 {
        let backoff = Backoff { first: duration(FIRST_PAUSE.min(every)), longest: duration(LONGEST_PAUSE.min(every)) };
        let pause = pause_after(failures, backoff, seed);
        let pause = pause.max(polled.retry_after.unwrap_or_default());
        return now + span(pause).max(Span::from_ms(100));
    }
    let due = now + every;
    let Some(zone) = TimeZone::get(AUCTION_ZONE).ok().filter(|_| polled.day_ahead) else { return due };
    let today = date_of(now, &zone);
    let publication = hour_of(today, PUBLICATION_HOUR, &zone);
    let end_of_today = start_of(today.saturating_add(1.day()), &zone);
    let tomorrow_known = polled.known_until.is_some_and(|until| until > end_of_today);
    if tomorrow_known {
        return due;
    }
    if now < publication {
        let scatter = i64::try_from(seed % SPREAD_MS).unwrap_or(0);
        return due.min(publication + Span::from_ms(scatter));
    }
    due.min(now + LATE)
}

fn duration(span: Span) -> Duration {
    Duration::from_millis(u64::try_from(span.ms()).unwrap_or(0))
}

fn span(duration: Duration) -> Span {
    Span::from_ms(i64::try_from(duration.as_millis()).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Span = Span::from_secs(3600);

    fn utc(text: &str) -> Time {
        Time::from_unix_ms(text.parse::<jiff::Timestamp>().expect("a time").as_millisecond())
    }

    fn polled(now: &str, known_until: Option<&str>) -> Polled {
        let known_until = known_until.map(utc);
        Polled { now: utc(now), every: HOUR, known_until, failures: 0, retry_after: None, day_ahead: true }
    }

    #[test]
    fn tomorrow_is_looked_for_from_13_o_clock_on() {
        let check = |now, known, expected: &str| assert_eq!(next_look(&polled(now, known), 0), utc(expected), "{now}");
        let (today, tomorrow) = (Some("2026-07-01T22:00:00Z"), Some("2026-07-02T22:00:00Z"));
        // 13:00 in summer is 11:00 UTC.
        check("2026-07-01T08:00:00Z", today, "2026-07-01T09:00:00Z");
        check("2026-07-01T10:30:00Z", today, "2026-07-01T11:00:00Z");
        check("2026-07-01T11:00:00Z", today, "2026-07-01T11:05:00Z");
        check("2026-07-01T21:58:00Z", today, "2026-07-01T22:03:00Z");
        check("2026-07-01T11:05:00Z", tomorrow, "2026-07-01T12:05:00Z");
        check("2026-07-01T11:05:00Z", None, "2026-07-01T11:10:00Z");
        // In winter it is 12:00 UTC.
        check("2026-01-01T11:30:00Z", Some("2026-01-01T23:00:00Z"), "2026-01-01T12:00:00Z");
        let other = Polled { day_ahead: false, ..polled("2026-07-01T11:00:00Z", None) };
        assert_eq!(next_look(&other, 0), utc("2026-07-01T12:00:00Z"));
    }

    #[test]
    fn requests_at_13_o_clock_are_spread() {
        let look = |seed| next_look(&polled("2026-07-01T10:30:00Z", None), seed);
        assert_eq!(look(61_000), utc("2026-07-01T11:01:01Z"));
        assert_eq!(look(120_000), utc("2026-07-01T11:00:00Z"));
    }

    #[test]
    fn failures_and_what_servers_ask_for() {
        let failed = |failures, retry_after: Option<u64>| {
            let retry_after = retry_after.map(Duration::from_secs);
            let polled = Polled { failures, retry_after, ..polled("2026-07-01T08:00:00Z", None) };
            (next_look(&polled, 7) - polled.now).ms()
        };
        assert!((15_000..=30_000).contains(&failed(1, None)));
        assert!((30_000..=60_000).contains(&failed(2, None)));
        assert!((1_800_000..=3_600_000).contains(&failed(30, None)));
        assert_eq!(failed(1, Some(7200)), 7_200_000);
        let eager = Polled { every: Span::from_secs(1), failures: 9, ..polled("2026-07-01T08:00:00Z", None) };
        assert!((500..=1000).contains(&(next_look(&eager, 7) - eager.now).ms()));
    }
}
