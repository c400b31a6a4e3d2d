//! Caps that divide the upper limit among the units with jobs (`caps=even`, `equal-speed`, `ellsworth`).
//!
//! Idea: the draw of the units with jobs is kept at the upper limit minus the reserve, less the draw that no cap
//! lowers. Under `even` each unit gets the same cap. Under `equal-speed` all units are equally fast (Inadomi et al., SC
//! 2015): under a cap that slows it down, a unit takes as long as the energy that it needs for the work is high, so
//! caps in proportion to the draw times the duration of [`limo_model::Variation`] give the same speed. A unit that
//! draws less than its cap leaves the rest to the others. A start and the caps that it needs are one plan: its units and
//! those of running jobs are capped first, and the start is released after the confirmations. The limits of groups of
//! nodes are divided in the same way, each among the units of its group; of what the upper limit gives to a group, the
//! others get the part that its own limit leaves. `ellsworth` moves caps
//! step by step ([`ellsworth`]). Units obey caps only in their range; jobs that draw too much at the lowest caps run on.
//! Caps fall at once. They rise if no cap falls, the node's caps have not changed for `least_off`, and no lowered cap is
//! unconfirmed, and by at least 1 W and 2 %. Ignores: priorities, deadlines and the lower limit. Suspends and requeues
//! no job. Cost: 60 checks of each unit with jobs. Options: `least_off`, `reserve_permille`, `steer_lead`.

mod ellsworth;

use limo_model::{CapRule, Power, UnitId, nodes};

use super::lift::{cap_of, is_below, let_go};
use super::units::{SharedUnit, draw_of_starts, held};
use super::{is_lowered, lowest_high};
use crate::facts::waking_draw;
use crate::plan::{Plan, Start};
use crate::state::Node;
use crate::view::View;

/// One, in the steps of a level.
const ONE: i64 = 1 << 20;

/// Least change of a cap that is worth an order: in thousandths of it, and absolute.
const LEAST_CHANGE: (i64, Power) = (20, Power::from_watts(1));

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

    /// Returns the draw of its jobs at a level. They need at most `most`.
    fn target(&self, level: i64, most: Power) -> Power {
        self.weight.scaled(level, ONE).min(most).max(self.floor)
    }

    /// Returns the draw that its present cap allows its jobs; without a cap, the draw that they need.
    fn allocation(&self, view: &View<'_>) -> Power {
        let of = &self.of;
        let share = |cap: Power| cap.scaled(i64::from(of.cores.1), i64::from(of.cores.0.max(1)));
        cap_of(view, of.unit).map_or(of.aim.1, share)
    }

    /// Returns the present cap, and the one at which its jobs draw `target`. Those that need no more get the cap with
    /// which they were started, unless `always`.
    fn change(&self, view: &View<'_>, target: Power, always: bool) -> (Option<Power>, Option<Power>) {
        let (aim, current) = (self.of.aim, cap_of(view, self.of.unit));
        let cap = match target {
            // The division by cores is rounded.
            target if current.is_some() && target == self.allocation(view) => current,
            target if target < aim.1 || always => self.of.cap_for(view, target),
            _ => aim.0,
        };
        (current, cap)
    }
}

/// A unit with its present cap and the one that its jobs should have.
struct Recapped {
    of: Weighted,
    current: Option<Power>,
    cap: Option<Power>,
}

/// Adds the caps of running jobs to a plan.
pub(super) fn divide(view: &View<'_>, plan: &mut Plan) {
    let high = lowest_high(view, view.options().steer_lead);
    if high.is_unlimited() && !view.has_groups() {
        let_go(view, plan);
        return;
    }
    let changes = changes(view, &[], high);
    fall(&changes, plan);
    // Caps that rise may only take power that is surely free.
    if !plan.caps.is_empty() || !view.unconfirmed().is_zero() {
        return;
    }
    let rises = changes.into_iter().filter(|Recapped { of, current, cap }| {
        is_below(*current, *cap) && is_lowered(view, &of.of, false) && is_worth_it(*current, *cap)
    });
    plan.caps.extend(rises.map(|unit| (unit.of.of.unit, unit.cap)));
}

/// Adds the caps with which the starts of a plan begin, and lower ones of running jobs. The starts are released when the
/// nodes have confirmed these caps.
pub(in crate::policy) fn divide_with_starts(view: &View<'_>, plan: &mut Plan) {
    let high = lowest_high(view, view.options().steer_lead);
    let is_limited = !high.is_unlimited() || view.has_groups();
    if !view.parts().divides() || plan.starts.is_empty() || !is_limited {
        return;
    }
    fall(&changes(view, &plan.starts, high), plan);
}

