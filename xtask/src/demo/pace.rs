//! Converts between wall time and the time of the replayed hour.

use limo_model::{Span, Time};

use super::workload;

/// Factor by which the demo is faster than the hour: an hour takes a minute.
pub const FACTOR: i64 = 60;

/// The beginning of the hour in wall time, and the factor by which the hour runs faster.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    pub begin: Time,
    /// Factor by which the hour runs faster; positive.
    pub factor: i64,
}

impl Pace {
    /// Converts wall time to time of the hour.
    pub fn of_hour(self, wall: Time) -> Time {
        workload::BEGIN + (wall - self.begin).scaled(self.factor, 1)
    }

    /// Converts time of the hour to wall time.
    pub fn on_wall(self, hour: Time) -> Time {
        self.begin + shortened(hour - workload::BEGIN, self.factor)
    }
}

/// Returns the duration of a span of the hour in the demo; at least a millisecond for a positive one.
pub fn shortened(span: Span, factor: i64) -> Span {
    let short = span.scaled(1, factor);
    if span > Span::ZERO { short.max(Span::from_ms(1)) } else { short }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_minute_on_the_wall_is_an_hour() {
        let pace = Pace { begin: Time::from_unix_ms(1_000_000), factor: FACTOR };
        assert_eq!(pace.of_hour(Time::from_unix_ms(1_060_000)), workload::END);
        assert_eq!(pace.on_wall(workload::END), Time::from_unix_ms(1_060_000));
        assert_eq!(pace.of_hour(Time::from_unix_ms(999_999)), Time::from_unix_ms(-60));
        assert_eq!(shortened(Span::from_secs(44), FACTOR), Span::from_ms(733));
        assert_eq!(shortened(Span::from_ms(7), FACTOR), Span::from_ms(1));
    }

    #[test]
    fn at_a_tenth_of_real_time_six_minutes_on_the_wall_are_an_hour() {
        let pace = Pace { begin: Time::from_unix_ms(1_000_000), factor: 10 };
        assert_eq!(pace.on_wall(workload::END), Time::from_unix_ms(1_360_000));
        assert_eq!(pace.of_hour(Time::from_unix_ms(1_036_000)), Time::from_unix_ms(360_000));
        assert_eq!(shortened(Span::from_secs(44), 10), Span::from_ms(4_400));
    }
}
