//! Nodes that register, for the first time or again.

use std::sync::OnceLock;

use limo_model::{NodeId, NodeSpec, Power, Time};

use super::nodes::{hide_jobs, renew};
use super::{groups, owners, quota, sessions, sleep};
use crate::account::Bill;
use crate::cluster::Cluster;
use crate::refused::Refused;
use crate::state::{Node, Owner, Sleep};

pub(super) fn up(cluster: &mut Cluster, now: Time, spec: &NodeSpec) -> Result<(), Refused> {
    spec.check()?;
    let kinds = cluster.index.classes.len();
    let id = match cluster.index.names.get(&spec.name).copied() {
        Some(id) => {
            describe(cluster, id, spec)?;
            answers(cluster, now, id);
            id
        }
        None => enter(cluster, now, spec),
    };
    take_in(cluster, now, id, kinds);
    Ok(())
}

/// Records that a node registered with its present description.
pub(super) fn up_again(cluster: &mut Cluster, now: Time, id: NodeId) -> Result<(), Refused> {
    cluster.state.node(id).filter(|node| !node.is_removed()).ok_or(Refused::NoSuchNode { node: id })?;
    answers(cluster, now, id);
    take_in(cluster, now, id, cluster.index.classes.len());
    Ok(())
}

/// Sets the description of a known node.
fn describe(cluster: &mut Cluster, id: NodeId, spec: &NodeSpec) -> Result<(), Refused> {
    let busy = !cluster.jobs_on(id).is_empty();
    let Some(node) = cluster.state.nodes.get_mut(id.0 as usize) else { return Ok(()) };
    if busy && node.spec.units != spec.units {
        return Err(Refused::UnitsChanged { name: spec.name.clone() });
    }
    if node.spec.units != spec.units {
        // Other hardware has other factors.
        cluster.state.variation.retain(|unit| unit.node != id);
    }
    cluster.index.idle += spec.idle - node.spec.idle;
    cluster.books.idle += spec.idle - node.spec.idle;
    node.spec = spec.clone();
    Ok(())
}

/// Records that a known node is there. A daemon that answers proves that its node is awake.
fn answers(cluster: &mut Cluster, now: Time, id: NodeId) {
    let Some(node) = cluster.state.nodes.get_mut(id.0 as usize) else { return };
    if let Some(reading) = node.reading.take() {
        cluster.index.readings.remove(&(reading.at, id));
    }
    node.connected = true;
    node.away_since = None;
    node.lost = None;
    node.unseen.clear();
    cluster.index.unseen.remove(&id);
    node.caps.obey_again();
    cluster.index.sleeping -= u32::from(node.sleep != Sleep::Awake);
    node.slept = Some(Box::new(node.slept(now)));
    node.sleep = Sleep::Awake;
    node.idle_since = now;
    hide_jobs(cluster, id, now);
    owners::reached(cluster, now, id);
}

/// Lets a node that registered take jobs. `kinds` is the number of classes before.
fn take_in(cluster: &mut Cluster, now: Time, id: NodeId, kinds: usize) {
    renew(cluster, id, now);
    cluster.index.cache = None;
    cluster.index.ranks = OnceLock::new();
    let moved = cluster.index.classes.place(&cluster.state.nodes[id.0 as usize], now);
    cluster.index.rank(&cluster.state.nodes[id.0 as usize]);
    sleep::note_rest(cluster, id, now);
    if cluster.index.classes.len() != kinds {
        cluster.index.queue_again(&cluster.state);
    }
    // Places in classes must follow from the nodes' present state alone, not from their history.
    if moved {
        cluster.find_again(now);
    } else {
        cluster.books.look_at(&cluster.state.nodes[id.0 as usize], now);
    }
    if cluster.index.classes.len() != kinds {
        // Jobs that ask for all cores of a unit may need more now.
        quota::check_again(cluster, now);
    }
}

/// Adds a new node.
pub(super) fn enter(cluster: &mut Cluster, now: Time, spec: &NodeSpec) -> NodeId {
    // A node whose number would exceed a u32 does not register.
    let id = NodeId(u32::try_from(cluster.state.nodes.len()).unwrap_or(u32::MAX));
    let own = cluster.state.settings.groups.of(&spec.name);
    cluster.state.nodes.push(Node {
        id,
        spec: spec.clone(),
        connected: true,
        drained: None,
        suspect_until: None,
        sleep: Sleep::Awake,
        reading: None,
        own: Power::ZERO,
        bill: Bill::default(),
        since: now,
        idle_since: now,
        caps: Default::default(),
        unseen: Vec::new(),
        away_since: None,
        lost: None,
        held: Vec::new(),
        awake_until: None,
        slept: Default::default(),
        closed_to: cluster.state.settings.queues.closed_to(&spec.name),
        group: groups::of(&cluster.state.settings.groups, &spec.name),
        owner: Owner { rules: own.and_then(|of| of.owners), ..Owner::default() },
        rules: own.map(|of| of.sleep).unwrap_or_default(),
        reboot: None,
        sessions: None,
    });
    sessions::owned(&mut cluster.state.nodes[id.0 as usize], now);
    cluster.books.enter(&cluster.state.nodes[id.0 as usize], now);
    cluster.state.job_energy.push();
    cluster.state.job_cost.push();
    cluster.index.names.insert(spec.name.clone(), id);
    cluster.index.idle += spec.idle;
    id
}
