//! Idle nodes that go to sleep: opportunistic shutdown (energy-budget-2017, section III-A), at once or after a delay.
//! Applies to every combination of parts. A job that is placed on a sleeping node wakes it.
//!
//! Constraints: a node stays awake for a start that is planned before it could be awake again. A policy that observes
//! the lower limit keeps the draw at this limit. A policy that keeps or divides the upper limit leaves nodes awake that
//! would exceed it while they fall asleep; with divided limits, these may use the reserve. Cost: one check
//! of each idle node whose delay is over. Option: `rest` ([`RestRule`]).

use limo_model::{NodeId, Power, Rest, Span, Time};

use crate::engine::{Later, Wanted};
use crate::options::RestRule;
use crate::plan::Plan;
use crate::state::Node;
use crate::view::View;

/// Returns true if sleeping saves more energy than falling asleep costs before the budget's period ends.
fn pays(view: &View<'_>, node: &Node, rest: &Rest) -> bool {
    let Some(budget) = view.settings().budgets.at(view.now()) else { return true };
    let more = (rest.down.draw - node.spec.idle).at_least_zero();
    let saved = node.spec.idle - rest.draw;
    if saved <= Power::ZERO {
        return more.is_zero();
    }
    // The time is rounded up.
    let back = (i128::from(more.mw()) * i128::from(rest.down.span.ms())).div_euclid(i128::from(saved.mw())) + 1;
    let back = Span::from_ms(i64::try_from(back).unwrap_or(i64::MAX));
    more.is_zero() || view.now() + rest.down.span + back <= budget.until
}

/// Adds the nodes to put to sleep now to a plan that starts nothing. `later` are the starts that the plan expects.
pub(super) fn power_off(view: &View<'_>, mut later: Vec<Later>, plan: &mut Plan) {
    let now = view.now();
    let Some(resting) = view.index().resting.as_ref() else { return };
    let settings = view.settings();
    let is_out_of_budget =
        matches!(view.options().rest_rule(), RestRule::IdleInBudget(_)) && settings.budgets.at(now).is_none();
    if is_out_of_budget {
        plan.wake_at = Time::first_of(&[plan.wake_at, settings.budgets.next_change(now)]);
    }
    if is_out_of_budget && !settings.groups.put_to_sleep() {
        return;
    }
    let mut margin = Margin::of(view);
    let classes = &view.index().classes;
    let place = |id: NodeId| Some((classes.place_of(id)?, view.node(id)?));
    let mut due: Vec<((usize, u32), &Node)> = resting.due(now).filter_map(place).collect();
    due.sort_unstable_by_key(|(place, _)| *place);
    // Out of a budget's periods, only the rules of groups apply.
    for ((class, _), node) in due.into_iter().filter(|(_, node)| !is_out_of_budget || node.rules.after.is_some()) {
        let Some(rest) = node.spec.rest() else { continue };
        let back = now + rest.down.span + rest.up.span;
        let is_wanted = later.iter_mut().filter(|start| start.at <= back).any(|start| start.takes(class, node.id));
        if is_wanted || !pays(view, node, &rest) || !margin.leaves(node, &rest) {
            continue;
        }
        match plan.sleeps.last_mut() {
            Some((first, count)) if first.0 + *count == node.id.0 => *count += 1,
            _ => plan.sleeps.push((node.id, 1)),
        }
    }
    plan.wake_at = Time::first_of(&[plan.wake_at, resting.next(now), margin.look_again(view)]);
}

impl Later {
    /// Returns true if the start may use this node; the start then needs one node less.
    fn takes(&mut self, class: usize, node: NodeId) -> bool {
        match &mut self.wanted {
            Wanted::Named(nodes) => nodes.contains(&node),
            Wanted::Some { count, classes } => {
                let is_taken = *count > 0 && classes.contains(&class);
                *count -= u32::from(is_taken);
                is_taken
            }
        }
    }
}

/// Margins of the power band for nodes that fall asleep.
struct Margin {
    /// Amount by which the draw may fall; `None` if the lower limit is not observed.
    above_low: Option<Power>,
    /// Amount by which the draw may rise meanwhile; `None` if the upper limit is not kept.
    below_high: Option<Power>,
    /// The same for each group of nodes.
    below_limits: Vec<Power>,
    /// True if a node stays awake because of the band.
    is_short: bool,
}

impl Margin {
    fn of(view: &View<'_>) -> Self {
        let (parts, draw, now) = (view.parts(), view.draw(), view.now());
        let ahead = view.limits().band(now + view.options().lead);
        let low = view.band().low().max(ahead.low());
        let high = view.band().high().min(ahead.high());
        let reserve = |limit: Power| limit.scaled(i64::from(view.options().reserve_permille), 1_000);
        // Caps that divide a limit leave only its reserve.
        let usable = |limit: Power| if parts.divides() { reserve(limit) } else { Power::ZERO };
        let keeps_high = parts.keeps_upper_limit() || parts.divides();
        let mut below_limits = view.group_rooms().map_or(Vec::new(), |rooms| rooms.free.clone());
        for (left, (_, spec)) in below_limits.iter_mut().zip(view.settings().groups.iter()) {
            *left += usable(spec.limit());
        }
        Self {
            above_low: parts.heeds_lower_limit().then(|| draw - low),
            below_high: (keeps_high && !high.is_unlimited())
                .then(|| high - reserve(high) + usable(high) - draw - view.unconfirmed()),
            below_limits,
            is_short: false,
        }
    }

    /// Returns true if the node may fall asleep; it is then counted.
    fn leaves(&mut self, node: &Node, rest: &Rest) -> bool {
        let falls = (node.own - rest.draw).at_least_zero();
        let rises = (rest.down.draw - node.own).at_least_zero();
        let is_enough = self.above_low.is_none_or(|left| falls <= left.at_least_zero())
            && self.below_high.is_none_or(|left| rises <= left.at_least_zero());
        let group = node.group().and_then(|group| self.below_limits.get_mut(group)).filter(|_| rises > Power::ZERO);
        let is_enough = is_enough && group.as_ref().is_none_or(|left| rises <= **left);
        if is_enough {
            group.into_iter().for_each(|left| *left -= rises);
            self.above_low = self.above_low.map(|left| left - falls);
            self.below_high = self.below_high.map(|left| left - rises);
        }
        self.is_short |= !is_enough;
        is_enough
    }

    /// Returns the time at which a limit that keeps nodes awake changes.
    fn look_again(&self, view: &View<'_>) -> Option<Time> {
        view.limits().next_change(view.now()).filter(|_| self.is_short)
    }
}
