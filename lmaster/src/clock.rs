//! The clocks of the process: cluster time from the kernel's boot-time clock, which cannot be set, and the wall clock.

use std::time::{SystemTime, UNIX_EPOCH};

use limo_model::{Mono, Now, Span, Time, Wall};
use limo_sched::Clock;
use nix::time::{ClockId, clock_gettime};

/// Reads both clocks.
#[derive(Debug, Clone, Copy)]
pub struct Clocks {
    /// Cluster time at the boot of the kernel.
    since: Time,
}

impl Clocks {
    /// Continues from a journal whose last entry is at `last` and whose clock was `recorded`. Under the same kernel the
    /// elapsed time is known exactly. Under another kernel the wall clocks are compared, and time never goes back. Also
    /// returns the clock of this process.
    pub fn resume(recorded: &Clock, last: Time) -> (Self, Clock) {
        Self::resume_at(recorded, last, (mono(), wall()), boot_id())
    }

    fn resume_at(recorded: &Clock, last: Time, (mono, wall): (Mono, Wall), boot: String) -> (Self, Clock) {
        let booted = Span::from_ms(mono.ms());
        let same_kernel = !boot.is_empty() && boot == recorded.boot && recorded.since + booted >= last;
        let since = if same_kernel {
            recorded.since
        } else {
            let passed = wall.ahead_of(recorded.shown(last)).max(Span::ZERO);
            last + passed - booted
        };
        let offset = wall.ahead_of(since + booted);
        (Self { since }, Clock { offset, boot, since })
    }

    pub fn now(&self) -> Now {
        let mono = mono();
        Now { mono, at: self.since + Span::from_ms(mono.ms()), wall: wall() }
    }
}

fn mono() -> Mono {
    // Linux has had this clock since 2.6.39; the call fails only for a clock that does not exist.
    let time = clock_gettime(ClockId::CLOCK_BOOTTIME).unwrap_or_else(|_| nix::sys::time::TimeSpec::new(0, 0));
    Mono::from_ms(time.tv_sec() * 1_000 + time.tv_nsec() / 1_000_000)
}

/// Returns the time of the wall clock.
pub fn wall() -> Wall {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Wall::from_unix_ms(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

/// Returns the kernel's boot id; empty if it is unavailable.
fn boot_id() -> String {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id");
    text.map(|text| text.trim().to_owned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAST: i64 = 1_000_000;

    /// Checks the cluster's time and offset after a start, `mono` ms after the boot of `boot`.
    fn check(recorded: &Clock, mono: i64, wall: i64, boot: &str, expected: (i64, i64)) {
        let times = (Mono::from_ms(mono), Wall::from_unix_ms(wall));
        let (clocks, clock) = Clocks::resume_at(recorded, Time::from_unix_ms(LAST), times, boot.to_owned());
        let at = clocks.since + Span::from_ms(mono);
        assert_eq!((at.unix_ms(), clock.offset.ms()), expected, "{mono} {wall} {boot}");
        assert_eq!((clock.since, clock.boot.as_str()), (clocks.since, boot));
    }

    #[test]
    fn time_continues_from_the_journal() {
        let since = Time::from_unix_ms(LAST - 5_000);
        let recorded = Clock { offset: Span::from_ms(70), boot: "one".into(), since };
        // The kernel is the same, 3 s later, so the wall clock does not matter.
        for wall in [LAST + 3_070, LAST + 3_600_000, LAST - 3_600_000] {
            check(&recorded, 8_000, wall, "one", (LAST + 3_000, wall - LAST - 3_000));
        }
        // The kernel is another one, so the wall clock counts if it has not gone back.
        check(&recorded, 200, LAST + 9_070, "two", (LAST + 9_000, 70));
        check(&recorded, 200, LAST - 9_000, "two", (LAST, -9_000));
        // A kernel with the same boot id whose clock is behind means a machine that was restored to an earlier state.
        check(&recorded, 1_000, LAST + 9_070, "one", (LAST + 9_000, 70));
        // A journal of an earlier version records no clocks.
        check(&Clock::default(), 200, LAST + 9_000, "one", (LAST + 9_000, 0));
        check(&Clock::default(), 200, LAST + 9_000, "", (LAST + 9_000, 0));
    }
}