/// Adds the caps that fall to a plan.
fn fall(changes: &[Recapped], plan: &mut Plan) {
    let falls = changes.iter().filter(|unit| is_below(unit.cap, unit.current));
    plan.caps.extend(falls.map(|unit| (unit.of.of.unit, unit.cap)));
}

/// Returns the caps of the units of running jobs and starts that divide an upper limit, and the limits of groups.
fn changes(view: &View<'_>, starts: &[Start], high: Power) -> Vec<Recapped> {
    let units: Vec<Weighted> = held(view, starts).into_iter().filter_map(|unit| Weighted::new(view, unit)).collect();
    let mut most: Vec<Allowed> = units.iter().map(|unit| Allowed { draw: unit.of.aim.1, is_stepwise: false }).collect();
    for (group, ceiling) in view.group_ceilings().enumerate() {
        let is_in = |unit: UnitId| view.node(unit.node).and_then(Node::group) == Some(group);
        let own: Vec<usize> = (0..units.len()).filter(|at| is_in(units[*at].of.unit)).collect();
        let woken = starts.iter().flat_map(|start| nodes(&start.placement)).filter_map(|node| view.node(node));
        let waking: Power = woken.filter(|node| node.group() == Some(group)).map(waking_draw).sum();
        let draw = view.group_draw(group) + draw_of_starts(view, starts, is_in) + waking;
        divide_among(view, (&units, &own), ceiling - draw, &mut most);
    }
    if !high.is_unlimited() {
        let reserve = high.scaled(i64::from(view.options().reserve_permille), 1_000);
        let draw = view.draw() - view.state().never_begins() + draw_of_starts(view, starts, |_| true);
        let all: Vec<usize> = (0..units.len()).collect();
        divide_among(view, (&units, &all), high - reserve - draw, &mut most);
    }
    let change = |(of, Allowed { draw, is_stepwise }): (Weighted, Allowed)| {
        let (current, cap) = of.change(view, draw, is_stepwise);
        Recapped { of, current, cap }
    };
    units.into_iter().zip(most).map(change).collect()
}

/// The highest draw of a unit.
#[derive(Clone, Copy)]
struct Allowed {
    draw: Power,
    /// True if it follows the draw step by step.
    is_stepwise: bool,
}

/// Lowers the highest draws of some units so that together they draw at most `left` more than now.
fn divide_among(view: &View<'_>, (units, own): (&[Weighted], &[usize]), left: Power, most: &mut [Allowed]) {
    let units: Vec<&Weighted> = own.iter().map(|at| &units[*at]).collect();
    let needs: Vec<Power> = own.iter().map(|at| most[*at].draw).collect();
    let budget = left + units.iter().map(|unit| unit.of.draw).sum::<Power>();
    let is_stepwise = view.parts().caps == CapRule::Ellsworth && needs.iter().copied().sum::<Power>() > budget;
    let targets = match is_stepwise {
        true => ellsworth::targets(view, &units, budget),
        false => level_targets(&units, &needs, budget),
    };
    for ((at, target), need) in own.iter().zip(targets).zip(needs) {
        let allowed = &mut most[*at];
        // A step may give a unit more than its group allows.
        let target = if allowed.is_stepwise { target.min(need) } else { target };
        *allowed = Allowed { draw: target, is_stepwise: is_stepwise || allowed.is_stepwise };
    }
}

/// Returns the draws of the units at the highest level at which they together draw at most `budget`. Each needs at most
/// the draw of `most`.
fn level_targets(units: &[&Weighted], most: &[Power], budget: Power) -> Vec<Power> {
    let level = highest_level(units, most, budget);
    units.iter().zip(most).map(|(unit, most)| unit.target(level, *most)).collect()
}

/// Returns the highest level at which the units together draw at most `budget`.
fn highest_level(units: &[&Weighted], most: &[Power], budget: Power) -> i64 {
    let full = units.iter().zip(most).map(|(unit, most)| most.scaled(ONE, unit.weight.mw()).mw() + 1);
    let (mut low, mut high) = (0, full.max().unwrap_or(0));
    while low < high {
        let middle = low + (high - low + 1) / 2;
        let draw: Power = units.iter().zip(most).map(|(unit, most)| unit.target(middle, *most)).sum();
        if draw <= budget { low = middle } else { high = middle - 1 }
    }
    low
}

/// Least change of a cap that is worth an order.
fn least_change(current: Power) -> Power {
    current.scaled(LEAST_CHANGE.0, 1_000).max(LEAST_CHANGE.1)
}

/// Returns true if a cap rises enough for an order. The return to the aim always does.
fn is_worth_it(current: Option<Power>, cap: Option<Power>) -> bool {
    current.zip(cap).is_none_or(|(current, cap)| cap - current >= least_change(current))
}
