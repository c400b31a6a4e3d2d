//! Idle nodes that go to sleep: opportunistic shutdown (energy-budget-2017, section III-A), at once or after a delay.
//! Applies to every combination of parts. A job that is placed on a sleeping node wakes it.
//!
//! Constraints: a node stays awake for a start that is planned before it could be awake again. A policy that observes
//! the lower limit keeps the draw at this limit. A policy that keeps the upper limit reserves the draw of nodes that
//! fall asleep. Cost: one check of each idle node that can sleep. Option: `rest` ([`RestRule`]).

use limo_model::{NodeId, Power, Rest, Span, Time};

use crate::engine::{Later, Wanted};
use crate::index::Class;
use crate::options::RestRule;
use crate::plan::Plan;
use crate::state::Node;
use crate::structure::Bits;
use crate::view::View;

/// Returns the time without a job after which a node sleeps now.
fn delay(view: &View<'_>, node: &Node) -> Option<Span> {
    match view.settings().rest_of(node) {
        RestRule::Never => None,
        RestRule::Idle(after) => Some(after),
        RestRule::IdleInBudget(after) => view.settings().budgets.at(view.now()).map(|_| after),
    }
}

/// Returns the nodes of a class that have no job and no owner there, are awake and can sleep.
fn idle<'a>(view: &View<'a>, class: &'a Class) -> impl Iterator<Item = (&'a Node, Rest)> {
    let mut scratch = Bits::new(class.nodes.len() as u32);
    let whole = |unit: usize| class.levels.get(unit).zip(class.units.get(unit));
    let mut first: Vec<u32> =
        whole(0).map(|(levels, unit)| levels.members(unit.cores, &mut scratch).iter().collect()).unwrap_or_default();
    // An owner who left may keep jobs from a node for longer than it stays awake.
    let is_free = |position: &u32| whole(0).is_some_and(|(levels, unit)| levels.free(*position) == unit.cores);
    first.extend(class.closed.iter().filter(is_free));
    let view = *view;
    let all_free = move |position: &u32| {
        let mut others = class.levels.iter().zip(&class.units).skip(1);
        others.all(|(levels, unit)| levels.free(*position) == unit.cores)
    };
    let nodes =
        first.into_iter().filter(all_free).filter_map(move |position| view.node(class.nodes[position as usize]));
    let is_awake = move |node: &&Node| node.is_awake() && node.is_open(view.now());
    let nodes = nodes.filter(is_awake).filter(|node| node.owner.here.is_none());
    nodes.filter_map(|node| Some((node, node.spec.rest()?)))
}

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
    let in_budget = matches!(view.options().rest_rule(), RestRule::IdleInBudget(_));
    if in_budget && view.settings().budgets.at(view.now()).is_none() {
        let change = view.settings().budgets.next_change(view.now());
        plan.wake_at = [plan.wake_at, change].into_iter().flatten().min();
    }
    if !view.settings().lets_sleep() {
        return;
    }
    let now = view.now();
    let mut margin = Margin::of(view);
    let classes = view.index().classes.all().iter().enumerate();
    for (class, (node, rest)) in classes.flat_map(|(at, class)| idle(view, class).map(move |node| (at, node))) {
        let Some(after) = delay(view, node) else { continue };
        let due = (node.idle_since + after).max(node.awake_until.unwrap_or(node.idle_since));
        if due > now {
            plan.wake_at = Some(plan.wake_at.map_or(due, |next| next.min(due)));
            continue;
        }
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
    plan.wake_at = [plan.wake_at, margin.look_again(view)].into_iter().flatten().min();
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
        let reserve = high.scaled(i64::from(view.options().reserve_permille), 1_000);
        Self {
            above_low: parts.heeds_lower_limit().then(|| draw - low),
            below_high: (parts.keeps_upper_limit() && !high.is_unlimited())
                .then(|| high - reserve - draw - view.unconfirmed()),
            below_limits: view.group_rooms().map_or(Vec::new(), |rooms| rooms.left.clone()),
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
