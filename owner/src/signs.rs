//! Presence from signs of the owner: each one counts for a while.

use std::time::{Duration, Instant};

/// Signs of a source.
#[derive(Debug)]
pub struct Signs {
    last: Option<Instant>,
    away_after: Duration,
}

impl Signs {
    pub fn new(away_after: Duration) -> Self {
        Self { last: None, away_after }
    }

    /// Notes a sign at `at`.
    pub fn seen(&mut self, at: Instant) {
        self.last = self.last.max(Some(at));
    }

    /// Returns the time until the owner counts as away; `None` if that is so at `now`.
    pub fn left(&self, now: Instant) -> Option<Duration> {
        let left = self.away_after.checked_sub(now.saturating_duration_since(self.last?))?;
        Some(left).filter(|left| !left.is_zero())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sign_counts_for_its_time() {
        let second = Duration::from_secs(1);
        let start = Instant::now();
        let mut signs = Signs::new(60 * second);
        assert_eq!(signs.left(start), None);
        signs.seen(start + second);
        assert_eq!(signs.left(start + 2 * second), Some(59 * second));
        assert_eq!(signs.left(start + 61 * second), None, "exactly the time later");
        signs.seen(start);
        assert_eq!(signs.left(start + second), Some(60 * second), "an older sign changes nothing");
    }
}
