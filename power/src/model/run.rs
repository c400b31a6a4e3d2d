//! One run of the model: its remaining work, its energy, and its draw and pace until the next change.

use limo_model::{Energy, Pace, Power, Slowdown, Span, Time, Work, pace};

use super::Share;
use crate::machine::Machine;

/// Plan of one run without caps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// Duration of the run's work, that of the slowest share. `None` for an application that is not in the file.
    pub work: Option<Span>,
    pub(super) loads: Vec<Load>,
}

impl Plan {
    /// Returns the draw above idle of all its shares.
    pub fn power(&self) -> Power {
        self.loads.iter().map(|load| load.power).sum()
    }
}

/// Share of a unit, and the run's draw there without a cap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Load {
    pub(super) share: Share,
    pub(super) power: Power,
}

#[derive(Debug, Clone)]
pub(super) struct EmulatedRun {
    loads: Vec<Load>,
    left: Option<Work>,
    suspended: bool,
    /// True once the run's end was reported.
    told: bool,
    began: Time,
    /// Time up to which `left` and `used` are counted. From then on the run draws `draw` and works at `pace`.
    counted: Time,
    draw: Power,
    pace: Pace,
    /// Energy in microjoules, so that intermediate changes do not round.
    used: i128,
}

impl EmulatedRun {
    pub(super) fn new(plan: Plan, now: Time) -> Self {
        let left = plan.work.map(Work::lasting);
        let (draw, pace) = (Power::ZERO, Pace::STOPPED);
        Self { loads: plan.loads, left, suspended: false, told: false, began: now, counted: now, draw, pace, used: 0 }
    }

    pub(super) fn advance(&mut self, now: Time) {
        let span = now - self.counted;
        if span <= Span::ZERO {
            return;
        }
        self.counted = now;
        // Milliwatts times milliseconds are microjoules.
        self.used = self.used.saturating_add(i128::from(self.draw.mw()) * i128::from(span.ms()));
        self.left = self.left.map(|left| left.less(self.pace.over(span)));
    }

    /// Ends a run that lasted for `span`. Its start or end was reported late, so the counted time is corrected at its
    /// present draw.
    pub(super) fn end_after(&mut self, span: Span) {
        let late = (self.counted - self.began) - span;
        self.used = (self.used - i128::from(self.draw.mw()) * i128::from(late.ms())).max(0);
    }

    /// Updates the draw and the pace for `caps`, one for each unit of `machine`.
    pub(super) fn settle(&mut self, machine: &Machine, caps: &[Option<Power>]) {
        (self.draw, self.pace) = (Power::ZERO, if self.suspended { Pace::STOPPED } else { Pace::FULL });
        if self.suspended {
            return;
        }
        for Load { share, power } in &self.loads {
            // The plan has checked the units of its shares.
            let (spec, unit) = (&machine.spec.units[share.unit], &machine.units[share.unit]);
            let cap = caps[share.unit].map(|cap| cap.scaled(share.cores.into(), spec.cores.into()));
            let (draw, pace) = pace(*power, cap, Slowdown::Factor(unit.cap_factor_permille));
            self.draw += draw;
            self.pace = self.pace.min(pace);
        }
    }

    pub(super) fn set_suspended(&mut self, suspended: bool) {
        self.suspended = suspended;
    }

    /// Returns the caps that the run has for this unit.
    pub(super) fn caps(&self, unit: usize) -> impl Iterator<Item = Power> + '_ {
        self.loads.iter().filter(move |load| load.share.unit == unit).filter_map(|load| load.share.cap)
    }

    pub(super) fn drop_caps(&mut self) {
        self.loads.iter_mut().for_each(|load| load.share.cap = None);
    }

    /// Returns when the work will be done; `None` if it never is, there is no work, or its end was reported.
    pub(super) fn done_at(&self) -> Option<Time> {
        let left = self.left.filter(|_| !self.told)?;
        Some(self.counted + left.takes(self.pace)?)
    }

    /// Returns true once if its work is done.
    pub(super) fn take_done(&mut self) -> bool {
        let done = !self.told && self.left.is_some_and(Work::is_done);
        self.told |= done;
        done
    }

    pub(super) fn draw(&self) -> Power {
        self.draw
    }

    /// Returns the energy, rounded once, half up.
    pub(super) fn energy(&self) -> Energy {
        Energy::from_mj(i64::try_from(self.used.saturating_add(500) / 1000).unwrap_or(i64::MAX))
    }
}
