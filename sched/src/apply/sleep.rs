//! Nodes that fall asleep and wake, and the jobs that wait for them.

use limo_model::{NodeId, Part, Power, Time, nodes};

use super::nodes::{settle_cluster, switch};
use super::owners;
use crate::cluster::Cluster;
use crate::options::RestRule;
use crate::refused::Refused;
use crate::state::{Assignment, Node, Sleep, State};

/// Records that a node stays awake despite an order to sleep.
pub(super) fn sleep_failed(cluster: &mut Cluster, now: Time, id: NodeId, until: Time) -> Result<(), Refused> {
    if cluster.state.node(id).is_none_or(Node::is_removed) {
        return Err(Refused::NoSuchNode { node: id });
    }
    switch(cluster, now, id, Sleep::Awake);
    if let Some(node) = cluster.state.node_mut(id) {
        node.awake_until = Some(until);
    }
    note_rest(cluster, id, now);
    Ok(())
}

/// Begins to wake the sleeping nodes of a placement; returns their runs.
pub(crate) fn wake(cluster: &mut Cluster, now: Time, placement: &[Part]) -> Vec<(NodeId, u32)> {
    let mut runs: Vec<(NodeId, u32)> = Vec::new();
    if cluster.index.sleeping == 0 {
        return runs;
    }
    for node in placement.iter().flat_map(|part| part.nodes()) {
        if !cluster.state.node(node).is_some_and(|node| node.sleep == Sleep::Asleep) {
            continue;
        }
        switch(cluster, now, node, Sleep::Waking);
        match runs.last_mut() {
            Some((first, count)) if first.0 + *count == node.0 => *count += 1,
            _ => runs.push((node, 1)),
        }
    }
    runs
}

/// Records that nodes are asleep, or awake again.
pub(super) fn switched(cluster: &mut Cluster, now: Time, runs: &[(NodeId, u32)], to: Sleep) -> Result<(), Refused> {
    let nodes = || runs.iter().flat_map(|(first, count)| (first.0..first.0.saturating_add(*count)).map(NodeId));
    if let Some(node) = nodes().find(|node| cluster.state.node(*node).is_none()) {
        return Err(Refused::NoSuchNode { node });
    }
    for node in nodes() {
        switch(cluster, now, node, to);
        owners::wake(cluster, now, node);
    }
    Ok(())
}

/// Returns true if a node of the placement is not awake.
pub(super) fn wakes(state: &State, placement: &[Part]) -> bool {
    nodes(placement).any(|id| state.node(id).is_some_and(|node| !node.is_awake()))
}

/// Marks an assignment whose nodes are not all awake: it draws nothing before it starts.
pub(crate) fn await_waking(state: &State, assignment: &mut Assignment) {
    if wakes(state, &assignment.placement) {
        assignment.pending = assignment.draw_of_units();
    }
}

/// Records that a job has started after its nodes woke: it draws from now on.
pub(super) fn draws(cluster: &mut Cluster, now: Time, assignment: &mut Assignment) {
    if assignment.pending.is_zero() {
        return;
    }
    settle_cluster(cluster, now);
    cluster.state.sums.pending -= std::mem::replace(&mut assignment.pending, Power::ZERO);
    assignment.hidden_since = now;
}

/// Records the time since which the nodes of a part have no job, if idle nodes sleep.
pub(super) fn note_idle(cluster: &mut Cluster, part: &Part, now: Time) {
    // Groups that let their nodes sleep have the index of resting nodes.
    if cluster.state.settings.options.rest_rule() == RestRule::Never && cluster.index.resting.is_none() {
        return;
    }
    for node in part.nodes() {
        if let Some(node) = cluster.state.node_mut(node) {
            node.idle_since = now;
        }
        note_rest(cluster, node, now);
    }
}

/// Plans again at the time from which a node may sleep.
pub(super) fn note_rest(cluster: &mut Cluster, id: NodeId, now: Time) {
    let due = cluster.state.node(id).and_then(|node| cluster.index.rest(node, now));
    cluster.state.wake_at = Time::first_of(&[cluster.state.wake_at, due]);
}
