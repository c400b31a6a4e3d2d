//! Time since the machine was started, including suspended time.

use std::time::Duration;

use nix::time::{ClockId, clock_gettime};

/// A point in time by `CLOCK_BOOTTIME`, in milliseconds. The clock cannot be set, and every process of the machine
/// reads the same value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct BootTime(pub u64);

impl BootTime {
    /// Returns the present time.
    pub fn now() -> Self {
        // Linux has had this clock since 2.6.39, so the call cannot fail.
        let now = clock_gettime(ClockId::CLOCK_BOOTTIME).unwrap_or(nix::sys::time::TimeSpec::new(0, 0));
        let (seconds, nanoseconds) = (now.tv_sec(), now.tv_nsec());
        Self(u64::try_from(seconds).unwrap_or(0) * 1000 + u64::try_from(nanoseconds).unwrap_or(0) / 1_000_000)
    }

    /// Returns this point plus `ms` milliseconds, or the last possible one.
    pub fn plus(self, ms: u64) -> Self {
        Self(self.0.saturating_add(ms))
    }

    /// Returns the time from `earlier` to this point; zero if `earlier` is later.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }
}
