//! Pauses between failing attempts: they double up to a limit. Uses no clock and draws no random numbers.

use std::time::Duration;

/// Pauses after consecutive failures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    /// Pause after the first failure.
    pub first: Duration,
    /// Longest pause.
    pub longest: Duration,
}

impl Backoff {
    /// Returns the pause after this number of consecutive failures: `first` after one, doubled with each further one up
    /// to `longest`. Zero after none.
    pub fn pause(self, failures: u32) -> Duration {
        let Some(doublings) = failures.checked_sub(1) else { return Duration::ZERO };
        self.first.saturating_mul(1_u32.checked_shl(doublings).unwrap_or(u32::MAX)).min(self.longest)
    }

    /// Returns half of that pause plus a random part of the other half, in whole milliseconds. So peers that failed
    /// together do not return together.
    pub fn scattered(self, failures: u32, random: u64) -> Duration {
        let half = self.pause(failures) / 2;
        let ms = u64::try_from(half.as_millis()).unwrap_or(u64::MAX - 1);
        half + Duration::from_millis(random % (ms + 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BACKOFF: Backoff = Backoff { first: Duration::from_millis(50), longest: Duration::from_secs(2) };

    #[test]
    fn pauses_double_up_to_the_longest() {
        let pauses: Vec<u128> = (0..9).map(|failures| BACKOFF.pause(failures).as_millis()).collect();
        assert_eq!(pauses, [0, 50, 100, 200, 400, 800, 1_600, 2_000, 2_000]);
        assert_eq!(BACKOFF.pause(u32::MAX), BACKOFF.longest);
        let short = Backoff { first: Duration::from_secs(5), ..BACKOFF };
        assert_eq!(short.pause(1), BACKOFF.longest);
    }

    #[test]
    fn scattered_pauses_are_from_half_to_all() {
        let scattered: Vec<u128> = (0..102).map(|random| BACKOFF.scattered(3, random).as_millis()).collect();
        assert_eq!((scattered[0], scattered[100], scattered[101]), (100, 200, 100));
        assert!(BACKOFF.scattered(u32::MAX, u64::MAX) <= BACKOFF.longest);
        assert_eq!(BACKOFF.scattered(0, 7), Duration::ZERO);
    }
}
