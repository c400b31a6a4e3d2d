//! Signs of life on a connection. Pure: gets the time as input and returns the next action.
//!
//! Any frame is a sign of life. The caller of a connection sends a ping one heartbeat after the last answer; the
//! listener sends one after a longer silence. After three heartbeats of silence an end closes the connection. A stopped
//! process, a stuck main loop and a half-open connection look alike: none of them answers.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

/// Default time from an answer to the caller's next ping.
pub const HEARTBEAT: Duration = Duration::from_secs(5);

/// Number of silent heartbeats after which a connection is dead.
pub const MISSED_BEATS: u32 = 3;

/// Time without a step after which the loop counts as stuck.
const STUCK_AFTER: Duration = Duration::from_secs(5);

/// Longest time between two steps of an idle loop.
pub const PULSE_EVERY: Duration = Duration::from_secs(2);

/// Action that is due at [`Heartbeat::due`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Beat {
    /// Send a ping with this number.
    Ping(u64),
    /// Wait until [`Heartbeat::due`] again.
    Nothing,
    /// Close the connection.
    Dead,
}

/// The signs of life of one connection.
#[derive(Debug)]
pub struct Heartbeat {
    begin: Instant,
    heard: Instant,
    /// Time at which the last ping was sent or answered.
    pinged: Instant,
    every: Duration,
    is_caller: bool,
}

impl Heartbeat {
    /// Records a received frame.
    pub fn heard(&mut self, now: Instant) {
        self.heard = now;
    }

    /// Records an answer. Returns the time at which its ping was sent, at most now for any number.
    pub fn answered(&mut self, number: u64, now: Instant) -> Instant {
        self.pinged = now;
        self.begin.checked_add(Duration::from_millis(number)).map_or(now, |sent| sent.min(now))
    }

    /// Returns the time for [`Heartbeat::beat`].
    pub fn due(&self) -> Instant {
        self.next_ping().min(self.dead_at())
    }

    fn dead_at(&self) -> Instant {
        self.heard + self.every * MISSED_BEATS
    }

    fn next_ping(&self) -> Instant {
        let own = self.pinged + self.every;
        // Each ping of the caller comes somewhat late. This margin keeps the listener from sending its own.
        if self.is_caller { own } else { own.max(self.heard + self.every * 3 / 2) }
    }

    /// Returns the action for now. A ping counts as sent.
    pub fn beat(&mut self, now: Instant) -> Beat {
        if now >= self.dead_at() {
            return Beat::Dead;
        }
        if now < self.next_ping() {
            return Beat::Nothing;
        }
        self.pinged = now;
        // Milliseconds since the beginning serve as the number, so that the answer contains the time of the ping.
        Beat::Ping(u64::try_from((now - self.begin).as_millis()).unwrap_or(u64::MAX))
    }
}

/// The shared state of the signs of life of all connections of a process.
#[derive(Debug, Clone)]
pub struct Alive {
    /// The pulse of the main loop.
    pub pulse: Pulse,
    /// Time between two heartbeats.
    pub every: Duration,
}

impl Alive {
    /// Makes the state. `every` is the time between two heartbeats; a connection without a sign of life for
    /// [`MISSED_BEATS`] heartbeats is dead.
    pub fn new(every: Duration) -> Self {
        Self { pulse: Pulse::default(), every }
    }

    /// Returns the heartbeat of an outgoing connection.
    pub fn caller(&self, now: Instant) -> Heartbeat {
        let (begin, every) = (self.pulse.begin, self.every);
        Heartbeat { begin, heard: now, pinged: now, every, is_caller: true }
    }

    /// Returns the heartbeat of an incoming connection.
    pub fn listener(&self, now: Instant) -> Heartbeat {
        Heartbeat { is_caller: false, ..self.caller(now) }
    }
}

/// The pulse of a process's main loop. The tasks of connections answer pings only while the loop runs.
#[derive(Debug, Clone)]
pub struct Pulse {
    begin: Instant,
    /// Start of the last step, in milliseconds since `begin`.
    last: Arc<AtomicU64>,
}

impl Default for Pulse {
    fn default() -> Self {
        Self { begin: Instant::now(), last: Arc::default() }
    }
}

impl Pulse {
    /// Records the start of a step of the loop. Must be called at least every [`PULSE_EVERY`].
    pub fn step(&self, now: Instant) {
        let passed = u64::try_from((now - self.begin).as_millis()).unwrap_or(u64::MAX);
        self.last.store(passed, Ordering::Relaxed);
    }

    /// Returns true if the last step began more than 5 s ago.
    pub fn is_stuck(&self, now: Instant) -> bool {
        let last = Duration::from_millis(self.last.load(Ordering::Relaxed));
        (now - self.begin).saturating_sub(last) > STUCK_AFTER
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secs(secs: u64) -> Duration {
        Duration::from_secs(secs)
    }

    fn alive() -> Alive {
        Alive::new(HEARTBEAT)
    }

    #[test]
    fn a_caller_pings_after_each_answer_and_gives_up_a_silent_listener() {
        let alive = alive();
        let begin = alive.pulse.begin;
        let mut beats = alive.caller(begin);
        assert_eq!(beats.due(), begin + secs(5));
        assert_eq!(beats.beat(begin + secs(5)), Beat::Ping(5_000));
        // Only answers postpone a ping, because answers renew leases.
        beats.heard(begin + secs(6));
        assert_eq!((beats.due(), beats.beat(begin + secs(9))), (begin + secs(10), Beat::Nothing));
        assert_eq!(beats.beat(begin + secs(10)), Beat::Ping(10_000));
        beats.heard(begin + secs(11));
        assert_eq!(beats.answered(10_000, begin + secs(11)), begin + secs(10));
        assert_eq!((beats.due(), beats.beat(begin + secs(16))), (begin + secs(16), Beat::Ping(16_000)));
        assert_eq!(beats.beat(begin + secs(25)), Beat::Ping(25_000));
        assert_eq!((beats.due(), beats.beat(begin + secs(26))), (begin + secs(26), Beat::Dead));
    }

    #[test]
    fn a_listener_asks_only_a_silent_caller() {
        let alive = alive();
        let begin = alive.pulse.begin;
        let mut beats = alive.listener(begin);
        for second in [5, 10, 15] {
            assert_eq!(beats.beat(begin + secs(second)), Beat::Nothing);
            beats.heard(begin + secs(second));
        }
        assert_eq!(beats.due(), begin + Duration::from_millis(22_500));
        assert!(matches!(beats.beat(beats.due()), Beat::Ping(_)));
        assert_eq!(beats.beat(begin + secs(29)), Beat::Ping(29_000));
        assert_eq!(beats.beat(begin + secs(30)), Beat::Dead);
    }

    #[test]
    fn no_answer_is_from_the_future() {
        let alive = alive();
        let begin = alive.pulse.begin;
        assert_eq!(alive.caller(begin).answered(u64::MAX, begin + secs(7)), begin + secs(7));
        assert_eq!(alive.caller(begin).answered(9_000, begin + secs(7)), begin + secs(7));
    }

    #[test]
    fn a_loop_that_takes_no_step_is_stuck() {
        let pulse = Pulse::default();
        let begin = pulse.begin;
        assert!(!pulse.is_stuck(begin + secs(5)));
        pulse.step(begin + secs(5));
        assert!(!pulse.is_stuck(begin + secs(10)));
        assert!(pulse.is_stuck(begin + secs(11)));
        pulse.step(begin + secs(11));
        assert!(!pulse.is_stuck(begin + secs(11)));
    }
}
