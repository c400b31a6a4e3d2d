//! Waiting for what becomes true by itself.

use std::thread;
use std::time::{Duration, Instant};

/// No condition of a test takes this long on a machine that works: the programs' own longest pause is 2 s.
pub const LIMIT: Duration = Duration::from_secs(60);

/// Between two looks; short beside what is waited for, long beside a look.
const PAUSE: Duration = Duration::from_millis(10);

/// Looks again and again until `look` finds something, and gives it back.
///
/// # Panics
/// Where that takes longer than [`LIMIT`].
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
