//! A job that runs on a node of the simulated cluster: how far it is, under the caps of its unit and with its pauses. A cap
//! that leaves the part M of its draw slows it down to M / F, where that is less than 1 (power-capping-2018, section 5.1.1).

use limo_model::{Attempt, Part, Power, Span, Time};

/// F, in thousandths.
const FACTOR: i64 = 750;

pub struct Task {
    pub attempt: Attempt,
    /// Without a cap.
    full: Power,
    /// Its only unit, and the cores that it has of how many.
    part: Option<(Part, u32)>,
    /// What is left, at full pace, from `since` on.
    left: Span,
    since: Time,
    pace_ppm: i64,
    paused: bool,
}

impl Task {
    pub fn new(attempt: Attempt, now: Time, left: Span, full: Power) -> Self {
        Self { attempt, full, part: None, left, since: now, pace_ppm: 1_000_000, paused: false }
    }

    /// On one unit with so many cores in all, at that cap.
    pub fn on(self, part: Part, cores: u32, cap: Option<Power>) -> Self {
        let mut task = Self { part: Some((part, cores)), ..self };
        task.hold_at(task.since, cap);
        task
    }

    pub fn is_on(&self, node: limo_model::NodeId) -> Option<u16> {
        self.part.filter(|(part, _)| part.is_on(node)).map(|(part, _)| part.unit.unit)
    }

    fn settle(&mut self, now: Time) {
        if !self.paused {
            self.left = self.left - (now - self.since).scaled(self.pace_ppm, 1_000_000);
        }
        self.since = now;
    }

    pub fn hold_at(&mut self, now: Time, cap: Option<Power>) {
        self.settle(now);
        let Some((part, cores)) = self.part else { return };
        let share = cap.map_or(Power::MAX, |cap| cap.scaled(i64::from(part.cores), i64::from(cores)));
        let slowed = share < self.full && share > Power::ZERO;
        let pace = || share.mw().saturating_mul(1_000_000_000) / (self.full.mw() * FACTOR);
        self.pace_ppm = if slowed { pace().clamp(1, 1_000_000) } else { 1_000_000 };
    }

    pub fn pause(&mut self, now: Time, paused: bool) {
        self.settle(now);
        self.paused = paused;
    }

    /// When it ends as things are.
    pub fn end(&self) -> Option<Time> {
        let rest = self.left.max(Span::ZERO).ms().saturating_mul(1_000_000);
        let rest = rest.div_euclid(self.pace_ppm) + i64::from(rest.rem_euclid(self.pace_ppm) > 0);
        (!self.paused).then(|| self.since + Span::from_ms(rest))
    }
}
