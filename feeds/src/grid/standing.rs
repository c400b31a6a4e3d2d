//! State of one source: its last limits, and its connection. The rules are those of EEBUS LPC: without a heartbeat
//! the failsafe limit holds. Failsafe ends with a new limit, or 120 s after the heartbeat is back. Without any
//! message it ends after its duration. Times are passed in.

use limo_model::{Power, Span, Time};

use super::limit::{Limit, Source, Word};

/// Time from the return of the heartbeat to the end of failsafe without a new limit (EEBUS LPC).
const RETURN: Span = Span::from_secs(120);

/// State of the connection to a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the variants say what their fields are")]
pub enum Mode {
    /// Messages arrive in time.
    Ok,
    /// Lost without a replacement: no failsafe limit is configured, or its time is over.
    Stale,
    /// Lost; the failsafe limit has held since `since`. `back` is the time at which the heartbeat returned.
    Failsafe { since: Time, back: Option<Time> },
}

/// State of one source.
#[derive(Debug, Clone)]
pub(super) struct Standing {
    pub(super) limits: Vec<Limit>,
    pub(super) mode: Mode,
    /// Time of the last message, in this process.
    pub(super) heard: Option<Time>,
    /// Begin of the wait for the first message.
    began: Time,
    pub(super) fault: Option<String>,
}

/// Event without a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Turn {
    /// The heartbeat is lost. Ordered first, so that the safe one of two events at one instant counts.
    Lost,
    Returned,
    HeldLongEnough,
    Forgotten,
}

impl Standing {
    /// Makes the initial state. No message has arrived yet, so an obligatory source begins in failsafe.
    pub(super) fn new(source: &Source, now: Time) -> Self {
        let mode = match source.failsafe {
            Some(_) if source.obligatory => Mode::Failsafe { since: now, back: None },
            _ => Mode::Ok,
        };
        Self { limits: Vec::new(), mode, heard: None, began: now, fault: None }
    }

    /// Makes the initial state from that of an earlier process. The heartbeat counts from now. Failsafe continues; an
    /// obligatory source whose failsafe is over begins it again.
    pub(super) fn kept(source: &Source, limits: Vec<Limit>, failsafe_since: Option<Time>, now: Time) -> Self {
        let new = Self::new(source, now);
        let mode = match (source.failsafe, failsafe_since) {
            (Some(_), None) => Mode::Ok,
            (Some(failsafe), Some(since)) if failsafe.hold == Span::ZERO || now < since + failsafe.hold => {
                Mode::Failsafe { since: since.min(now), back: None }
            }
            _ => new.mode,
        };
        Self { limits, mode, ..new }
    }

    /// Shifts times from the clock, but not those from the source.
    pub(super) fn clock_jumped(&mut self, by: Span) {
        self.began = self.began + by;
        self.heard = self.heard.map(|heard| heard + by);
        if let Mode::Failsafe { since, back } = &mut self.mode {
            *since = *since + by;
            *back = back.map(|back| back + by);
        }
    }

    fn last(&self) -> Time {
        self.heard.unwrap_or(self.began)
    }

    fn turn(&self, source: &Source) -> Option<(Time, Turn)> {
        let lost = source.heartbeat.map(|heartbeat| (self.last() + heartbeat, Turn::Lost));
        let turn = match self.mode {
            Mode::Ok => lost,
            Mode::Stale => None,
            Mode::Failsafe { back: Some(back), .. } => {
                let returned = Some((back + RETURN, Turn::Returned));
                [lost, returned].into_iter().flatten().min()
            }
            Mode::Failsafe { .. } => self.failsafe_end(source).map(|at| (at, Turn::HeldLongEnough)),
        };
        let ttl = source.ttl.filter(|_| !self.limits.is_empty());
        let forgotten = ttl.map(|ttl| (self.last() + ttl, Turn::Forgotten));
        [turn, forgotten].into_iter().flatten().min()
    }

    /// Returns the time of the next event without a message.
    pub(super) fn deadline(&self, source: &Source) -> Option<Time> {
        self.turn(source).map(|(at, _)| at)
    }

