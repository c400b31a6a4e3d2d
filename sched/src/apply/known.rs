//! Known nodes: a node may be added before it registers, and an unreachable node may be removed.
//!
//! A node's number is its index in the list of nodes, and other records use it. So a removed node keeps its place,
//! without a name, units or draw. If it registers again, it is a new node.

use limo_model::{Memory, Meter, NodeId, NodeSpec, Power, Time};

use super::nodes::{renew, settle_cluster};
use super::register::enter;
use crate::cluster::Cluster;
use crate::refused::Refused;
use crate::state::Sleep;

pub(super) fn added(cluster: &mut Cluster, now: Time, spec: &NodeSpec) -> Result<(), Refused> {
    spec.check()?;
    if cluster.index.names.contains_key(&spec.name) {
        return Err(Refused::KnownNode { name: spec.name.clone() });
    }
    let id = enter(cluster, now, spec);
    if let Some(node) = cluster.state.node_mut(id) {
        node.connected = false;
    }
    renew(cluster, id, now);
    cluster.find_again(now);
    Ok(())
}

/// Checks that a node may be removed.
pub(crate) fn check_removal(cluster: &Cluster, id: NodeId) -> Result<(), Refused> {
    let node = cluster.state.node(id).filter(|node| !node.is_removed()).ok_or(Refused::NoSuchNode { node: id })?;
    let name = || node.spec.name.clone();
    if node.connected {
        return Err(Refused::NodeIsUp { name: name() });
    }
    if let Some(job) = cluster.jobs_on(id).first() {
        return Err(Refused::NodeHasJob { name: name(), job: *job });
    }
    if !node.held.is_empty() {
        return Err(Refused::NodeHoldsDraw { name: name(), held: node.held_draw() });
    }
    // The report of a job that ended on the node contains its name.
    let ended = cluster.state.finished.iter().find(|over| over.placement.iter().any(|part| part.is_on(id)));
    if let Some(over) = ended {
        return Err(Refused::NodeHasJob { name: name(), job: over.job });
    }
    let reserved = cluster.state.reservations.iter().find(|(_, of)| of.nodes.contains(&node.spec.name));
    match reserved {
        Some((reservation, _)) => Err(Refused::NodeIsReserved { name: name(), reservation: reservation.clone() }),
        None => Ok(()),
    }
}

pub(super) fn removed(cluster: &mut Cluster, now: Time, id: NodeId) -> Result<(), Refused> {
    check_removal(cluster, id)?;
    settle_cluster(cluster, now);
    if let Some(node) = cluster.state.node_mut(id) {
        node.spec = NodeSpec {
            name: String::new(),
            units: Vec::new(),
            memory: Memory::ZERO,
            idle: Power::ZERO,
            meter: Meter::None,
            rest: None,
        };
        node.drained = None;
        node.reboot = None;
        node.away_since = None;
        node.lost = None;
        node.suspect_until = None;
        node.sleep = Sleep::Awake;
        node.awake_until = None;
        node.slept = None;
        node.reading = None;
        node.caps = Default::default();
        node.closed_to.clear();
        node.group = None;
        node.owner = Default::default();
        node.sessions = None;
        node.unseen.clear();
    }
    cluster.state.variation.retain(|unit| unit.node != id);
    renew(cluster, id, now);
    cluster.find_again(now);
    Ok(())
}
