//! Idle nodes that can sleep, in the order of the times from which they may.

use std::collections::BTreeSet;

use limo_model::{NodeId, SleepAfter, Span, Time};

use super::Classes;
use crate::options::RestRule;
use crate::state::{Node, State};

/// The nodes that are awake and open, have no job and no owner there, and can sleep. A change of one node costs O(log n).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Resting {
    /// Time without a job after which a node may sleep, unless its group has a rule of its own; `None` lets none sleep.
    after: Option<Span>,
    queue: BTreeSet<(Time, NodeId)>,
    /// The time of each node in the queue, by number.
    due: Vec<Option<Time>>,
}

impl Resting {
    /// Makes the index, if the policy in force or a group lets idle nodes sleep.
    pub fn of(state: &State, classes: &Classes, now: Time) -> Option<Self> {
        let settings = &state.settings;
        let after = match settings.options.rest_rule() {
            RestRule::Idle(after) | RestRule::IdleInBudget(after) if settings.chosen_parts().powers_off() => {
                Some(after)
            }
            _ if settings.groups.put_to_sleep() => None,
            _ => return None,
        };
        let mut index = Self { after, queue: BTreeSet::new(), due: vec![None; state.nodes.len()] };
        for node in &state.nodes {
            index.update(node, classes, now);
        }
        Some(index)
    }

    /// Returns the nodes that may sleep now.
    pub fn due(&self, now: Time) -> impl Iterator<Item = NodeId> {
        self.queue.range(..=(now, NodeId(u32::MAX))).map(|(_, id)| *id)
    }

    /// Returns the first time after `now` from which a node may sleep.
    pub fn next(&self, now: Time) -> Option<Time> {
        self.queue.range((now, NodeId(u32::MAX))..).map(|(at, _)| *at).find(|at| *at > now)
    }

    /// Updates a node; returns the time from which it may sleep.
    pub fn update(&mut self, node: &Node, classes: &Classes, now: Time) -> Option<Time> {
        let can_sleep = node.spec.rest.is_some() && node.is_awake() && node.is_open(now) && node.owner.here.is_none();
        let after = match node.rules.after {
            Some(SleepAfter::Never) => None,
            Some(SleepAfter::Idle(after)) => Some(after),
            None => self.after,
        };
        let after = after.filter(|_| can_sleep && classes.is_free(node.id));
        let due = after.map(|after| (node.idle_since + after).max(node.awake_until.unwrap_or(node.idle_since)));
        self.put(node.id, due);
        due
    }

    /// Removes a node that has a job.
    pub fn remove(&mut self, id: NodeId) {
        self.put(id, None);
    }

    fn put(&mut self, id: NodeId, due: Option<Time>) {
        let at = id.0 as usize;
        if at >= self.due.len() {
            self.due.resize(at + 1, None);
        }
        let before = std::mem::replace(&mut self.due[at], due);
        if before == due {
            return;
        }
        if let Some(before) = before {
            self.queue.remove(&(before, id));
        }
        self.queue.extend(due.map(|due| (due, id)));
    }
}
