//! Sessions of owners: the sums by which the placement `pool` ranks nodes.

use std::collections::BTreeMap;

use limo_model::{Groups, NodeId, NodeSessions, Time};

use crate::cluster::Cluster;
use crate::refused::Refused;
use crate::state::{Node, State, group_place};

/// Records the sessions that are known in advance.
pub(super) fn known(cluster: &mut Cluster, nodes: &[NodeSessions]) -> Result<(), Refused> {
    for NodeSessions { node: id, sums } in nodes {
        let node = cluster.state.node(*id).filter(|node| !node.is_removed());
        let node = node.ok_or(Refused::NoSuchNode { node: *id })?;
        if let Some((what, span)) = sums.fault() {
            return Err(Refused::Sessions { node: node.spec.name.clone(), what, span });
        }
    }
    cluster.state.nodes.iter_mut().filter_map(|node| node.sessions.as_mut()).for_each(|of| of.trace = None);
    for NodeSessions { node: id, sums } in nodes {
        if let Some(node) = cluster.state.node_mut(*id) {
            node.sessions.get_or_insert_default().trace = Some(*sums);
        }
    }
    cluster.index.rank_again(&cluster.state);
    Ok(())
}

/// Begins to record gaps, if the node has owners from now on.
pub(super) fn owned(node: &mut Node, now: Time) {
    if node.owner.rules.is_some() && node.owner.here.is_none() {
        node.sessions.get_or_insert_default().free_since.get_or_insert(now);
    }
}

/// Records that a session begins.
pub(super) fn begun(cluster: &mut Cluster, now: Time, id: NodeId) {
    if cluster.state.counts_begins() {
        let state = &mut cluster.state;
        let place = group_place(state.node(id).and_then(|node| node.group));
        let begins = &mut state.session_begins;
        begins.resize_with(begins.len().max(place + 1), Default::default);
        begins[place].add(now, state.settings.options.pool.window);
    }
    let Some(node) = cluster.state.node_mut(id) else { return };
    let record = node.sessions.get_or_insert_default();
    if let Some(since) = record.free_since.take() {
        record.past.add_gap(now - since);
    }
    cluster.index.rank(node);
}

/// Records that a session ends.
pub(super) fn ended(cluster: &mut Cluster, (since, now): (Time, Time), id: NodeId) {
    let Some(node) = cluster.state.node_mut(id) else { return };
    let record = node.sessions.get_or_insert_default();
    record.past.add_session(now - since);
    record.free_since = Some(now);
    cluster.index.rank(node);
    cluster.index.count_session(node, now - since);
}

/// Moves the begins, and what the rank `learned` knows, to the places that groups have among new ones.
pub(super) fn regrouped(state: &mut State, groups: &Groups) {
    let before = &state.settings.groups;
    state.session_begins = moved(std::mem::take(&mut state.session_begins), before, groups);
    state.learned = moved(std::mem::take(&mut state.learned), before, groups);
}

/// Moves the values of groups; the first one is that of nodes in no group.
fn moved<T: Default>(values: Vec<T>, before: &Groups, groups: &Groups) -> Vec<T> {
    let mut values = values.into_iter();
    let Some(ungrouped) = values.next() else { return Vec::new() };
    let names = before.iter().map(|(name, _)| name);
    let mut of_names: BTreeMap<_, _> = names.zip(values).collect();
    let of_groups = groups.iter().map(|(name, _)| of_names.remove(name).unwrap_or_default());
    std::iter::once(ungrouped).chain(of_groups).collect()
}
