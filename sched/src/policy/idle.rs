//! Which free nodes go to sleep: opportunistic shutdown (energy-budget-2017, section III-A), at once or after a delay.
//! Nodes are woken by jobs that are put on them.

use limo_model::{NodeId, Power, Rest, Span, Time};

use crate::index::Class;
use crate::options::RestRule;
use crate::state::Node;
use crate::structure::Bits;
use crate::view::View;

/// The delay in force now.
fn delay(view: &View<'_>) -> Option<Span> {
    match view.options().rest {
        RestRule::Never => None,
        RestRule::Idle(after) => Some(after),
        RestRule::IdleInBudget(after) => view.settings().budgets.at(view.now()).map(|_| after),
    }
}

/// Nodes that no job is on, awake, of a class.
fn idle<'a>(view: &View<'a>, class: &'a Class) -> impl Iterator<Item = &'a Node> {
    let mut scratch = Bits::new(class.nodes.len() as u32);
    let whole = |unit: usize| class.levels.get(unit).zip(class.units.get(unit));
    let first: Vec<u32> =
        whole(0).map(|(levels, unit)| levels.members(unit.cores, &mut scratch).iter().collect()).unwrap_or_default();
    let view = *view;
    let all_free = move |position: &u32| {
        let mut others = class.levels.iter().zip(&class.units).skip(1);
        others.all(|(levels, unit)| levels.free(*position) == unit.cores)
    };
    let nodes =
        first.into_iter().filter(all_free).filter_map(move |position| view.node(class.nodes[position as usize]));
    nodes.filter(|node| node.spec.rest.is_some())
}

/// Returns true if what the way down draws more than an idle node is saved again before the budget's period ends.
fn pays(view: &View<'_>, node: &Node, rest: &Rest) -> bool {
    let Some(budget) = view.settings().budgets.at(view.now()) else { return true };
    let more = (rest.down.draw - node.spec.idle).at_least_zero();
    let saved = node.spec.idle - rest.draw;
    if saved <= Power::ZERO {
        return more.is_zero();
    }
    // Rounded up.
    let back = (i128::from(more.mw()) * i128::from(rest.down.span.ms())).div_euclid(i128::from(saved.mw())) + 1;
    let back = Span::from_ms(i64::try_from(back).unwrap_or(i64::MAX));
    more.is_zero() || view.now() + rest.down.span + back <= budget.until
}

/// Runs of nodes to put to sleep now, and when the next ones are due.
pub(super) fn sleeps(view: &View<'_>) -> (Vec<(NodeId, u32)>, Option<Time>) {
    let Some(after) = delay(view) else {
        let in_budget = matches!(view.options().rest, RestRule::IdleInBudget(_));
        return (Vec::new(), view.settings().budgets.next_change(view.now()).filter(|_| in_budget));
    };
    let now = view.now();
    let (mut runs, mut next): (Vec<(NodeId, u32)>, Option<Time>) = (Vec::new(), None);
    for node in view.index().classes.all().iter().flat_map(|class| idle(view, class)) {
        let due = (node.idle_since + after).max(node.awake_until.unwrap_or(node.idle_since));
        if due > now {
            next = Some(next.map_or(due, |next| next.min(due)));
            continue;
        }
        if !node.spec.rest.is_some_and(|rest| pays(view, node, &rest)) {
            continue;
        }
        match runs.last_mut() {
            Some((first, count)) if first.0 + *count == node.id.0 => *count += 1,
            _ => runs.push((node.id, 1)),
        }
    }
    (runs, next)
}
