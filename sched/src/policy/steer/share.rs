//! Caps that divide the upper limit among the units with jobs (`caps=even`, `caps=equal-speed`).
//!
//! Idea: the draw of the units with jobs is kept at the upper limit minus the reserve, less the draw that no cap
//! lowers. Under `even` each unit gets the same cap. Under `equal-speed` all units are equally fast (Inadomi et al.,
//! SC 2015): under a cap that slows it down, a unit takes as long as the energy that it needs for the work is high, so
//! caps in proportion to the draw times the duration of [`limo_model::Variation`] give the same speed. A unit that
//! draws less than its cap leaves the rest to the others. Units obey caps only in their range; jobs that draw too
//! much at the lowest caps run on. Caps fall at once. They rise if the node's caps have not changed for `least_off`,
//! and no lowered cap is unconfirmed, and by at least 1 W and 2 %. Ignores: priorities, deadlines and the lower limit.
//! Suspends and requeues no job. Cost: 60 checks of each unit with jobs. Options: `least_off`, `reserve_permille`,
//! `steer_lead`.

use limo_model::{CapRule, Power};

use super::lift::{cap_of, is_below, let_go};
use super::{SharedUnit, held, is_lowered, lowest_high};
use crate::plan::Plan;
use crate::view::View;

/// One, in the steps of a level.
const ONE: i64 = 1 << 20;

/// Least change by which a cap rises: in thousandths of it, and absolute.
const LEAST_RISE: (i64, Power) = (20, Power::from_watts(1));

/// A unit with its weight: its target is this power times the level of all units.
struct Weighted {
    of: SharedUnit,
    weight: Power,
    /// Draw at the lowest cap.
    floor: Power,
}

impl Weighted {
    /// Returns the unit with its weight, if it obeys caps.
    fn new(view: &View<'_>, of: SharedUnit) -> Option<Self> {
        let (low, high) = view.node(of.unit.node)?.cap_range(of.unit.unit)?;
        let share = |cap: Power| cap.scaled(i64::from(of.cores.1), i64::from(of.cores.0.max(1)));
        let weight = match view.parts().caps {
            CapRule::EqualSpeed => of.work,
            _ => share(high),
        };
        Some(Self { weight: weight.max(Power::from_mw(1)), floor: share(low).min(of.aim.1), of })
    }

    /// Returns the draw of its jobs at a level.
    fn target(&self, level: i64) -> Power {
        self.weight.scaled(level, ONE).min(self.of.aim.1).max(self.floor)
    }
}

/// Adds the caps to a plan.
pub(super) fn divide(view: &View<'_>, plan: &mut Plan) {
    let high = lowest_high(view, view.options().steer_lead);
    if high.is_unlimited() {
        let_go(view, plan);
        return;
    }
    let units: Vec<Weighted> = held(view).into_iter().filter_map(|unit| Weighted::new(view, unit)).collect();
    let now: Power = units.iter().map(|unit| unit.of.draw).sum();
    let reserve = high.scaled(i64::from(view.options().reserve_permille), 1_000);
    let level = highest_level(&units, high - reserve - (view.draw() - now));
    let may_rise = view.unconfirmed().is_zero();
    for unit in &units {
        let (aim, target, current) = (unit.of.aim, unit.target(level), cap_of(view, unit.of.unit));
        let cap = if target < aim.1 { unit.of.cap_for(view, target) } else { aim.0 };
        let rises = || may_rise && is_lowered(view, &unit.of, false) && is_worth_it(current, cap);
        if is_below(cap, current) || (is_below(current, cap) && rises()) {
            plan.caps.push((unit.of.unit, cap));
        }
    }
}

/// Returns the highest level at which the units together draw at most `budget`.
fn highest_level(units: &[Weighted], budget: Power) -> i64 {
    let full = units.iter().map(|unit| unit.of.aim.1.scaled(ONE, unit.weight.mw()).mw() + 1);
    let (mut low, mut high) = (0, full.max().unwrap_or(0));
    while low < high {
        let middle = low + (high - low + 1) / 2;
        let draw: Power = units.iter().map(|unit| unit.target(middle)).sum();
        if draw <= budget { low = middle } else { high = middle - 1 }
    }
    low
}

/// Returns true if a cap rises enough for an order. The return to the aim always does.
fn is_worth_it(current: Option<Power>, cap: Option<Power>) -> bool {
    let Some((current, cap)) = current.zip(cap) else { return true };
    cap - current >= current.scaled(LEAST_RISE.0, 1_000).max(LEAST_RISE.1)
}
