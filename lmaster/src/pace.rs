//! The pace of queries: a pause follows each long slice. So queries get only a part of the master's time, and another
//! request waits for one slice at most. Some queries cannot be cut, such as a dry run beside a long queue.

use std::time::Duration;

use tokio::time::Instant;

/// Longest slice after which the next one follows at once.
const SLICE: Duration = Duration::from_millis(5);

/// Ratio of the pause to the slice before it.
const PAUSE: u32 = 3;

/// Longest pause.
const LONGEST: Duration = Duration::from_secs(3);

#[derive(Debug)]
pub struct Pace(Instant);

impl Pace {
    pub fn new(now: Instant) -> Self {
        Self(now)
    }

    /// Returns the time at which the next slice may run.
    pub fn due(&self) -> Instant {
        self.0
    }

    /// Records a slice that ended now and took `took`.
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