    /// Handles all events that are due.
    pub(super) fn advance(&mut self, source: &Source, now: Time) {
        while let Some((at, turn)) = self.turn(source).filter(|(at, _)| *at <= now) {
            match (turn, self.mode) {
                (Turn::Forgotten, _) => self.limits.clear(),
                // The source was lost again while it was returning, so the time of failsafe begins anew.
                (Turn::Lost, _) if source.failsafe.is_some() => {
                    self.mode = Mode::Failsafe { since: at, back: None };
                }
                (Turn::Lost | Turn::HeldLongEnough, _) => self.mode = Mode::Stale,
                (Turn::Returned, _) => self.mode = Mode::Ok,
            }
        }
    }

    /// Takes a message at `now`.
    pub(super) fn hear(&mut self, source: &Source, now: Time, word: Word) {
        self.advance(source, now);
        match word {
            Word::Fault(fault) => {
                self.fault = Some(fault);
                return;
            }
            Word::Heartbeat => {
                self.mode = match self.mode {
                    Mode::Failsafe { since, back } => Mode::Failsafe { since, back: back.or(Some(now)) },
                    Mode::Ok | Mode::Stale => Mode::Ok,
                };
            }
            Word::Limits(limits) => {
                let same = limits.len() == self.limits.len()
                    && limits.iter().zip(&self.limits).all(|(new, old)| new.says_the_same(old));
                // A repeated limit keeps the time of its first receipt.
                if !same {
                    self.limits = limits;
                }
                self.mode = Mode::Ok;
            }
        }
        self.heard = Some(now);
        self.fault = None;
    }

    /// Returns when failsafe ends by itself, if it does.
    fn failsafe_end(&self, source: &Source) -> Option<Time> {
        match (self.mode, source.failsafe) {
            (Mode::Failsafe { back: Some(back), .. }, _) => Some(back + RETURN),
            (Mode::Failsafe { since, .. }, Some(failsafe)) if failsafe.hold > Span::ZERO => Some(since + failsafe.hold),
            _ => None,
        }
    }

    /// Returns the limits that count while the source's state stays the same: its own, and the failsafe limit. If there
    /// is a failsafe limit, a limit without an end counts only while its source is not lost.
    pub(super) fn counting<'a>(&'a self, source: &'a Source) -> impl Iterator<Item = Limit> + 'a {
        let superseded = source.failsafe.is_some() && self.mode != Mode::Ok;
        let said = self.limits.iter().filter(move |limit| limit.until.is_some() || !superseded).copied();
        said.chain(self.failsafe(source))
    }

