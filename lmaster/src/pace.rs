//! How often queries are served: a slice that took long is followed by a pause, so that they never have more than a part of the
//! master's time, and no other request waits for more than one of them. Some cannot be cut, such as trying out a job
//! beside a long queue.

use std::time::Duration;

use tokio::time::Instant;

/// A slice of up to this time is followed by the next at once.
const SLICE: Duration = Duration::from_millis(5);

/// How many times as long as a slice the pause after it is.
const PAUSE: u32 = 3;

/// Longest pause.
const LONGEST: Duration = Duration::from_secs(3);

#[derive(Debug)]
pub struct Pace(Instant);

impl Pace {
    pub fn new(now: Instant) -> Self {
        Self(now)
    }

    /// When the next slice may be served.
    pub fn due(&self) -> Instant {
        self.0
    }

    /// A slice ended now, after so long.
    pub fn served(&mut self, now: Instant, took: Duration) {
        self.0 = if took > SLICE { now + (took * PAUSE).min(LONGEST) } else { now };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_queries_have_a_quarter_of_the_time() {
        let mut now = Instant::now();
        let (begin, mut busy) = (now, Duration::ZERO);
        let mut pace = Pace::new(now);
        for took in [300, 6, 40, 1, 3, 900].map(Duration::from_millis).into_iter().cycle().take(600) {
            assert!(pace.due() >= now);
            now = pace.due() + took;
            busy += took;
            pace.served(now, took);
        }
        assert!(busy * 100 < (pace.due() - begin) * 26, "{busy:?} of {:?}", pace.due() - begin);
        pace.served(now, Duration::from_millis(5));
        assert_eq!(pace.due(), now, "a short slice is followed by the next at once");
        pace.served(now, Duration::from_secs(60));
        assert_eq!(pace.due(), now + LONGEST);
    }
}
