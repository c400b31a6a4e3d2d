//! A job on nodes of the simulated cluster: its progress under the caps of its units and with its pauses. A cap that
//! leaves the part M of its draw slows it down to M / F if that is less than 1 (power-capping-2018, section 5.1.1). The
//! slowest unit sets the pace.

use limo_model::{Attempt, NodeId, Power, Span, Time, UnitId};

/// F of power-capping-2018, in thousandths.
const FACTOR: i64 = 750;

pub struct Task {
    pub attempt: Attempt,
    /// Draw without a cap.
    full: Power,
    units: Vec<TaskUnit>,
    /// Remaining time at full pace, from `since` on.
    left: Span,
    since: Time,
    pace_ppm: i64,
    paused: bool,
}

/// A unit of a task.
pub struct TaskUnit {
    pub id: UnitId,
    /// Number of cores of the job, and of the unit.
    pub cores: (u32, u32),
    pub cap: Option<Power>,
}

impl Task {
    pub fn new(attempt: Attempt, now: Time, left: Span, full: Power) -> Self {
        Self { attempt, full, units: Vec::new(), left, since: now, pace_ppm: 1_000_000, paused: false }
    }

    /// Places the task on these units.
    pub fn on(self, units: Vec<TaskUnit>) -> Self {
        let mut task = Self { units, ..self };
        task.find_pace();
        task
    }

    pub fn is_on(&self, node: NodeId) -> bool {
        self.units.iter().any(|unit| unit.id.node == node)
    }

    fn settle(&mut self, now: Time) {
        if !self.paused {
            self.left = self.left - (now - self.since).scaled(self.pace_ppm, 1_000_000);
        }
        self.since = now;
    }

    /// Sets the caps of the task's units on a node.
    pub fn hold_at(&mut self, now: Time, node: NodeId, caps: &[Option<Power>]) {
        self.settle(now);
        for unit in self.units.iter_mut().filter(|unit| unit.id.node == node) {
            unit.cap = caps[usize::from(unit.id.unit)];
        }
        self.find_pace();
    }

    /// Continues the task on these units, as many times faster as there are more of them.
    pub fn resize(&mut self, now: Time, units: Vec<TaskUnit>) {
        self.settle(now);
        let count = |units: &[TaskUnit]| i64::try_from(units.len().max(1)).expect("few units");
        let (was, is) = (count(&self.units), count(&units));
        self.left = self.left.scaled(was, is);
        self.full = self.full.scaled(is, was);
        self.units = units;
        self.find_pace();
    }

    fn find_pace(&mut self) {
        let full = self.full.scaled(1, i64::try_from(self.units.len().max(1)).expect("few units"));
        let pace = |unit: &TaskUnit| {
            let (cores, of) = unit.cores;
            let share = unit.cap.map_or(Power::MAX, |cap| cap.scaled(i64::from(cores), i64::from(of)));
            let slowed = share < full && share > Power::ZERO;
            let pace = || share.mw().saturating_mul(1_000_000_000) / (full.mw() * FACTOR);
            if slowed { pace().clamp(1, 1_000_000) } else { 1_000_000 }
        };
        self.pace_ppm = self.units.iter().map(pace).min().unwrap_or(1_000_000);
    }

    pub fn pause(&mut self, now: Time, paused: bool) {
        self.settle(now);
        self.paused = paused;
    }

    /// Returns the expected end.
    pub fn end(&self) -> Option<Time> {
        let rest = self.left.max(Span::ZERO).ms().saturating_mul(1_000_000);
        let rest = rest.div_euclid(self.pace_ppm) + i64::from(rest.rem_euclid(self.pace_ppm) > 0);
        (!self.paused).then(|| self.since + Span::from_ms(rest))
    }
}
