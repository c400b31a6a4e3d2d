//! Waits for conditions.

use std::thread;
use std::time::{Duration, Instant};

/// Limit for every condition of a test on a working machine. The longest pause of the programs is 2 s.
pub const LIMIT: Duration = Duration::from_secs(60);

/// Interval between checks: short for a test, but long for a check.
const PAUSE: Duration = Duration::from_millis(10);

/// Repeats `look` until it returns a value.
///
/// # Panics
/// If that takes longer than [`LIMIT`].
pub fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + LIMIT;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < end, "waited {} s in vain: {what}", LIMIT.as_secs());
        thread::sleep(PAUSE);
    }
}