    fn failsafe(&self, source: &Source) -> Option<Limit> {
        let (Mode::Failsafe { since, .. }, Some(failsafe)) = (self.mode, source.failsafe) else { return None };
        Some(Limit {
            low: Power::ZERO,
            high: failsafe.high,
            from: since,
            until: self.failsafe_end(source),
            priority: 0,
            emergency: false,
            received_at: since,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grid::limit::Failsafe;

    fn at(secs: i64) -> Time {
        Time::from_unix_ms(secs * 1_000)
    }

    fn source(obligatory: bool, hold: i64) -> Source {
        Source {
            name: "dso".into(),
            priority: 1,
            obligatory,
            may_widen: false,
            heartbeat: Some(Span::from_secs(120)),
            failsafe: Some(Failsafe { high: Power::from_watts(100), hold: Span::from_secs(hold) }),
            ttl: None,
        }
    }

    fn limit(watts: i64, until: Option<i64>) -> Word {
        let high = Power::from_watts(watts);
        let until = until.map(at);
        Word::Limits(vec![Limit {
            low: Power::ZERO,
            high,
            from: at(0),
            until,
            priority: 0,
            emergency: false,
            received_at: at(0),
        }])
    }

    /// Checks the strictest limit at a time, in watts.
    fn check(standing: &Standing, source: &Source, secs: i64, expected: Option<i64>) {
        let high = standing.counting(source).filter(|limit| limit.covers(at(secs))).map(|limit| limit.high).min();
        assert_eq!(high, expected.map(Power::from_watts), "at {secs} s: {standing:?}");
    }

    #[test]
    fn a_silent_source_is_failsafe_for_its_least_time() {
        let source = source(false, 7_200);
        let mut standing = Standing::new(&source, at(0));
        assert_eq!(standing.mode, Mode::Ok);
        standing.hear(&source, at(10), limit(50, None));
        standing.advance(&source, at(129));
        check(&standing, &source, 129, Some(50));
        assert_eq!(standing.deadline(&source), Some(at(130)));
        // Reported late, failsafe still began when it was due.
        standing.advance(&source, at(200));
        assert_eq!(standing.mode, Mode::Failsafe { since: at(130), back: None });
        check(&standing, &source, 200, Some(100));
        check(&standing, &source, 7_329, Some(100));
        check(&standing, &source, 7_330, None);
        standing.advance(&source, at(7_330));
        assert_eq!((standing.mode, standing.deadline(&source)), (Mode::Stale, None));
        check(&standing, &source, 7_330, None);
        standing.hear(&source, at(8_000), Word::Heartbeat);
        check(&standing, &source, 8_000, Some(50));
    }

    #[test]
    fn a_limit_with_an_end_applies_without_its_source() {
        let source = source(false, 60);
        let mut standing = Standing::new(&source, at(0));
        standing.hear(&source, at(0), limit(50, Some(1_000)));
        for (secs, expected) in [(119, Some(50)), (120, Some(50)), (500, Some(50)), (999, Some(50)), (1_000, None)] {
            standing.advance(&source, at(secs));
            check(&standing, &source, secs, expected);
        }
    }

    #[test]
    fn failsafe_ends_with_a_limit_or_after_the_heartbeat_has_returned() {
        let source = source(true, 0);
        let mut standing = Standing::new(&source, at(0));
        assert_eq!(standing.mode, Mode::Failsafe { since: at(0), back: None }, "obligatory");
        assert_eq!(standing.deadline(&source), None, "until there is word");
        standing.hear(&source, at(900), Word::Limits(Vec::new()));
        check(&standing, &source, 900, None);
        standing.advance(&source, at(1_020));
        check(&standing, &source, 1_020, Some(100));
        for secs in [1_100, 1_200, 1_219] {
            standing.hear(&source, at(secs), Word::Heartbeat);
        }
        check(&standing, &source, 1_219, Some(100));
        assert_eq!(standing.deadline(&source), Some(at(1_220)));
        standing.advance(&source, at(1_220));
        assert_eq!(standing.mode, Mode::Ok);
    }

    #[test]
    fn a_heartbeat_that_is_lost_again_leaves_failsafe_on() {
        let source = source(true, 0);
        let mut standing = Standing::new(&source, at(0));
        standing.hear(&source, at(10), Word::Heartbeat);
        standing.advance(&source, at(130));
        assert_eq!(standing.mode, Mode::Failsafe { since: at(130), back: None });
        // A fault is not a message of the source.
        standing.hear(&source, at(140), Word::Fault("status 500".into()));
        assert_eq!((standing.mode, standing.heard), (Mode::Failsafe { since: at(130), back: None }, Some(at(10))));
    }

    #[test]
    fn over_a_restart() {
        let (source, limits) = (source(true, 600), Vec::new());
        let mode = |since: Option<i64>| Standing::kept(&source, limits.clone(), since.map(at), at(1_000)).mode;
        assert_eq!(mode(None), Mode::Ok, "it was heard of, and has 120 s from now");
        assert_eq!(mode(Some(900)), Mode::Failsafe { since: at(900), back: None });
        assert_eq!(mode(Some(400)), Mode::Failsafe { since: at(1_000), back: None }, "it begins again");
    }

    #[test]
    fn limits_expire_after_their_time() {
        let source = Source { ttl: Some(Span::from_secs(300)), heartbeat: None, failsafe: None, ..source(false, 0) };
        let mut standing = Standing::new(&source, at(0));
        standing.hear(&source, at(10), limit(50, None));
        standing.hear(&source, at(200), Word::Heartbeat);
        standing.advance(&source, at(499));
        check(&standing, &source, 499, Some(50));
        standing.advance(&source, at(500));
        check(&standing, &source, 500, None);
        assert_eq!(standing.deadline(&source), None);
    }
}
