//! Between the clock on the wall and the clock of the hour that is replayed.

use limo_model::{Span, Time};

use super::workload;

/// So much faster than the hour the demo runs: an hour in a minute.
pub const FACTOR: i64 = 60;

/// When the hour begins on the clock on the wall.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    pub begin: Time,
}

impl Pace {
    /// The time of the hour at a time on the wall.
    pub fn of_hour(self, wall: Time) -> Time {
        workload::BEGIN + (wall - self.begin).scaled(FACTOR, 1)
    }

    /// The time on the wall at a time of the hour.
    pub fn on_wall(self, hour: Time) -> Time {
        self.begin + shortened(hour - workload::BEGIN)
    }
}

/// How long a span of the hour lasts in the demo; at least a millisecond for a positive one.
pub fn shortened(span: Span) -> Span {
    let short = span.scaled(1, FACTOR);
    if span > Span::ZERO { short.max(Span::from_ms(1)) } else { short }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_minute_on_the_wall_is_an_hour() {
        let pace = Pace { begin: Time::from_unix_ms(1_000_000) };
        assert_eq!(pace.of_hour(Time::from_unix_ms(1_060_000)), workload::END);
        assert_eq!(pace.on_wall(workload::END), Time::from_unix_ms(1_060_000));
        assert_eq!(pace.of_hour(Time::from_unix_ms(999_999)), Time::from_unix_ms(-60));
        assert_eq!(shortened(Span::from_secs(44)), Span::from_ms(733));
        assert_eq!(shortened(Span::from_ms(7)), Span::from_ms(1));
    }
}
