//! Limits on log lines that a user can cause: a number of lines of each kind per minute, then a count of the omitted
//! ones. Otherwise one user could fill the disk of the log, or hide important lines.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Window in which lines are counted.
const WINDOW: Duration = Duration::from_secs(60);

/// Lines of one kind that are logged in a window, for each user.
static LINES: AtomicU32 = AtomicU32::new(10);

static COUNTS: Mutex<Counts> = Mutex::new(Counts(BTreeMap::new()));

/// Most users with their own counts. All others share one count, so the table stays small.
const USERS: usize = 10_000;

/// Lines in the open window by user (`None` if unknown) and kind.
struct Counts(BTreeMap<(Option<u32>, &'static str), u32>);

/// Sets the most lines of one kind that are logged per minute for each user.
pub fn configure(lines: u32) {
    LINES.store(lines, Ordering::Relaxed);
}

/// Returns true if one more line of this kind about a user may be logged. The first line opens a window; when the
/// window ends, the number of omitted lines is logged.
pub fn may_log(user: Option<u32>, kind: &'static str) -> bool {
    let (may, is_first) = lock().count((user, kind), LINES.load(Ordering::Relaxed));
    if is_first && let Ok(runtime) = tokio::runtime::Handle::try_current() {
        runtime.spawn(async move {
            tokio::time::sleep(WINDOW).await;
            let hidden = lock().end((user, kind), LINES.load(Ordering::Relaxed));
            if hidden > 0 {
                tracing::warn!(user, kind, hidden, "omitted lines about one user: too many in a minute");
            }
        });
    }
    may
}

fn lock() -> MutexGuard<'static, Counts> {
    // Every change leaves the map consistent.
    COUNTS.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Counts {
    /// Returns true if the line may be logged, and true if it is the first of a window.
    fn count(&mut self, mut key: (Option<u32>, &'static str), lines: u32) -> (bool, bool) {
        if self.0.len() >= USERS && !self.0.contains_key(&key) {
            key.0 = None;
        }
        let count = self.0.entry(key).or_default();
        *count = count.saturating_add(1);
        (*count <= lines, *count == 1)
    }

    /// Closes the window. Returns the number of omitted lines.
    fn end(&mut self, key: (Option<u32>, &'static str), lines: u32) -> u32 {
        self.0.remove(&key).unwrap_or_default().saturating_sub(lines)
    }
}

/// Logs a line about a user at a level, within the limit of its kind.
macro_rules! log_of {
    ($level:ident, $user:expr, $kind:literal, $($line:tt)*) => {
        if $crate::log_limits::may_log($user, $kind) {
            tracing::$level!($($line)*);
        }
    };
}
pub(crate) use log_of;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_each_kind_and_user_are_counted_apart() {
        let mut counts = Counts(BTreeMap::new());
        let key = (Some(7), "hung up");
        let said = (0..1_000).filter(|_| counts.count(key, 10).0).count();
        assert_eq!(said, 10);
        assert_eq!(counts.count((Some(8), "hung up"), 10), (true, true));
        assert_eq!(counts.count((Some(7), "refused"), 10), (true, true));
        assert_eq!(counts.end(key, 10), 990);
        assert_eq!(counts.count(key, 10), (true, true), "another minute");
        assert_eq!(counts.end(key, 10), 0);
    }
}
