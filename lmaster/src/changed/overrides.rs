//! Changes of queues and groups. An operator sets one state or limit in place of the configured one, which can be undone.

use limo_model::{GroupSpec, Groups, QueueSpec, Queues};

use super::{Back, CONFIGURATION, Changed, changed, users};

/// Returns the change of queues by an author; `None` if nothing changes.
pub(super) fn queues(before: &Queues, after: &Queues, by: &str) -> Option<Changed> {
    if by == CONFIGURATION {
        return Some(changed("queues", users::queues(before, after), None));
    }
    after.iter().find_map(|(name, spec)| {
        let of = before.get(name).filter(|of| of.down_by_operator != spec.down_by_operator)?;
        let back = Back::Queue { name: name.to_owned(), old: of.down_by_operator, new: spec.down_by_operator };
        Some(changed(&format!("queue {name}"), (state(of), state(spec)), Some(back)))
    })
}

/// Returns the change of groups by an author; `None` if nothing changes.
pub(super) fn groups(before: &Groups, after: &Groups, by: &str) -> Option<Changed> {
    if by == CONFIGURATION {
        return Some(changed("groups", users::groups(before, after), None));
    }
    after.iter().find_map(|(name, spec)| {
        let of = before.get(name).filter(|of| of.limit_by_operator != spec.limit_by_operator)?;
        let back = Back::GroupLimit { name: name.to_owned(), old: of.limit_by_operator, new: spec.limit_by_operator };
        Some(changed(&format!("limit of group {name}"), (limit(of), limit(spec)), Some(back)))
    })
}

fn state(queue: &QueueSpec) -> String {
    let state = if queue.is_closed() { "down" } else { "up" };
    shown(state.to_owned(), queue.down_by_operator.is_none())
}

fn limit(group: &GroupSpec) -> String {
    let limit = if group.limit().is_unlimited() { "none".to_owned() } else { group.limit().to_string() };
    shown(limit, group.limit_by_operator.is_none())
}

fn shown(value: String, is_configured: bool) -> String {
    if is_configured { format!("{value}, as configured") } else { value }
}
