//! The three clocks of a daemon. Each has its own type, so that their values cannot be confused: every conversion
//! needs an offset.

use serde::{Deserialize, Serialize};

use crate::time::{Span, Time};

/// Milliseconds on a clock that only goes forward: since the boot of the machine, including time spent suspended. For timers
/// that are never recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Mono(i64);

/// Time on the wall clock: milliseconds since the Unix epoch. It may jump, in either direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Wall(i64);

/// One moment on all three clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Now {
    /// Time for timeouts and leases.
    pub mono: Mono,
    /// Cluster time: never goes back, and passes as fast as `mono`.
    pub at: Time,
    /// Time for people and other machines.
    pub wall: Wall,
}

impl Mono {
    /// Converts milliseconds since the boot of the machine.
    pub const fn from_ms(ms: i64) -> Self {
        Self(ms)
    }

    /// Returns the milliseconds since the boot of the machine.
    pub const fn ms(self) -> i64 {
        self.0
    }
}

impl std::ops::Add<Span> for Mono {
    type Output = Self;
    fn add(self, span: Span) -> Self {
        Self(self.0.saturating_add(span.ms()))
    }
}

impl std::ops::Sub for Mono {
    type Output = Span;
    fn sub(self, other: Self) -> Span {
        Span::from_ms(self.0.saturating_sub(other.0))
    }
}

impl Wall {
    /// Converts milliseconds since the Unix epoch.
    pub const fn from_unix_ms(ms: i64) -> Self {
        Self(ms)
    }

    /// Returns the milliseconds since the Unix epoch.
    pub const fn unix_ms(self) -> i64 {
        self.0
    }

    /// Returns wall time minus cluster time, for a cluster time of `at`.
    pub fn ahead_of(self, at: Time) -> Span {
        Span::from_ms(self.0.saturating_sub(at.unix_ms()))
    }
}

impl Now {
    /// Returns a moment of a simulated cluster, whose clocks all agree.
    pub const fn simulated(at: Time) -> Self {
        Self { mono: Mono::from_ms(at.unix_ms()), at, wall: Wall::from_unix_ms(at.unix_ms()) }
    }
}
